import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { OpenApiDocument, Parameter } from '../../../src/http/docs/document.ts'
import type { JsonSchema } from '../../../src/http/docs/json-schemas.ts'
import { type Aim, type Sent, textOf } from './plan.ts'
import { breaksProse, hasLooseTags } from './prose.ts'
import { someIn, Twice } from './tree.ts'

/** What the document says of a request: `open` where it has no rule in a form that a program can read. */
export type Verdict = 'allowed' | 'forbidden' | 'open'

/** Reads the document as a stranger would, with a validator that knows nothing of the server. */
export class Judge {
  // That the document is a valid one is another test's question, and would be asked anew for each schema.
  readonly #ajv = new Ajv2020({ strict: false, validateSchema: false })
  readonly #document: OpenApiDocument
  readonly #checks = new Map<JsonSchema, ValidateFunction>()

  constructor(document: OpenApiDocument) {
    this.#document = document
    addFormats.default(this.#ajv)
  }

  judge(aim: Aim | undefined, sent: Sent): Verdict {
    if (aim === undefined || !sent.isPlain) return 'open'
    const body = this.#bodyOf(aim, sent)
    if (body === 'open') return 'open'
    const params = aim.parameters
      .filter((one) => one.in === 'path')
      .map((one) => this.#fits(one, sent.params[one.name]))
    if (params.includes('open')) return 'open'
    const query = this.#queryOf(aim, sent)
    if (query === 'open') return 'open'
    if ([body, query, ...params].includes('forbidden'))
      return hasLooseTags(sent) || sent.method === 'HEAD' ? 'open' : 'forbidden'
    return breaksProse(aim, sent) ? 'open' : 'allowed'
  }

  /** Whether a value fits a schema of the document. */
  fits(schema: JsonSchema, value: unknown): boolean {
    let check = this.#checks.get(schema)
    if (check === undefined) {
      check = this.#ajv.compile({ ...schema, components: this.#document.components })
      this.#checks.set(schema, check)
    }
    return check(value) as boolean
  }

  #bodyOf({ bodies, operation }: Aim, { contentType, body, bytes }: Sent): Verdict {
    if (operation.requestBody === undefined) return bytes === undefined ? 'allowed' : 'open'
    if (bytes === undefined) return operation.requestBody.required ? 'forbidden' : 'allowed'
    const schema = bodies.find(([type]) => type === contentType)?.[1]
    if (schema === undefined || isAmbiguous(body)) return 'open'
    try {
      return this.fits(schema, JSON.parse(bytes.toString())) ? 'allowed' : 'forbidden'
    } catch {
      return 'forbidden'
    }
  }

  #queryOf({ parameters }: Aim, { query }: Sent): Verdict {
    const names = query.map(([name]) => name)
    if (new Set(names).size < names.length) return 'forbidden'
    const expected = parameters.filter((one) => one.in === 'query')
    if (expected.some(({ name, required }) => required && !names.includes(name))) return 'forbidden'
    const verdicts = query.map(([name, value]) => {
      const parameter = expected.find((one) => one.name === name)
      return parameter === undefined ? 'open' : this.#fits(parameter, value)
    })
    return verdicts.find((one) => one === 'open') ?? verdicts.find((one) => one === 'forbidden') ?? 'allowed'
  }

  #fits({ schema }: Parameter, value: Sent['query'][number][1] | undefined): Verdict {
    const text = value === undefined ? '' : textOf(value)
    if (schema.type !== 'integer') return this.fits(schema, text) ? 'allowed' : 'forbidden'
    // `007` and `1e3` are whole numbers to some.
    if (/^-?(0|[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(Number(text)))
      return this.fits(schema, Number(text)) ? 'allowed' : 'forbidden'
    return /^[\d+-]*$/.test(text) ? 'open' : 'forbidden'
  }
}

function isAmbiguous(body: Sent['body']): boolean {
  return body !== undefined && !Buffer.isBuffer(body) && someIn(body, (one) => one instanceof Twice)
}
