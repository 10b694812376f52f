/**
 * The fields of a flag in a request body. The schema of a field checks its value and also describes the field in the
 * documentation of the API. Source: docs/compatibility/flags.md, "Feature flag fields".
 */
import { fieldText } from '../../../base/errors.ts'
import { fieldRefusal, type OwnRefusal } from '../../../base/input-faults.ts'
import type { JsonObject } from '../../../base/json.ts'
import { compileInput } from '../../../base/validator.ts'
import {
  FLAG_DASHBOARDS_MAX,
  FLAG_KEY_CHARACTERS_MAX,
  FLAG_NAME_UNITS_MAX,
  FLAG_NOTE_UNITS_MAX,
  FLAG_TAG_UNITS_MAX,
  FLAG_TAGS_MAX,
} from '../limits.ts'
import type { EvaluationRuntime, Flag } from '../types.ts'

const YES: readonly unknown[] = [true, 1, '1', 'true', 't', 'yes', 'y', 'on']
const NO: readonly unknown[] = [false, 0, '0', 'false', 'f', 'no', 'n', 'off']

/** A field of a flag. `T` is the type of its valid values. */
interface FlagField<T> {
  readonly schema: JsonObject
  /** Reads the member `name` of a body. Returns undefined if it is absent. Throws 400 if it is invalid. */
  readonly read: (body: JsonObject, name: string) => T | undefined
}

const TRUTH = field<boolean>({ type: 'boolean' }, toTruth)
const TRUTH_OR_NULL = field<boolean | null>({ type: ['boolean', 'null'] }, toTruth)
/** The fields by name, except `filters`, whose rules are in filter-rules.ts. */
export const FLAG_FIELDS = {
  name: field<string>({ type: 'string', unitsMax: FLAG_NAME_UNITS_MAX }, toText),
  key: field<string>(
    {
      type: 'string',
      minLength: 1,
      maxLength: FLAG_KEY_CHARACTERS_MAX,
      pattern: '^[a-zA-Z0-9_-]+$',
      ...refusals([
        'invalid_key',
        '`key` may contain letters, digits, hyphens and underscores only.',
        'pattern',
      ]),
    },
    toKey,
  ),
  deleted: TRUTH,
  active: TRUTH,
  created_at: field<string>({ type: 'string', format: 'date-time' }),
  ensure_experience_continuity: TRUTH_OR_NULL,
  rollback_conditions: field<unknown>({}),
  performed_rollback: TRUTH_OR_NULL,
  tags: tagsField('tags', (tag) => tag.toLowerCase()),
  evaluation_tags: tagsField('evaluation_tags', (tag) => tag),
  evaluation_contexts: tagsField('evaluation_contexts', (tag) => tag),
  analytics_dashboards: field<readonly number[]>(
    {
      type: 'array',
      items: {
        type: 'integer',
        ...refusals([
          'invalid_input',
          '`analytics_dashboards` must contain numbers of dashboards.',
        ]),
      },
      maxItems: FLAG_DASHBOARDS_MAX,
      ...refusals(['not_a_list', '`analytics_dashboards` must be a list of numbers.', 'null']),
    },
    (value) => (Array.isArray(value) ? value.map(toNumber) : value),
  ),
  has_enriched_analytics: TRUTH_OR_NULL,
  is_remote_configuration: TRUTH_OR_NULL,
  has_encrypted_payloads: field<false | null>(
    {
      type: ['boolean', 'null'],
      enum: [false, null],
      ...refusals([
        'invalid_input',
        '`has_encrypted_payloads` must be false, because this server does not encrypt payloads.',
      ]),
    },
    toTruth,
  ),
  evaluation_runtime: field<EvaluationRuntime>(
    {
      enum: ['all', 'client', 'server'],
      ...refusals(['invalid_choice', '`evaluation_runtime` must be all, client or server.']),
    },
    (value) => value ?? 'all',
  ),
  bucketing_identifier: field<Flag['bucketingIdentifier']>(
    {
      enum: ['distinct_id', 'device_id', null],
      ...refusals([
        'invalid_choice',
        '`bucketing_identifier` must be distinct_id, device_id or null.',
      ]),
    },
    (value) => (value === '' ? null : value),
  ),
}

/** The field with the reason of a change. It is stored in the activity log, and not in the flag. */
export const FLAG_NOTE = field<string>({ type: 'string', unitsMax: FLAG_NOTE_UNITS_MAX }, toKey)

type FieldName = keyof typeof FLAG_FIELDS

/** Returns a member of a body, or undefined if it is absent. */
export function member(body: JsonObject, name: string): unknown {
  return Object.hasOwn(body, name) ? body[name] : undefined
}

/** Reads a field of a body. Returns undefined if it is absent. Throws 400 with the name of the field as `attr`. */
export function readField<Name extends FieldName>(body: JsonObject, name: Name) {
  return FLAG_FIELDS[name].read(body, name) as ReturnType<(typeof FLAG_FIELDS)[Name]['read']>
}

/**
 * Returns a field with a schema. Clients may send a value in other forms than the schema; `convert` turns them into the
 * form of the schema.
 */
function field<T>(
  schema: JsonObject,
  convert: (value: unknown) => unknown = (value) => value,
): FlagField<T> {
  let check: ReturnType<typeof compileInput> | null = null
  return {
    schema,
    read(body, name) {
      const sent = member(body, name)
      if (sent === undefined) return undefined
      check ??= compileInput(schema)
      const value = convert(sent)
      const fault = check(value)
      if (fault !== null) throw fieldRefusal(fault, name)
      return value as T
    },
  }
}

function refusals(...list: readonly OwnRefusal[]) {
  return { refusals: list }
}

function toText(value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value
}

function toKey(value: unknown): unknown {
  const text = toText(value)
  return typeof text === 'string' ? text.trim() : text
}

function toNumber(value: unknown): unknown {
  return typeof value === 'string' && /^[0-9]{1,15}$/.test(value) ? Number(value) : value
}

/** Converts the texts and numbers that stand for true or false in the fields of HTML forms, such as `on` and `0`. */
function toTruth(value: unknown): unknown {
  const plain = typeof value === 'string' ? value.toLowerCase() : value
  return YES.includes(plain) || (NO.includes(plain) ? false : value)
}

/**
 * Returns a field whose value is a list of texts. They are trimmed, and duplicates are removed. Null means an empty
 * list.
 */
function tagsField(name: string, form: (tag: string) => string): FlagField<readonly string[]> {
  const blank = fieldText(name, 'must contain texts that are not empty')
  const long = `may contain texts of at most ${FLAG_TAG_UNITS_MAX} characters`
  const items = {
    type: 'string',
    minLength: 1,
    unitsMax: FLAG_TAG_UNITS_MAX,
    ...refusals(['max_length', fieldText(name, long), 'unitsMax'], ['invalid_input', blank]),
  }
  return field({ type: 'array', items, maxItems: FLAG_TAGS_MAX }, (value) => {
    if (!Array.isArray(value)) return value ?? []
    const forms = value.map((tag: unknown) => (typeof tag === 'string' ? form(tag.trim()) : tag))
    return [...new Set(forms)]
  })
}
