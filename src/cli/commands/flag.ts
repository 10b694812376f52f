/**
 * `tenrec flag ...`: feature flags in the data directory, whether or not a daemon runs. A running daemon applies
 * changes within a second. The rules are the same as in the private API.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { given, type JsonObject } from '../../base/json.ts'
import { SYSTEM_ACTOR } from '../../rules/access/user.ts'
import { compileFlags } from '../../rules/flags/compile.ts'
import { requestOf } from '../../rules/flags/decide.ts'
import { statusDetails, statusOf } from '../../rules/flags/edit/flag-body.ts'
import type { FlagChangeContext } from '../../rules/flags/edit/flag-changes.ts'
import {
  type ConditionExplanation,
  explainFlag,
  explanationBody,
  type FlagExplanation,
} from '../../rules/flags/explain.ts'
import type { DecisionRequest, DecisionSources, Flag } from '../../rules/flags/types.ts'
import type { FlagStore } from '../../store/catalog/flag-store.ts'
import type { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import {
  type CommandInput,
  type Commands,
  demandChanges,
  JSON_OPTION,
  type OptionTexts,
  PROJECT_OPTION,
} from '../lib/command.ts'
import { isoTime, printable } from '../lib/output.ts'
import { commandEntry, withStore } from '../lib/with-store.ts'

const HASH_DIGITS = 4

const ONE_OPTIONS: OptionTexts = { ...PROJECT_OPTION, ...JSON_OPTION }
const CHANGE_OPTIONS: OptionTexts = {
  '--name TEXT': 'Description of the flag.',
  '--filters JSON':
    'Conditions, variants and payloads, as in the private API. They replace all existing ones.',
  '--rollout PERCENT':
    'Percentage of all persons for whom the flag is on, from 0 to 100. It cannot be combined with --filters.',
  '--active BOOLEAN': 'Whether the flag is evaluated: true or false.',
  '--tags TAG,...': 'Tags of the flag. They replace all existing tags.',
  ...JSON_OPTION,
}

/** `tenrec flag ...`. */
export const COMMANDS: Commands = [
  {
    name: 'flag list',
    sentence: 'List the feature flags of a project.',
    options: ONE_OPTIONS,
    run: (input) =>
      withFlags(input, false, ({ store, context: { projectId, nowMs } }) =>
        store.flags(projectId).flags.map((flag) => summaryOf(flag, nowMs)),
      ),
  },
  {
    name: 'flag show',
    sentence: 'Print one feature flag.',
    operands: ['KEY'],
    options: ONE_OPTIONS,
    run: (input) =>
      withFlags(input, false, ({ wanted, context }) => describeFlag(wanted(), context)),
  },
  {
    name: 'flag create',
    sentence:
      'Create a feature flag, and print it. Without conditions, the flag is on for everyone.',
    operands: ['KEY'],
    options: { ...PROJECT_OPTION, ...CHANGE_OPTIONS },
    run(input) {
      const body = { ...readChanges(input), key: input.operand }
      return withFlags(input, true, ({ store, context }) =>
        describeFlag(store.create(context, body), context),
      )
    },
  },
  {
    name: 'flag set',
    sentence: 'Change a feature flag, and print it.',
    operands: ['KEY'],
    options: {
      ...PROJECT_OPTION,
      '--key KEY': 'New key. It changes which persons get the flag.',
      ...CHANGE_OPTIONS,
    },
    run: (input) =>
      update(input, demandChanges({ ...readChanges(input), ...given({ key: input.text('key') }) })),
  },
  {
    name: 'flag delete',
    sentence: 'Delete a feature flag. The private API can restore it by its ID.',
    operands: ['KEY'],
    options: ONE_OPTIONS,
    run: (input) => update(input, { deleted: true }),
  },
  {
    name: 'flag explain',
    sentence:
      'Print the value of a feature flag for a distinct ID, and the condition that decided it.',
    operands: ['KEY'],
    options: {
      ...PROJECT_OPTION,
      '--distinct-id ID': {
        sentence: 'Distinct ID to evaluate the flag for. Stored properties are used.',
        isRequired: true,
      },
      '--groups JSON': 'Groups, such as {"company":"acme"}.',
      '--person-properties JSON': 'Person properties, as a request would send them.',
      '--group-properties JSON': 'Group properties by group type, as a request would send them.',
      ...JSON_OPTION,
    },
    run: (input) => withFlags(input, false, (flags) => explain(input, flags)),
  },
]

interface OpenFlags {
  readonly store: FlagStore
  readonly sources: DecisionSourceReader
  readonly timezone: string
  readonly context: FlagChangeContext
  /** Returns the flag named on the command line. Throws `OperatorError`. */
  readonly wanted: () => Flag
}

function withFlags<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (flags: OpenFlags) => T,
): Promise<T> {
  const { projectId, operand } = input
  return withStore(
    input,
    isWriting,
    ({ organization, flags: store, decisions: sources }) => {
      const project = organization.projects.project(projectId)
      if (project === null) {
        throw new OperatorError(
          `There is no project ${projectId}. Run 'tenrec project list' to see all projects.`,
        )
      }
      const cohorts = sources.cohorts(projectId)
      const wanted = (): Flag => {
        const flag = store.flags(projectId).byKey(operand)
        if (flag !== null) return flag
        const key = JSON.stringify(operand)
        throw new OperatorError(
          `There is no flag ${key} in project ${projectId}. Run 'tenrec flag list --project ${projectId}' to see all flags.`,
        )
      }
      const context: FlagChangeContext = {
        projectId,
        // A command has no user, so the change is attributed to the system.
        actor: SYSTEM_ACTOR,
        nowMs: input.io.clock.now(),
        cohort: (id) => cohorts.get(id) ?? null,
        audit: isWriting ? commandEntry(input, projectId) : undefined,
      }
      return action({ store, sources, timezone: project.timezone, context, wanted })
    },
    ['flags', 'events'],
  )
}

function update(input: CommandInput, body: JsonObject): Promise<object> {
  return withFlags(input, true, ({ store, context, wanted }) =>
    describeFlag(store.update(context, wanted().id, body, false), context),
  )
}

function explain(input: CommandInput, { store, sources, timezone, context, wanted }: OpenFlags) {
  const { projectId } = context
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
  for (const line of describeExplanation(flag, explanation, input.isJson)) {
    input.io.out(`${line}\n`)
  }
  return 0
}

/** Returns the output of `tenrec flag explain`. `explanation` is null if the flag is not evaluated at all. */
function describeExplanation(
  flag: Flag,
  explanation: FlagExplanation | null,
  isJson: boolean,
): readonly string[] {
  if (isJson) return [JSON.stringify(explanationBody(flag, explanation, true))]
  if (explanation === null) return [`${flag.key} is not active, so answers do not include it`]
  const { decision, conditions } = explanation
  const value = decision.isEnabled ? (decision.variant ?? 'on') : 'off'
  const lines = [`${flag.key} is ${value}: ${decision.description}`]
  if (decision.payload !== null) lines.push(`payload ${decision.payload}`)
  for (const condition of conditions) {
    lines.push(`condition ${condition.index + 1}: ${outcomeText(condition)}`)
  }
  return lines.map(printable)
}

function outcomeText(condition: ConditionExplanation): string {
  const { outcome, failedFilter, rolloutPercentage, hash, failure } = condition
  const percent = `${rolloutPercentage} %`
  const place = hash === null ? '' : `, hash ${(hash * 100).toFixed(HASH_DIGITS)} %`
  switch (outcome) {
    case 'matched':
      return `matched (rollout ${percent}${place})`
    case 'filter_failed':
      return `filter ${(failedFilter?.index ?? 0) + 1} did not match: ${JSON.stringify(failedFilter?.filter)}`
    case 'rollout_excluded':
      return `all filters matched, but the rollout of ${percent} excludes this identifier${place}`
    case 'no_group':
      return 'skipped: no group of its type was given'
    case 'no_device':
      return 'skipped: no device id was given'
    case 'failed':
      return `could not be evaluated (${failure ?? 'unknown'})`
    case 'not_reached':
      return 'not reached'
  }
}

function readChanges(input: CommandInput): JsonObject {
  if (input.has('filters') && input.has('rollout')) {
    throw new UsageError('--filters and --rollout cannot be combined.')
  }
  return given({
    name: input.text('name'),
    filters: input.jsonObject('filters') ?? filtersOfRollout(input.text('rollout')),
    active: input.boolean('active'),
    tags: input.list('tags'),
  })
}

function filtersOfRollout(text: string | undefined): JsonObject | undefined {
  if (text === undefined) return undefined
  const percentage = text.trim() === '' ? Number.NaN : Number(text)
  if (percentage >= 0 && percentage <= 100) {
    return { groups: [{ properties: [], rollout_percentage: percentage }] }
  }
  throw new UsageError(`--rollout: ${JSON.stringify(text)} is not a number from 0 to 100.`)
}

function readRequest(input: CommandInput): DecisionRequest {
  return requestOf({
    distinctId: input.text('distinct-id') ?? '',
    nowMs: input.io.clock.now(),
    ...given({
      groups: input.jsonObject('groups'),
      personProperties: input.jsonObject('person-properties'),
      groupProperties: input.jsonObject('group-properties'),
    }),
  })
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

function describeFlag(flag: Flag, { nowMs }: FlagChangeContext) {
  return {
    ...summaryOf(flag, nowMs),
    ...statusDetails(flag),
    filters: flag.filters,
    created_at: isoTime(flag.createdAtMs),
    updated_at: isoTime(flag.updatedAtMs),
  }
}

function summaryOf(flag: Flag, nowMs: number) {
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
