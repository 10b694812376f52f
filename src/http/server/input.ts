/**
 * Validates the input of a route against its schema. This is the only place that turns a violation into the error that
 * clients expect. docs/compatibility/errors.md, "Errors".
 */
import { type ErrorCode, fieldText, ServiceError } from '../../base/errors.ts'
import { compileInput, type InputFault } from '../../base/validator.ts'
import { parseTimestamp } from '../../rules/capture/timestamp.ts'
import { NAME_SHOWN_CHARACTERS_MAX, SHOWN_CHARACTERS_MAX } from './limits.ts'
import type { ApiRequest } from './router.ts'
import type { Members, Schema, TypeOf } from './schema.ts'

/**
 * Returns a function that validates values against a schema, which is compiled at its first use. `place`, such as `the
 * body`, ends the error text about a missing member. The function changes the value that it gets (it trims texts, for
 * example) and returns it. It throws 400 with the first invalid field as `attr`.
 */
export function inputReader<S extends Schema>(
  schema: S,
  place: string,
): (value: unknown) => TypeOf<S> {
  let check: ReturnType<typeof compileInput> | null = null
  return (value) => {
    check ??= compileInput(schema)
    const fault = check(value)
    if (fault !== null) throw refusalOf(fault, place)
    return value as TypeOf<S>
  }
}

function refusalOf(fault: InputFault, place: string): ServiceError {
  const { keyword, path, params, schema } = fault
  const [attr = ''] = path
  const refuse = (code: ErrorCode, what: string, field = attr): ServiceError =>
    new ServiceError(code, what, field === '' ? {} : { attr: field })
  const { refusal } = schema
  if (Array.isArray(refusal)) return refuse(refusal[0] as ErrorCode, String(refusal[1]))
  if (path.length > 1) {
    const place = path.slice(1).join('.').slice(0, NAME_SHOWN_CHARACTERS_MAX)
    return refuse('invalid_input', `\`${attr}\` is not valid at \`${place}\`: it ${fault.message}.`)
  }
  switch (keyword) {
    case 'required': {
      const missing = String(params['missingProperty'])
      return refuse('required', `\`${missing}\` is missing. Send it in ${place}.`, attr || missing)
    }
    case 'minLength':
      return refuse('blank', fieldText(attr, 'must not be empty'))
    case 'maxLength':
      return refuse(
        'max_length',
        fieldText(attr, `may have at most ${String(params['limit'])} characters`),
      )
    case 'maxItems':
      return refuse(
        'invalid_input',
        fieldText(attr, `may have at most ${String(params['limit'])} entries`),
      )
    case 'canonicalUuid':
      return refuse('invalid_input', fieldText(attr, 'must be a UUID'))
    case 'additionalProperties': {
      const names = Object.keys(schema['properties'] as object).join(', ')
      const extra = String(params['additionalProperty']).slice(0, NAME_SHOWN_CHARACTERS_MAX)
      return refuse(
        'invalid_input',
        `This field does not exist. Send only ${names}.`,
        attr || extra,
      )
    }
    default:
      return wrongKind(fault, attr)
  }
}

/** Returns the error for a value of the wrong type, or for one that is not among the choices. */
function wrongKind({ value, schema }: InputFault, attr: string): ServiceError {
  const { type, enum: choices } = schema
  if (attr === '') {
    const kind = type === 'array' ? 'list' : 'object'
    return new ServiceError('invalid_input', `The body must be a JSON ${kind}.`)
  }
  if (value === null) return new ServiceError('null', fieldText(attr, 'must not be null'), { attr })
  if (Array.isArray(choices)) {
    const isShown =
      typeof value === 'number' ||
      (typeof value === 'string' && value.length <= SHOWN_CHARACTERS_MAX)
    const given = isShown ? `${JSON.stringify(String(value))} is not allowed here: ` : ''
    const detail = `${given}${fieldText(attr, `must be one of ${choices.join(', ')}`)}`
    return new ServiceError('invalid_choice', detail, { attr })
  }
  const kind: unknown = Array.isArray(type) ? type[0] : type
  if (kind === 'array')
    return new ServiceError('not_a_list', fieldText(attr, 'must be a list'), { attr })
  const detail = fieldText(attr, `must be ${KINDS.get(String(kind)) ?? 'a value of another type'}`)
  return new ServiceError('invalid_input', detail, { attr })
}

const KINDS: ReadonlyMap<string, string> = new Map([
  ['string', 'a text'],
  ['boolean', 'true or false'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['object', 'an object'],
])

/** Returns the first value of a query parameter, or null if it is absent or empty. */
function textParameter(request: ApiRequest, name: string): string | null {
  const text = request.query.get(name)
  return text === null || text === '' ? null : text
}

/**
 * Returns a query parameter that is a time, in milliseconds since 1970, or null if it is absent. Throws 400
 * `invalid_input` for any other text.
 */
export function timeParameter(request: ApiRequest, name: string): number | null {
  const text = textParameter(request, name)
  if (text === null) return null
  const ms = parseTimestamp(text)
  if (ms === null) {
    const detail = `\`${name}\` must be a time such as 2024-05-01T12:00:00Z. Write + as %2B.`
    throw new ServiceError('invalid_input', detail, { attr: name })
  }
  return ms
}

/**
 * Returns the query parameters as the members of an object, converted to the types of the schema: numbers, texts, and
 * parsed JSON for lists and objects. Empty parameters are absent, and unknown ones are left out. Throws 400
 * `invalid_input` for a text that is not JSON. Other texts of the wrong type stay texts, so that the validation refuses
 * them.
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
    const detail = special ?? `\`${name}\` must be JSON, percent-encoded in a query.`
    throw new ServiceError('invalid_input', detail, { attr: name })
  }
}

/** Returns whether a query parameter with this schema holds JSON text. */
export function isJsonText({ type, anyOf, $ref }: Schema): boolean {
  return type === 'array' || type === 'object' || anyOf !== undefined || $ref !== undefined
}
