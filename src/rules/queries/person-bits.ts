/**
 * Stores as bits which persons had events in which periods. If the events are divided by segments, each part has one
 * bit for each distinct ID number. These bits do not depend on which person owns the distinct ID. So parts can be
 * computed separately, joined and cached, even if persons are merged or split meanwhile. Each answer then converts
 * these bits into bits of persons; see owner-bits.ts. period-bits.ts does the same for actors without a person number,
 * and for actors that need several events.
 */
import type { DateRange } from '../analytics/date-range.ts'
import type { EventColumns, EventPart } from '../analytics/event-columns.ts'
import { inOwnMemory } from '../analytics/growing-arrays.ts'
import { onlyPeriod, type Periods } from '../analytics/periods.ts'
import { PERSON_BITS_BYTES_MAX } from './limits.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'
import { bitCount } from './period-bits.ts'
import { type QueryScan, type QueryShard, scanShardChunks } from './query-kind.ts'

/**
 * For each period, the persons that had events in it. A person is represented by the smallest distinct ID number D that
 * it owns: it has bit D % 32 of word D / 32. Null means that nobody had events. The lists of words may differ in
 * length.
 */
export type PersonBits = readonly (Uint32Array | null)[]
/** Bits in the form of `PersonBits`, but with a bit for each distinct ID number in place of each person number. */
export type IdBits = PersonBits

/**
 * Returns whether the bits of all distinct IDs, in `lists` lists, are small enough to be cached and merged.
 * `lastDistinctId` is the largest distinct ID number.
 */
export function areBitsSmall(lists: number, lastDistinctId: number): boolean {
  return lists * wordsOf(lastDistinctId) * Uint32Array.BYTES_PER_ELEMENT <= PERSON_BITS_BYTES_MAX
}

/**
 * Returns the bits of each series of a scan, one for each distinct ID number. If `periods` is null, there is a single
 * period that contains all times. Throws the same errors as `EventScanner.scan`. The cost is linear in the events.
 */
export function scanIdBits(
  shard: QueryShard,
  scan: QueryScan,
  periods: Periods | null,
): readonly IdBits[] {
  const { lastDistinctId } = shard.scanner.extent(shard.context.projectId)
  const count = periods?.count ?? 1
  const found = scan.series.map(() => new BitRows(count, wordsOf(lastDistinctId)))
  const onlyOf = (within: DateRange) => (periods === null ? 0 : onlyPeriod(periods, within))
  const looksAt = (within: DateRange) =>
    found.length === 1 && onlyOf(within) !== null ? 'persons' : 'all'
  scanShardChunks(shard, { ...scan, looksAt, areIds: true }, (chunk, within) => {
    const only = onlyOf(within)
    for (const [series, rows] of found.entries()) {
      const mask = found.length === 1 ? null : 1 << series
      if (only !== null) markAll(chunk, mask, rows.at(only))
      else if (periods !== null) markPeriods(chunk, periods, mask, rows)
    }
  })
  return found.map(({ rows }) => rows)
}

/**
 * Merges the bits of parts. If only one part has bits for a period, the result contains the list of that part itself
 * and not a copy.
 */
export function mergeBits(parts: readonly IdBits[]): IdBits {
  const [first = []] = parts
  if (parts.length === 1) return first
  return first.map((_, period) => {
    const own = parts.map((part) => part[period] ?? null).filter((row) => row !== null)
    if (own.length < 2) return own[0] ?? null
    const merged = new Uint32Array(Math.max(...own.map(({ length }) => length)))
    for (const row of own) {
      for (let word = 0; word < row.length; word++) {
        merged[word] = (merged[word] ?? 0) | (row[word] ?? 0)
      }
    }
    return merged
  })
}

/**
 * Returns the bits of all periods in one list, with `words` words for each period. `periodBits` returns the same form.
 */
export function flatBits(bits: PersonBits, words: number): Uint32Array {
  const flat = new Uint32Array(bits.length * words)
  for (const [period, row] of bits.entries()) if (row !== null) flat.set(row, period * words)
  return flat
}

/** Returns the number of words of the longest list. */
export function wordsOfBits(...all: readonly PersonBits[]): number {
  return Math.max(1, ...all.flatMap((bits) => bits.map((row) => row?.length ?? 0)))
}

/** Returns whether a part of a query consists of segments. The result of such a part is bits. */
export function isOfBits(part: EventPart | null): part is EventPart {
  return part?.by === 'segments'
}

/**
 * Returns the bits for events that do not come from a scan, such as creations of persons. `events.persons` contains
 * distinct ID numbers. `lastDistinctId` is the largest distinct ID number of the project.
 */
export function bitsOfEvents(
  events: { readonly persons: Uint32Array; readonly timesMs: Float64Array },
  periods: Periods,
  lastDistinctId: number,
): PersonBits {
  const rows = new BitRows(periods.count, wordsOf(lastDistinctId))
  const { length: count } = events.persons
  const columns = { count, ...events, seriesMasks: NO_WORDS, sequences: NO_WORDS, values: [] }
  markPeriods(columns, periods, null, rows)
  return rows.rows
}

/**
 * Returns, for each period in `lastPeriods`, the number of persons that had events in the `length` periods that end
 * with this period. For example, these are the periods 3, 4 and 5 if the last period is 5 and `length` is 3. The number
 * is 0 if the entry of `lastPeriods` is beyond the last period of `bits`. Throws the same errors as
 * `EventScanner.checkLimits`.
 */
export function activeCounts(
  bits: PersonBits,
  { length, lastPeriods }: { readonly length: number; readonly lastPeriods: Uint32Array },
  limits: QueryLimits,
): readonly number[] {
  const pace = new PacedLimits(limits)
  return Array.from(lastPeriods, (last) => {
    if (last >= bits.length) return 0
    const came = new Uint32Array(wordsOfBits(bits))
    for (const row of bits.slice(Math.max(0, last - length + 1), last + 1)) {
      pace.count(came.length)
      for (let word = 0; word < (row?.length ?? 0); word++) {
        came[word] = (came[word] ?? 0) | (row?.[word] ?? 0)
      }
    }
    return came.reduce((sum, word) => sum + bitCount(word), 0)
  })
}

/** Returns, for each period, the number of persons whose first events are in it. */
export function firstCounts(bits: PersonBits): readonly number[] {
  const seen = new Uint32Array(wordsOfBits(bits))
  return bits.map((row) => {
    let count = 0
    for (let word = 0; word < (row?.length ?? 0); word++) {
      const own = (row?.[word] ?? 0) & ~(seen[word] ?? 0)
      seen[word] = (seen[word] ?? 0) | own
      count += bitCount(own)
    }
    return count
  })
}

const NO_WORDS = new Uint32Array(0)

/** The bits of one series. The list of a period is allocated when the first actor gets a bit in it. */
class BitRows {
  readonly rows: (Uint32Array | null)[]
  readonly #words: number

  constructor(periods: number, words: number) {
    this.rows = Array.from({ length: periods }, () => null)
    this.#words = words
  }

  at(period: number): Uint32Array {
    const known = this.rows[period]
    if (known !== undefined && known !== null) return known
    // The row has memory of its own, because it may be cached for longer than the other rows.
    const row = inOwnMemory(new Uint32Array(this.#words))
    this.rows[period] = row
    return row
  }
}

/** Sets the bits of those events whose series mask has a bit of `mask`. If `mask` is null, all events count. */
function markAll(
  { count, persons, seriesMasks }: EventColumns,
  mask: number | null,
  bits: Uint32Array,
): void {
  for (let row = 0; row < count; row++) {
    if (mask !== null && ((seriesMasks[row] ?? 0) & mask) === 0) continue
    const person = persons[row] ?? 0
    bits[person >>> 5] = (bits[person >>> 5] ?? 0) | (1 << (person & 31))
  }
}

function markPeriods(
  { count, persons, timesMs, seriesMasks }: EventColumns,
  periods: Periods,
  mask: number | null,
  rows: BitRows,
): void {
  // Consecutive events are mostly in the same period. So the time is compared with the bounds of the last period first,
  // and a period is only looked up if the time is outside of them.
  let startMs = 0
  let endMs = 0
  let bits: Uint32Array | null = null
  for (let row = 0; row < count; row++) {
    if (mask !== null && ((seriesMasks[row] ?? 0) & mask) === 0) continue
    const timeMs = timesMs[row] ?? 0
    if (timeMs < startMs || timeMs >= endMs) {
      const period = periods.indexOf(timeMs)
      startMs = period < 0 ? 0 : periods.startMs(period)
      endMs = period < 0 ? 0 : periods.startMs(period + 1)
      bits = period < 0 ? null : rows.at(period)
    }
    if (bits === null) continue
    const person = persons[row] ?? 0
    bits[person >>> 5] = (bits[person >>> 5] ?? 0) | (1 << (person & 31))
  }
}

function wordsOf(lastPerson: number): number {
  return (lastPerson >>> 5) + 1
}
