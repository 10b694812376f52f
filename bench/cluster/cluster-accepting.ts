/**
 * Question: what does it cost to accept events on a disk and on a majority of brokers, compared with a disk alone?
 * Workload: three brokers and an edge on this machine, and one box on it, in turns, as closed loops: 100 events in a
 * request over 64 connections, one event over 512, and one over a single connection. Processing is excluded: the
 * processing node of the cluster is paused and receives all events at the end, and processing in the box has the lowest
 * priority and is not counted.
 * Baseline: one box.
 * Reconsider: the outbox, if it reaches only half the rate of a box.
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
import { closedLoop, type LoadReport, prepareLoad } from '../load.ts'
import { cpuSeconds, urgentCpuSeconds, urgentThreads } from '../proc.ts'
import { median } from '../samples.ts'
import { type ClusterNode, isInstalled, Machines } from './machines.ts'

export const CLUSTER_ACCEPTING: Bench = {
  name: 'cluster-accepting',
  group: 'cluster',
  question: 'What does it cost to accept events on a majority of brokers?',
  workload:
    'three brokers and an edge against one box, in turns; 100 events over 64 connections, 1 over 512, 1 over 1; who processes stands still',
  needsDaemon: true,
  run: measure,
}

const BATCH = 100
/** The number of distinct events. They are created again for each round. */
const DISTINCT_EVENTS = 6400
const STORED_MS_MAX = 120_000
const LOOK_MS = 200

/** How events are sent: the number of events in a request, and the number of connections. */
interface Way {
  readonly eventsPerRequest: number
  readonly connections: number
}

const BATCHES: Way = { eventsPerRequest: BATCH, connections: 64 }
const SINGLES: Way = { eventsPerRequest: 1, connections: 512 }
const ONE: Way = { eventsPerRequest: 1, connections: 1 }

/** The results of one round. */
interface Round extends LoadReport {
  /** The CPU seconds of the accepting processes. `brokerSeconds` are the CPU seconds of all brokers together. */
  readonly acceptingSeconds: number
  readonly brokerSeconds: number
}

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
    nodes: [[], ['--partitions', 'none']],
  })
  const box = await context.startDaemon({ args: ['--workers', '1'] })
  const sides = new Sides(context, machines, box)
  await sides.warm()
  await measureBatches(context, sides)
  await measureSingles(context, sides)
  await measureOne(context, sides)
  await sides.check()
}

/** The single machine (the box) and the cluster. */
class Sides {
  readonly #context: BenchContext
  readonly #machines: Machines
  readonly #box: Daemon
  readonly #holder: ClusterNode
  readonly #edge: ClusterNode
  #toBox = 0
  #toEdge = 0

  constructor(context: BenchContext, machines: Machines, box: Daemon) {
    const [holder, edge] = machines.nodes
    if (holder === undefined || edge === undefined) throw new RangeError('two nodes are needed')
    this.#context = context
    this.#machines = machines
    this.#box = box
    this.#holder = holder
    this.#edge = edge
  }

  /** Warms up both sides. The node that processes for the edge is then paused. */
  async warm(): Promise<void> {
    for (const way of [BATCHES, SINGLES]) {
      await this.#ofBox(way, this.#context.size(0.2, 1))
      await this.#ofCluster(way, this.#context.size(0.2, 1))
    }
    this.#holder.pause(true)
  }

  /** Runs interleaved rounds, and returns the results of the box and of the cluster. */
  async rounds(way: Way, count: number, seconds: number): Promise<readonly [Round[], Round[]]> {
    const [box = [], cluster = []] = await interleaved(count, [
      () => this.#ofBox(way, seconds),
      () => this.#ofCluster(way, seconds),
    ])
    return [box, cluster]
  }

  /**
   * Throws unless the box, and the node that processes for the edge, have stored every acknowledged event exactly once.
   */
  async check(): Promise<void> {
    this.#holder.pause(false)
    await expectAllStored(this.#box, this.#toBox)
    const deadline = performance.now() + STORED_MS_MAX
    let stored = await this.#holder.stored()
    while (stored < this.#toEdge && performance.now() < deadline) {
      await sleep(LOOK_MS)
      stored = await this.#holder.stored()
    }
    if (stored !== this.#toEdge) {
      throw new Error(`${this.#toEdge} events acknowledged by the edge, ${stored} stored`)
    }
  }

  async #ofBox(way: Way, seconds: number): Promise<Round> {
    const { url, pid } = this.#box
    const round = await this.#run(url, pid, way, seconds)
    this.#toBox += round.eventsAcknowledged
    await this.#box.drain()
    return round
  }

  async #ofCluster(way: Way, seconds: number): Promise<Round> {
    const round = await this.#run(this.#edge.url ?? '', this.#edge.pid, way, seconds)
    this.#toEdge += round.eventsAcknowledged
    return round
  }

  async #run(url: string, pid: number, way: Way, seconds: number): Promise<Round> {
    const { eventsPerRequest, connections } = way
    const request = this.#context.requests(eventsPerRequest, { distinctEvents: DISTINCT_EVENTS })
    const load = await prepareLoad(closedLoop({ url, request, connections, seconds }))
    const before = this.#cpu(pid)
    const report = await load.run()
    const after = this.#cpu(pid)
    expectOnlyOk(report)
    return {
      ...report,
      acceptingSeconds: urgentCpuSeconds(before.accepting, after.accepting),
      brokerSeconds: after.brokers - before.brokers,
    }
  }

  #cpu(pid: number) {
    const brokers = this.#machines.brokers.map((broker) => cpuSeconds(broker.pid))
    return {
      accepting: urgentThreads(pid),
      brokers: brokers.reduce((sum, seconds) => sum + seconds, 0),
    }
  }
}

async function measureBatches(context: BenchContext, sides: Sides): Promise<void> {
  const seconds = context.size(0.5, 1)
  const [box, cluster] = await sides.rounds(BATCHES, context.rounds(5), seconds)
  const edge = median(cluster.map((round) => usPerEvent(round, round.acceptingSeconds)))
  const brokers = median(cluster.map((round) => usPerEvent(round, round.brokerSeconds)))
  context.report({
    figure: 'events/s in batches of 100, against one box',
    value: median(cluster.map((round) => round.eventsPerSecond)),
    unit: 'events/s',
    baseline: median(box.map((round) => round.eventsPerSecond)),
    target: { of: 'ratio', bound: 'at least', limit: 0.6 },
    note: `median of ${cluster.length}; two cores for edge, brokers and generator`,
  })
  context.report({
    figure:
      'CPU of edge and brokers together, per event of a batch of 100, against accepting on one box',
    value: edge + brokers,
    unit: 'us',
    baseline: median(box.map((round) => usPerEvent(round, round.acceptingSeconds))),
    target: { of: 'value', bound: 'at most', limit: 12 },
    note: `edge ${edge.toFixed(1)}, three brokers ${brokers.toFixed(1)}; messages compressed`,
  })
}

async function measureSingles(context: BenchContext, sides: Sides): Promise<void> {
  const [box, cluster] = await sides.rounds(SINGLES, context.rounds(5), context.size(0.5, 1))
  context.report({
    figure: 'single events/s over 512 connections, against one box',
    value: median(cluster.map((round) => round.eventsPerSecond)),
    unit: 'events/s',
    baseline: median(box.map((round) => round.eventsPerSecond)),
    target: { of: 'ratio', bound: 'at least', limit: 0.8 },
    note: `${cpuNote('edge', cluster)}, ${brokersNote(cluster)}, ${cpuNote('box', box)}`,
  })
}

async function measureOne(context: BenchContext, sides: Sides): Promise<void> {
  const [box, cluster] = await sides.rounds(ONE, context.rounds(3), context.size(0.5, 1))
  context.report({
    figure: 'p50 acknowledgment of one connection, against one box',
    value: median(cluster.map((round) => round.latencyMs.p50)),
    unit: 'ms',
    baseline: median(box.map((round) => round.latencyMs.p50)),
    target: { of: 'value', bound: 'at most', limit: 2.5 },
    note: `p99 ${median(cluster.map((round) => round.latencyMs.p99)).toFixed(1)} ms`,
  })
}

function usPerEvent({ eventsAcknowledged }: Round, seconds: number): number {
  return (seconds * 1e6) / eventsAcknowledged
}

function cpuNote(name: string, rounds: readonly Round[]): string {
  return `CPU of the ${name} ${median(rounds.map((round) => usPerEvent(round, round.acceptingSeconds))).toFixed(1)} us`
}

function brokersNote(rounds: readonly Round[]): string {
  return `of three brokers ${median(rounds.map((round) => usPerEvent(round, round.brokerSeconds))).toFixed(1)} us`
}
