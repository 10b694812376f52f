/**
 * Finds out how many steps of a funnel each exposed person did, and, for retention, which persons came back. Every
 * attempt begins with the exposure, so the earliest event of each step is enough, and the events may come in any order.
 * Only a strict funnel also needs the events in between. Source: docs/EXPERIMENTS.md, "What counts".
 */
import { orderRows, rowsByActor } from '../../analytics/actor-rows.ts'
import type { EventColumns, SeriesMatch } from '../../analytics/event-columns.ts'
import { PacedLimits } from '../paced-limits.ts'
import type { QueryShard } from '../query-kind.ts'
import {
  type CountedMetric,
  type ExposurePlan,
  returnPeriods,
  tailMs,
  unitMs,
} from './experiment-plan.ts'
import type { ExposedPersons } from './exposed-persons.ts'
import { metricValues } from './metric-values.ts'

type CountedSteps = Extract<CountedMetric, { of: 'steps' }>
type CountedReturns = Extract<CountedMetric, { of: 'returns' }>

/** What each person did. Each list has one entry per row of `ExposedPersons`. */
export interface MetricSteps {
  /** The number of steps that the person did. */
  readonly reached: Uint8Array
  /**
   * 1 if the person did the last step before the exposure. Null if the metric does not look at events before the
   * exposure.
   */
  readonly before: Uint8Array | null
}

/** The state of a person who has no start event. */
export const NOT_STARTED = 0
const STARTED = 1
/** The state of a person who has a completion event in the window after the start event. */
export const RETURNED = 2

const EVERY_EVENT: SeriesMatch = { names: null, filter: null, steps: [] }

/** One moment for each person: a time, and a sequence number that orders it among the events at the same time. */
interface Moments {
  readonly timesMs: Float64Array
  readonly sequences: Uint32Array
}

/** Moments after which events are looked for. Without sequence numbers, all events at the same time come later. */
interface StartMoments {
  readonly timesMs: Float64Array
  readonly sequences: Uint32Array | null
}

const NO_SEQUENCES = new Uint32Array(0)

/** Returns the steps of a funnel that each exposed person did. Throws the same errors as `EventScanner.scan`. */
export function metricSteps(
  { steps, order, windowMs, lookbackMs }: CountedSteps,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): MetricSteps {
  const reached =
    order === 'unordered'
      ? unorderedSteps(steps, windowMs, exposure, exposed, shard)
      : orderedSteps(steps, windowMs, exposure, exposed, shard)
  if (order === 'strict') keepStrict(reached, steps, windowMs, exposure, exposed, shard)
  const last = steps.at(-1)
  if (lookbackMs === null || last === undefined) return { reached, before: null }
  const source = { match: last, math: 'dau', key: null } as const
  const window = { windowMs: null, lookbackMs }
  const { before } = metricValues(source, window, exposure, exposed, shard)
  return { reached, before: before === null ? null : new Uint8Array(before) }
}

/**
 * Returns the number of steps that each person did in order. For each step, finds the person's earliest event after the
 * event of the previous step.
 */
function orderedSteps(
  steps: readonly SeriesMatch[],
  windowMs: number | null,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): Uint8Array {
  const { count, firstMs } = exposed
  const reached = new Uint8Array(count)
  // The exposure has no sequence number here, so an event at the same millisecond counts as later, even if it arrived
  // before the exposure.
  let before: StartMoments = { timesMs: firstMs, sequences: null }
  let last: Moments | null = null
  let spare: Moments | null = null
  for (const [step, match] of steps.entries()) {
    const isHere = (row: number): boolean => reached[row] === step
    if (!reached.includes(step)) break
    // A person who has not done the previous step has an infinite time in `before`, so no event counts for this person.
    const into: Moments = spare ?? emptyMoments(count)
    const next = edgeMoments(match, isHere, before, into, false, windowMs, exposure, exposed, shard)
    for (let row = 0; row < count; row++) {
      if (reached[row] === step && next.timesMs[row] !== Number.POSITIVE_INFINITY) {
        reached[row] = step + 1
      }
    }
    spare = last
    last = next
    before = next
  }
  return reached
}

function emptyMoments(count: number): Moments {
  return { timesMs: new Float64Array(count), sequences: new Uint32Array(count) }
}

/**
 * For each person that `isTaken` accepts, finds the earliest (or latest) event after a moment and within the window.
 * The time is infinite for persons without such an event. The result is written to `into`. Other persons may have a
 * result too, if their moment `after` is finite.
 */
function edgeMoments(
  match: SeriesMatch,
  isTaken: (row: number) => boolean,
  after: StartMoments,
  into: Moments,
  isLatest: boolean,
  windowMs: number | null,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): Moments {
  const { filter, range } = exposure
  into.timesMs.fill(isLatest ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY)
  const bounds = {
    isLatest,
    endMs: windowMs === null ? range.toMs : Number.POSITIVE_INFINITY,
    reachMs: windowMs ?? Number.POSITIVE_INFINITY,
  }
  const toMs = range.toMs + (windowMs ?? 0)
  exposed.scanChunks(
    shard,
    { fromMs: range.fromMs, toMs, filter, series: [match], order: 'unsorted' },
    (chunk) => keepEdges(chunk, exposed.rowsOf(chunk), exposed.firstMs, after, bounds, into),
    isTaken,
  )
  shard.scanner.releaseResults()
  return into
}

/** Which events `keepEdges` looks for. */
interface EdgeBounds {
  readonly isLatest: boolean
  /** The last moment that counts, in milliseconds since 1970. */
  readonly endMs: number
  /** The length of the window after the first exposure, in milliseconds. */
  readonly reachMs: number
}

/**
 * Writes each event of a chunk to `into` if it is an earlier (or later) event of its person than the one there. This
 * loop runs for many millions of events, so it calls no functions, and is not part of a closure.
 */
function keepEdges(
  { count, timesMs: chunkMs, sequences: chunkSequences }: EventColumns,
  rows: Int32Array,
  firstMs: Float64Array,
  after: StartMoments,
  { isLatest, endMs, reachMs }: EdgeBounds,
  { timesMs, sequences }: Moments,
): void {
  const { timesMs: afterMs } = after
  const afterSequences = after.sequences ?? NO_SEQUENCES
  const haveSequences = after.sequences !== null
  for (let index = 0; index < count; index++) {
    const row = rows[index] ?? -1
    if (row < 0) continue
    const timeMs = chunkMs[index] ?? 0
    const known = timesMs[row] ?? 0
    if (isLatest ? timeMs < known : timeMs > known) continue
    const sequence = chunkSequences[index] ?? 0
    if (timeMs === known && sequence > (sequences[row] ?? 0) !== isLatest) continue
    const startMs = afterMs[row] ?? 0
    if (timeMs < startMs || timeMs > endMs || timeMs - (firstMs[row] ?? 0) >= reachMs) continue
    if (haveSequences && timeMs === startMs && sequence <= (afterSequences[row] ?? 0)) continue
    timesMs[row] = timeMs
    sequences[row] = sequence
  }
}

/**
 * Lowers `reached`, which counts the steps done in order, to the number of steps done without another event in between.
 * Only persons with at least two steps can lose a step, so only their events are read. Each event needs 28 bytes of
 * memory.
 */
function keepStrict(
  reached: Uint8Array,
  steps: readonly SeriesMatch[],
  windowMs: number | null,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): void {
  const isOpen = (row: number): boolean => (reached[row] ?? 0) > 1
  if (!reached.some((count) => count > 1)) return
  const { filter, range, match } = exposure
  const endMs = windowMs === null ? range.toMs : Number.POSITIVE_INFINITY
  const reachMs = windowMs ?? Number.POSITIVE_INFINITY
  const scan = {
    fromMs: range.fromMs,
    toMs: range.toMs + (windowMs ?? 0),
    filter,
    series: [...steps, match, EVERY_EVENT],
    order: 'unsorted',
  } as const
  const columns = exposed.scan(shard, scan, isOpen)
  const { timesMs, seriesMasks } = columns
  const persons = rowsByActor(columns.persons, columns.count)
  orderRows(persons, columns, shard.scanner)
  const rowOfEvent = exposed.rowsOf(columns)
  const stepsMask = 2 ** steps.length - 1
  const exposureMask = 1 << steps.length
  const pace = new PacedLimits(shard.scanner)
  for (let person = 0; person < persons.keys.length; person++) {
    const start = persons.starts[person] ?? 0
    const end = persons.starts[person + 1] ?? 0
    pace.count(end - start)
    const row = rowOfEvent[persons.rows[start] ?? 0] ?? -1
    if (row < 0) continue
    const firstMs = exposed.firstMs[row] ?? 0
    // Bit i is set if the last event was step i, and the events directly before it were all steps before i, in order.
    let chains = 0
    let done = 0
    for (let place = start; place < end; place++) {
      const event = persons.rows[place] ?? 0
      const sinceMs = (timesMs[event] ?? 0) - firstMs
      if (sinceMs < 0 || sinceMs >= reachMs || sinceMs + firstMs > endMs) continue
      const mask = seriesMasks[event] ?? 0
      const own = mask & stepsMask
      // An exposure between two steps does not break a chain, because SDKs ask for the flag again and again.
      if (own === 0 && (mask & exposureMask) !== 0) continue
      // Bit i of the new value is set if this event is step i and it begins a chain, continues a chain, or repeats the
      // last step of a chain.
      chains = ((chains << 1) | 1 | chains) & own
      done |= chains
    }
    reached[row] = 32 - Math.clz32(done)
  }
  shard.scanner.releaseResults()
}

function isLater(timeMs: number, sequence: number, after: Moments, row: number): boolean {
  const afterMs = after.timesMs[row] ?? 0
  return timeMs > afterMs || (timeMs === afterMs && sequence > (after.sequences[row] ?? 0))
}

/** Counts steps in any order. One event may be several steps. */
function unorderedSteps(
  steps: readonly SeriesMatch[],
  windowMs: number | null,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): Uint8Array {
  const { count, firstMs } = exposed
  const masks = new Uint32Array(count)
  const { filter, range } = exposure
  if (count > 0) {
    const endMs = windowMs === null ? range.toMs : Number.POSITIVE_INFINITY
    const reachMs = windowMs ?? Number.POSITIVE_INFINITY
    const toMs = range.toMs + (windowMs ?? 0)
    exposed.scanChunks(
      shard,
      { fromMs: range.fromMs, toMs, filter, series: steps, order: 'any' },
      (chunk) => {
        const rows = exposed.rowsOf(chunk)
        for (let index = 0; index < chunk.count; index++) {
          const row = rows[index] ?? -1
          if (row < 0) continue
          const timeMs = chunk.timesMs[index] ?? 0
          const sinceMs = timeMs - (firstMs[row] ?? 0)
          if (sinceMs < 0 || sinceMs >= reachMs || timeMs > endMs) continue
          masks[row] = (masks[row] ?? 0) | (chunk.seriesMasks[index] ?? 0)
        }
      },
    )
    shard.scanner.releaseResults()
  }
  const reached = new Uint8Array(count)
  for (let row = 0; row < count; row++) reached[row] = bitCount(masks[row] ?? 0)
  return reached
}

function bitCount(mask: number): number {
  let count = 0
  for (let left = mask; left !== 0; left &= left - 1) count++
  return count
}

/**
 * Returns for each row whether the person came back: `NOT_STARTED`, `STARTED` or `RETURNED`. Throws the same errors as
 * `EventScanner.scan`.
 */
export function metricReturns(
  counted: CountedReturns,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): Uint8Array {
  const { count, firstMs } = exposed
  const states = new Uint8Array(count)
  if (count === 0) return states
  const { start, completion, isLastStart, windowMs } = counted
  const after = { timesMs: firstMs, sequences: null }
  const starts = edgeMoments(
    start,
    () => true,
    after,
    emptyMoments(count),
    isLastStart,
    windowMs,
    exposure,
    exposed,
    shard,
  )
  const isStarted = (row: number): boolean => Number.isFinite(starts.timesMs[row])
  const distance = distanceTest(counted, exposure, starts.timesMs)
  const { filter, range } = exposure
  const toMs = range.toMs + tailMs(counted)
  for (let row = 0; row < count; row++) states[row] = isStarted(row) ? STARTED : NOT_STARTED
  exposed.scanChunks(
    shard,
    { fromMs: range.fromMs, toMs, filter, series: [completion], order: 'unsorted' },
    (chunk) => {
      const rows = exposed.rowsOf(chunk)
      for (let index = 0; index < chunk.count; index++) {
        const row = rows[index] ?? -1
        if (row < 0 || states[row] !== STARTED) continue
        const timeMs = chunk.timesMs[index] ?? 0
        // The start event itself is not a return.
        if (!isLater(timeMs, chunk.sequences[index] ?? 0, starts, row)) continue
        if (distance(timeMs, row)) states[row] = RETURNED
      }
    },
    isStarted,
  )
  shard.scanner.releaseResults()
  return states
}

/**
 * Returns a test of whether a moment is in the window after the start event of a row. Days and hours follow the clock
 * of the project, so that "day 7" is any time on the seventh day after the day of the start event. Other units are
 * measured from the start event.
 */
function distanceTest(
  counted: CountedReturns,
  exposure: ExposurePlan,
  startsMs: Float64Array,
): (timeMs: number, row: number) => boolean {
  const { unit, from, to } = counted
  const periods = returnPeriods(counted, exposure)
  if (periods === null) {
    const length = unitMs(unit)
    return (timeMs, row) => {
      const sinceMs = timeMs - (startsMs[row] ?? 0)
      return sinceMs >= from * length && sinceMs <= to * length
    }
  }
  const startPeriods = Int32Array.from(startsMs, (startMs) => periods.indexOf(startMs))
  return (timeMs, row) => {
    const distance = periods.indexOf(timeMs) - (startPeriods[row] ?? 0)
    return distance >= from && distance <= to
  }
}
