/**
 * Whom a condition would reach, and whose value a change of a flag would flip: every person, or group of one
 * type, is put to the rules of flags. For the reach the condition's percentage is ignored. Source: docs/compatibility/flags.md, "Feature flag routes".
 */

import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { REHEARSAL_SAMPLE_MAX, REHEARSAL_SAMPLE_USUAL } from '../../base/limits.ts'
import { refusal } from '../../base/refusals.ts'
import { compileFlags } from '../../rules/flags/compile.ts'
import { decide, requestOf } from '../../rules/flags/decide.ts'
import { checkFilters } from '../../rules/flags/edit/filter-rules.ts'
import { Rehearsal, type RehearsalReport, type Subject } from '../../rules/flags/rehearsal.ts'
import type { DecisionSources, Flag, FlagSet } from '../../rules/flags/types.ts'
import type { FlagPlan } from '../../store/catalog/flag-store.ts'
import type { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import { REACH_COUNT_MS_MAX } from './limits.ts'

/** The answer, as it is sent. */
export interface BlastRadius {
  readonly users_affected: number
  readonly total_users: number
}

/** No flag has such a key or number. */
const TRIAL_KEY = '*'
const TRIAL_ID = Number.MAX_SAFE_INTEGER
/** Persons between two looks at the clock: patterns make one take up to some 20 ms. */
const CLOCK_EVERY = 16
const NOTHING: JsonObject = Object.freeze({})

/** Counts. Throws 400 `invalid_input` for a body that names no usable condition. */
export function countReached(
  body: JsonObject,
  set: FlagSet,
  stored: DecisionSourceReader,
  nowMs: number,
): BlastRadius {
  const trial = trialFlag(body, set, nowMs)
  const compiled = compileFlags({ ...set, flags: [...set.flags, trial] })
  const isForAll = objectsOf(conditionOf(body)['properties']).length === 0
  let total = 0
  let reached = 0
  for (const subject of inTime(subjectsOf(typeIndexOf(body), set, stored))) {
    total++
    if (isForAll) {
      reached++
      continue
    }
    const { distinctId, groups } = subject
    const request = requestOf({ distinctId, groups, nowMs, flagKeys: [TRIAL_KEY] })
    const { decisions } = decide(compiled, request, subject.sources)
    if (decisions.some(({ flag, isEnabled }) => flag.id === TRIAL_ID && isEnabled)) reached++
  }
  return { users_affected: reached, total_users: total }
}

/** The answer of a rehearsal, as it is sent. */
export interface RehearsalAnswer extends RehearsalReport {
  readonly is_new: boolean
  /** Null: persons were decided about. */
  readonly group_type_index: number | null
  /** All persons or groups; an estimate when not all of them were decided about. */
  readonly total: number
}

/**
 * Decides about up to `sampleMax` persons, or groups where the flag is by group, spread over all of them, by
 * the flags as they are and as a plan makes them. Throws 503 when it takes too long.
 */
export function rehearse(
  { before, after }: FlagPlan,
  sampleMax: number,
  set: FlagSet,
  stored: DecisionSourceReader,
  nowMs: number,
): RehearsalAnswer {
  const others = set.flags.filter(({ id }) => id !== after.id)
  const flags = [...others, after].sort((one, other) => one.id - other.id)
  const compiled = compileFlags(set)
  const changed = compileFlags({ ...set, flags }, compiled)
  const typeIndex = readTypeIndex(after.filters['aggregation_group_type_index'] ?? null)
  const count =
    typeIndex === null
      ? stored.personCount(set.projectId)
      : countOf(inTime(stored.groups(set.projectId, typeIndex)))
  const every = Math.max(1, Math.ceil(count / sampleMax))
  const rehearsal = new Rehearsal(compiled, changed, after.key, nowMs)
  for (const subject of inTime(subjectsOf(typeIndex, set, stored, every))) rehearsal.put(subject)
  const report = rehearsal.report()
  const total = every === 1 ? report.sampled : count
  return { is_new: before === null, group_type_index: typeIndex, total, ...report }
}

/** How many a body wants to be decided about. Throws 400. */
export function sampleOf(sample: unknown): number {
  if (sample === undefined || sample === null) return REHEARSAL_SAMPLE_USUAL
  const isNumber = typeof sample === 'number' && Number.isInteger(sample)
  if (isNumber && sample >= 1 && sample <= REHEARSAL_SAMPLE_MAX) return sample
  const detail = `sample must be a whole number from 1 to ${REHEARSAL_SAMPLE_MAX}`
  throw new ServiceError('invalid_input', detail, { attr: 'sample' })
}

/** The same things, until there is no time left. Throws 503 then. */
function* inTime<T>(things: Iterable<T>): Generator<T> {
  const deadline = performance.now() + REACH_COUNT_MS_MAX
  let count = 0
  for (const thing of things) {
    if (count++ % CLOCK_EVERY === 0 && performance.now() > deadline) {
      throw refusal('count_slow', { limit: REACH_COUNT_MS_MAX / 1000 })
    }
    yield thing
  }
}

function countOf(things: Iterable<unknown>): number {
  let count = 0
  for (const _ of things) count++
  return count
}

/** All persons, or all groups of a type; of every so many one. */
function* subjectsOf(
  typeIndex: number | null,
  set: FlagSet,
  stored: DecisionSourceReader,
  every = 1,
): Generator<Subject> {
  const { projectId } = set
  if (typeIndex === null) {
    for (const { number, distinctId, properties } of stored.persons(projectId, every)) {
      const sources: DecisionSources = {
        ...NO_SOURCES,
        personProperties: () => properties,
        isInStaticCohort: (cohortId) => stored.isMember(projectId, cohortId, number),
        continuityOverrides: () => stored.overrides(projectId, number),
      }
      yield { distinctId, groups: NOTHING, sources }
    }
    return
  }
  const type = set.groupTypes.get(typeIndex)
  if (type === undefined) return
  let place = 0
  for (const { key, properties } of stored.groups(projectId, typeIndex)) {
    if (place++ % every !== 0) continue
    const groupProperties = (index: number): JsonObject | null =>
      index === typeIndex ? properties : null
    yield { distinctId: '', groups: { [type]: key }, sources: { ...NO_SOURCES, groupProperties } }
  }
}

const NO_SOURCES: DecisionSources = {
  personProperties: () => null,
  groupProperties: () => null,
  isInStaticCohort: () => false,
  continuityOverrides: () => new Map(),
}

/** A flag with nothing but the condition. */
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

/** The body has no field `filters`: refusals name none. */
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
  if (!Object.hasOwn(body, 'condition')) throw invalid('condition is missing: send {} for everyone')
  const { condition } = body
  if (condition === null) return NOTHING
  if (!isObject(condition)) throw invalid('condition must be an object, or null for everyone')
  return condition
}

function typeIndexOf(body: JsonObject): number | null {
  return readTypeIndex(Object.hasOwn(body, 'group_type_index') ? body['group_type_index'] : null)
}

function readTypeIndex(index: unknown): number | null {
  if (index === null) return null
  if (typeof index === 'number' && [0, 1, 2, 3, 4].includes(index)) return index
  throw invalid('group_type_index must be a whole number from 0 to 4, or null for persons')
}

function invalid(detail: string): ServiceError {
  return new ServiceError('invalid_input', detail)
}
