/**
 * Everything that one flag can evaluate to. There are few outcomes, so each is made once and then handed
 * out again and again: a decision allocates nothing, and who writes answers may remember by identity.
 */
import { isObject } from '../../base/json.ts'
import type { DecisionReason, Flag, FlagDecision } from './types.ts'

/** Why no condition applied. */
export type Miss =
  | 'no_condition_match'
  | 'no_condition_match_without_groups'
  | 'out_of_rollout_bound'
  | 'no_group_type'

/** Payload name of flags that are on without a variant. */
const PLAIN_PAYLOAD = 'true'
const DESCRIPTIONS: Readonly<Record<Exclude<DecisionReason, 'condition_match'>, string>> = {
  no_condition_match: 'No matching condition set',
  out_of_rollout_bound: 'Out of rollout bound',
  no_group_type: 'No group type',
  super_condition_value: 'Super condition value',
  holdout_condition_value: 'Holdout condition value',
  missing_dependency: 'Flag cannot be evaluated due to missing dependency',
  person_unavailable: 'Stored person properties cannot be read',
  group_unavailable: 'Stored group properties cannot be read',
  override_unavailable: 'Stored identifiers of experience continuity cannot be read',
  cohort_unavailable: 'A cohort cannot be computed',
  pattern_limit: 'The filters of this request cost too much',
  dependency_failed: 'A flag that this one depends on cannot be computed',
}
const WITHOUT_GROUPS =
  'No matching condition set (group conditions were not evaluated because no group type was provided)'

/** The outcomes of one flag. All objects are shared: they must not be changed. */
export class FlagOutcomes {
  readonly #flag: Flag
  readonly #known = new Map<string, FlagDecision>()
  /** By condition, then by variant with "no variant" first. */
  readonly #matches: (FlagDecision | undefined)[][] = []
  /** By condition with "no condition" first. */
  readonly #misses: Readonly<Record<Miss, (FlagDecision | undefined)[]>> = {
    no_condition_match: [],
    no_condition_match_without_groups: [],
    out_of_rollout_bound: [],
    no_group_type: [],
  }

  constructor(flag: Flag) {
    this.#flag = flag
  }

  /** On by a condition. `variantIndex` is -1 for none. */
  matched(conditionIndex: number, variantIndex: number, variant: string | null): FlagDecision {
    let row = this.#matches[conditionIndex]
    if (row === undefined) {
      row = []
      this.#matches[conditionIndex] = row
    }
    const known = row[variantIndex + 1]
    if (known !== undefined) return known
    const made = this.#on('condition_match', variant, conditionIndex)
    row[variantIndex + 1] = made
    return made
  }

  /** Off, for the condition with this index; -1 when the flag has none. */
  missed(miss: Miss, conditionIndex: number): FlagDecision {
    const row = this.#misses[miss]
    const known = row[conditionIndex + 1]
    if (known !== undefined) return known
    const isWithoutGroups = miss === 'no_condition_match_without_groups'
    const decision = this.#off(
      isWithoutGroups ? 'no_condition_match' : miss,
      conditionIndex === -1 ? null : conditionIndex,
    )
    const made = isWithoutGroups ? { ...decision, description: WITHOUT_GROUPS } : decision
    row[conditionIndex + 1] = made
    return made
  }

  /** On or off because the person has decided to take part or not. */
  enrolled(isEnabled: boolean): FlagDecision {
    return this.#remember(`super ${isEnabled}`, () =>
      isEnabled
        ? this.#on('super_condition_value', null, 0)
        : this.#off('super_condition_value', 0),
    )
  }

  /** On with the variant of a holdout. */
  heldOut(variant: string): FlagDecision {
    return this.#remember('holdout', () => this.#on('holdout_condition_value', variant, null))
  }

  /** Off, because it leads to a missing flag or into a circle. */
  brokenDependency(): FlagDecision {
    return this.#remember('dependency', () => this.#off('missing_dependency', null))
  }

  /** It could not be computed. */
  failed(reason: DecisionReason): FlagDecision {
    return this.#remember(`failed ${reason}`, () => ({
      ...this.#off(reason, null),
      isFailed: true,
    }))
  }

  #remember(name: string, make: () => FlagDecision): FlagDecision {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const made = make()
    this.#known.set(name, made)
    return made
  }

  #on(reason: DecisionReason, variant: string | null, index: number | null): FlagDecision {
    const payload = this.#payload(variant ?? PLAIN_PAYLOAD)
    return { ...this.#off(reason, index), isEnabled: true, variant, payload }
  }

  #off(reason: DecisionReason, conditionIndex: number | null): FlagDecision {
    const description =
      reason === 'condition_match'
        ? `Matched condition set ${(conditionIndex ?? 0) + 1}`
        : DESCRIPTIONS[reason]
    return {
      flag: this.#flag,
      isEnabled: false,
      variant: null,
      reason,
      conditionIndex,
      description,
      payload: null,
      isFailed: false,
    }
  }

  #payload(name: string): string | null {
    const { filters } = this.#flag
    const payloads = isObject(filters) ? filters['payloads'] : null
    if (!isObject(payloads) || !Object.hasOwn(payloads, name)) return null
    const payload = payloads[name]
    if (payload === null || typeof payload === 'string') return payload
    return JSON.stringify(payload) ?? null
  }
}
