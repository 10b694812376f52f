/**
 * The errors that clients receive for faults in the input of a route. Source: docs/compatibility/errors.md, "Errors".
 */
import { type ErrorCode, fieldText, ServiceError } from './errors.ts'
import { CHOICE_SHOWN_CHARACTERS_MAX } from './limits.ts'
import type { InputFault } from './validator.ts'

const KINDS: ReadonlyMap<unknown, string> = new Map([
  ['string', 'a text'],
  ['boolean', 'true or false'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['object', 'an object'],
])

/**
 * The error that a schema defines for values that do not match it. With `keyword`, it applies only to values that fail
 * this keyword of the schema.
 */
export type OwnRefusal = readonly [code: ErrorCode, detail: string, keyword?: string]

/**
 * Returns the error that the schema of the failed value defines, or null. `attr` is the field, or '' for the whole
 * input.
 */
export function ownRefusal({ keyword, schema }: InputFault, attr: string): ServiceError | null {
  const refusals = (schema['refusals'] ?? []) as readonly OwnRefusal[]
  const found = refusals.find(([, , only = keyword]) => only === keyword)
  if (found === undefined) return null
  return new ServiceError(found[0], found[1], attr === '' ? {} : { attr })
}

/** Returns the error about a field. Its text names only the field, even if the fault is in a value inside the field. */
export function fieldRefusal(fault: InputFault, attr: string): ServiceError {
  const own = ownRefusal(fault, attr)
  if (own !== null) return own
  const [code, what, given = ''] = faultWords(fault)
  return new ServiceError(code, given + fieldText(attr, what), { attr })
}

/**
 * Returns the parts of the error about a field: its code, the words after the name of the field, and the words before
 * the name, if there are any.
 */
export function faultWords({
  keyword,
  params: { limit },
  value,
  schema: { type, enum: choices, unitsMax },
}: InputFault): readonly [code: ErrorCode, what: string, given?: string] {
  switch (keyword) {
    case 'null':
      return ['null', 'must not be null']
    case 'minLength':
      return ['blank', 'must not be empty']
    case 'maxLength':
      return ['max_length', `may have at most ${String(limit)} characters`]
    case 'unitsMax':
      return ['max_length', `may have at most ${String(unitsMax)} characters`]
    case 'maxItems':
      return ['invalid_input', `may have at most ${String(limit)} entries`]
    case 'canonicalUuid':
      return ['invalid_input', 'must be a UUID']
  }
  if (Array.isArray(choices)) {
    const isShown =
      typeof value === 'number' ||
      (typeof value === 'string' && value.length <= CHOICE_SHOWN_CHARACTERS_MAX)
    const given = isShown ? `${JSON.stringify(String(value))} is not allowed here: ` : ''
    return ['invalid_choice', `must be one of ${choices.map(String).join(', ')}`, given]
  }
  const kind: unknown = Array.isArray(type) ? type[0] : type
  if (kind === 'array') return ['not_a_list', 'must be a list']
  return ['invalid_input', `must be ${KINDS.get(kind) ?? 'a value of another type'}`]
}
