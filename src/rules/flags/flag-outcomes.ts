/**
 * All outcomes of one flag. There are few different ones, so each is created once, together with the bytes that
 * represent it in answers, and then reused. A decision therefore allocates nothing, and an answer copies the bytes of
 * each flag.
 */
import { isObject } from '../../base/json.ts'
import { hasExperiment } from './edit/flag-body.ts'
import type { DecisionReason, Flag, FlagDecision, OutcomeBytes } from './types.ts'

/** The reasons why no condition matched. */
export type Miss =
  | 'no_condition_match'
  | 'no_condition_match_without_groups'
  | 'out_of_rollout_bound'
  | 'no_group_type'

/** The name under which the payload of a flag without variants is stored. */
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

/** The outcomes of one flag. All decisions share these objects, which must not be changed, except for their counts. */
export class FlagOutcomes {
  /** The outcomes that were created so far, in the order of creation. */
  readonly made: FlagDecision[] = []
  readonly #flag: Flag
  readonly #known = new Map<string, FlagDecision>()
  /**
   * The outcomes in which a condition matched. `#matches[2][0]` is for condition 2 without a variant, and
   * `#matches[2][1]` for condition 2 with variant 0.
   */
  readonly #matches: (FlagDecision | undefined)[][] = []
  /**
   * The outcomes in which no condition matched, for each reason. The index 0 is for a flag without conditions, and the
   * index 3 for a flag of which condition 2 is reported.
   */
  readonly #misses: Readonly<Record<Miss, (FlagDecision | undefined)[]>> = {
    no_condition_match: [],
    no_condition_match_without_groups: [],
    out_of_rollout_bound: [],
    no_group_type: [],
  }

  constructor(flag: Flag) {
    this.#flag = flag
  }

  /**
   * Returns the outcome that the flag is on because a condition matched. `variantIndex` is -1 if there is no variant.
   */
  matched(conditionIndex: number, variantIndex: number, variant: string | null): FlagDecision {
    this.#matches[conditionIndex] ??= []
    const row = this.#matches[conditionIndex]
    const place = variantIndex + 1
    row[place] ??= this.#on('condition_match', variant, conditionIndex)
    return row[place]
  }

  /**
   * Returns the outcome that the flag is off because the condition with this index did not match. The index is -1 if
   * the flag has no conditions.
   */
  missed(miss: Miss, conditionIndex: number): FlagDecision {
    const row = this.#misses[miss]
    const place = conditionIndex + 1
    row[place] ??= this.#missed(miss, conditionIndex === -1 ? null : conditionIndex)
    return row[place]
  }

  /** Returns the outcome of a flag that is on or off because the person has joined or left the feature. */
  enrolled(isEnabled: boolean): FlagDecision {
    return this.#remember(`super ${isEnabled}`, () =>
      isEnabled
        ? this.#on('super_condition_value', null, 0)
        : this.#off('super_condition_value', 0),
    )
  }

  /** Returns the outcome that the flag has the variant of a holdout. */
  heldOut(variant: string): FlagDecision {
    return this.#remember('holdout', () => this.#on('holdout_condition_value', variant, null))
  }

  /** Returns the outcome that the flag is off because it depends on a missing flag or leads into a circle. */
  brokenDependency(): FlagDecision {
    return this.#remember('dependency', () => this.#off('missing_dependency', null))
  }

  /** Returns the outcome that the flag could not be computed. */
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

  /** Creates an outcome. It says that the flag is off, except for the members that `otherwise` replaces. */
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
    // The members are listed one by one, because V8 gives each object that is built with `...` a layout of its own,
    // which makes reading slow. Every decision and every answer reads as many of these objects as there are flags.
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

/** Returns the value of a flag: true, false or its variant. */
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
      has_experiment: hasExperiment(flag),
    },
  }
  const value = isEnabled && variant !== null ? JSON.stringify(variant) : String(isEnabled)
  return {
    detail: Buffer.from(`${key}:${JSON.stringify(detail)}`),
    value: Buffer.from(`${key}:${value}`),
    payload: Buffer.from(payload === null ? '' : `${key}:${JSON.stringify(payload)}`),
  }
}
