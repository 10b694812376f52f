/** Typed reading of the query parameters of private routes. */
import { ServiceError } from '../../base/errors.ts'
import { parseTimestamp } from '../../rules/capture/timestamp.ts'
import type { ApiRequest } from './router.ts'
import type { Members, Schema } from './schema.ts'

/** A parameter that is there and not empty, or null. The first of several counts. */
function textParameter(request: ApiRequest, name: string): string | null {
  const text = request.query.get(name)
  return text === null || text === '' ? null : text
}

/** A parameter that is a time, milliseconds since 1970, or null. Throws 400 `invalid_input` for anything else. */
export function timeParameter(request: ApiRequest, name: string): number | null {
  const text = textParameter(request, name)
  if (text === null) return null
  const ms = parseTimestamp(text)
  if (ms === null) {
    const detail = `${name} must be a time such as 2024-05-01T12:00:00Z (write + as %2B)`
    throw new ServiceError('invalid_input', detail, { attr: name })
  }
  return ms
}

/**
 * The parameters of a query as members of an object, by the kinds that a schema gives them: numbers, texts,
 * and JSON for lists and objects. Empty ones are absent, those that the schema does not know are left out.
 * Throws 400 `invalid_input` for a text that is no JSON; other texts of the wrong kind stay texts.
 */
export function queryMembers(request: ApiRequest, schema: Schema): Record<string, unknown> {
  const members: Record<string, unknown> = {}
  for (const [name, member] of Object.entries((schema['properties'] ?? {}) as Members)) {
    const text = textParameter(request, name)
    if (text !== null) members[name] = memberOf(name, text, member)
  }
  return members
}

function memberOf(name: string, text: string, schema: Schema): unknown {
  if (schema['type'] === 'integer') return /^[0-9]{1,20}$/.test(text) ? Number(text) : text
  if (!isJsonText(schema)) return text
  try {
    return JSON.parse(text)
  } catch {
    const { refusal } = schema
    const special = Array.isArray(refusal) ? String(refusal[1]) : null
    const detail = special ?? `${name} must be JSON, percent-encoded in a query`
    throw new ServiceError('invalid_input', detail, { attr: name })
  }
}

/** Whether a parameter of a query with this schema is the text of JSON. */
export function isJsonText({ type, anyOf, $ref }: Schema): boolean {
  return type === 'array' || type === 'object' || anyOf !== undefined || $ref !== undefined
}
