import type { Contents, OpenApiDocument, Operation, Parameter, RequestBody } from './document.ts'
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
import { html, Markup, prose } from './html.ts'
import type { JsonSchema } from './json-schemas.ts'
import { docsStyle } from './style.ts'

/** The document as one page, without a script or another file. The `type` of a problem links to its error table. */
export function docsPage(document: OpenApiDocument): string {
  const { info } = document
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${info.title} ${info.version}: HTTP API</title>
<style>${new Markup(docsStyle)}</style>
</head>
<body>
${contents(document)}
<main>
<h1>${info.title} <span class="soft">${info.version}</span></h1>
<p>${prose(info.description)}</p>
<p>${prose(keyWords(document))}</p>
<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>
${groupsOf(document).map(({ title, calls }) => html`<h2>${title}</h2>${calls.map(callArticle)}`)}
<h2 id="schemas">Schemas</h2>
${Object.entries(document.components.schemas).map(schemaArticle)}
${errorTable(document)}
</main>
</body>
</html>
`
  return page.text
}

function keyWords({ components }: OpenApiDocument): string {
  const { bearer } = components.securitySchemes as { bearer?: { description?: string } }
  return bearer?.description ?? ''
}

function contents(document: OpenApiDocument): Markup {
  const groups = groupsOf(document).map(
    ({ title, calls }) =>
      html`<p>${title}</p><ul>${calls.map(
        ({ method, path, operation }) =>
          html`<li><a href="#${anchorOf(operation)}"><span class="method">${method}</span> ${path}</a></li>`,
      )}</ul>`,
  )
  return html`<nav aria-label="Contents">${groups}<p>More</p><ul><li><a href="#schemas">Schemas</a></li><li><a href="#errors">Errors</a></li></ul></nav>`
}

function anchorOf({ operationId }: Operation): string {
  return `call-${operationId}`
}

function callArticle({ method, path, operation }: Call): Markup {
  const { summary, description, parameters = [], requestBody } = operation
  const scope = operation['x-scope']
  return html`<article id="${anchorOf(operation)}">
<h3><a href="#${anchorOf(operation)}"><code>${method} ${path}</code></a></h3>
<p>${prose(summary)}. <span class="soft">${scope === null ? 'Needs no API key.' : html`Scope <code>${scope}</code>.`}</span></p>
${description === undefined ? '' : html`<p>${prose(description)}</p>`}
${parameters.length === 0 ? '' : html`<h4>Parameters</h4>${fieldTable(parameters.map(placedField))}`}
${requestBody === undefined ? '' : bodySection(requestBody)}
<h4>Example</h4>
${operation['x-codeSamples'].map(({ source }) => html`<pre>${source}</pre>`)}
${answerSection(operation)}
${errorSection(operation)}
</article>
`
}

function placedField(parameter: Parameter): Field {
  const field = parameterField(parameter)
  return parameter.in === 'path' ? { ...field, description: `In the path. ${field.description}` } : field
}

function fieldTable(fields: readonly Field[]): Markup {
  return html`<div class="wide"><table><thead><tr><th scope="col">name</th><th scope="col">type</th><th scope="col">meaning</th></tr></thead><tbody>${fields.map(
    ({ name, isRequired, type, description }) =>
      html`<tr><td><code>${name}</code>${isRequired ? html` <span class="soft">required</span>` : ''}</td><td>${typeWords(type)}</td><td>${prose(description)}</td></tr>`,
  )}</tbody></table></div>`
}

function typeWords(parts: readonly TypePart[]): Markup {
  return html`${parts.map((part) =>
    typeof part === 'string' ? html`${part}` : html`<a href="#schema-${part.ref}">${part.ref}</a>`,
  )}`
}

function bodySection({ required, description = '', content }: RequestBody): Markup {
  return html`<h4>Body${required ? '' : ' (may be left out)'}</h4>${contentList(content)}${description === '' ? '' : html`<p class="soft">${description}</p>`}`
}

function contentList(content: Contents): Markup {
  return html`<ul>${Object.entries(content).map(
    ([type, { schema }]) =>
      html`<li><code>${type}</code>${schema === undefined ? '' : html`: ${typeWords(typeOf(schema))}`}</li>`,
  )}</ul>`
}

function answerSection(operation: Operation): Markup {
  const answers = answersOf(operation).map(({ status, description, headers, contents }) => {
    const named = Object.entries(headers).map(
      ([name, header]) => html` <code>${name}</code>: ${prose(header.description)}.`,
    )
    const examples = contents.flatMap(([, { example }]) =>
      example === undefined ? [] : [exampleBlock(example)],
    )
    return html`<p><code>${status}</code> ${prose(description)}${contents.map(
      ([type, { schema }]) =>
        html` ${schema === undefined ? '' : typeWords(typeOf(schema))} <span class="soft">${type}</span>`,
    )}${named}</p>${examples}`
  })
  return html`<h4>Answers</h4>${answers}`
}

function exampleBlock(example: unknown): Markup {
  return html`<details><summary>Example</summary><pre>${JSON.stringify(example, null, 2)}</pre></details>`
}

function errorSection(operation: Operation): Markup {
  const groups = errorsOf(operation).map(({ status, codes }) => {
    const links = codes.map((code, place) => html`${place > 0 ? ',' : ''} <a href="#${code}">${code}</a>`)
    return html`<span class="group"><code>${status}</code>${links}</span> `
  })
  return html`<h4>Errors</h4><p>${groups}</p>`
}

function schemaArticle([name, schema]: [string, JsonSchema]): Markup {
  const isClosed = schema.additionalProperties === false
  return html`<article id="schema-${name}"><h3>${name}</h3><p>${prose(schema.description ?? '')}${isClosed ? html` <span class="soft">No other fields.</span>` : ''}</p>${fieldTable(fieldsOf(schema))}</article>`
}

function errorTable(document: OpenApiDocument): Markup {
  const rows = Object.entries(document['x-error-codes']).map(
    ([code, { status, message }]) =>
      html`<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${message}</td></tr>`,
  )
  return html`<h2 id="errors">Errors</h2>
<p>Errors are answered as <code>application/problem+json</code>. A name in braces is also a field of the problem, in snake_case. Some errors occur only in the library.</p>
<div class="wide"><table><thead><tr><th scope="col">code</th><th scope="col">status</th><th scope="col">message</th></tr></thead><tbody>${rows}</tbody></table></div>`
}
