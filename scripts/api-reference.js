// Writes docs/reference/api.md from the routes. Needs `npm run build`.
import { writeFileSync } from 'node:fs'
import { docsMarkdown } from '../dist/http/docs/markdown.js'
import { openApiDocument } from '../dist/http/docs/openapi.js'
import { apiRoutes } from '../dist/http/routes/index.js'

// No handler is called, so there need not be a hub behind them.
const routes = apiRoutes({}, { isDraining: () => false, version: '' })
const target = new URL('../docs/reference/api.md', import.meta.url)
writeFileSync(target, docsMarkdown(openApiDocument(routes, { version: '' })))
