/** The story of a decision as lines for people, or as one line of JSON. */
import type { ConditionExplanation, FlagExplanation } from '../../rules/flags/explain.ts'
import type { Flag } from '../../rules/flags/types.ts'
import { printable } from './output.ts'

const HASH_DIGITS = 4

/** What `tenrec flag explain` prints. `explanation` null: the flag takes no part in decisions. */
export function describeExplanation(
  flag: Flag,
  explanation: FlagExplanation | null,
  isJson: boolean,
): readonly string[] {
  if (isJson) return [JSON.stringify(asJson(flag, explanation))]
  if (explanation === null) return [`${flag.key} is not active: it is left out of every answer`]
  const { decision, conditions } = explanation
  const value = decision.isEnabled ? (decision.variant ?? 'on') : 'off'
  const lines = [`${flag.key} is ${value}: ${decision.description}`]
  if (decision.payload !== null) lines.push(`payload ${decision.payload}`)
  for (const condition of conditions) lines.push(describeCondition(condition))
  return lines.map(printable)
}

function asJson(flag: Flag, explanation: FlagExplanation | null): object {
  if (explanation === null) return { key: flag.key, active: false }
  const { decision, conditions } = explanation
  return {
    key: flag.key,
    active: true,
    enabled: decision.isEnabled,
    variant: decision.variant,
    reason: decision.reason,
    condition_index: decision.conditionIndex,
    payload: decision.payload,
    conditions: conditions.map((condition) => ({
      index: condition.index,
      outcome: condition.outcome,
      failed_filter: condition.failedFilter,
      rollout_percentage: condition.rolloutPercentage,
      hash: condition.hash,
      failure: condition.failure,
    })),
  }
}

function describeCondition(condition: ConditionExplanation): string {
  return `condition ${condition.index + 1}: ${outcomeText(condition)}`
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
      return `all filters matched, but the rollout of ${percent} leaves this identifier out${place}`
    case 'no_group':
      return 'skipped: no group of its type was given'
    case 'no_device':
      return 'skipped: no device id was given'
    case 'failed':
      return `could not be computed (${failure ?? 'unknown'})`
    case 'not_reached':
      return 'not reached'
  }
}
