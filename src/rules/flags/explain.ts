/**
 * Explains the value of a flag for a request. For each condition it reports whether it matched, which filter failed, or
 * that the rollout excluded the identifier. It is meant for people; decisions do not use it.
 */
import { isObject } from '../../base/json.ts'
import type { CompiledFlags } from './compile.ts'
import type { CompiledCondition, CompiledFlag } from './compiled-flag.ts'
import { decide } from './decide.ts'
import { Evaluation } from './evaluation.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import { shownValue } from './flag-outcomes.ts'
import { referenceOf } from './flag-references.ts'
import { standInFor } from './initial-properties.ts'
import type {
  DecisionReason,
  DecisionRequest,
  DecisionSources,
  Flag,
  FlagDecision,
} from './types.ts'

/**
 * The outcome of a condition. It is `not_reached` if the decision was made without it, for example by an earlier
 * condition.
 */
export type ConditionOutcome =
  | 'matched'
  | 'filter_failed'
  | 'rollout_excluded'
  | 'no_group'
  | 'no_device'
  | 'failed'
  | 'not_reached'

/**
 * A filter of a condition and the value that it reads. Both are given for each filter, even if the decision did not
 * evaluate it.
 */
interface FilterExplanation {
  readonly filter: unknown
  /**
   * The value that the filter reads. For a property it is the given or stored value, for a cohort whether the person
   * belongs to it, and for a flag its value. Absent if there is no value.
   */
  readonly value?: unknown
  /** True if the filter passes. Null if this could not be computed. */
  readonly passes: boolean | null
}

/** The explanation of one condition. */
export interface ConditionExplanation {
  /** The index of the condition in stored order, from 0. */
  readonly index: number
  /** The condition as it is stored. */
  readonly condition: unknown
  /** The filters of the condition in stored order. */
  readonly filters: readonly FilterExplanation[]
  readonly outcome: ConditionOutcome
  /** The filter that kept the condition from matching: its index in the stored list, and its stored form. */
  readonly failedFilter: { readonly index: number; readonly filter: unknown } | null
  /** The rollout of the condition, from 0 to 100. */
  readonly rolloutPercentage: number
  /**
   * The hash of the identifier, from 0 to 1. The rollout includes the identifier if the hash is at most
   * `rolloutPercentage` / 100. Null if the rollout was not evaluated.
   */
  readonly hash: number | null
  /** The reason why the condition could not be computed, or null. */
  readonly failure: DecisionReason | null
}

/** The explanation of a flag. */
export interface FlagExplanation {
  readonly decision: FlagDecision
  /** True if a person with the distinct_id of the request is stored. Null if this could not be read. */
  readonly personExists: boolean | null
  readonly conditions: readonly ConditionExplanation[]
}

/**
 * Explains the decision of an active flag that takes part in the request. Returns null for any other key. It costs
 * twice as much as the decision.
 */
export function explainFlag(
  compiled: CompiledFlags,
  key: string,
  request: DecisionRequest,
  sources: DecisionSources,
): FlagExplanation | null {
  const flag = compiled.byKey.get(key)
  const narrow = { ...request, flagKeys: [key] }
  const { decisions } = decide(compiled, narrow, sources)
  const decision = decisions.find((candidate) => candidate.flag.key === key)
  if (flag === undefined || decision === undefined) return null
  const evaluationOf = (): Evaluation => {
    const evaluation = new Evaluation(narrow, sources, compiled.rules)
    for (const other of decisions) evaluation.decided.set(other.flag.id, other)
    return evaluation
  }
  const conditions = explainConditions(flag, decision, evaluationOf())
  // The explanation reads more data than the decision did. It has an evaluation of its own, so that these reads do not
  // count against the limits of the decision.
  const looking = evaluationOf()
  return {
    decision,
    personExists: orFailure(() => looking.hasPerson()),
    conditions: conditions.map((story, index) => ({
      ...story,
      condition: flag.conditions[index]?.stored,
      filters: explainFilters(flag.conditions[index], looking),
    })),
  }
}

/**
 * Returns the JSON of an explanation, for answers and for `tenrec flag explain --json`. `explanation` is null if the
 * flag takes no part in decisions. If `hasValues` is false, the JSON contains no stored data of the person and the
 * groups, and does not say whether the person exists.
 */
export function explanationBody(
  flag: Flag,
  explanation: FlagExplanation | null,
  hasValues: boolean,
) {
  const decision = explanation?.decision
  return {
    key: flag.key,
    active: decision !== undefined,
    value: decision === undefined ? false : shownValue(decision),
    enabled: decision?.isEnabled ?? false,
    variant: decision?.variant ?? null,
    reason: decision?.reason ?? 'disabled',
    description: decision?.description ?? 'The flag is not active: it is left out of every answer',
    condition_index: decision?.conditionIndex ?? null,
    payload: decision?.payload ?? null,
    person_exists: hasValues ? (explanation?.personExists ?? null) : null,
    conditions: (explanation?.conditions ?? []).map(
      ({ failedFilter, rolloutPercentage, filters, ...story }) => ({
        ...story,
        matched: story.outcome === 'matched',
        failed_filter: failedFilter,
        rollout_percentage: rolloutPercentage,
        properties: filters.map(({ value, ...filter }) =>
          hasValues ? { ...filter, value } : filter,
        ),
      }),
    ),
  }
}

/** The explanation of a condition without the stored condition and its filters, which are added at the end. */
type ConditionStory = Omit<ConditionExplanation, 'condition' | 'filters'>

function explainFilters(
  condition: CompiledCondition | undefined,
  evaluation: Evaluation,
): readonly FilterExplanation[] {
  return (condition?.filters ?? [])
    .toSorted((one, other) => one.index - other.index)
    .map(({ stored: filter, passes }) => {
      const value = orFailure(() =>
        comparedValue(filter, condition?.aggregation ?? null, evaluation),
      )
      return { filter, value, passes: orFailure(() => passes(evaluation)) }
    })
}

/** Returns the value that a filter reads, as `compileFilters` defines it. Throws `EvaluationFailure`. */
function comparedValue(
  filter: unknown,
  aggregation: number | null,
  evaluation: Evaluation,
): unknown {
  if (!isObject(filter)) return undefined
  const { key, type = aggregation === null ? 'person' : 'group' } = filter
  const { group_type_index: typeIndex = aggregation } = filter
  if (type === 'person' && typeof key === 'string') {
    return evaluation.personValue(key, standInFor(key))
  }
  if (type === 'group' && typeof key === 'string' && typeof typeIndex === 'number') {
    return evaluation.groupValue(typeIndex, key)
  }
  if (type === 'cohort') {
    const id = referenceOf(filter['value'])
    return id === null ? undefined : evaluation.isInCohort(id)
  }
  const decided = type === 'flag' ? evaluation.decided.get(referenceOf(key) ?? 0) : undefined
  return decided === undefined ? undefined : shownValue(decided)
}

/** Returns the result of `compute`, or null if `compute` throws `EvaluationFailure`. */
function orFailure<T>(compute: () => T): T | null {
  try {
    return compute()
  } catch (error) {
    if (error instanceof EvaluationFailure) return null
    throw error
  }
}

function explainConditions(
  flag: CompiledFlag,
  decision: FlagDecision,
  evaluation: Evaluation,
): readonly ConditionStory[] {
  // If an enrollment, a holdout or a broken dependency decided, no condition was reached.
  const isByConditions =
    decision.reason === 'condition_match' ||
    decision.isFailed ||
    decision.reason === 'no_condition_match' ||
    decision.reason === 'no_group_type' ||
    decision.reason === 'out_of_rollout_bound'
  let isReached = isByConditions
  return flag.conditions.map((condition, index) => {
    if (!isReached) return unreachedCondition(condition, index)
    const explained = explainCondition(flag, condition, index, evaluation)
    if (explained.outcome === 'matched' || explained.outcome === 'failed') isReached = false
    if (flag.hasEarlyExit && explained.outcome === 'rollout_excluded') isReached = false
    return explained
  })
}

function unreachedCondition(condition: CompiledCondition, index: number): ConditionStory {
  const { rolloutPercentage } = condition
  const nothing = { failedFilter: null, hash: null, failure: null }
  return { index, outcome: 'not_reached', rolloutPercentage, ...nothing }
}

function explainCondition(
  flag: CompiledFlag,
  condition: CompiledCondition,
  index: number,
  evaluation: Evaluation,
): ConditionStory {
  const story = unreachedCondition(condition, index)
  try {
    const obstacle = flag.obstacleOf(condition, evaluation)
    if (obstacle === 'no_group_type') return { ...story, outcome: 'no_group' }
    if (obstacle === 'no_device') return { ...story, outcome: 'no_device' }
    const failed = condition.filters.find((filter) => !filter.passes(evaluation))
    if (failed !== undefined) {
      const failedFilter = { index: failed.index, filter: failed.stored }
      return { ...story, outcome: 'filter_failed', failedFilter }
    }
    if (condition.rolloutPercentage === 100) return { ...story, outcome: 'matched' }
    const hash = flag.hashOf(condition, evaluation)
    const isInside = hash <= condition.rolloutPercentage / 100
    return { ...story, hash, outcome: isInside ? 'matched' : 'rollout_excluded' }
  } catch (error) {
    if (!(error instanceof EvaluationFailure)) throw error
    return { ...story, outcome: 'failed', failure: error.reason }
  }
}
