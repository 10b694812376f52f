/**
 * Validates the input of a route against its schema. Only this file turns a violation into the error that clients
 * expect. docs/compatibility/errors.md, "Errors".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import { faultWords, fieldRefusal, type OwnRefusal, ownRefusal } from '../../base/input-faults.ts'
import type { JsonObject } from '../../base/json.ts'
import { compileInput, type InputFault } from '../../base/validator.ts'
import { cleanText } from '../../rules/capture/json-text.ts'
import { parseTimestamp } from '../../rules/capture/timestamp.ts'
import { NAME_SHOWN_CHARACTERS_MAX } from './limits.ts'
import { jsonOfText, required } from './parameters.ts'
import type { ApiRequest } from './router.ts'
import type { Members, Schema, TypeOf } from './schema.ts'

/**
 * Returns a function that validates values against a schema. The schema is compiled at the first use. If a member is
 * missing, the error text ends with `Send it in`, followed by `place`, for example `the body`. The returned function
 * may change the value (for example, trim texts) and returns the changed value. It throws 400 with the first invalid
 * field as `attr`.
 */
export function inputReader<S extends Schema>(
  schema: S,
  place: string,
): (value: unknown) => TypeOf<S> {
  const isParameters = schema['isParameters'] === true
  const needed = isParameters ? ((schema['required'] ?? []) as readonly string[]) : []
  let check: ReturnType<typeof compileInput> | null = null
  return (value) => {
    // If some parameters are invalid and others are missing, the error is about an invalid one.
    check ??= compileInput(isParameters ? { ...schema, required: [] } : schema)
    const fault = check(value)
    if (fault !== null) {
      const own = ownRefusal(fault, fault.path[0] ?? '')
      throw own ?? (isParameters ? parameterRefusal(fault, needed) : refusalOf(fault, place))
    }
    const missing = needed.find((name) => !Object.hasOwn(value as object, name))
    if (missing !== undefined) throw required(missing)
    return value as TypeOf<S>
  }
}

function refusalOf(fault: InputFault, place: string): ServiceError {
  const { keyword, path, params, schema } = fault
  const [attr = ''] = path
  if (path.length > 1) {
    const place = path.slice(1).join('.').slice(0, NAME_SHOWN_CHARACTERS_MAX)
    return invalidInput(attr, `is not valid at \`${place}\`: it ${fault.message}`)
  }
  if (keyword === 'required') {
    const missing = String(params['missingProperty'])
    const detail = `\`${missing}\` is missing. Send it in ${place}.`
    return new ServiceError('required', detail, { attr: attr || missing })
  }
  if (keyword === 'additionalProperties') {
    const names = Object.keys(schema['properties'] as object).join(', ')
    const extra = String(params['additionalProperty']).slice(0, NAME_SHOWN_CHARACTERS_MAX)
    return invalidInput(attr || extra, `Send only ${names}`, 'This field does not exist.')
  }
  if (attr === '') {
    const kind = schema['type'] === 'array' ? 'list' : 'object'
    return new ServiceError('invalid_input', `The body must be a JSON ${kind}.`)
  }
  return fieldRefusal(fault, attr)
}

/**
 * Returns the error about an invalid parameter in a schema of `is.parameters`. The code of the error is `required` or
 * `invalid_input`. The error names only the parameter, even if only a part of the parameter's value is invalid. An
 * empty text for a required parameter counts as missing.
 */
function parameterRefusal(fault: InputFault, needed: readonly string[]): ServiceError {
  const { keyword, path } = fault
  const [attr = ''] = path
  if (keyword === 'minLength' && path.length === 1 && needed.includes(attr)) return required(attr)
  return invalidInput(attr, faultWords(fault)[1])
}

/** Returns the first value of a query parameter. Returns null if the parameter is absent or empty. */
function textParameter(request: ApiRequest, name: string): string | null {
  const text = request.query.get(name)
  return text === null || text === '' ? null : text
}

/**
 * Returns the moment in a query parameter, in milliseconds since 1970. Returns null if the parameter is absent. Throws
 * 400 `invalid_input` if it is not a time.
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
 * Returns the query parameters as the members of an object, converted to the types in the schema: numbers, booleans,
 * texts, and parsed JSON for lists and objects. Empty and unknown parameters are left out. Throws 400 `invalid_input`
 * if a parameter must be JSON and is not. If a text cannot be converted to a number or a boolean, it stays a text, and
 * the validation refuses it.
 */
export function queryMembers(request: ApiRequest, schema: Schema): Record<string, unknown> {
  const members: Record<string, unknown> = {}
  for (const [name, member] of membersOf(schema)) {
    const text = textParameter(request, name)
    if (text !== null) members[name] = valueOfText(name, text, member)
  }
  return members
}

/**
 * Returns the members of a schema of `is.parameters`. Each member is read from the body or, if the body does not
 * contain it, from the query. Texts are converted as in `queryMembers`. An empty text counts as absent, unless the
 * schema of the member is a text.
 */
export function parameterMembers(
  request: ApiRequest,
  body: JsonObject,
  schema: Schema,
): Record<string, unknown> {
  const members: Record<string, unknown> = {}
  for (const [name, member] of membersOf(schema)) {
    const text = request.query.get(name)
    const value = Object.hasOwn(body, name) ? body[name] : text && cleanText(text)
    if (value === null || value === undefined) continue
    const isOther = typeof value !== 'string' || member['isJsonOnly'] === true
    if (value === '' && !isOther && member['type'] !== 'string') continue
    const read = isOther ? value : valueOfText(name, value, member)
    if (read !== null || member['isUnchecked'] === true) members[name] = read
  }
  return members
}

function membersOf({ properties = {} }: Schema) {
  return Object.entries(properties as Members)
}

function valueOfText(name: string, text: string, schema: Schema): unknown {
  const { type, refusals } = schema
  if (type === 'integer') return /^[0-9]{1,20}$/.test(text) ? Number(text) : text
  if (type === 'boolean') {
    const plain = text.toLowerCase()
    return plain === 'true' || plain === 'false' ? plain === 'true' : text
  }
  if (!isJsonText(schema)) return text
  try {
    return jsonOfText(text, name, schema['isExact'] === true ? 'all' : 'requests')
  } catch (error) {
    const own = ((refusals ?? []) as readonly OwnRefusal[]).find(([, , only]) => only === undefined)
    throw own === undefined ? error : new ServiceError('invalid_input', own[1], { attr: name })
  }
}

/** Returns true if the query parameter with this schema contains JSON. */
export function isJsonText({ type, anyOf, $ref }: Schema): boolean {
  return type === 'array' || type === 'object' || anyOf !== undefined || $ref !== undefined
}
