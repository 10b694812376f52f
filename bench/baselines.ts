/**
 * Question: what is the maximum rate of this machine, and does the load generator limit it?
 * Workload: the baselines of the ingest benches alone, with 1 and 100 events in a request.
 * Reconsider: all rates, if the generator is busier than the bare server. Every rate is then the generator's, and only
 * CPU time per request can be compared.
 */
import { type Bench, type BenchContext, expectOnlyOk } from './harness.ts'
import { closedLoop, openLoop, runLoad } from './load.ts'

export const BASELINES: Bench = {
  name: 'baselines',
  group: 'baselines',
  question: 'What is the maximum rate of this machine, and does the load generator limit it?',
  workload: 'bare uWebSockets.js servers (collect; collect and parse) and JSON.parse in a loop',
  needsDaemon: false,
  run: measure,
}

async function measure(context: BenchContext): Promise<void> {
  await closed(context, 'bare-server', 1, 256)
  await closed(context, 'bare-server', 100, 16)
  await closed(context, 'parse-server', 100, 16)
  await open(context)
  for (const eventsPerBody of [1, 100]) {
    const events = context.size(20_000, 1_000_000)
    context.report({
      figure: `JSON.parse in a loop, ${eventsPerBody} events a body: CPU per event`,
      value: await context.measureParseLoop(eventsPerBody, events),
      unit: 'us',
    })
  }
}

async function closed(
  context: BenchContext,
  name: 'bare-server' | 'parse-server',
  eventsPerRequest: number,
  connections: number,
): Promise<void> {
  const server = await context.startBaseline(name)
  const report = await runLoad(
    closedLoop({
      url: server.url,
      request: context.requests(eventsPerRequest),
      connections,
      warmupSeconds: context.size(0.2, 2),
      seconds: context.size(0.5, 6),
      serverPid: server.pid,
    }),
  )
  await server.stop()
  expectOnlyOk(report)
  const serverCores = (report.serverCpuSeconds ?? 0) / report.seconds
  context.report({
    figure: `${name}, ${eventsPerRequest} events a request, ${connections} connections`,
    value: report.requestsPerSecond,
    unit: 'requests/s',
    note:
      `p50 ${report.latencyMs.p50} ms, p99 ${report.latencyMs.p99} ms; busy cores: server ` +
      `${serverCores.toFixed(2)}, generator ${report.generatorCores.toFixed(2)}`,
  })
}

async function open(context: BenchContext): Promise<void> {
  const server = await context.startBaseline('bare-server')
  const requestsPerSecond = context.size(2000, 20_000)
  const report = await runLoad(
    openLoop({
      url: server.url,
      request: context.requests(1),
      connections: 128,
      requestsPerSecond,
      warmupSeconds: context.size(0.2, 2),
      seconds: context.size(0.5, 10),
    }),
  )
  await server.stop()
  expectOnlyOk(report)
  context.report({
    figure: `bare-server, open loop at ${requestsPerSecond} requests/s: p99`,
    value: report.latencyMs.p99,
    unit: 'ms',
    note:
      `p50 ${report.latencyMs.p50} ms, max ${report.latencyMs.max} ms; requests were written late ` +
      `by p50 ${report.latenessMs.p50} ms, p99 ${report.latenessMs.p99} ms`,
  })
}
