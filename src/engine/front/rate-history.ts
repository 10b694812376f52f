/** What a daemon did in each minute of the last day: points made of totals that are counted anyway. */
import type { Histogram } from '../../base/metrics.ts'
import { FORECAST_MS_MAX, RATE_MINUTES_MAX } from './limits.ts'

/** What is counted since the start. */
export interface RateTotals {
  readonly accepted: number
  readonly processed: number
  readonly decisions: number
}

/** One minute; the last point is the minute that is not over. */
export interface RatePoint extends RateTotals {
  /** Its begin: ISO 8601, UTC. */
  readonly at: string
  /** From the headers of an ingestion request to its answer, of a sample; null without any. */
  readonly p50_ms: number | null
  readonly p99_ms: number | null
}

/** What was free on the disk at the begin of a minute. */
export interface DiskSample {
  readonly atMs: number
  readonly freeBytes: number
}

interface Sample extends RateTotals {
  readonly atMs: number
  /** Of all routes of ingestion, requests by upper bound. */
  readonly answered: readonly number[]
}

/** A day of minutes. `note` once a minute. */
export class RateHistory {
  readonly #latencies: readonly Histogram[]
  readonly #totals: () => RateTotals
  /** Of the minutes that are over: made once, because anybody may ask often. */
  readonly #points: RatePoint[] = []
  readonly #disk: DiskSample[] = []
  /** The begin of the minute that is not over. */
  #begin: Sample | null = null

  /** `latencies`: in seconds, with the same bounds. */
  constructor(latencies: readonly Histogram[], totals: () => RateTotals) {
    this.#latencies = latencies
    this.#totals = totals
  }

  /** Begins the next minute. */
  note(nowMs: number, freeBytes: number): void {
    const sample = this.#sample(nowMs)
    if (this.#begin !== null) this.#points.push(this.#pointOf(this.#begin, sample))
    this.#begin = sample
    this.#disk.push({ atMs: nowMs, freeBytes })
    if (this.#points.length === RATE_MINUTES_MAX) this.#points.shift()
    if (this.#disk.length > RATE_MINUTES_MAX) this.#disk.shift()
  }

  /** One point for each minute, oldest first. */
  points(nowMs: number): readonly RatePoint[] {
    if (this.#begin === null) return []
    return [...this.#points, this.#pointOf(this.#begin, this.#sample(nowMs))]
  }

  /** Free bytes of the disk, by the minute. */
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
 * The value below which that part of the values is, within a bucket as if they lay evenly; the highest bound for
 * what is beyond. Null when there are none.
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
 * When free space reaches the reserve, if it goes on as on the line that fits the samples best; null when it
 * does not shrink, or the samples cover less than `spanMsMin`, or that is years away.
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
