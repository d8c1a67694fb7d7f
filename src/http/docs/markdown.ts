import type { OpenApiDocument, Operation } from './document.ts'
import {
  answersOf,
  type Call,
  errorsOf,
  type Field,
  fieldsOf,
  groupsOf,
  parameterField,
  type TypePart,
  typeOf,
} from './fields.ts'
import type { JsonSchema } from './json-schemas.ts'

/** The document as docs/reference/api.md, without the version, which would change with every release. */
export function docsMarkdown(document: OpenApiDocument): string {
  const parts = [
    '# HTTP API',
    '`node scripts/api-reference.js` writes this page from the routes. A running server has the same at `/docs` and `/openapi.json`.',
    document.info.description,
    ...groupsOf(document).flatMap(({ title, calls }) => [`## ${title}`, ...calls.flatMap(callParts)]),
    '## Schemas',
    ...Object.entries(document.components.schemas).flatMap(schemaParts),
    '## Errors',
    'The codes are those of the [error table](errors.md), in lower case.',
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

function callParts({ method, path, operation }: Call): string[] {
  const { summary, description = '', parameters = [], requestBody } = operation
  const scope = operation['x-scope']
  return [
    `### ${method} ${path}`,
    `${summary}. ${scope === null ? 'Needs no API key.' : `Scope \`${scope}\`.`}`,
    description,
    ...(parameters.length === 0 ? [] : [fieldTable('parameter', parameters.map(parameterField))]),
    ...(requestBody === undefined ? [] : [bodyWords(requestBody)]),
    ...operation['x-codeSamples'].map(({ source }) => `\`\`\`sh\n${source}\n\`\`\``),
    answerWords(operation),
    `Errors: ${errorsOf(operation)
      .map(({ status, codes }) => `${status} ${codes.map((code) => `\`${code}\``).join(', ')}`)
      .join('; ')}.`,
  ]
}

function bodyWords({ required, description = '', content }: NonNullable<Operation['requestBody']>): string {
  const kinds = Object.entries(content).map(
    ([type, { schema }]) => `\`${type}\`${schema === undefined ? '' : ` ${typeWords(typeOf(schema))}`}`,
  )
  return `Body${required ? '' : ' (may be left out)'}: ${kinds.join('; ')}. ${description}`.trimEnd()
}

function answerWords(operation: Operation): string {
  return answersOf(operation)
    .map(({ status, description, headers, contents }) => {
      const kinds = contents.map(([type, { schema }]) =>
        schema === undefined ? type : typeWords(typeOf(schema)),
      )
      const named = Object.entries(headers).map(([name, header]) => ` \`${name}\`: ${header.description}.`)
      return `- \`${status}\` ${description}${kinds.length === 0 ? '' : ` ${kinds.join('; ')}.`}${named.join('')}`
    })
    .join('\n')
}

function schemaParts([name, schema]: [string, JsonSchema]): string[] {
  const isClosed = schema.additionalProperties === false
  const words = [schema.description ?? '', isClosed ? 'No other fields.' : ''].filter((word) => word !== '')
  return [`### Schema ${name}`, words.join(' '), fieldTable('field', fieldsOf(schema))]
}

function fieldTable(title: string, fields: readonly Field[]): string {
  const rows = fields.map(({ name, isRequired, type, description }) =>
    [`\`${name}\``, isRequired ? 'yes' : '', typeWords(type), description].map(cell).join(' | '),
  )
  return [
    `| ${title} | required | type | meaning |`,
    '| --- | --- | --- | --- |',
    ...rows.map((row) => `| ${row} |`),
  ].join('\n')
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

function typeWords(parts: readonly TypePart[]): string {
  return parts
    .map((part) =>
      typeof part === 'string' ? plain(part) : `[${part.ref}](#schema-${part.ref.toLowerCase()})`,
    )
    .join('')
}

/** Patterns have characters that Markdown would interpret. */
function plain(words: string): string {
  return words.replace(/(?<=^string like )(.+)$/, '`$1`')
}
