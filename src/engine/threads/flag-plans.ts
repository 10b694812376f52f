/**
 * Plans the change of several flags at once, with the number of persons or groups for which each change would alter the
 * value. Every person is read once for all flags. Like other counts, a plan runs in short parts (blast-radius.ts).
 */
import { ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import { compileFlags } from '../../rules/flags/compile.ts'
import { changeSentences } from '../../rules/flags/edit/change-sentences.ts'
import {
  type FlagChangeCheck,
  type PlannedAction,
  type PlannedFlag,
  planFlags,
  plannedSet,
} from '../../rules/flags/edit/flag-plan.ts'
import { portableFlag } from '../../rules/flags/edit/portable-flag.ts'
import {
  newTally,
  Rehearsal,
  type RehearsalTally,
  type Subject,
} from '../../rules/flags/rehearsal.ts'
import type { FlagCohort, FlagSet } from '../../rules/flags/types.ts'
import type { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import {
  beginning,
  type CountState,
  countOn,
  type Piece,
  type RehearsalAnswer,
  readTypeIndex,
  recordCount,
  subjectsOf,
} from './blast-radius.ts'

/** A request for a plan. */
export interface FlagPlanTask {
  readonly projectId: number
  readonly timezone: string
  readonly nowMs: number
  /** The flags as they should become, in the form of docs/FLAGS-IN-FILES.md. No two have the same key. */
  readonly flags: readonly JsonObject[]
  /** Cohorts that a copy will create in the project. The plan treats them as if they existed. */
  readonly cohorts?: readonly FlagCohort[]
  /** The number of persons or groups to evaluate. 0 means that the plan needs no numbers. */
  readonly sampleMax: number
}

/** The effect of changing one flag, without examples. */
export type PlannedEffect = Omit<RehearsalAnswer, 'examples' | 'is_new'>

/** One flag of a plan, in the form in which clients get it. */
export interface PlanRow {
  readonly key: string
  readonly action: PlannedAction
  /** The number of the flag, or null for a new flag. */
  readonly id: number | null
  /** The version of the flag before the change, or null for a new flag. */
  readonly version: number | null
  /** Sentences that say what changes. */
  readonly changes: readonly string[]
  /**
   * The number of persons or groups for which the flag would have another value. Null if nothing changes, or if no
   * numbers were requested.
   */
  readonly effect: PlannedEffect | null
}

/** A plan, in the form in which clients get it. */
export interface PlanAnswer {
  /** The flags in the order in which they are changed. */
  readonly flags: readonly PlanRow[]
  /** The flags that cannot be changed as requested, and why. A plan with faults cannot be applied. */
  readonly faults: readonly { readonly key: string; readonly detail: string }[]
}

/** The progress of a plan. It is plain data, so that any thread can continue it. */
export interface PlanState {
  /**
   * The passes over the stored records that are not finished, the current one first. An entry is the index of the group
   * type whose groups the pass evaluates, or null for a pass over all persons.
   */
  readonly passes: readonly (number | null)[]
  readonly count: CountState<RehearsalTally[]> | null
  readonly effects: readonly (readonly [key: string, effect: PlannedEffect])[]
}

/**
 * Runs the next part of a plan. If `check` refuses a change, the reason becomes a fault of the plan. Throws 503 if the
 * plan takes too long.
 */
export function planPiece(
  { flags: wanted, nowMs, sampleMax, cohorts = [] }: FlagPlanTask,
  current: FlagSet,
  stored: DecisionSourceReader,
  check: FlagChangeCheck,
  begun?: PlanState,
): Piece<PlanState, PlanAnswer> {
  const assumed = cohorts.map((cohort) => [cohort.id, cohort] as const)
  const set = { ...current, cohorts: new Map([...current.cohorts, ...assumed]) }
  const plan = planFlags(wanted, set, nowMs, check)
  const changed = sampleMax === 0 ? [] : plan.flags.filter(({ action }) => action !== 'none')
  const state = begun ?? { passes: [...new Set(changed.map(typeOf))], count: null, effects: [] }
  const [typeIndex, ...passes] = state.passes
  const after = plannedSet(set, plan)
  if (typeIndex === undefined) {
    const effects = new Map(state.effects)
    const rows = plan.flags.map((flag) => rowOf(flag, set, after, effects.get(flag.key) ?? null))
    return { answer: { flags: rows, faults: plan.faults } }
  }
  const before = compileFlags(set)
  const compiled = compileFlags(after, before)
  const counted = changed.filter((flag) => typeOf(flag) === typeIndex)
  const count =
    state.count ?? beginning(counted.map(newTally), recordCount(typeIndex, set, stored), sampleMax)
  const rehearsals = counted.map(
    ({ key }, index) =>
      new Rehearsal({ before, after: compiled, key }, nowMs, count.tally[index] ?? newTally()),
  )
  const subjects = subjectsOf(typeIndex, set, stored, count)
  const put = (subject: Subject) => {
    for (const rehearsal of rehearsals) rehearsal.put(subject)
  }
  const rest = countOn(count, subjects, put, 'plan_slow')
  if (rest !== null) return { rest: { ...state, count: rest } }
  const effects = rehearsals.map((rehearsal, index): readonly [string, PlannedEffect] => {
    const { examples: _, ...report } = rehearsal.report()
    const all = count.every === 1 ? report.sampled : count.total
    return [counted[index]?.key ?? '', { group_type_index: typeIndex, total: all, ...report }]
  })
  return { rest: { passes, count: null, effects: [...state.effects, ...effects] } }
}

/**
 * Throws 409 `conflict` if `versions` is not exactly the list of the flags that the plan changes, with their present
 * versions. Throws 400 if a flag cannot be changed. Does not check whether objects that use a flag allow the change,
 * because the store checks that when it changes the flag.
 */
export function requirePlanned(
  wanted: readonly JsonObject[],
  versions: JsonObject,
  set: FlagSet,
  nowMs: number,
): readonly PlannedFlag[] {
  const { flags, faults } = planFlags(wanted, set, nowMs)
  const [fault] = faults
  if (fault !== undefined) {
    throw new ServiceError('invalid_input', `The flag \`${fault.key}\`: ${fault.detail}`)
  }
  const changed = flags.filter(({ action }) => action !== 'none')
  const known = new Map(changed.map(({ key, before }) => [key, before?.version ?? null]))
  const names = [...new Set([...known.keys(), ...Object.keys(versions)])]
  const other = names.filter((key) => {
    return !Object.hasOwn(versions, key) || versions[key] !== known.get(key)
  })
  if (other.length === 0) return changed
  const detail = `These flags have changed since the plan was made: ${other.join(', ')}. Nothing was changed. Make a new plan.`
  throw new ServiceError('conflict', detail)
}

function typeOf({ before, after }: PlannedFlag): number | null {
  const flag = after ?? before
  return readTypeIndex(flag?.filters['aggregation_group_type_index'] ?? null)
}

function rowOf(
  { key, action, before, after }: PlannedFlag,
  set: FlagSet,
  planned: FlagSet,
  effect: PlannedEffect | null,
): PlanRow {
  const old = before === null ? null : portableFlag(before, set)
  const changes =
    action === 'none'
      ? []
      : after === null
        ? ['The flag is deleted.']
        : changeSentences(old, portableFlag(after, planned))
  return { key, action, id: before?.id ?? null, version: before?.version ?? null, changes, effect }
}
