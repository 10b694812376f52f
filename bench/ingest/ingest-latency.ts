/**
 * Question: how long does a client wait for an acknowledgement that means "on disk"?
 * Workload: 20,000 single-event requests/s, open loop, 128 connections, `fsync`; latency counts from
 * the intended time of sending.
 * Baseline: (a) a bare uWebSockets.js server under the same load.
 * What would change our mind about committing in a thread of its own: a p99 over 4 times the bare
 * server's.
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
  question: 'How long does a client wait for an acknowledgement that means "on disk"?',
  workload: '20,000 single-event requests/s, open loop, 128 connections, fsync',
  needsDaemon: true,
  run: measure,
}

const CONNECTIONS = 128
const SETTLE_MS = 500

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon({ environment: USUAL_LAG_LIMIT })
  const bare = await context.startBaseline('bare-server')
  const load = async (server: { url: string; pid: number }): Promise<LoadReport> => {
    const report = await runLoad(
      openLoop({
        url: server.url,
        request: context.requests(1),
        connections: CONNECTIONS,
        requestsPerSecond: context.size(2000, 20_000),
        warmupSeconds: context.size(0.2, 2),
        seconds: context.size(0.5, 8),
        serverPid: server.pid,
      }),
    )
    expectOnlyOk(report)
    return report
  }
  let acknowledged = 0
  const [ours = [], theirs = []] = await interleaved(context.rounds(5), [
    async () => {
      const report = await load(daemon)
      acknowledged += report.eventsAcknowledged
      await daemon.drain()
      await sleep(SETTLE_MS)
      return report
    },
    () => load(bare),
  ])
  await expectAllStored(daemon, acknowledged)
  context.report({
    figure: 'p99 acknowledgement, against a bare server (a)',
    value: median(ours.map((report) => report.latencyMs.p99)),
    unit: 'ms',
    baseline: median(theirs.map((report) => report.latencyMs.p99)),
    target: { of: 'ratio', bound: 'at most', limit: 4 },
    note: `median of ${ours.length}; ${lateness('daemon', ours)}; ${lateness('bare server', theirs)}`,
  })
  context.report({
    figure: 'p50 acknowledgement, against a bare server (a)',
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
