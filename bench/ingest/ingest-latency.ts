/**
 * Question: how long does a client wait for an acknowledgment that means "on disk"?
 * Workload: 20,000 single-event requests/s, open loop, 128 connections, `fsync`. The rate is 10,000 on a machine where
 * a request to a bare server costs more than 15 us at that rate, because accepting and processing would then need two
 * complete cores. Latency is measured from the intended time of sending.
 * Baseline: (a) a bare uWebSockets.js server under the same load.
 * Reconsider: committing in a separate thread, if the p99 is more than 4 times that of the bare server.
 */
import { USUAL_LAG_LIMIT } from '../daemon.ts'
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
  sleep,
} from '../harness.ts'
import { type LoadReport, openLoop, runLoad } from '../load.ts'
import { median } from '../samples.ts'

export const INGEST_LATENCY: Bench = {
  name: 'ingest-latency',
  group: 'ingest',
  question: 'How long does a client wait for an acknowledgment that means "on disk"?',
  workload:
    '20,000 single-event requests/s (10,000 on a slow machine), open loop, 128 connections, fsync',
  needsDaemon: true,
  run: measure,
}

const CONNECTIONS = 128
const SETTLE_MS = 500
const REQUESTS_PER_SECOND = 20_000
const SLOW_REQUESTS_PER_SECOND = 10_000
/** If a request to a bare server takes more CPU time than this, in microseconds, the machine counts as slow. */
const BARE_REQUEST_MAX_US = 15

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon({ environment: USUAL_LAG_LIMIT })
  const bare = await context.startBaseline('bare-server')
  const load = async (
    server: { url: string; pid: number },
    requestsPerSecond: number,
  ): Promise<LoadReport> => {
    const report = await runLoad(
      openLoop({
        url: server.url,
        request: context.requests(1),
        connections: CONNECTIONS,
        requestsPerSecond: context.size(2000, requestsPerSecond),
        warmupSeconds: context.size(0.2, 2),
        seconds: context.size(0.5, 8),
        serverPid: server.pid,
      }),
    )
    expectOnlyOk(report)
    return report
  }
  const trial = await load(bare, REQUESTS_PER_SECOND)
  const bareRequestMicroseconds = (cores(trial) / REQUESTS_PER_SECOND) * 1e6
  const rate =
    bareRequestMicroseconds > BARE_REQUEST_MAX_US ? SLOW_REQUESTS_PER_SECOND : REQUESTS_PER_SECOND
  let acknowledged = 0
  const [ours = [], theirs = []] = await interleaved(context.rounds(5), [
    async () => {
      const report = await load(daemon, rate)
      acknowledged += report.eventsAcknowledged
      await daemon.drain()
      await sleep(SETTLE_MS)
      return report
    },
    () => load(bare, rate),
  ])
  await expectAllStored(daemon, acknowledged)
  context.report({
    figure: 'p99 acknowledgment, against a bare server (a)',
    value: median(ours.map((report) => report.latencyMs.p99)),
    unit: 'ms',
    baseline: median(theirs.map((report) => report.latencyMs.p99)),
    target: { of: 'ratio', bound: 'at most', limit: 4 },
    note: `median of ${ours.length}; ${rate} requests/s, as a bare request costs ${bareRequestMicroseconds.toFixed(1)} us; ${lateness('daemon', ours)}; ${lateness('bare server', theirs)}`,
  })
  context.report({
    figure: 'p50 acknowledgment, against a bare server (a)',
    value: median(ours.map((report) => report.latencyMs.p50)),
    unit: 'ms',
    baseline: median(theirs.map((report) => report.latencyMs.p50)),
  })
  context.report({
    figure: 'busy cores of the server at this rate, against a bare server (a)',
    value: median(ours.map(cores)),
    unit: 'cores',
    baseline: median(theirs.map(cores)),
    note: 'all threads: accepting, writing and processing',
  })
}

function cores(report: LoadReport): number {
  return (report.serverCpuSeconds ?? 0) / report.seconds
}

function lateness(name: string, reports: readonly LoadReport[]): string {
  const p99 = median(reports.map((report) => report.latenessMs.p99))
  return `under ${name} load the generator itself was late by p99 ${p99.toFixed(2)} ms`
}
