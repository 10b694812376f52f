/**
 * The input of a route read by its schema: what is wrong becomes the refusal that clients know, in one
 * place. docs/compatibility/errors.md, "Errors".
 */
import { type ErrorCode, ServiceError } from '../../base/errors.ts'
import { compileInput, type InputFault } from '../../base/validator.ts'
import { NAME_SHOWN_CHARACTERS_MAX, SHOWN_CHARACTERS_MAX } from './limits.ts'
import type { Schema, TypeOf } from './schema.ts'

/**
 * Makes the reader of a schema, compiled at its first use. `place` ends the text about what is missing, such
 * as `the body`. The reader changes the value that it is given (spaces around texts and the like), returns
 * it, and throws 400 with the first field at fault as `attr`.
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
    return refuse('invalid_input', `${attr} cannot be used (at ${place}): ${fault.message}`)
  }
  switch (keyword) {
    case 'required': {
      const missing = String(params['missingProperty'])
      return refuse('required', `${missing} is missing: send it in ${place}`, attr || missing)
    }
    case 'minLength':
      return refuse('blank', `${attr} must not be empty`)
    case 'maxLength':
      return refuse('max_length', `${attr} may have ${String(params['limit'])} characters at most`)
    case 'maxItems':
      return refuse('invalid_input', `${attr} may hold ${String(params['limit'])} entries at most`)
    case 'canonicalUuid':
      return refuse('invalid_input', `${attr} must be a UUID`)
    case 'additionalProperties': {
      const names = Object.keys(schema['properties'] as object).join(', ')
      const extra = String(params['additionalProperty']).slice(0, NAME_SHOWN_CHARACTERS_MAX)
      return refuse('invalid_input', `there is no such field; send ${names}`, attr || extra)
    }
    default:
      return wrongKind(fault, attr)
  }
}

/** A value of another type, or none of those that there are. */
function wrongKind({ value, schema }: InputFault, attr: string): ServiceError {
  if (attr === '') return new ServiceError('invalid_input', 'the body must be a JSON object')
  const { type, enum: choices } = schema
  if (value === null) return new ServiceError('null', `${attr} must not be null`, { attr })
  if (Array.isArray(choices)) {
    const isShown =
      typeof value === 'number' ||
      (typeof value === 'string' && value.length <= SHOWN_CHARACTERS_MAX)
    const given = isShown ? `${JSON.stringify(String(value))} is not offered: ` : ''
    const detail = `${given}${attr} must be one of ${choices.join(', ')}`
    return new ServiceError('invalid_choice', detail, { attr })
  }
  const kind: unknown = Array.isArray(type) ? type[0] : type
  if (kind === 'array') return new ServiceError('not_a_list', `${attr} must be a list`, { attr })
  const detail = `${attr} must be ${KINDS.get(String(kind)) ?? 'something else'}`
  return new ServiceError('invalid_input', detail, { attr })
}

const KINDS: ReadonlyMap<string, string> = new Map([
  ['string', 'a text'],
  ['boolean', 'true or false'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['object', 'an object'],
])
