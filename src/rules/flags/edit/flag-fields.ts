/**
 * Reads single fields of a flag from a request body. Each function reads one member and throws 400, with the name of
 * the member as `attr`, if the value is invalid. Source: docs/compatibility/flags.md, "Feature flag fields".
 */
import { type ErrorCode, fieldText, ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import {
  FLAG_DASHBOARDS_MAX,
  FLAG_KEY_CHARACTERS_MAX,
  FLAG_NAME_UNITS_MAX,
  FLAG_NOTE_UNITS_MAX,
  FLAG_ROLLBACK_BYTES_MAX,
  FLAG_TAG_UNITS_MAX,
  FLAG_TAGS_MAX,
} from '../limits.ts'
import type { EvaluationRuntime, Flag, FlagWorld } from '../types.ts'

const KEY_PATTERN = /^[a-zA-Z0-9_-]+$/
const CREATED_AT =
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$/i
const YES: readonly unknown[] = [true, 1, '1', 'true', 't', 'yes', 'y', 'on']
const NO: readonly unknown[] = [false, 0, '0', 'false', 'f', 'no', 'n', 'off']
const RUNTIMES: readonly unknown[] = ['all', 'client', 'server']

/** Returns a member of a body, or undefined if it is absent. */
export function member(body: JsonObject, name: string): unknown {
  return Object.hasOwn(body, name) ? body[name] : undefined
}

/** Applies `read` to a member if it exists. Throws 400 `null` for null; callers that accept null check for it first. */
function given<Field>(
  body: JsonObject,
  name: string,
  expected: string,
  read: (value: unknown) => Field,
): Field | undefined {
  const value = member(body, name)
  if (value === undefined) return undefined
  if (value === null) throw fault('null', name, `must be ${expected}, not null`)
  return read(value)
}

/** Reads the text of `name`. Returns undefined if it is absent. */
export function readName(body: JsonObject): string | undefined {
  const text = readText(body, 'name')
  if (text !== undefined && text.length > FLAG_NAME_UNITS_MAX) {
    throw fault('max_length', 'name', `may have at most ${FLAG_NAME_UNITS_MAX} characters`)
  }
  return text
}

/**
 * Reads the key, which is trimmed and must be free in the project. Returns undefined if it is absent and not required.
 * The check that the key is free precedes the check of its characters.
 */
export function readKey(
  body: JsonObject,
  isRequired: boolean,
  own: Flag | null,
  world: FlagWorld,
): string | undefined {
  const text = readText(body, 'key')?.trim()
  if (text === undefined) {
    if (isRequired) throw fault('required', 'key', 'is missing')
    return undefined
  }
  if (text === '') throw fault('blank', 'key', 'must not be empty')
  if (text.length > FLAG_KEY_CHARACTERS_MAX) {
    throw fault('max_length', 'key', `may have at most ${FLAG_KEY_CHARACTERS_MAX} characters`)
  }
  requireFreeKey(text, own, world)
  if (!KEY_PATTERN.test(text)) {
    throw fault('invalid_key', 'key', 'may contain letters, digits, hyphens and underscores only')
  }
  return text
}

/** Throws 400 `unique` if another flag of the project has the key. */
export function requireFreeKey(key: string, own: Flag | null, world: FlagWorld): void {
  const other = world.flagByKey(key)
  if (other === null || other.id === own?.id) return
  throw fault('unique', 'key', `is already used by flag ${other.id}. Choose another key`)
}

/** Reads the reason of a change, which is trimmed. Returns null if it is absent or empty. */
export function readNote(body: JsonObject): string | null {
  const text = readText(body, 'note')?.trim() ?? ''
  if (text.length > FLAG_NOTE_UNITS_MAX) {
    throw fault('max_length', 'note', `may have at most ${FLAG_NOTE_UNITS_MAX} characters`)
  }
  return text === '' ? null : text
}

/** Reads a boolean in any form that an HTML form would send. Returns undefined if it is absent. */
export function readBoolean(body: JsonObject, name: string): boolean | undefined {
  return given(body, name, 'true or false', (value) => booleanOf(value, name))
}

/** Reads a boolean or null. Returns undefined if the member is absent. */
export function readNullableBoolean(body: JsonObject, name: string): boolean | null | undefined {
  return member(body, name) === null ? null : readBoolean(body, name)
}

function booleanOf(value: unknown, name: string): boolean {
  const plain = typeof value === 'string' ? value.toLowerCase() : value
  if (YES.includes(plain)) return true
  if (NO.includes(plain)) return false
  throw fault('invalid_input', name, 'must be true or false')
}

/** Reads `created_at` in milliseconds. Returns undefined if it is absent. */
export function readCreatedAt(body: JsonObject): number | undefined {
  return given(body, 'created_at', 'a time', (value) => {
    const isTime = typeof value === 'string' && CREATED_AT.test(value)
    const hasZone = isTime && (value.length === 10 || /(Z|[+-][0-9:]+)$/i.test(value.slice(10)))
    const timeMs = isTime ? Date.parse(hasZone ? value.replace(' ', 'T') : `${value}Z`) : Number.NaN
    if (!Number.isNaN(timeMs)) return timeMs
    throw fault('invalid_input', 'created_at', 'must be a time such as 2024-01-31T10:00:00Z')
  })
}

/** Reads any JSON of limited size. Returns undefined if it is absent. */
export function readRollbackConditions(body: JsonObject): unknown {
  const value = member(body, 'rollback_conditions')
  if (value === undefined) return undefined
  if (Buffer.byteLength(JSON.stringify(value)) > FLAG_ROLLBACK_BYTES_MAX) {
    const what = `may have at most ${FLAG_ROLLBACK_BYTES_MAX} bytes of JSON`
    throw fault('invalid_input', 'rollback_conditions', what)
  }
  return value
}

/**
 * Reads a list of texts, trimmed and without duplicates, in lower case if `isLowerCase` is true. Returns undefined if
 * it is absent.
 */
export function readTags(
  body: JsonObject,
  name: string,
  isLowerCase: boolean,
): readonly string[] | undefined {
  const value = member(body, name)
  if (value === undefined) return undefined
  if (value === null) return []
  if (!Array.isArray(value)) throw fault('not_a_list', name, 'must be a list of texts')
  const tags = new Set<string>()
  for (const tag of value as readonly unknown[]) {
    const text = typeof tag === 'string' ? tag.trim() : ''
    if (text === '') throw fault('invalid_input', name, 'must contain texts that are not empty')
    if (text.length > FLAG_TAG_UNITS_MAX) {
      throw fault(
        'max_length',
        name,
        `may contain texts of at most ${FLAG_TAG_UNITS_MAX} characters`,
      )
    }
    tags.add(isLowerCase ? text.toLowerCase() : text)
  }
  if (tags.size > FLAG_TAGS_MAX)
    throw fault('invalid_input', name, `may have at most ${FLAG_TAGS_MAX} entries`)
  return [...tags]
}

/** Reads the numbers of existing dashboards, after those in `known`. Returns undefined if the member is absent. */
export function readDashboards(
  body: JsonObject,
  known: readonly number[],
  world: FlagWorld,
): readonly number[] | undefined {
  const name = 'analytics_dashboards'
  const value = member(body, name)
  if (value === undefined) return undefined
  if (!Array.isArray(value)) throw fault('not_a_list', name, 'must be a list of numbers')
  if (value.length > FLAG_DASHBOARDS_MAX) {
    throw fault('invalid_input', name, `may have at most ${FLAG_DASHBOARDS_MAX} entries`)
  }
  const added = (value as readonly unknown[]).map((item) => {
    const isText = typeof item === 'string' && /^[0-9]{1,15}$/.test(item)
    const id = isText ? Number(item) : item
    if (typeof id !== 'number')
      throw fault('invalid_input', name, 'must contain numbers of dashboards')
    if (!world.hasDashboard(id))
      throw fault('does_not_exist', name, `refers to dashboard ${id}, which does not exist`)
    return id
  })
  return [...new Set([...known, ...added])]
}

/** Reads `evaluation_runtime`. Returns undefined if it is absent. */
export function readRuntime(body: JsonObject): EvaluationRuntime | undefined {
  const name = 'evaluation_runtime'
  const value = member(body, name)
  if (value === undefined) return undefined
  if (value === null) return 'all'
  if (!RUNTIMES.includes(value)) {
    throw fault('invalid_choice', name, 'must be all, client or server')
  }
  return value as EvaluationRuntime
}

/** Reads `bucketing_identifier`. Returns undefined if it is absent. */
export function readBucketing(body: JsonObject): Flag['bucketingIdentifier'] | undefined {
  const name = 'bucketing_identifier'
  const value = member(body, name)
  if (value === undefined || value === null) return value
  if (value === '') return null
  if (value === 'distinct_id' || value === 'device_id') return value
  throw fault('invalid_choice', name, 'must be distinct_id, device_id or null')
}

/**
 * Reads `has_encrypted_payloads`, which must be false, because this server does not encrypt payloads. Returns undefined
 * if it is absent.
 */
export function readEncryption(body: JsonObject): boolean | undefined {
  const name = 'has_encrypted_payloads'
  const isWanted = readNullableBoolean(body, name)
  if (isWanted === true) {
    throw fault(
      'invalid_input',
      name,
      'must be false, because this server does not encrypt payloads',
    )
  }
  return isWanted ?? undefined
}

/** Reads `filters` as an object. Returns undefined if it is absent. Throws 400 `not_a_dict`. */
export function readFiltersObject(body: JsonObject): JsonObject | undefined {
  return given(body, 'filters', 'an object', (value) => {
    if (isObject(value)) return value
    throw fault('not_a_dict', 'filters', 'must be an object')
  })
}

function readText(body: JsonObject, name: string): string | undefined {
  return given(body, name, 'a text', (value) => {
    if (typeof value === 'string' || typeof value === 'number') return String(value)
    throw fault('invalid_input', name, 'must be a text')
  })
}

function fault(code: ErrorCode, name: string, what: string): ServiceError {
  return new ServiceError(code, fieldText(name, what), { attr: name })
}
