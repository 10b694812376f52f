/**
 * What a change of a flag would do: everybody is decided by the flags as they are and as they would be, and whose
 * value differs is counted. Overrides, cohorts and other flags take part as in any decision.
 */
import type { JsonObject } from '../../base/json.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { CompiledFlags } from './compile.ts'
import { decide, requestOf } from './decide.ts'
import { shownValue } from './flag-outcomes.ts'
import { REHEARSAL_EXAMPLES_MAX, REHEARSAL_FLIPS_MAX } from './limits.ts'
import type { DecisionSources, FlagDecision } from './types.ts'

/** Somebody to decide about: a person, or a group with `groups` alone. */
export interface Subject {
  readonly distinctId: string
  readonly groups: JsonObject
  readonly sources: DecisionSources
}

type Value = string | boolean

/** A change of value, as answers show it. Conditions are those that matched, null where none did. */
interface Flip {
  readonly from: Value
  readonly to: Value
  readonly from_condition: number | null
  readonly to_condition: number | null
}

/** What was found, as answers show it. */
export interface RehearsalReport {
  /** How many were decided. */
  readonly sampled: number
  /** How many of them get another value. */
  readonly changed: number
  /** How many could not be decided after the change; they count as off. */
  readonly failed: number
  /** How many have each value before and after. */
  readonly values: readonly {
    readonly value: Value
    readonly before: number
    readonly after: number
  }[]
  /** The most frequent ones. */
  readonly flips: readonly (Flip & { readonly count: number })[]
  /** The first ones, each with one that it is about. */
  readonly examples: readonly (Flip & {
    readonly distinct_id: string | null
    readonly group_key: string | null
  })[]
}

/** What was counted so far: plain data, so that a rehearsal can go on elsewhere. */
export interface RehearsalTally {
  readonly values: Map<Value, { before: number; after: number }>
  readonly flips: Map<string, Flip & { count: number }>
  readonly examples: RehearsalReport['examples'][number][]
  sampled: number
  changed: number
  failed: number
}

/** With which one begins. */
export function newTally(): RehearsalTally {
  return { values: new Map(), flips: new Map(), examples: [], sampled: 0, changed: 0, failed: 0 }
}

/** Counts subject by subject. */
export class Rehearsal {
  readonly #before: CompiledFlags
  readonly #after: CompiledFlags
  readonly #key: string
  readonly #nowMs: number
  readonly #tally: RehearsalTally

  /** Both are flags of one project; `key` names the flag that is different in `after`. `tally` is counted in. */
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

  /** Decides about somebody. Cost: that of two decisions. */
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
      ...{ sampled, changed, failed },
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

/** A flag that takes no part is off. */
function valueOfDecision(decision: FlagDecision | undefined): Value {
  return decision === undefined ? false : shownValue(decision)
}

function conditionOf(decision: FlagDecision | undefined): number | null {
  return decision?.isEnabled === true ? decision.conditionIndex : null
}
