/**
 * Counts flag decisions by flag, value and hour, in memory. `usage-keeper.ts` stores the counts. A decision adds one to
 * the counter of each flag outcome that it contains (rules/flags/flag-outcomes.ts). If a decision is answered from the
 * cache, only a counter in the cached decision rises. Every few seconds, and before flag outcomes are replaced, both
 * kinds of counters are added to the counts of the current hour.
 */
import type { Clock } from '../../base/clock.ts'
import { USAGE_DAYS_MAX } from '../../base/limits.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { CompiledFlags } from '../../rules/flags/compile.ts'
import { shownValue } from '../../rules/flags/flag-outcomes.ts'
import type { Decisions, FlagValue, UsageHour } from '../../rules/flags/types.ts'
import { USAGE_REPEATED_MAX, USAGE_ROWS_MAX } from './limits.ts'

const HOUR_MS = 3_600_000
/** The number of hours whose counts are kept, including the current one. */
const KEPT_HOURS = USAGE_DAYS_MAX * 24 + 1

/** A decision that is cached and may be answered again. */
export interface RepeatedDecision {
  readonly decided: Decisions
  /** How often the decision was answered from the cache since this number was last collected. */
  repeats: number
}

/** The number of decisions in one hour in which a flag had one value. */
export interface UsageRow {
  /** The start of the hour, in milliseconds since 1970. */
  readonly hourMs: number
  readonly value: FlagValue
  readonly count: number
}

/** How often a flag had each of its values. */
export interface FlagUsageReport {
  /** The time at which counting began, in milliseconds since 1970. */
  readonly sinceMs: number
  /** The time of the last decision, accurate to some seconds. Null if there was none since `sinceMs`. */
  readonly lastMs: number | null
  /** The counts, oldest hour first. */
  readonly rows: readonly UsageRow[]
}

/** How often each of several flags was decided. */
export interface FlagsUsageReport {
  /** The time at which counting began, in milliseconds since 1970. */
  readonly sinceMs: number
  readonly flags: readonly {
    readonly id: number
    readonly count: number
    /** The number of decisions in each period of 24 hours, oldest period first. The last period ends now. */
    readonly days: readonly number[]
    /** The time of the last decision, accurate to some seconds. Null if there was none since `sinceMs`. */
    readonly lastMs: number | null
  }[]
}

type Counts = Map<FlagValue, number>

/** Counts flag decisions, in the main thread. */
export class FlagUsage {
  readonly #clock: Clock
  #sinceMs: number
  /**
   * The counts of each flag in each hour, oldest hour first. The outer key is the start of the hour, and the inner key
   * is the ID of the flag.
   */
  readonly #hours = new Map<number, Map<number, Counts>>()
  readonly #lastMs = new Map<number, number>()
  /** The starts of the hours whose counts have changed since they were last stored. */
  readonly #changed = new Set<number>()
  #rows = 0
  #repeated: RepeatedDecision[] = []

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = clock.now()
  }

  /** Counts a new decision. It costs a few nanoseconds for each flag. */
  decided({ decisions }: Decisions): void {
    for (const outcome of decisions) outcome.count++
  }

  /** Counts a decision that was answered from the cache. */
  repeated(known: RepeatedDecision): void {
    if (known.repeats++ > 0) return
    this.#repeated.push(known)
    if (this.#repeated.length === USAGE_REPEATED_MAX) this.#countRepeated()
  }

  /** Adds the counts in the outcomes of all flags to the counts of the current hour. Costs one step for each flag. */
  collect(all: Iterable<CompiledFlags>): void {
    this.#countRepeated()
    const nowMs = this.#clock.now()
    const hourMs = nowMs - (nowMs % HOUR_MS)
    const hour = getOrAdd(this.#hours, hourMs, () => new Map<number, Counts>())
    for (const { active } of all) {
      for (const { flag, outcomes } of active) {
        for (const outcome of outcomes.made) {
          if (outcome.count === 0) continue
          const value = outcome.isFailed ? null : shownValue(outcome)
          const counts = getOrAdd(hour, flag.id, (): Counts => new Map())
          if (!counts.has(value)) this.#rows++
          counts.set(value, (counts.get(value) ?? 0) + outcome.count)
          outcome.count = 0
          this.#lastMs.set(flag.id, nowMs)
          this.#changed.add(hourMs)
        }
      }
    }
    this.#forget()
  }

  /** Returns the counts of a flag in the hours from `fromMs` on. */
  of(flagId: number, fromMs: number): FlagUsageReport {
    const rows = [...this.#hours].flatMap(([hourMs, flags]) =>
      hourMs + HOUR_MS <= fromMs
        ? []
        : [...(flags.get(flagId) ?? [])].map(([value, count]) => ({ hourMs, value, count })),
    )
    return { sinceMs: this.#sinceMs, lastMs: this.#lastMs.get(flagId) ?? null, rows }
  }

  /**
   * Returns how often flags were decided in the last days. A day is a period of 24 hours that ends with the current
   * hour.
   */
  ofFlags(ids: readonly number[], days: number): FlagsUsageReport {
    const nowMs = this.#clock.now()
    const lastHourMs = nowMs - (nowMs % HOUR_MS)
    const totals = new Map(ids.map((id) => [id, new Array<number>(days).fill(0)]))
    for (const [startMs, flags] of this.#hours) {
      const day = days - 1 - Math.floor((lastHourMs - startMs) / (24 * HOUR_MS))
      if (day < 0) continue
      for (const [id, counts] of flags) {
        const total = totals.get(id)
        if (total === undefined) continue
        for (const count of counts.values()) total[day] = (total[day] ?? 0) + count
      }
    }
    const flags = [...totals].map(([id, perDay]) => ({
      id,
      count: perDay.reduce((sum, count) => sum + count, 0),
      days: perDay,
      lastMs: this.#lastMs.get(id) ?? null,
    }))
    return { sinceMs: this.#sinceMs, flags }
  }

  /** Restores the counts that an earlier process has stored. Call it before anything is counted. */
  restore(hours: readonly UsageHour[]): void {
    for (const { hourMs, sinceMs, flags } of hours) {
      this.#sinceMs = Math.min(this.#sinceMs, sinceMs)
      this.#hours.set(hourMs, new Map(flags.map(({ id, counts }) => [id, new Map(counts)])))
      for (const { id, lastMs, counts } of flags) {
        this.#lastMs.set(id, lastMs)
        this.#rows += counts.length
      }
    }
  }

  /** Returns the hours that have changed since the last call. `fromMs` is the start of the oldest hour that is kept. */
  takeChanged(): { readonly hours: readonly UsageHour[]; readonly fromMs: number } {
    const [fromMs = 0] = this.#hours.keys()
    const hours = [...this.#changed].flatMap((hourMs) => {
      const flags = [...(this.#hours.get(hourMs) ?? [])].map(([id, counts]) => {
        return { id, lastMs: this.#lastMs.get(id) ?? hourMs, counts: [...counts] }
      })
      return flags.length === 0 ? [] : [{ hourMs, sinceMs: this.#sinceMs, flags }]
    })
    this.#changed.clear()
    return { hours, fromMs }
  }

  /** Marks hours as changed once more, because their counts could not be stored. */
  putBack(hours: readonly UsageHour[]): void {
    for (const { hourMs } of hours) this.#changed.add(hourMs)
  }

  #countRepeated(): void {
    for (const known of this.#repeated) {
      for (const outcome of known.decided.decisions) outcome.count += known.repeats
      known.repeats = 0
    }
    this.#repeated = []
  }

  /** Removes the counts of the oldest hours if there are too many. The current hour stays. */
  #forget(): void {
    for (const [hourMs, flags] of this.#hours) {
      const isRoom = this.#hours.size <= KEPT_HOURS && this.#rows <= USAGE_ROWS_MAX
      if (isRoom || this.#hours.size === 1) return
      for (const counts of flags.values()) this.#rows -= counts.size
      this.#hours.delete(hourMs)
    }
  }
}
