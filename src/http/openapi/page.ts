/**
 * Renders the OpenAPI document as a page for people. The page is plain HTML that loads nothing.
 * docs/compatibility/api.md, "API description".
 */
import { escaped, pagePolicy } from '../../base/html/html.ts'
import type { Schema } from '../server/schema.ts'

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1.5rem 4rem }
h2 { border-bottom: 1px solid #8886; margin-top: 3rem }
h3 { font-size: 1rem; margin: 2rem 0 0 }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #8883; padding: 0.2rem 1rem 0.2rem 0; vertical-align: top }
td:first-child { white-space: nowrap }
:root { color-scheme: light dark }
`

/** The Content-Security-Policy of the page. */
export const PAGE_POLICY = pagePolicy(STYLE, "'none'")

/** Returns the page for a document that document.ts has built. The time is linear in the size of the document. */
export function renderPage(document: Schema): string {
  const info = member(document, 'info')
  const tags = items(document, 'tags')
  const all = operationsOf(document)
  const links = tags.map(
    (tag) => `<li><a href="#${anchorOf(text(tag, 'name'))}">${escaped(text(tag, 'name'))}</a></li>`,
  )
  const sections = tags.map((tag) => {
    const name = text(tag, 'name')
    const own = all.filter(({ operation }) => values(operation, 'tags').includes(name))
    return `<h2 id="${anchorOf(name)}">${escaped(name)}</h2>\n<p>${escaped(text(tag, 'description'))}</p>\n${own.map(renderOperation).join('\n')}`
  })
  const schemas = Object.entries(member(member(document, 'components'), 'schemas')).map(
    ([name, schema]) =>
      `<h3 id="schema-${escaped(name)}"><code>${escaped(name)}</code></h3>\n${renderSchema(schema as Schema)}`,
  )
  const title = `${text(info, 'title')} ${text(info, 'version')}`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}: API</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escaped(title)}: API</h1>
<p>${escaped(text(info, 'description'))} For programs: <a href="/api/schema/">OpenAPI 3.1</a>.</p>
<ul>
${links.join('\n')}
<li><a href="#schemas">Schemas</a></li>
</ul>
${sections.join('\n')}
<h2 id="schemas">Schemas</h2>
${schemas.join('\n')}
</body>
</html>
`
}

interface PlacedOperation {
  readonly method: string
  readonly path: string
  readonly operation: Schema
}

function operationsOf(document: Schema): readonly PlacedOperation[] {
  return Object.entries(member(document, 'paths')).flatMap(([path, item]) =>
    Object.entries(item as Schema).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation: operation as Schema,
    })),
  )
}

function renderOperation({ method, path, operation }: PlacedOperation): string {
  const rows: string[] = []
  const row = (name: string, html: string): void => {
    rows.push(`<tr><td>${name}</td><td>${html}</td></tr>`)
  }
  for (const door of items(operation, 'security')) {
    for (const [scheme, scopes] of Object.entries(door)) {
      row('key', escaped([scheme, ...(scopes as readonly string[])].join(' ')))
    }
  }
  for (const parameter of items(operation, 'parameters')) {
    const mark = parameter['required'] === true ? ' (required)' : ''
    row(
      `<code>${escaped(text(parameter, 'name'))}</code>`,
      `${escaped(text(parameter, 'in'))}${mark}: ${escaped(text(parameter, 'description'))}`,
    )
  }
  const body = member(operation, 'requestBody')
  if (body['content'] !== undefined) row('body', contentOf(body))
  for (const [status, response] of Object.entries(member(operation, 'responses'))) {
    const answer = response as Schema
    const isShared = answer['$ref'] !== undefined
    if (!isShared) row(status, `${escaped(text(answer, 'description'))} ${contentOf(answer)}`)
  }
  const errors = Object.keys(member(operation, 'responses')).filter((status) => {
    const response = member(member(operation, 'responses'), status)
    return response['$ref'] !== undefined && status !== 'default'
  })
  if (errors.length > 0) row('errors', escaped(errors.join(', ')))
  const id = escaped(text(operation, 'operationId'))
  return `<h3 id="${id}"><code>${escaped(`${method} ${path}`)}</code></h3>
<p>${escaped(text(operation, 'summary'))}</p>
<table>${rows.join('')}</table>`
}

function contentOf(holder: Schema): string {
  const types = Object.entries(member(holder, 'content')).map(
    ([type, media]) =>
      `<code>${escaped(type)}</code> ${renderType(member(media as Schema, 'schema'))}`,
  )
  return types.join('; ')
}

/** Renders an object as a table of its members, and any other schema as one line. */
function renderSchema(schema: Schema): string {
  const about = typeof schema['description'] === 'string' ? escaped(schema['description']) : ''
  const members = member(schema, 'properties')
  if (Object.keys(members).length === 0) return `<p>${about} ${renderType(schema)}</p>`
  const needed = values(schema, 'required')
  const rows = Object.entries(members).map(([name, value]) => {
    const type = value as Schema
    const mark = needed.includes(name) ? '' : ' (optional)'
    return `<tr><td><code>${escaped(name)}</code></td><td>${renderType(type)}${mark} ${escaped(text(type, 'description'))}</td></tr>`
  })
  return `${about === '' ? '' : `<p>${about}</p>\n`}<table>${rows.join('')}</table>`
}

/** Renders the type of a schema in words. */
function renderType(schema: Schema): string {
  const reference = text(schema, '$ref')
  if (reference !== '') {
    const name = escaped(reference.slice(reference.lastIndexOf('/') + 1))
    return `<a href="#schema-${name}">${name}</a>`
  }
  const choices = schema['enum']
  if (Array.isArray(choices)) return choices.map((one) => code(JSON.stringify(one))).join(' or ')
  const either = items(schema, 'anyOf')
  if (either.length > 0) return either.map(renderType).join(' or ')
  const { type } = schema
  if (type === 'array') return `list of ${renderType(member(schema, 'items'))}`
  const names = Object.keys(member(schema, 'properties'))
  if (names.length > 0) return `object with ${names.map(code).join(', ')}`
  const format = text(schema, 'format')
  if (format !== '') return escaped(format)
  if (Array.isArray(type)) return escaped(type.join(' or '))
  return typeof type === 'string' ? escaped(type) : 'any JSON'
}

function code(words: string): string {
  return `<code>${escaped(words)}</code>`
}

function anchorOf(name: string): string {
  return escaped(name.toLowerCase().replaceAll(' ', '-'))
}

/** Returns the object under a name, or an empty one if there is none. */
function member(holder: Schema, name: string): Schema {
  const value = Object.hasOwn(holder, name) ? holder[name] : undefined
  return isSchema(value) ? value : {}
}

/** Returns the objects of the list under a name, or none if there is no list. */
function items(holder: Schema, name: string): readonly Schema[] {
  return values(holder, name).filter(isSchema)
}

function values(holder: Schema, name: string): readonly unknown[] {
  const value = Object.hasOwn(holder, name) ? holder[name] : undefined
  return Array.isArray(value) ? value : []
}

function text(holder: Schema, name: string): string {
  const value = Object.hasOwn(holder, name) ? holder[name] : undefined
  return typeof value === 'string' ? value : ''
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
