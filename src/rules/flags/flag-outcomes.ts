/**
 * Everything that one flag can evaluate to. There are few outcomes, so each is made once, with the bytes
 * that answers have of it, and then handed out again and again: a decision allocates nothing, and an answer
 * costs a copy for each flag.
 */
import { isObject } from '../../base/json.ts'
import type { DecisionReason, Flag, FlagDecision, OutcomeBytes } from './types.ts'

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

/** The outcomes of one flag. All objects are shared: they must not be changed, but for their counts. */
export class FlagOutcomes {
  /** Those that there have been so far. */
  readonly made: FlagDecision[] = []
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
    this.#matches[conditionIndex] ??= []
    const row = this.#matches[conditionIndex]
    const place = variantIndex + 1
    row[place] ??= this.#on('condition_match', variant, conditionIndex)
    return row[place]
  }

  /** Off, for the condition with this index; -1 when the flag has none. */
  missed(miss: Miss, conditionIndex: number): FlagDecision {
    const row = this.#misses[miss]
    const place = conditionIndex + 1
    row[place] ??= this.#missed(miss, conditionIndex === -1 ? null : conditionIndex)
    return row[place]
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
    return this.#remember(`failed ${reason}`, () => this.#off(reason, null, { isFailed: true }))
  }

  #missed(miss: Miss, index: number | null): FlagDecision {
    if (miss !== 'no_condition_match_without_groups') return this.#off(miss, index)
    return this.#off('no_condition_match', index, { description: WITHOUT_GROUPS })
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
    return this.#off(reason, index, { isEnabled: true, variant, payload })
  }

  /** Off, but for what is said otherwise. */
  #off(
    reason: DecisionReason,
    conditionIndex: number | null,
    otherwise: Partial<FlagDecision> = {},
  ): FlagDecision {
    const description =
      reason === 'condition_match'
        ? `Matched condition set ${(conditionIndex ?? 0) + 1}`
        : DESCRIPTIONS[reason]
    const said = {
      flag: this.#flag,
      isEnabled: false,
      variant: null,
      reason,
      conditionIndex,
      description,
      payload: null,
      isFailed: false,
      ...otherwise,
    }
    // Member by member: objects put together by `...` have a layout each, and every decision and every answer
    // looks at as many of them as there are flags.
    const made: FlagDecision = {
      flag: said.flag,
      isEnabled: said.isEnabled,
      variant: said.variant,
      reason: said.reason,
      conditionIndex: said.conditionIndex,
      description: said.description,
      payload: said.payload,
      isFailed: said.isFailed,
      bytes: bytesOf(said),
      count: 0,
    }
    this.made.push(made)
    return made
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

/** A flag's value: on, off, or its variant. */
export function shownValue({
  isEnabled,
  variant,
}: Pick<FlagDecision, 'isEnabled' | 'variant'>): string | boolean {
  return isEnabled ? (variant ?? true) : false
}

function bytesOf(decision: Omit<FlagDecision, 'bytes' | 'count'>): OutcomeBytes {
  const { flag, isEnabled, variant, conditionIndex, description, payload } = decision
  const key = JSON.stringify(flag.key)
  const detail = {
    key: flag.key,
    enabled: isEnabled,
    variant,
    ...(decision.isFailed ? { failed: true } : {}),
    reason: { code: decision.reason, condition_index: conditionIndex, description },
    metadata: {
      id: flag.id,
      version: flag.version,
      description: null,
      payload,
      has_experiment: false,
    },
  }
  const value = isEnabled && variant !== null ? JSON.stringify(variant) : String(isEnabled)
  return {
    detail: Buffer.from(`${key}:${JSON.stringify(detail)}`),
    value: Buffer.from(`${key}:${value}`),
    payload: Buffer.from(payload === null ? '' : `${key}:${JSON.stringify(payload)}`),
  }
}
