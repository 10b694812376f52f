/**
 * The schema of a file with flags. It checks files and is published for editors. The member `flags` of a file contains
 * the wanted state of each flag. docs/FLAGS-IN-FILES.md describes the members.
 */
import { ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import { PLAN_FLAGS_MAX } from '../../../base/limits.ts'
import { compileInput, INPUT_KEYWORDS, type InputFault } from '../../../base/validator.ts'
import { FLAG_FIELDS } from './flag-fields.ts'

const NUMBER_OR_NULL = { type: ['number', 'null'], minimum: 0, maximum: 100 }
const GROUP_TYPE = {
  type: ['string', 'null'],
  description:
    'Name of the group type, if decisions are made for groups of this type instead of persons. Null: for persons.',
}
const PROPERTY = {
  type: 'object',
  required: ['type'],
  additionalProperties: true,
  properties: {
    type: { enum: ['person', 'group', 'cohort', 'flag'] },
    key: { type: 'string', description: 'Name of the property of a person or group.' },
    operator: { type: 'string', description: 'Such as exact, is_not, icontains, gt or is_set.' },
    value: { description: 'Value or list of values to compare with.' },
    cohort: { type: 'string', description: 'Name of the cohort, for the type cohort.' },
    flag: { type: 'string', description: 'Key of the flag, for the type flag.' },
    group_type: { type: 'string', description: 'Name of the group type, for the type group.' },
  },
}
const CONDITION = {
  type: 'object',
  additionalProperties: true,
  properties: {
    properties: {
      type: 'array',
      items: PROPERTY,
      description: 'Filters that must all match. None means everyone.',
    },
    rollout_percentage: {
      ...NUMBER_OR_NULL,
      description: 'Share of the matching persons, from 0 to 100. Null means all of them.',
    },
    variant: { type: ['string', 'null'], description: 'Variant that these persons get.' },
    aggregation_group_type: GROUP_TYPE,
  },
}
const FILTERS = {
  type: 'object',
  required: ['groups'],
  additionalProperties: true,
  description: 'The conditions, variants and payloads. Without it, the flag is on for everyone.',
  properties: {
    groups: {
      type: 'array',
      items: CONDITION,
      description: 'Conditions. The first match decides.',
    },
    multivariate: {
      type: ['object', 'null'],
      properties: {
        variants: {
          type: 'array',
          items: {
            type: 'object',
            required: ['key', 'rollout_percentage'],
            properties: {
              key: { type: 'string' },
              name: { type: ['string', 'null'] },
              rollout_percentage: NUMBER_OR_NULL,
            },
          },
        },
      },
    },
    payloads: {
      type: ['object', 'null'],
      description: 'JSON texts, by the key of a variant or by true.',
    },
    aggregation_group_type: GROUP_TYPE,
  },
}
const {
  key,
  name,
  active,
  tags,
  evaluation_contexts: evaluationContexts,
  evaluation_runtime: evaluationRuntime,
  bucketing_identifier: bucketingIdentifier,
  is_remote_configuration: isRemoteConfiguration,
} = FLAG_FIELDS

/** The schema of one flag in a file. It also checks the bodies of requests that plan flags. */
export const PORTABLE_FLAG: JsonObject = {
  type: 'object',
  required: ['key'],
  additionalProperties: false,
  properties: {
    key: { ...key.schema, description: 'The key by which code asks for the flag.' },
    name: { ...name.schema, description: 'Description of the flag. Default: none.' },
    active: { ...active.schema, description: 'Whether the flag is evaluated. Default: true.' },
    filters: FILTERS,
    tags: { ...tags.schema, description: 'Default: none.' },
    evaluation_contexts: { ...evaluationContexts.schema, description: 'Default: none.' },
    evaluation_runtime: { ...evaluationRuntime.schema, description: 'Default: all.' },
    bucketing_identifier: { ...bucketingIdentifier.schema, description: 'Default: null.' },
    ensure_experience_continuity: {
      type: 'boolean',
      description: 'Whether users keep their value after login. Default: false.',
    },
    is_remote_configuration: { ...isRemoteConfiguration.schema, description: 'Default: false.' },
    deleted: { type: 'boolean', description: 'True deletes the flag if it exists.' },
  },
}

/** The schema of a whole file. */
const FLAGS_FILE: JsonObject = {
  type: 'object',
  required: ['flags'],
  additionalProperties: false,
  properties: {
    $schema: { type: 'string', description: 'Address or path of this schema, for editors.' },
    flags: { type: 'array', items: PORTABLE_FLAG, maxItems: PLAN_FLAGS_MAX },
  },
}

let checkFile: ((value: unknown) => InputFault | null) | undefined

/**
 * Returns the flags in the content of a file. `source` names the file in errors. Throws 400 with the first fault, also
 * if two flags have the same key.
 */
export function readFlagsFile(value: unknown, source: string): readonly JsonObject[] {
  checkFile ??= compileInput(FLAGS_FILE)
  const fault = checkFile(value)
  if (fault !== null) throw new ServiceError('invalid_input', `${source}: ${faultText(fault)}.`)
  const flags = isObject(value) ? objectsOf(value['flags']) : []
  requireOwnKeys(flags, source)
  return flags
}

/** Throws 400 if two flags have the same key. */
export function requireOwnKeys(flags: readonly JsonObject[], source: string): void {
  const keys = new Set<unknown>()
  for (const { key: one } of flags) {
    if (keys.has(one)) {
      const detail = `${source}: the flag ${JSON.stringify(one)} is there twice. Keep one of them.`
      throw new ServiceError('invalid_input', detail)
    }
    keys.add(one)
  }
}

/** Returns the schema of a file for publication, without the keywords that only Tenrec knows. */
export function publishedFlagsSchema(): JsonObject {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Feature flags of Tenrec',
    ...published(FLAGS_FILE),
  }
}

function published(schema: JsonObject): JsonObject {
  const units = schema['unitsMax']
  const entries = Object.entries(schema)
    .filter(([word]) => !INPUT_KEYWORDS.includes(word))
    .map(([word, part]): [string, unknown] => [word, isObject(part) ? published(part) : part])
  const known = Object.fromEntries(entries)
  return typeof units === 'number' ? { ...known, maxLength: units } : known
}

function faultText({ path, keyword, message, params }: InputFault): string {
  const place = path.length === 0 ? 'the file' : path.join('.')
  if (keyword === 'additionalProperties') {
    return `${place} has the unknown member ${JSON.stringify(params['additionalProperty'])}`
  }
  return `${place} ${message}`
}
