/**
 * Counts persons or groups for a feature flag: those that a condition would match, or those for which a planned change
 * would alter the value of the flag. The flag rules evaluate every person, or every group of one type. A count runs in
 * short parts, so that other long reads can run in between. If a person changes during the count, the count uses the
 * state at the moment when the person was evaluated. The percentage of a condition is ignored: all persons that match
 * its filters count. Source: docs/compatibility/flags.md, "Feature flag routes".
 */

import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { REHEARSAL_SAMPLE_MAX, REHEARSAL_SAMPLE_USUAL } from '../../base/limits.ts'
import { refusal } from '../../base/refusals.ts'
import { compileFlags } from '../../rules/flags/compile.ts'
import { decide, requestOf } from '../../rules/flags/decide.ts'
import { checkFilters } from '../../rules/flags/edit/filter-rules.ts'
import { lookupIn } from '../../rules/flags/property-lookup.ts'
import {
  newTally,
  Rehearsal,
  type RehearsalReport,
  type RehearsalTally,
  type Subject,
} from '../../rules/flags/rehearsal.ts'
import type { DecisionSources, Flag, FlagSet, PropertyLookup } from '../../rules/flags/types.ts'
import type { FlagPlan } from '../../store/catalog/flag-store.ts'
import type { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import { REACH_COUNT_MS_MAX, REACH_PIECE_MS_MAX } from './limits.ts'

/** The answer to a count of matches, in the form in which clients get it. */
export interface BlastRadius {
  readonly users_affected: number
  readonly total_users: number
}

/** The key and the number of a trial flag, which is made only to evaluate the condition. No real flag has them. */
const TRIAL_KEY = '*'
const TRIAL_ID = Number.MAX_SAFE_INTEGER
/**
 * After this number of persons or groups, the time is checked. If conditions contain patterns, a single person may take
 * about 20 ms.
 */
const CLOCK_EVERY = 16
const NOTHING: JsonObject = Object.freeze({})

/** The progress and results of a count. It is plain data, so that any thread can continue the count. */
export interface CountState<Tally> {
  readonly tally: Tally
  /** The number of all persons or groups. 0 for a count of matches, which does not need it. */
  readonly total: number
  /** If this is n, the count evaluates only every n-th person or group. */
  readonly every: number
  /** The person number, or the key of the group, that was evaluated last. Null before the first one. */
  readonly after: number | string | null
  /** The duration of the count so far, in milliseconds. */
  readonly elapsedMs: number
}

/** The result of one part of a long task: the answer, or the state to continue from. */
export type Piece<State, Answer> = { readonly answer: Answer } | { readonly rest: State }

/** The result of one part of a count. */
export type CountPiece<Tally, Answer> = Piece<CountState<Tally>, Answer>

/** The number of records that were evaluated, and the number of records that match. */
export interface ReachTally {
  total: number
  reached: number
}

/**
 * Runs the next part of a count. Throws 400 `invalid_input` if the body contains no valid condition, and 503 if the
 * count takes too long.
 */
export function countReached(
  body: JsonObject,
  set: FlagSet,
  stored: DecisionSourceReader,
  nowMs: number,
  state: CountState<ReachTally> = beginning({ total: 0, reached: 0 }, 0),
): CountPiece<ReachTally, BlastRadius> {
  const trial = trialFlag(body, set, nowMs)
  const compiled = compileFlags({ ...set, flags: [...set.flags, trial] })
  const isForAll = objectsOf(conditionOf(body)['properties']).length === 0
  const { tally } = state
  const rest = countOn(state, subjectsOf(typeIndexOf(body), set, stored, state), (subject) => {
    tally.total++
    if (isForAll) {
      tally.reached++
      return
    }
    const { distinctId, groups } = subject
    const request = requestOf({ distinctId, groups, nowMs, flagKeys: [TRIAL_KEY] })
    const { decisions } = decide(compiled, request, subject.sources)
    if (decisions.some(({ flag, isEnabled }) => flag.id === TRIAL_ID && isEnabled)) tally.reached++
  })
  return rest === null
    ? { answer: { users_affected: tally.reached, total_users: tally.total } }
    : { rest }
}

/**
 * The answer to a rehearsal, in the form in which clients get it. A rehearsal counts for how many persons or groups a
 * planned change would alter the value of a flag.
 */
export interface RehearsalAnswer extends RehearsalReport {
  readonly is_new: boolean
  /** The type of the groups that were evaluated. Null if persons were evaluated. */
  readonly group_type_index: number | null
  /** The number of all persons or groups. It is an estimate if not all of them were evaluated. */
  readonly total: number
}

/**
 * Runs the next part of a rehearsal. Evaluates up to `sampleMax` persons, spread evenly over all of them, or groups if
 * the flag is about groups. Each is evaluated with the current flags and with the planned flags. Throws 503 if the
 * whole rehearsal takes too long.
 */
export function rehearse(
  { before, after }: FlagPlan,
  sampleMax: number,
  set: FlagSet,
  stored: DecisionSourceReader,
  nowMs: number,
  begun?: CountState<RehearsalTally>,
): CountPiece<RehearsalTally, RehearsalAnswer> {
  const others = set.flags.filter(({ id }) => id !== after.id)
  const flags = [...others, after].sort((one, other) => one.id - other.id)
  const compiled = compileFlags(set)
  const changed = compileFlags({ ...set, flags }, compiled)
  const typeIndex = readTypeIndex(after.filters['aggregation_group_type_index'] ?? null)
  const state = begun ?? beginning(newTally(), recordCount(typeIndex, set, stored), sampleMax)
  const compared = { before: compiled, after: changed, key: after.key }
  const rehearsal = new Rehearsal(compared, nowMs, state.tally)
  const subjects = subjectsOf(typeIndex, set, stored, state)
  const rest = countOn(state, subjects, (subject) => rehearsal.put(subject))
  if (rest !== null) return { rest }
  const report = rehearsal.report()
  const total = state.every === 1 ? report.sampled : state.total
  return { answer: { is_new: before === null, group_type_index: typeIndex, total, ...report } }
}

/** Reads from a body how many persons or groups it asks to evaluate. Throws 400. */
export function sampleOf(sample: unknown): number {
  if (sample === undefined || sample === null) return REHEARSAL_SAMPLE_USUAL
  const isNumber = typeof sample === 'number' && Number.isInteger(sample)
  if (isNumber && sample >= 1 && sample <= REHEARSAL_SAMPLE_MAX) return sample
  const detail = `\`sample\` must be a whole number from 1 to ${REHEARSAL_SAMPLE_MAX}.`
  throw new ServiceError('invalid_input', detail, { attr: 'sample' })
}

/** Returns the state at the start of a count that evaluates about `sampleMax` records. Default: all `total` records. */
export function beginning<Tally>(
  tally: Tally,
  total: number,
  sampleMax = total,
): CountState<Tally> {
  const every = Math.max(1, Math.ceil(total / Math.max(1, sampleMax)))
  return { tally, total, every, after: null, elapsedMs: 0 }
}

/**
 * Evaluates persons or groups until one part has used its time. Returns the state from which the next part continues,
 * or null if the count is complete. Throws 503 if the whole count takes too long.
 */
export function countOn<Tally>(
  state: CountState<Tally>,
  subjects: Iterable<PlacedSubject>,
  put: (subject: Subject) => void,
  slow: 'count_slow' | 'plan_slow' = 'count_slow',
): CountState<Tally> | null {
  const startedAtMs = performance.now()
  let count = 0
  for (const subject of subjects) {
    put(subject)
    if (++count % CLOCK_EVERY !== 0) continue
    const pieceMs = performance.now() - startedAtMs
    const elapsedMs = state.elapsedMs + pieceMs
    if (elapsedMs > REACH_COUNT_MS_MAX) {
      throw refusal(slow, { limit: REACH_COUNT_MS_MAX / 1000 })
    }
    if (pieceMs > REACH_PIECE_MS_MAX) return { ...state, after: subject.place, elapsedMs }
  }
  return null
}

/** Returns the number of persons of a project, or of groups of a type. */
export function recordCount(
  typeIndex: number | null,
  set: FlagSet,
  stored: DecisionSourceReader,
): number {
  return typeIndex === null
    ? stored.personCount(set.projectId)
    : stored.groupCount(set.projectId, typeIndex)
}

/**
 * A person or group. `place` is the person number or the group key, which says where the next part of a count
 * continues.
 */
interface PlacedSubject extends Subject {
  readonly place: number | string
}

/**
 * Yields every `every`-th person, or every `every`-th group of a type. Begins after the one that was evaluated last.
 */
export function* subjectsOf(
  typeIndex: number | null,
  set: FlagSet,
  stored: DecisionSourceReader,
  { every, after }: Pick<CountState<unknown>, 'every' | 'after'>,
): Generator<PlacedSubject> {
  const { projectId } = set
  if (typeIndex === null) {
    const behind = typeof after === 'number' ? after : null
    for (const { number, distinctId, properties } of stored.persons(projectId, every, behind)) {
      const sources: DecisionSources = {
        ...NO_SOURCES,
        personProperties: () => lookupIn(properties),
        isInStaticCohort: (cohortId) => stored.isMember(projectId, cohortId, number),
        continuityOverrides: () => stored.overrides(projectId, number),
      }
      yield { distinctId, groups: NOTHING, sources, place: number }
    }
    return
  }
  const type = set.groupTypes.get(typeIndex)
  if (type === undefined) return
  const behind = typeof after === 'string' ? after : undefined
  let passed = behind === undefined ? 0 : 1
  for (const { key, properties } of stored.groups(projectId, typeIndex, behind)) {
    if (passed++ % every !== 0) continue
    const groupProperties = (index: number): PropertyLookup | null =>
      index === typeIndex ? lookupIn(properties) : null
    const sources = { ...NO_SOURCES, groupProperties }
    yield { distinctId: '', groups: { [type]: key }, sources, place: key }
  }
}

const NO_SOURCES: DecisionSources = {
  personProperties: () => null,
  groupProperties: () => null,
  isInStaticCohort: () => false,
  continuityOverrides: () => new Map(),
}

/** Returns a trial flag whose only condition is the one in the body. */
function trialFlag(body: JsonObject, set: FlagSet, nowMs: number): Flag {
  const condition = conditionOf(body)
  const groups = [{ properties: condition['properties'] ?? [], rollout_percentage: 100 }]
  const filters = checkedFilters({ groups, aggregation_group_type_index: typeIndexOf(body) }, set)
  return {
    id: TRIAL_ID,
    projectId: set.projectId,
    key: TRIAL_KEY,
    name: '',
    filters,
    deleted: false,
    active: true,
    version: 1,
    createdById: null,
    createdAtMs: nowMs,
    lastModifiedById: null,
    updatedAtMs: nowMs,
    ensureExperienceContinuity: false,
    rollbackConditions: null,
    performedRollback: null,
    tags: [],
    usageDashboard: null,
    analyticsDashboards: [],
    hasEnrichedAnalytics: false,
    evaluationRuntime: 'all',
    bucketingIdentifier: null,
    evaluationContexts: [],
    isRemoteConfiguration: false,
    hasEncryptedPayloads: false,
  }
}

/**
 * Checks the filters of a trial flag and returns them. Errors say `condition` instead of `filters`, because the body
 * has no field `filters`.
 */
function checkedFilters(filters: JsonObject, set: FlagSet): JsonObject {
  const byId = new Map(set.flags.map((flag) => [flag.id, flag]))
  try {
    return checkFilters(filters, null, {
      flags: set.flags,
      flagById: (id) => byId.get(id) ?? null,
      flagByKey: () => null,
      cohort: (id) => set.cohorts.get(id) ?? null,
      hasDashboard: () => false,
      nowMs: 0,
    })
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const detail = error.message.replace(/^filters:?/, 'condition:')
    throw new ServiceError(error.code, detail, { cause: error })
  }
}

function conditionOf(body: JsonObject): JsonObject {
  if (!Object.hasOwn(body, 'condition'))
    throw invalid('`condition` is missing. Send {} to match everyone.')
  const { condition } = body
  if (condition === null) return NOTHING
  if (!isObject(condition))
    throw invalid('`condition` must be an object, or null to match everyone.')
  return condition
}

function typeIndexOf(body: JsonObject): number | null {
  return readTypeIndex(Object.hasOwn(body, 'group_type_index') ? body['group_type_index'] : null)
}

/** Returns the index of a group type, or null for persons. Throws 400 for any other value. */
export function readTypeIndex(index: unknown): number | null {
  if (index === null) return null
  if (typeof index === 'number' && [0, 1, 2, 3, 4].includes(index)) return index
  throw invalid('`group_type_index` must be a whole number from 0 to 4, or null for persons.')
}

function invalid(detail: string): ServiceError {
  return new ServiceError('invalid_input', detail)
}
