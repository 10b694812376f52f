/**
 * Question: does accepting batches cost less than parsing them once would?
 * Workload: 100 events in a request, 64 connections, closed loop, `fsync`. Processing runs meanwhile.
 * Baseline: (b) a bare server that runs one `JSON.parse` over the body and stores nothing.
 * Reconsider: accepting without parsing, if the ratio is near 1.
 */
import { type Bench, type BenchContext, expectAllStored, interleaved, sleep } from '../harness.ts'
import { closedLoop, type LoadReport, runLoad } from '../load.ts'
import { median } from '../samples.ts'

export const INGEST_BATCH: Bench = {
  name: 'ingest-batch',
  group: 'ingest',
  question: 'Does accepting batches cost less than parsing them once would?',
  workload: '100 events a request, 64 connections, closed loop, fsync, processing runs meanwhile',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 64
const SETTLE_MS = 500

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon()
  const parsing = await context.startBaseline('parse-server')
  const load = (server: { url: string; pid: number }): Promise<LoadReport> =>
    runLoad(
      closedLoop({
        url: server.url,
        request: context.requests(EVENTS_PER_REQUEST),
        connections: CONNECTIONS,
        warmupSeconds: context.size(0.2, 1),
        seconds: context.size(0.5, 3),
        serverPid: server.pid,
      }),
    )
  let acknowledged = 0
  let refused = 0
  const [ours = [], theirs = []] = await interleaved(context.rounds(5), [
    async () => {
      const report = await load(daemon)
      acknowledged += report.eventsAcknowledged
      refused += refusals(report)
      await daemon.drain()
      await sleep(SETTLE_MS)
      return report
    },
    () => load(parsing),
  ])
  await expectAllStored(daemon, acknowledged)
  context.report({
    figure: 'events/s acknowledged, against a server that parses and stores nothing (b)',
    value: median(ours.map((report) => report.eventsPerSecond)),
    unit: 'events/s',
    baseline: median(theirs.map((report) => report.eventsPerSecond)),
    target: { of: 'ratio', bound: 'at least', limit: 3.5 },
    note: `median of ${ours.length}; ${refused} requests refused with 503 for a full queue`,
  })
  context.report({
    figure: 'server CPU per event while accepting, against (b)',
    value: median(ours.map(cpuUsPerEvent)),
    unit: 'us',
    baseline: median(theirs.map(cpuUsPerEvent)),
    note: 'all threads: includes the processing that ran in the same seconds',
  })
  context.report({
    figure: 'p99 acknowledgment at that load, against (b)',
    value: median(ours.map((report) => report.latencyMs.p99)),
    unit: 'ms',
    baseline: median(theirs.map((report) => report.latencyMs.p99)),
  })
}

/**
 * Returns the number of requests that were answered with 503. Throws if a request was refused otherwise, or was lost.
 */
function refusals(report: LoadReport): number {
  const { 200: _accepted, 503: refused = 0, ...others } = report.statuses
  if (Object.keys(others).length > 0 || report.requestsLost > 0) {
    throw new Error(`answers ${JSON.stringify(report.statuses)}, lost ${report.requestsLost}`)
  }
  return refused
}

function cpuUsPerEvent(report: LoadReport): number {
  return ((report.serverCpuSeconds ?? 0) * 1e6) / report.events
}
