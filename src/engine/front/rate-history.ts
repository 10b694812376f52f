/**
 * The activity of a daemon in each minute of the last day. It is computed from the totals that metrics count anyway.
 */
import type { Histogram } from '../../base/metrics.ts'
import { FORECAST_MS_MAX, RATE_MINUTES_MAX } from './limits.ts'

/** The totals since the start of the process. */
export interface RateTotals {
  readonly accepted: number
  readonly processed: number
  readonly decisions: number
}

/** The activity of one minute. The last point of a list is the current minute. */
export interface RatePoint extends RateTotals {
  /** The start of the minute, in ISO 8601 and UTC. */
  readonly at: string
  /**
   * The median time from the headers of an ingestion request to its answer. Only a sample of the requests is measured.
   * Null if no request was measured.
   */
  readonly p50_ms: number | null
  readonly p99_ms: number | null
}

/** The free bytes of the disk at the start of a minute. */
export interface DiskSample {
  readonly atMs: number
  readonly freeBytes: number
}

interface Sample extends RateTotals {
  readonly atMs: number
  /** The number of ingestion requests in each bucket of the histogram of their durations, over all routes. */
  readonly answered: readonly number[]
}

/** The activity of the last day. Call `note` once a minute. */
export class RateHistory {
  readonly #latencies: readonly Histogram[]
  readonly #totals: () => RateTotals
  /** The points of past minutes. Each is computed only once, because clients may ask often. */
  readonly #points: RatePoint[] = []
  readonly #disk: DiskSample[] = []
  /** The totals at the start of the current minute. */
  #begin: Sample | null = null

  /** `latencies` are histograms of seconds. All of them have the same bounds. */
  constructor(latencies: readonly Histogram[], totals: () => RateTotals) {
    this.#latencies = latencies
    this.#totals = totals
  }

  /** Ends the current minute and starts the next one. */
  note(nowMs: number, freeBytes: number): void {
    const sample = this.#sample(nowMs)
    if (this.#begin !== null) this.#points.push(this.#pointOf(this.#begin, sample))
    this.#begin = sample
    this.#disk.push({ atMs: nowMs, freeBytes })
    if (this.#points.length === RATE_MINUTES_MAX) this.#points.shift()
    if (this.#disk.length > RATE_MINUTES_MAX) this.#disk.shift()
  }

  /** Returns a point for each minute, oldest first. */
  points(nowMs: number): readonly RatePoint[] {
    if (this.#begin === null) return []
    return [...this.#points, this.#pointOf(this.#begin, this.#sample(nowMs))]
  }

  /** The free bytes of the disk, with one sample for each minute. */
  get disk(): readonly DiskSample[] {
    return this.#disk
  }

  #pointOf(begin: Sample, end: Sample): RatePoint {
    const bounds = this.#latencies[0]?.bounds ?? []
    const counts = end.answered.map((count, bound) => count - (begin.answered[bound] ?? 0))
    return {
      at: new Date(begin.atMs).toISOString(),
      accepted: end.accepted - begin.accepted,
      processed: end.processed - begin.processed,
      decisions: end.decisions - begin.decisions,
      p50_ms: quantileMs(bounds, counts, 0.5),
      p99_ms: quantileMs(bounds, counts, 0.99),
    }
  }

  #sample(atMs: number): Sample {
    const [first, ...others] = this.#latencies.map(({ counts }) => counts)
    const answered = [...(first ?? [])].map((count, bound) =>
      others.reduce((sum, counts) => sum + (counts[bound] ?? 0), count),
    )
    return { ...this.#totals(), atMs, answered }
  }
}

/**
 * Returns a quantile in milliseconds: the value below which the given share of all values lies. `bounds` are the upper
 * bounds of the buckets of a histogram, and `counts` are the numbers of values in each bucket. The values in a bucket
 * are assumed to be spread evenly. A value above the highest bound counts as that bound. Returns null if there are no
 * values.
 */
export function quantileMs(
  bounds: readonly number[],
  counts: readonly number[],
  part: number,
): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let rest = total * part
  for (const [index, count] of counts.entries()) {
    const low = bounds[index - 1] ?? 0
    const high = bounds[index] ?? low
    if (rest <= count) return Math.round((low + (high - low) * (rest / count)) * 1e6) / 1000
    rest -= count
  }
  return (bounds.at(-1) ?? 0) * 1000
}

/**
 * Returns the time at which the free space will have fallen to the reserve, in milliseconds since 1970. The prediction
 * is a straight line through the samples. Returns null if the free space does not shrink, if the samples cover less
 * than `spanMsMin`, or if the time is many years away.
 */
export function fullAtMs(
  samples: readonly DiskSample[],
  reserveBytes: number,
  spanMsMin: number,
): number | null {
  const [first, last] = [samples[0], samples.at(-1)]
  if (first === undefined || last === undefined || last.atMs === first.atMs) return null
  if (last.atMs - first.atMs < spanMsMin) return null
  const mean = (of: (sample: DiskSample) => number): number =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length
  const meanMs = mean(({ atMs }) => atMs)
  const meanBytes = mean(({ freeBytes }) => freeBytes)
  const together = mean(({ atMs, freeBytes }) => (atMs - meanMs) * (freeBytes - meanBytes))
  const bytesPerMs = together / mean(({ atMs }) => (atMs - meanMs) ** 2)
  if (bytesPerMs >= 0) return null
  const leftMs = Math.max(0, (last.freeBytes - reserveBytes) / -bytesPerMs)
  return leftMs > FORECAST_MS_MAX ? null : last.atMs + leftMs
}
