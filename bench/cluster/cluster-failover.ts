/**
 * Question: how long does a client wait while a broker fails?
 * Workload: three brokers and an edge on this machine. Batches of ten events are sent over 16 connections, as an open
 * loop of 200 requests a second for six seconds. Runs without a fault alternate with runs in which the broker that
 * leads the stream is killed.
 * Baseline: the longest acknowledgment of the runs without a fault.
 * Reconsider: acknowledging from the disk alone after a second, if an acknowledgment takes much longer.
 */
import { type Bench, type BenchContext, expectOnlyOk, interleaved, sleep } from '../harness.ts'
import { type LoadReport, openLoop, prepareLoad } from '../load.ts'
import { median } from '../samples.ts'
import { isInstalled, Machines } from './machines.ts'

export const CLUSTER_FAILOVER: Bench = {
  name: 'cluster-failover',
  group: 'cluster',
  question: 'How long does a client wait while a broker fails?',
  workload:
    'three brokers and an edge; 200 batches of 10 a second over 16 connections; the broker that leads is killed, or none',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 10
const CONNECTIONS = 16
const REQUESTS_PER_SECOND = 200
const KILLED_AFTER_MS = 1500
const CURRENT_MS_MAX = 30_000
const LOOK_MS = 100

async function measure(context: BenchContext): Promise<void> {
  if (!isInstalled('nats-server')) {
    console.error('# left out: nats-server is not installed')
    return
  }
  const machines = await Machines.make({
    context,
    machines: 3,
    hasWarehouse: false,
    isTogether: true,
    nodes: [['--partitions', 'none']],
  })
  await run(context, machines, false)
  const [quiet = [], broken = []] = await interleaved(context.rounds(3), [
    () => run(context, machines, false),
    () => run(context, machines, true),
  ])
  const longest = broken.map(({ latencyMs }) => latencyMs.max)
  context.report({
    figure: 'longest acknowledgment while the leading broker is killed, against none',
    value: Math.max(...longest),
    unit: 'ms',
    baseline: Math.max(...quiet.map(({ latencyMs }) => latencyMs.max)),
    target: { of: 'value', bound: 'at most', limit: 1200 },
    note: `of ${longest.length} kills: ${longest.map((ms) => ms.toFixed(0)).join(', ')} ms; p50 ${median(broken.map(({ latencyMs }) => latencyMs.p50)).toFixed(1)} ms`,
  })
}

async function run(
  context: BenchContext,
  machines: Machines,
  isBroken: boolean,
): Promise<LoadReport> {
  await current(machines)
  const load = await prepareLoad(
    openLoop({
      url: machines.nodes[0]?.url ?? '',
      request: context.requests(EVENTS_PER_REQUEST),
      connections: CONNECTIONS,
      requestsPerSecond: REQUESTS_PER_SECOND,
      seconds: context.size(3, 6),
    }),
  )
  const running = load.run()
  await sleep(KILLED_AFTER_MS)
  const broker = isBroken ? machines.brokers[await machines.leader()] : undefined
  if (isBroken && broker === undefined) throw new Error('no broker leads the stream')
  await broker?.kill()
  const report = await running
  broker?.begin()
  expectOnlyOk(report)
  return report
}

/** Waits until all brokers have all messages. */
async function current(machines: Machines): Promise<void> {
  const deadline = performance.now() + CURRENT_MS_MAX
  while ((await machines.unequal()) !== null) {
    if (performance.now() > deadline) throw new Error('the brokers do not become equal')
    await sleep(LOOK_MS)
  }
}
