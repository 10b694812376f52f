/**
 * Computes the effect of a change of a flag. The flag is decided twice for each person or group: with the current flags
 * and with the changed ones. The result counts the persons or groups whose value differs. Overrides, cohorts and other
 * flags take part as in any decision.
 */
import type { JsonObject } from '../../base/json.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { CompiledFlags } from './compile.ts'
import { decide, requestOf } from './decide.ts'
import { shownValue } from './flag-outcomes.ts'
import { REHEARSAL_EXAMPLES_MAX, REHEARSAL_FLIPS_MAX } from './limits.ts'
import type { DecisionSources, FlagDecision } from './types.ts'

/** A person or group for which the flag is decided. Only a group has members in `groups`. */
export interface Subject {
  readonly distinctId: string
  readonly groups: JsonObject
  readonly sources: DecisionSources
}

type Value = string | boolean

/**
 * A change of value, as answers show it. `from_condition` and `to_condition` are the indexes of the conditions that
 * matched before and after the change. They are null if none matched.
 */
interface Flip {
  readonly from: Value
  readonly to: Value
  readonly from_condition: number | null
  readonly to_condition: number | null
}

/** The result of a rehearsal, as answers show it. */
export interface RehearsalReport {
  /** The number of subjects that were decided. */
  readonly sampled: number
  /** The number of subjects whose value changes. */
  readonly changed: number
  /** The number of subjects that could not be decided with the changed flags. They count as off. */
  readonly failed: number
  /** For each value, the number of subjects that have it before and after the change. */
  readonly values: readonly {
    readonly value: Value
    readonly before: number
    readonly after: number
  }[]
  /** The changes of value, most frequent first. */
  readonly flips: readonly (Flip & { readonly count: number })[]
  /** The first subjects whose value changes, with the change. */
  readonly examples: readonly (Flip & {
    readonly distinct_id: string | null
    readonly group_key: string | null
  })[]
}

/** The counts of a rehearsal so far. They are plain data, so that a rehearsal can continue on another thread. */
export interface RehearsalTally {
  readonly values: Map<Value, { before: number; after: number }>
  readonly flips: Map<string, Flip & { count: number }>
  readonly examples: RehearsalReport['examples'][number][]
  sampled: number
  changed: number
  failed: number
}

/** Returns the empty tally that a rehearsal starts with. */
export function newTally(): RehearsalTally {
  return { values: new Map(), flips: new Map(), examples: [], sampled: 0, changed: 0, failed: 0 }
}

/** Decides about subjects one by one and counts the results. */
export class Rehearsal {
  readonly #before: CompiledFlags
  readonly #after: CompiledFlags
  readonly #key: string
  readonly #nowMs: number
  readonly #tally: RehearsalTally

  /**
   * `before` and `after` are compiled flags of the same project. `key` names the flag that differs in `after`. The
   * counts are added to `tally`.
   */
  constructor(
    flags: { readonly before: CompiledFlags; readonly after: CompiledFlags; readonly key: string },
    nowMs: number,
    tally: RehearsalTally,
  ) {
    this.#before = flags.before
    this.#after = flags.after
    this.#key = flags.key
    this.#nowMs = nowMs
    this.#tally = tally
  }

  /** Decides about one subject with both sets of flags, and counts the result. It costs as much as two decisions. */
  put(subject: Subject): void {
    const before = this.#decide(this.#before, subject)
    const after = this.#decide(this.#after, subject)
    const flip: Flip = {
      from: valueOfDecision(before),
      to: valueOfDecision(after),
      from_condition: conditionOf(before),
      to_condition: conditionOf(after),
    }
    const tally = this.#tally
    tally.sampled++
    if (after?.isFailed === true) tally.failed++
    this.#countOf(flip.from).before++
    this.#countOf(flip.to).after++
    if (flip.from === flip.to) return
    tally.changed++
    getOrAdd(tally.flips, JSON.stringify(flip), () => ({ ...flip, count: 0 })).count++
    if (tally.examples.length === REHEARSAL_EXAMPLES_MAX) return
    const [groupKey] = Object.values(subject.groups)
    tally.examples.push({
      distinct_id: groupKey === undefined ? subject.distinctId : null,
      group_key: groupKey === undefined ? null : String(groupKey),
      ...flip,
    })
  }

  report(): RehearsalReport {
    const { sampled, changed, failed, values, flips, examples } = this.#tally
    return {
      sampled,
      changed,
      failed,
      values: [...values].map(([value, counts]) => ({ value, ...counts })),
      flips: [...flips.values()]
        .sort((one, other) => other.count - one.count)
        .slice(0, REHEARSAL_FLIPS_MAX),
      examples,
    }
  }

  #decide(compiled: CompiledFlags, { distinctId, groups, sources }: Subject) {
    const request = requestOf({ distinctId, groups, nowMs: this.#nowMs, flagKeys: [this.#key] })
    const { decisions } = decide(compiled, request, sources)
    return decisions.find(({ flag }) => flag.key === this.#key)
  }

  #countOf(value: Value): { before: number; after: number } {
    return getOrAdd(this.#tally.values, value, () => ({ before: 0, after: 0 }))
  }
}

/** Returns the value of a decision. A flag that takes no part in decisions is off. */
function valueOfDecision(decision: FlagDecision | undefined): Value {
  return decision === undefined ? false : shownValue(decision)
}

function conditionOf(decision: FlagDecision | undefined): number | null {
  return decision?.isEnabled === true ? decision.conditionIndex : null
}
