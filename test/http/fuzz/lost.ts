import fc from 'fast-check'
import { tags, types } from './hints.ts'
import { headerText } from './odd.ts'
import { emptyPlan, type Plan } from './plan.ts'
import { nastyText, words } from './texts.ts'

const paths = [
  '',
  ...words(
    '/ /nothing /events/1/nothing /Events /events//1 //events /events/ /events/1/ /. * events /events/{id',
  ),
  ...words(
    '/events/..%2f..%2fetc%2fpasswd /events/../livez /%2e%2e/ /events/% /events/%zz /events/%ff /events/\xff',
  ),
  ...words(
    '/events/%00 /events/1;a=b /subscribers/%00 /events/subscribe/ /favicon.ico /.env /metrics/ /docs/',
  ),
  ...words('/__proto__ /constructor http://127.0.0.1/livez http://user:secret@127.0.0.1/events'),
  ...words('http://evil.example/livez https://127.0.0.1:5432/'),
  ...[`/${'a'.repeat(9_000)}`, `/events/${'1'.repeat(400)}`, `/events/${'%41'.repeat(200)}`],
]

/** What is aimed at no route. */
export const lost: fc.Arbitrary<Plan> = fc
  .tuple(
    fc.constantFrom(...words('GET POST PUT HEAD OPTIONS DELETE PATCH')),
    fc.constantFrom(...paths),
    fc.tuple(tags, types),
  )
  .map(([method, path, [tag, type]]) => ({
    ...{ ...emptyPlan, name: 'no route', method, path },
    ...(method === 'POST' && { contentType: 'application/json', body: { type, tags: tag, payload: 1 } }),
  }))

/** A CloudEvent in headers, of which the document says nothing in a form that a program can read. */
export const binaryCloudEvent: fc.Arbitrary<Plan> = fc
  .tuple(
    fc.constantFrom(
      null,
      ...words('application/json text/plain application/octet-stream text/plain;charset=latin1'),
    ),
    fc.constantFrom('{"a":1}', '', 'text', '\ufeff{}', '\0\xff', '1e400', '"\ud800"'),
    fc.tuple(
      types,
      nastyText,
      fc.constantFrom(...words('ce-id ce-source ce-subject ce-time ce-partitionkey ce-x ce-X_Y')),
    ),
  )
  .map(([contentType, body, [type, text, name]]) => {
    const usual: [string, string][] = [
      ['ce-specversion', '1.0'],
      ['ce-id', '1'],
      ['ce-source', '/a'],
      ['ce-type', type],
    ]
    const headers: Plan['headers'] = [...usual.filter(([one]) => one !== name), [name, headerText(text)]]
    return {
      ...{ ...emptyPlan, name: 'publishEvent', method: 'POST', path: '/events', headers, contentType },
      body: Buffer.from(body),
    }
  })
