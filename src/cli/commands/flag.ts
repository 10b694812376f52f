/**
 * `tenrec flag ...`: feature flags in the data directory, with or without a running daemon; it notices
 * changes within a second. What is allowed is decided by the same rules as for the private API.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { boolean } from '../../config/value-kinds.ts'
import { compileFlags } from '../../rules/flags/compile.ts'
import { statusDetails, statusOf } from '../../rules/flags/edit/flag-body.ts'
import { explainFlag } from '../../rules/flags/explain.ts'
import type { DecisionRequest, DecisionSources, Flag } from '../../rules/flags/types.ts'
import type { FlagChangeContext, FlagStore } from '../../store/catalog/flag-store.ts'
import type { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import type { OpenStore } from '../../store/open-store.ts'
import { idOption, listOption } from '../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../lib/command.ts'
import { describeExplanation } from '../lib/flag-explanation.ts'
import { isoTime, printRecord, printRows, type Row } from '../lib/output.ts'
import { commandEntry, withStore } from '../lib/with-store.ts'
import { PROJECT_OPTION } from './events/event.ts'

/** Whom the activity log names: nobody asked through the API. */
const SYSTEM = { userId: 0, firstName: 'System', email: '' } as const

const CHANGE_OPTIONS: readonly OptionDefinition[] = [
  { name: 'name', placeholder: 'TEXT', sentence: 'What the flag is for.' },
  {
    name: 'filters',
    placeholder: 'JSON',
    sentence: 'Conditions, variants and payloads, as in the private API; replaced as a whole.',
  },
  {
    name: 'rollout',
    placeholder: 'PERCENT',
    sentence: 'On for so many percent of all persons, from 0 to 100; instead of --filters.',
  },
  { name: 'active', placeholder: 'BOOLEAN', sentence: 'Whether it is evaluated: true or false.' },
  { name: 'tags', placeholder: 'TAG,...', sentence: 'Its tags; they replace all others.' },
]

/** `tenrec flag list`. */
export const FLAG_LIST: Command = {
  name: 'flag list',
  sentence: 'List the feature flags of a project.',
  operands: [],
  options: [PROJECT_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  run: (input) =>
    withFlags(input, false, ({ store, projectId }) => {
      const { flags } = store.flags(projectId)
      const nowMs = input.io.clock.now()
      const rows = flags.map((flag) => summaryOf(flag, nowMs))
      printRows(input.io, rows, input.options.has('json'))
      return 0
    }),
}

/** `tenrec flag show`. */
export const FLAG_SHOW: Command = {
  name: 'flag show',
  sentence: 'Print one feature flag.',
  operands: ['KEY'],
  options: [PROJECT_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  run: (input) => withFlags(input, false, (flags) => print(input, flags.wanted())),
}

/** `tenrec flag create`. */
export const FLAG_CREATE: Command = {
  name: 'flag create',
  sentence: 'Create a feature flag and print it; without conditions it is on for everyone.',
  operands: ['KEY'],
  options: [PROJECT_OPTION, ...CHANGE_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  run(input) {
    const body = { ...readChanges(input), key: input.operands[0] ?? '' }
    return withFlags(input, true, ({ store, context }) => print(input, store.create(context, body)))
  },
}

/** `tenrec flag set`. */
export const FLAG_SET: Command = {
  name: 'flag set',
  sentence: 'Change a feature flag and print it.',
  operands: ['KEY'],
  options: [
    PROJECT_OPTION,
    { name: 'key', placeholder: 'KEY', sentence: 'New key; who gets the flag changes with it.' },
    ...CHANGE_OPTIONS,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  run(input) {
    const key = input.options.get('key')
    const body = { ...readChanges(input), ...(key === undefined ? {} : { key }) }
    if (Object.keys(body).length === 0) throw new UsageError('there is nothing to change')
    return withFlags(input, true, ({ store, context, wanted }) =>
      print(input, store.update(context, wanted().id, body, false)),
    )
  },
}

/** `tenrec flag delete`. */
export const FLAG_DELETE: Command = {
  name: 'flag delete',
  sentence: 'Delete a feature flag; the private API can restore it by its number.',
  operands: ['KEY'],
  options: [PROJECT_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  run: (input) =>
    withFlags(input, true, ({ store, context, wanted }) =>
      print(input, store.update(context, wanted().id, { deleted: true }, false)),
    ),
}

/** `tenrec flag explain`. */
export const FLAG_EXPLAIN: Command = {
  name: 'flag explain',
  sentence: 'Tell what a feature flag is for a distinct_id, and which condition decided.',
  operands: ['KEY'],
  options: [
    PROJECT_OPTION,
    {
      name: 'distinct-id',
      placeholder: 'ID',
      sentence: 'For whom; stored properties are used.',
      isRequired: true,
    },
    { name: 'groups', placeholder: 'JSON', sentence: 'Groups, such as {"company":"acme"}.' },
    { name: 'person-properties', placeholder: 'JSON', sentence: 'Properties sent along.' },
    { name: 'group-properties', placeholder: 'JSON', sentence: 'The same of groups, by type.' },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  run: (input) =>
    withFlags(input, false, ({ store, sources, projectId, timezone, wanted }) => {
      const flag = wanted()
      const request = readRequest(input)
      const compiled = compileFlags({
        projectId,
        timezone,
        flags: store.flags(projectId).flags,
        cohorts: sources.cohorts(projectId),
        groupTypes: sources.groupTypes(projectId),
      })
      const stored = storedSources(sources, projectId, request)
      const explanation = explainFlag(compiled, flag.key, request, stored)
      for (const line of describeExplanation(flag, explanation, input.options.has('json'))) {
        input.io.out(`${line}\n`)
      }
      return 0
    }),
}

interface OpenFlags {
  readonly store: FlagStore
  readonly sources: DecisionSourceReader
  readonly projectId: number
  readonly timezone: string
  readonly context: FlagChangeContext
  /** The flag that the command names. Throws `OperatorError`. */
  readonly wanted: () => Flag
}

function withFlags(
  input: CommandInput,
  isWriting: boolean,
  action: (flags: OpenFlags) => number,
): Promise<number> {
  const projectId = idOption(input, 'project', 1)
  const run = ({ organization, flags: store, decisions: sources }: OpenStore): number => {
    const project = organization.projects.project(projectId)
    if (project === null) throw new OperatorError(`there is no project ${projectId}`)
    const cohorts = sources.cohorts(projectId)
    return action({
      store,
      sources,
      projectId,
      timezone: project.timezone,
      context: {
        projectId,
        actor: SYSTEM,
        nowMs: input.io.clock.now(),
        cohort: (id) => cohorts.get(id) ?? null,
        audit: isWriting ? commandEntry(input, projectId) : undefined,
      },
      wanted: () => wantedFlag(store, projectId, input.operands[0] ?? ''),
    })
  }
  return withStore(input, isWriting, run, ['flags', 'events'])
}

function wantedFlag(store: FlagStore, projectId: number, key: string): Flag {
  const flag = store.flags(projectId).byKey(key)
  if (flag !== null) return flag
  throw new OperatorError(`there is no flag ${JSON.stringify(key)} in project ${projectId}`)
}

function readChanges(input: CommandInput): JsonObject {
  const { options } = input
  const name = options.get('name')
  const filters = options.get('filters')
  const rollout = options.get('rollout')
  const active = options.get('active')
  const tags = listOption(input, 'tags')
  if (filters !== undefined && rollout !== undefined) {
    throw new UsageError('--filters and --rollout exclude each other')
  }
  return {
    ...(name === undefined ? {} : { name }),
    ...(filters === undefined ? {} : { filters: parseObject('--filters', filters) }),
    ...(rollout === undefined ? {} : { filters: filtersOfRollout(rollout) }),
    ...(active === undefined ? {} : { active: parseBoolean(active) }),
    ...(tags === undefined ? {} : { tags }),
  }
}

function filtersOfRollout(text: string): JsonObject {
  const percentage = text.trim() === '' ? Number.NaN : Number(text)
  if (percentage >= 0 && percentage <= 100) {
    return { groups: [{ properties: [], rollout_percentage: percentage }] }
  }
  throw new UsageError(`--rollout: ${JSON.stringify(text)} is not a number from 0 to 100`)
}

function readRequest(input: CommandInput): DecisionRequest {
  const object = (name: string): JsonObject => {
    const text = input.options.get(name)
    return text === undefined ? {} : parseObject(`--${name}`, text)
  }
  return {
    distinctId: input.options.get('distinct-id') ?? '',
    groups: object('groups'),
    personProperties: object('person-properties'),
    groupProperties: object('group-properties'),
    anonDistinctId: null,
    deviceId: null,
    nowMs: input.io.clock.now(),
    flagKeys: null,
    evaluationContexts: [],
    evaluationRuntime: 'all',
    isSurveyFlagsOnly: false,
  }
}

function storedSources(
  sources: DecisionSourceReader,
  projectId: number,
  { distinctId }: DecisionRequest,
): DecisionSources {
  return {
    personProperties: () => sources.person(projectId, distinctId).properties,
    groupProperties: (typeIndex, key) => sources.groupProperties(projectId, typeIndex, key),
    isInStaticCohort: (cohortId) => sources.isInStaticCohort(projectId, distinctId, cohortId),
    continuityOverrides: () => {
      const { number } = sources.person(projectId, distinctId)
      return number === 0 ? new Map() : sources.overrides(projectId, number)
    },
  }
}

function print(input: CommandInput, flag: Flag): number {
  const row = {
    ...summaryOf(flag, input.io.clock.now()),
    ...statusDetails(flag),
    filters: flag.filters,
    created_at: isoTime(flag.createdAtMs),
    updated_at: isoTime(flag.updatedAtMs),
  }
  printRecord(input.io, row, input.options.has('json'))
  return 0
}

function summaryOf(flag: Flag, nowMs: number): Row {
  return {
    id: flag.id,
    key: flag.key,
    active: flag.active,
    status: statusOf(flag, nowMs),
    version: flag.version,
    tags: flag.tags,
    name: flag.name,
  }
}

function parseObject(what: string, text: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new UsageError(`${what} is not valid JSON`)
  }
  if (isObject(value)) return value
  throw new UsageError(`${what} must be a JSON object`)
}

function parseBoolean(text: string): boolean {
  const kind = boolean()
  const value = kind.parse(text)
  if (value === undefined) throw new UsageError(`--active: allowed are ${kind.allowed}`)
  return value
}
