/**
 * Question: what does the HTTP server of Node cost, compared with uWebSockets.js?
 * Workload: two daemons that differ only in the setting `http_server`. Requests with one event, and requests that are
 * answered at once, over 256 connections, as a closed loop with `fsync`. Events are processed meanwhile.
 * Baseline: the daemon with `uws`.
 * Reconsider: serving with `node` where there is no alternative, if the ratio is below 0.45.
 */
import type { Daemon } from '../daemon.ts'
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

export const HTTP_SERVERS: Bench = {
  name: 'http-servers',
  group: 'ingest',
  question: 'What does the HTTP server of Node cost, compared with uWebSockets.js?',
  workload:
    '1 event a request, and /_livez; 256 connections, closed loop, fsync; http_server node and uws in turn',
  needsDaemon: true,
  run: measure,
}

const CONNECTIONS = 256
const SETTLE_MS = 500
const SERVERS = ['node', 'uws'] as const

async function measure(context: BenchContext): Promise<void> {
  const start = (server: string) =>
    context.startDaemon({ environment: { TENREC_HTTP_SERVER: server } })
  const daemons = [await start(SERVERS[0]), await start(SERVERS[1])] as const
  const accepted = await loadBoth(context, daemons, () => context.requests(1))
  for (const [index, daemon] of daemons.entries()) {
    const reports = accepted[index] ?? []
    const events = reports.reduce((sum, { eventsAcknowledged }) => sum + eventsAcknowledged, 0)
    await expectAllStored(daemon, events)
  }
  report(context, 'events/s acknowledged, one in a request', accepted, 0.45)
  const answered = await loadBoth(context, daemons, () => ({ kind: 'get', path: '/_livez' }))
  report(context, 'requests/s of /_livez', answered)
}

function loadBoth(
  context: BenchContext,
  daemons: readonly Daemon[],
  request: () => Parameters<typeof closedLoop>[0]['request'],
): Promise<readonly (readonly LoadReport[])[]> {
  const sides = daemons.map((daemon) => async () => {
    const { url, pid: serverPid } = daemon
    const seconds = { warmupSeconds: context.size(0.2, 2), seconds: context.size(1, 6) }
    const load = { url, request: request(), connections: CONNECTIONS, serverPid, ...seconds }
    const report = await runLoad(closedLoop(load))
    expectOnlyOk(report)
    await daemon.drain()
    await sleep(SETTLE_MS)
    return report
  })
  return interleaved(context.rounds(5, 2), sides)
}

function report(
  context: BenchContext,
  figure: string,
  [ours = [], theirs = []]: readonly (readonly LoadReport[])[],
  limit?: number,
): void {
  context.report({
    figure: `${figure}, node against uws`,
    value: median(ours.map(({ requestsPerSecond }) => requestsPerSecond)),
    unit: 'requests/s',
    baseline: median(theirs.map(({ requestsPerSecond }) => requestsPerSecond)),
    ...(limit === undefined ? {} : { target: { of: 'ratio', bound: 'at least', limit } }),
    note: `median of ${ours.length}; ${CONNECTIONS} requests always in flight`,
  })
  context.report({
    figure: `CPU per request, ${figure.replace(/^\S+ /, '')}, node against uws`,
    value: median(ours.map(cpuUsPerRequest)),
    unit: 'us',
    baseline: median(theirs.map(cpuUsPerRequest)),
    note: 'all threads of the server',
  })
}

function cpuUsPerRequest({ serverCpuSeconds, requests }: LoadReport): number {
  return ((serverCpuSeconds ?? 0) * 1e6) / requests
}
