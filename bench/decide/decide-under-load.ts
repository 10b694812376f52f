/**
 * Question: how long does a decision wait while 50,000 events a second are accepted and processed?
 * Workload: decisions about 50 flags, as an open loop at 500 requests/s over 64 connections, with latency from the
 * intended time of sending. Beside it run events, 100 in a request, as an open loop.
 * Baseline: the same decisions alone, interleaved.
 * Reconsider: reading persons on the main thread, if the p99 is above 10 ms; a bound of the lag instead of a share for
 * processing, if the lag exceeds the bound.
 */
import type { Daemon } from '../daemon.ts'
import { type BenchContext, expectAllStored, expectOnlyOk, interleaved, sleep } from '../harness.ts'
import { type LoadReport, openLoop, type PreparedLoad, prepareLoad } from '../load.ts'
import { median } from '../samples.ts'
import { DECISION_PATH, type FlagProject } from './decide-setup.ts'
import { decisionBody } from './decide-workload.ts'

const DECISIONS_PER_SECOND = 500
const DECISION_CONNECTIONS = 64
const EVENTS_PER_REQUEST = 100
const EVENT_CONNECTIONS = 32
/** Events are sent for this long before the first measured decision. */
const LEAD_SECONDS = 1
const READING_MS = 250

/** The work that the daemon has done before the measurement. */
export interface Before {
  /** The number of events that were acknowledged since the daemon's start. */
  readonly acknowledged: number
  readonly persons: number
}

interface LoadedRound {
  readonly decisions: LoadReport
  readonly events: LoadReport
  readonly processedPerSecond: number
  /** The share of the events accepted up to the last request that were also stored at that time. */
  readonly processedShare: number
  readonly worstLagSeconds: number
}

/** Reports the latencies of decisions during ingestion. Throws if an event is lost. */
export async function measureUnderLoad(
  context: BenchContext,
  daemon: Daemon,
  project: FlagProject,
  before: Before,
): Promise<void> {
  const seconds = context.size(1, 5)
  const eventsPerSecond = context.size(5000, 50_000)
  let { acknowledged } = before
  const alone = async (): Promise<LoadReport> => {
    const prepared = await prepareDecisions(daemon, project, before.persons, seconds)
    return checked(await prepared.run())
  }
  const beside = async (): Promise<LoadedRound> => {
    const prepared = await prepareDecisions(daemon, project, before.persons, seconds)
    const events = await prepareEvents(context, daemon, eventsPerSecond, seconds)
    const atStart = await daemon.progress()
    let isLoaded = true
    const eventsDone = events.run()
    const worstLag = watchLag(daemon, () => isLoaded)
    await sleep(LEAD_SECONDS * 1000)
    const startMs = performance.now()
    const { stored: storedBefore } = await daemon.progress()
    const decisions = checked(await prepared.run())
    const { stored } = await daemon.progress()
    const processedPerSecond = ((stored - storedBefore) * 1000) / (performance.now() - startMs)
    const report = await eventsDone
    isLoaded = false
    const done = await daemon.progress()
    acknowledged += report.eventsAcknowledged
    await daemon.drain()
    const processedShare = (done.stored - atStart.stored) / (done.accepted - atStart.accepted)
    return {
      decisions,
      events: report,
      processedPerSecond,
      processedShare,
      worstLagSeconds: await worstLag,
    }
  }
  const rounds = context.rounds(3)
  const quiet: LoadReport[] = []
  const loaded: LoadedRound[] = []
  await interleaved(rounds, [
    async () => quiet.push(await alone()),
    async () => loaded.push(await beside()),
  ])
  await expectAllStored(daemon, acknowledged)
  report(context, quiet, loaded, eventsPerSecond)
}

/** Returns the largest age of an unprocessed event that was observed, in seconds. */
async function watchLag(daemon: Daemon, isLoaded: () => boolean): Promise<number> {
  let worstSeconds = 0
  while (isLoaded()) {
    const { oldestAgeSeconds } = await daemon.progress()
    worstSeconds = Math.max(worstSeconds, oldestAgeSeconds)
    await sleep(READING_MS)
  }
  return worstSeconds
}

function prepareDecisions(
  daemon: Daemon,
  project: FlagProject,
  persons: number,
  seconds: number,
): Promise<PreparedLoad> {
  const bodies = Array.from({ length: persons }, (_, person) =>
    decisionBody(project.apiKey, person),
  )
  return prepareLoad(
    openLoop({
      url: daemon.url,
      request: { kind: 'post', path: DECISION_PATH, bodies, headers: {} },
      connections: DECISION_CONNECTIONS,
      requestsPerSecond: DECISIONS_PER_SECOND,
      warmupSeconds: 0.5,
      seconds,
      serverPid: daemon.pid,
    }),
  )
}

function prepareEvents(
  context: BenchContext,
  daemon: Daemon,
  eventsPerSecond: number,
  seconds: number,
): Promise<PreparedLoad> {
  return prepareLoad(
    openLoop({
      url: daemon.url,
      request: context.requests(EVENTS_PER_REQUEST),
      connections: EVENT_CONNECTIONS,
      requestsPerSecond: eventsPerSecond / EVENTS_PER_REQUEST,
      seconds: seconds + LEAD_SECONDS + 1,
    }),
  )
}

function checked(report: LoadReport): LoadReport {
  expectOnlyOk(report)
  return report
}

function report(
  context: BenchContext,
  quiet: readonly LoadReport[],
  loaded: readonly LoadedRound[],
  eventsPerSecond: number,
): void {
  const beside = loaded.map(({ decisions }) => decisions)
  const p99 = median(beside.map(({ latencyMs }) => latencyMs.p99))
  const p99Alone = median(quiet.map(({ latencyMs }) => latencyMs.p99))
  const processed = median(loaded.map(({ processedPerSecond }) => processedPerSecond))
  const taken = median(loaded.map(({ events }) => events.eventsPerSecond))
  const refused = loaded.map(({ events }) => events.statuses['503'] ?? 0)
  const late = median(beside.map(({ latenessMs }) => latenessMs.p99))
  context.report({
    figure: `p99 of decisions beside ${eventsPerSecond} events/s, against alone`,
    value: p99,
    unit: 'ms',
    baseline: p99Alone,
    target: { of: 'ratio', bound: 'at most', limit: 4 },
    note:
      `median of ${beside.length}, ${DECISIONS_PER_SECOND} requests/s; ${taken.toFixed(0)} events/s ` +
      `acknowledged, ${processed.toFixed(0)} processed meanwhile, ${refused.join(', ')} requests ` +
      `refused with 503; the generator itself was late by p99 ${late.toFixed(2)} ms`,
  })
  context.report({
    figure: `p99 of decisions beside ${eventsPerSecond} events/s`,
    value: p99,
    unit: 'ms',
    target: { of: 'value', bound: 'under', limit: 10 },
    note: `slowest ${Math.max(...beside.map(({ latencyMs }) => latencyMs.max)).toFixed(2)} ms`,
  })
  context.report({
    figure: 'events/s processed meanwhile, against those sent',
    value: processed,
    unit: 'events/s',
    baseline: eventsPerSecond,
    target: { of: 'ratio', bound: 'at least', limit: 0.95 },
    note: 'below it the latencies above are those of a lower rate of processing',
  })
  context.report({
    figure: 'worst lag meanwhile: age of the oldest event not processed',
    value: Math.max(...loaded.map(({ worstLagSeconds }) => worstLagSeconds)),
    unit: 's',
    target: { of: 'value', bound: 'under', limit: 10 },
    note:
      `of the accepted events ` +
      `${(median(loaded.map(({ processedShare }) => processedShare)) * 100).toFixed(0)} % were ` +
      `processed when the last was sent; beyond 10 s events are refused`,
  })
  context.report({
    figure: `p50 of decisions beside ${eventsPerSecond} events/s, against alone`,
    value: median(beside.map(({ latencyMs }) => latencyMs.p50)),
    unit: 'ms',
    baseline: median(quiet.map(({ latencyMs }) => latencyMs.p50)),
  })
}
