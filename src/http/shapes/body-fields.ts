/**
 * Fields of the bodies with which users, roles, projects and keys are changed, each read with the code
 * that clients know for what is wrong with it. An absent field is undefined.
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'

/** Reads one member of a body: undefined when it is absent. */
export type ReadField = (name: string) => unknown

/** 400 `required` for a field that is missing. */
export function missingField(attr: string): ServiceError {
  return new ServiceError('required', `${attr} is missing: send it in the body`, { attr })
}

/** A text without the spaces around it. Throws 400 `null`, `blank`, `invalid_input`, `max_length`. */
export function readTextField(
  read: ReadField,
  attr: string,
  charactersMax: number,
): string | undefined {
  const value = read(attr)
  if (value === undefined) return undefined
  if (value === null) throw new ServiceError('null', `${attr} must not be null`, { attr })
  if (typeof value !== 'string') {
    throw new ServiceError('invalid_input', `${attr} must be a text`, { attr })
  }
  const text = value.trim()
  if (text === '') throw new ServiceError('blank', `${attr} must not be empty`, { attr })
  if (text.length <= charactersMax) return text
  const detail = `${attr} may have ${charactersMax} characters at most`
  throw new ServiceError('max_length', detail, { attr })
}

/** A boolean. Throws 400 `null` and `invalid_input`. */
export function readBooleanField(read: ReadField, attr: string): boolean | undefined {
  const value = read(attr)
  if (value === undefined || typeof value === 'boolean') return value
  if (value === null) throw new ServiceError('null', `${attr} must not be null`, { attr })
  throw new ServiceError('invalid_input', `${attr} must be true or false`, { attr })
}

/** One of some numbers, also as their text. Throws 400 `null` and `invalid_choice`. */
export function readChoiceField<Choice extends number>(
  read: ReadField,
  attr: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = read(attr)
  if (value === undefined) return undefined
  if (value === null) throw new ServiceError('null', `${attr} must not be null`, { attr })
  const choice = choices.find((candidate) => candidate === value || String(candidate) === value)
  if (choice !== undefined) return choice
  const isShort = typeof value === 'number' || (typeof value === 'string' && value.length <= 20)
  const given = isShort ? `${JSON.stringify(String(value))} is not offered: ` : ''
  const detail = `${given}${attr} must be one of ${choices.join(', ')}`
  throw new ServiceError('invalid_choice', detail, { attr })
}

/** A UUID in any usual form, as lower-case text with hyphens. Throws 400 `null` and `invalid_input`. */
export function readUuidField(read: ReadField, attr: string): string | undefined {
  const value = read(attr)
  if (value === undefined) return undefined
  if (value === null) throw new ServiceError('null', `${attr} must not be null`, { attr })
  const uuid = typeof value === 'string' ? parseUuid(value) : null
  if (uuid !== null) return formatUuid(uuid, 0)
  throw new ServiceError('invalid_input', `${attr} must be a UUID`, { attr })
}

/** A list. Throws 400 `null` and `not_a_list`. */
export function readListField(read: ReadField, attr: string): readonly unknown[] | undefined {
  const value = read(attr)
  if (value === undefined) return undefined
  if (value === null) throw new ServiceError('null', `${attr} must not be null`, { attr })
  if (Array.isArray(value)) return value as readonly unknown[]
  throw new ServiceError('not_a_list', `${attr} must be a list`, { attr })
}
