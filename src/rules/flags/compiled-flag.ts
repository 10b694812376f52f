/**
 * A compiled flag. Its stored filters, which may have any shape, are read once, and the flag can then be evaluated for
 * each request. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { FlagHashes, holdoutHash, isWithin, type Variant, variantAt } from './bucketing.ts'
import { type CompiledFilter, compileFilters } from './compiled-filters.ts'
import { compileEnrollment, type Enrollment } from './enrollment.ts'
import type { Evaluation } from './evaluation.ts'
import { FlagOutcomes } from './flag-outcomes.ts'
import { type Holdout, readHoldout } from './holdout.ts'
import type { Flag, FlagDecision } from './types.ts'

/** A condition of a flag in the form in which it is evaluated. */
export interface CompiledCondition {
  readonly stored: unknown
  /** The group type that the condition is about. Null means persons. */
  readonly aggregation: number | null
  readonly filters: readonly CompiledFilter[]
  /**
   * The percentage of persons or groups that get the flag, from 0 to 100. NaN if the stored value is not a number;
   * nobody then gets the flag.
   */
  readonly rolloutPercentage: number
  /** The index of the variant that the condition gives to everybody. -1 if the hash decides about the variant. */
  readonly forcedVariant: number
}

/**
 * The priorities of the reasons why a condition did not match. If no condition matches, the reason with the highest
 * number is reported. If several conditions have that reason, the last of them is reported.
 */
const SCORES = { none: 0, no_group_type: 1, no_condition_match: 2, out_of_rollout_bound: 3 }

/** A flag that is ready to be decided. */
export class CompiledFlag {
  readonly flag: Flag
  readonly conditions: readonly CompiledCondition[]
  readonly outcomes: FlagOutcomes
  /**
   * If true, the evaluation stops at the first condition whose filters match, even if the rollout of that condition
   * excludes the identifier.
   */
  readonly hasEarlyExit: boolean
  readonly hashes: FlagHashes
  /** True if a decision may need the rollout hash. `hasVariants` is true if it may need the variant hash. */
  readonly hasRollout: boolean
  readonly hasVariants: boolean
  readonly #variants: readonly Variant[]
  readonly #aggregation: number | null
  readonly #enrollment: Enrollment | null
  readonly #holdout: Holdout | null
  readonly #isDeviceBucketed: boolean
  readonly #hasContinuity: boolean

  /**
   * Compiles a flag. It never throws. The cost is linear in the size of the filters, apart from the cost of compiling
   * patterns.
   */
  constructor(flag: Flag, timezone: string) {
    const filters = isObject(flag.filters) ? flag.filters : {}
    this.flag = flag
    this.outcomes = new FlagOutcomes(flag)
    this.hashes = new FlagHashes(flag.key)
    this.#variants = readVariants(filters['multivariate'])
    this.#aggregation = readTypeIndex(filters['aggregation_group_type_index'])
    this.#isDeviceBucketed = flag.bucketingIdentifier === 'device_id'
    this.#hasContinuity = flag.ensureExperienceContinuity === true && !this.#isDeviceBucketed
    this.hasEarlyExit = filters['early_exit'] === true
    this.#holdout = readHoldout(filters)
    this.#enrollment = compileEnrollment(flag.key, filters, (stored) => {
      // Enrollment always concerns persons, even if the flag concerns groups.
      const condition = this.#compileCondition(stored, null, timezone)
      return (evaluation) =>
        !this.#lacksDevice(evaluation) &&
        passesAll(condition.filters, evaluation) &&
        this.#isRolledOut(condition, evaluation)
    })
    const hasGroups = Object.hasOwn(filters, 'groups')
    const groups: readonly unknown[] = hasGroups
      ? listOf(filters['groups'])
      : [{ properties: filters['properties'] ?? null }]
    this.conditions = groups.map((stored) =>
      this.#compileCondition(stored, this.#aggregation, timezone),
    )
    this.hasRollout = this.conditions.some(({ rolloutPercentage }) => rolloutPercentage !== 100)
    this.hasVariants = this.#variants.length > 0
  }

  /** Returns the decision of the flag. Throws `EvaluationFailure` if it cannot be computed. */
  decide(evaluation: Evaluation): FlagDecision {
    // Overrides are the stored identifiers of experience continuity. They are read even if nothing has to be hashed,
    // because reading them for an anonymous id also stores new ones.
    if (this.#hasContinuity && evaluation.request.anonDistinctId !== null) {
      evaluation.continuityOverrides()
    }
    const enrolled = this.#enrollment === null ? null : this.#enrollment(evaluation)
    if (enrolled !== null) return this.outcomes.enrolled(enrolled)
    const holdout = this.#holdout
    if (holdout !== null && this.#isHeldOut(holdout, evaluation)) {
      return this.outcomes.heldOut(holdout.variant)
    }
    return this.#decideByConditions(evaluation)
  }

  /** Returns the hash that is compared with the rollout of a condition, from 0 to 1. Throws `EvaluationFailure`. */
  hashOf(condition: CompiledCondition, evaluation: Evaluation): number {
    return this.hashes.rolloutOf(this.#identifier(condition.aggregation, evaluation))
  }

  /**
   * Returns the reason why a condition cannot be evaluated: the request names no group of its type, or no device.
   * Returns null if the condition can be evaluated.
   */
  obstacleOf(
    { aggregation }: CompiledCondition,
    evaluation: Evaluation,
  ): 'no_group_type' | 'no_device' | null {
    if (aggregation !== null) {
      return evaluation.groupKey(aggregation) === null ? 'no_group_type' : null
    }
    return this.#lacksDevice(evaluation) ? 'no_device' : null
  }

  /** Returns whether the flag hashes the device and the request names no device. */
  #lacksDevice(evaluation: Evaluation): boolean {
    return this.#isDeviceBucketed && evaluation.device() === ''
  }

  #decideByConditions(evaluation: Evaluation): FlagDecision {
    let best: keyof typeof SCORES = 'none'
    let bestIndex = 0
    let isGroupSkipped = false
    for (let index = 0; index < this.conditions.length; index++) {
      const condition = this.conditions[index]
      if (condition === undefined) break
      let miss: keyof typeof SCORES = 'out_of_rollout_bound'
      const obstacle = this.obstacleOf(condition, evaluation)
      if (obstacle === 'no_group_type') {
        miss = obstacle
        isGroupSkipped = true
      } else if (obstacle === null) {
        if (!passesAll(condition.filters, evaluation)) miss = 'no_condition_match'
        else if (this.#isRolledOut(condition, evaluation)) {
          return this.#match(condition, index, evaluation)
        } else if (this.hasEarlyExit) return this.outcomes.missed(miss, index)
      }
      if (SCORES[miss] >= SCORES[best]) {
        best = miss
        bestIndex = index
      }
    }
    if (best === 'none') return this.outcomes.missed('no_condition_match', -1)
    if (best === 'no_condition_match' && isGroupSkipped) {
      return this.outcomes.missed('no_condition_match_without_groups', bestIndex)
    }
    return this.outcomes.missed(best, bestIndex)
  }

  #isRolledOut(condition: CompiledCondition, evaluation: Evaluation): boolean {
    const { rolloutPercentage } = condition
    if (rolloutPercentage === 100) return true
    return isWithin(this.hashOf(condition, evaluation), rolloutPercentage)
  }

  #match(condition: CompiledCondition, index: number, evaluation: Evaluation): FlagDecision {
    let variantIndex = condition.forcedVariant
    if (variantIndex === -1 && this.#variants.length > 0) {
      const identifier = this.#identifier(condition.aggregation, evaluation)
      variantIndex = variantAt(this.hashes.variantOf(identifier), this.#variants)
    }
    return this.outcomes.matched(index, variantIndex, this.#variants[variantIndex]?.key ?? null)
  }

  #isHeldOut({ percentage }: Holdout, evaluation: Evaluation): boolean {
    if (percentage === 100) return true
    const identifier =
      this.#aggregation === null
        ? this.#personIdentifier(evaluation, false)
        : this.#identifier(this.#aggregation, evaluation)
    return isWithin(holdoutHash(identifier), percentage)
  }

  #identifier(aggregation: number | null, evaluation: Evaluation): string {
    if (aggregation === null) return this.#personIdentifier(evaluation, true)
    return evaluation.groupKey(aggregation) ?? ''
  }

  #personIdentifier(evaluation: Evaluation, hasOverrides: boolean): string {
    if (this.#isDeviceBucketed) {
      const device = evaluation.device()
      if (device !== '') return device
    }
    if (!this.#hasContinuity) return evaluation.request.distinctId
    const override = hasOverrides ? evaluation.continuityOverrides().get(this.flag.key) : undefined
    const { anonDistinctId, distinctId } = evaluation.request
    return override ?? (anonDistinctId || distinctId)
  }

  #compileCondition(
    stored: unknown,
    flagAggregation: number | null,
    timezone: string,
  ): CompiledCondition {
    const condition: JsonObject = isObject(stored) ? stored : { rollout_percentage: Number.NaN }
    const aggregation = Object.hasOwn(condition, 'aggregation_group_type_index')
      ? readTypeIndex(condition['aggregation_group_type_index'])
      : flagAggregation
    const forced = condition['variant']
    return {
      stored,
      aggregation,
      filters: compileFilters(condition['properties'], { timezone, aggregation }),
      rolloutPercentage: readPercentage(condition['rollout_percentage']),
      forcedVariant: this.#variants.findIndex(({ key }) => key === forced),
    }
  }
}

function passesAll(filters: readonly CompiledFilter[], evaluation: Evaluation): boolean {
  for (const filter of filters) if (!filter.passes(evaluation)) return false
  return true
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Returns a stored rollout percentage. Null or an absent value means 100. */
function readPercentage(value: unknown): number {
  if (value === null || value === undefined) return 100
  return typeof value === 'number' ? value : Number.NaN
}

function readTypeIndex(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function readVariants(multivariate: unknown): readonly Variant[] {
  if (!isObject(multivariate)) return []
  return objectsOf(multivariate['variants']).flatMap((variant) => {
    const { key, rollout_percentage: percentage } = variant
    if (typeof key !== 'string') return []
    return [{ key, rolloutPercentage: typeof percentage === 'number' ? percentage : 0 }]
  })
}
