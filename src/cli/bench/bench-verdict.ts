/** Finds the bottleneck of a step of `tenrec bench`, from measurements of the load generator and of the daemon. */

import type { MetricSamples } from '../lib/metric-samples.ts'
import type { StepResult } from './bench-load.ts'

const GENERATOR_BUSY_MANY = 0.85
/**
 * If timers are later than this, in milliseconds, the machine has no spare capacity. Usually they are late by one or
 * two.
 */
const LATENESS_MS_MANY = 10
const BUSY_MANY = 0.85
const COMMITTING_MANY = 0.8
const LAG_SECONDS_MANY = 0.1
const HELD_UP_MANY = 0.05
const BACKLOG_GROWTH_MANY = 0.2

/** The metrics of the daemon before and after a step. Null if access to `/metrics` is denied. */
export interface Readings {
  readonly before: MetricSamples | null
  readonly after: MetricSamples | null
}

/** Returns what was at its limit during a step, the most likely bottleneck first. The list is empty if nothing was. */
export function saturated(step: StepResult, { before, after }: Readings): readonly string[] {
  const reasons: string[] = []
  if (step.generatorBusy > GENERATOR_BUSY_MANY) {
    reasons.push(`the load generator, which was busy ${percent(step.generatorBusy)} of the time`)
  } else if (step.latenessMs > LATENESS_MS_MANY) {
    const lateMs = Math.round(step.latenessMs)
    reasons.push(
      `the processors of this machine, because the load generator was ${lateMs} ms late at p99`,
    )
  }
  const refused = step.failures.get(503) ?? 0
  if (refused > 0)
    reasons.push(`the daemon, which refused ${refused} requests with 503; see /_readyz`)
  if (before === null || after === null) return [...reasons, ...heldUpReasons(step)]
  const share = (series: string): number => (after.since(before, series) ?? 0) / step.seconds
  const front = share('event_loop_busy_seconds_total')
  if (front > BUSY_MANY)
    reasons.push(`the main thread of the daemon, which was busy ${percent(front)} of the time`)
  const lagSeconds = after.get('event_loop_lag_seconds') ?? 0
  if (lagSeconds > LAG_SECONDS_MANY && front <= BUSY_MANY) {
    const lagMs = Math.round(lagSeconds * 1000)
    reasons.push(`the processors of the daemon, because its main thread was up to ${lagMs} ms late`)
  }
  const commits = 'store_commit_duration_seconds'
  const committing = share(`${commits}_sum{store="log"}`)
  if (committing > COMMITTING_MANY) {
    const count = after.since(before, `${commits}_count{store="log"}`) ?? 1
    const eachMs = ((committing * step.seconds) / Math.max(1, count)) * 1000
    reasons.push(
      `the disk, where a commit was in progress ${percent(committing)} of the time, ${eachMs.toFixed(1)} ms each`,
    )
  }
  const growth = (after.get('ingest_queue_depth') ?? 0) - (before.get('ingest_queue_depth') ?? 0)
  if (growth > Math.max(1, step.events * BACKLOG_GROWTH_MANY)) {
    reasons.push(
      `event processing, because the backlog of accepted events grew by ${growth} events`,
    )
  }
  return [...reasons, ...heldUpReasons(step)]
}

function heldUpReasons({ heldUp }: StepResult): readonly string[] {
  if (heldUp <= HELD_UP_MANY) return []
  return [
    `the connections, because ${percent(heldUp)} of the requests waited for a free connection`,
  ]
}

function percent(share: number): string {
  return `${Math.round(Math.min(1, share) * 100)} %`
}
