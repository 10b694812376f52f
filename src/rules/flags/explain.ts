/**
 * Why a flag is what it is for a request: each condition with the filter that failed or the rollout that
 * left the identifier out, and what decided. For people; decisions themselves do not come this way.
 */
import type { CompiledFlags } from './compile.ts'
import type { CompiledCondition, CompiledFlag } from './compiled-flag.ts'
import { decide } from './decide.ts'
import { Evaluation } from './evaluation.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import type { DecisionReason, DecisionRequest, DecisionSources, FlagDecision } from './types.ts'

/** What became of a condition; `not_reached` when an earlier one or something else decided. */
export type ConditionOutcome =
  | 'matched'
  | 'filter_failed'
  | 'rollout_excluded'
  | 'no_group'
  | 'no_device'
  | 'failed'
  | 'not_reached'

/** The story of one condition. */
export interface ConditionExplanation {
  /** From 0, in stored order. */
  readonly index: number
  readonly outcome: ConditionOutcome
  /** The filter that decided against the condition: its place in the stored list, and as it is stored. */
  readonly failedFilter: { readonly index: number; readonly filter: unknown } | null
  /** 0..100. */
  readonly rolloutPercentage: number
  /** The hash of the identifier, 0..1, when the rollout was asked: it has to be at most percentage / 100. */
  readonly hash: number | null
  /** Why the condition could not be computed, when it could not. */
  readonly failure: DecisionReason | null
}

/** The story of a flag. */
export interface FlagExplanation {
  readonly decision: FlagDecision
  readonly conditions: readonly ConditionExplanation[]
}

/**
 * Explains an active flag that takes part in the request; null for any other key. Cost: that of the
 * decision, twice.
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
  const evaluation = new Evaluation(narrow, sources, compiled.rules)
  for (const other of decisions) evaluation.decided.set(other.flag.id, other)
  return { decision, conditions: explainConditions(flag, decision, evaluation) }
}

function explainConditions(
  flag: CompiledFlag,
  decision: FlagDecision,
  evaluation: Evaluation,
): readonly ConditionExplanation[] {
  // Conditions count only when they decided: neither enrollment nor a holdout nor a broken dependency did.
  const isByConditions =
    decision.reason === 'condition_match' ||
    decision.isFailed ||
    decision.reason === 'no_condition_match' ||
    decision.reason === 'no_group_type' ||
    decision.reason === 'out_of_rollout_bound'
  let isReached = isByConditions
  return flag.conditions.map((condition, index) => {
    if (!isReached) return notReached(condition, index)
    const explained = explainCondition(flag, condition, index, evaluation)
    if (explained.outcome === 'matched' || explained.outcome === 'failed') isReached = false
    if (flag.hasEarlyExit && explained.outcome === 'rollout_excluded') isReached = false
    return explained
  })
}

function notReached(condition: CompiledCondition, index: number): ConditionExplanation {
  const { rolloutPercentage } = condition
  const nothing = { failedFilter: null, hash: null, failure: null }
  return { index, outcome: 'not_reached', rolloutPercentage, ...nothing }
}

function explainCondition(
  flag: CompiledFlag,
  condition: CompiledCondition,
  index: number,
  evaluation: Evaluation,
): ConditionExplanation {
  const story = notReached(condition, index)
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
