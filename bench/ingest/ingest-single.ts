/**
 * Question: how much of a bare server's request rate is left if every event is on disk before its answer?
 * Workload: one event in a request, 256 connections, closed loop, `fsync`. Events are processed meanwhile.
 * Baseline: (a) a bare uWebSockets.js server that collects the body and answers.
 * Reconsider: the group commit, if the ratio is below 0.55.
 */
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
  sleep,
} from '../harness.ts'
import { closedLoop, type LoadReport, runLoad } from '../load.ts'
import { median } from '../samples.ts'

export const INGEST_SINGLE: Bench = {
  name: 'ingest-single',
  group: 'ingest',
  question: "How much of a bare server's request rate is left if events are on disk first?",
  workload: '1 event a request, 256 connections, closed loop, fsync, processing runs meanwhile',
  needsDaemon: true,
  run: measure,
}

const CONNECTIONS = 256
const SETTLE_MS = 500

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon()
  const bare = await context.startBaseline('bare-server')
  const load = async (server: { url: string; pid: number }): Promise<LoadReport> => {
    const report = await runLoad(
      closedLoop({
        url: server.url,
        request: context.requests(1),
        connections: CONNECTIONS,
        warmupSeconds: context.size(0.2, 2),
        seconds: context.size(0.5, 6),
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
    figure: 'requests/s acknowledged, against a bare server (a)',
    value: median(ours.map((report) => report.requestsPerSecond)),
    unit: 'requests/s',
    baseline: median(theirs.map((report) => report.requestsPerSecond)),
    target: { of: 'ratio', bound: 'at least', limit: 0.55 },
    note: `median of ${ours.length}; ${busy('daemon', ours)}; ${busy('bare server', theirs)}`,
  })
  context.report({
    figure: 'server CPU per request while accepting, against a bare server (a)',
    value: median(ours.map(cpuUsPerRequest)),
    unit: 'us',
    baseline: median(theirs.map(cpuUsPerRequest)),
    note: 'all threads: includes the processing that ran in the same seconds',
  })
  context.report({
    figure: 'p99 acknowledgment at that load, against a bare server (a)',
    value: median(ours.map((report) => report.latencyMs.p99)),
    unit: 'ms',
    baseline: median(theirs.map((report) => report.latencyMs.p99)),
    note: `${CONNECTIONS} requests always in flight`,
  })
}

function cpuUsPerRequest(report: LoadReport): number {
  return ((report.serverCpuSeconds ?? 0) * 1e6) / report.requests
}

function busy(name: string, reports: readonly LoadReport[]): string {
  const server = median(reports.map((report) => (report.serverCpuSeconds ?? 0) / report.seconds))
  const generator = median(reports.map((report) => report.generatorCores))
  return `${name} ${server.toFixed(2)} cores busy with the generator at ${generator.toFixed(2)}`
}
