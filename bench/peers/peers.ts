/**
 * Question: how does durable acknowledgment of the same events compare with the components that people would combine
 * for it?
 * Workload: requests of 1, 100 and 1000 events, closed loop, 256, 64 and 16 connections, one generator for all. Rounds
 * are interleaved. After each round the acknowledged events are counted in the store and then deleted.
 * Baselines: Debian's packages, started and stopped by the bench: fastify + PostgreSQL (npm packages in a folder of the
 * bench), NATS JetStream, Redis streams, ClickHouse, InfluxDB. Missing ones are left out and named. CPU time is that of
 * all processes of a side until all acknowledged events are processed.
 * Reconsider: the log, if it handles less than 8 times the events/s of a durable peer.
 */

import { PROJECT_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, sleep } from '../harness.ts'
import { treeCpuSeconds } from '../proc.ts'
import type { Target } from '../report.ts'
import { median } from '../samples.ts'
import { type PeerLoadReport, runPeerLoad } from './peer-load.ts'
import { FASTIFY_NAME, type Peer, startPeers } from './peers-started.ts'

export const PEERS: Bench = {
  name: 'peers',
  group: 'peers',
  question: 'How does durable acknowledgment compare with common databases and brokers?',
  workload: 'the same events, 1, 100 and 1000 a request, closed loop of 256, 64 and 16 connections',
  needsDaemon: true,
  run: measure,
}

/** The sizes of requests in events, and the number of connections for each size. */
const SIZES = [
  [1, 256],
  [100, 64],
  [1000, 16],
] as const
const SETTLE_MS = 300
/** After this time, no further round of a size begins. */
const ROUNDS_MS_MAX = 75_000
const WARM_UP_SECONDS = 0.5
const SINGLE_RATE_MIN = 8
const SINGLE_CPU_MAX = 1 / 15
const BATCH_RATE_MIN = 1.5
const BATCH_RATE_DURABLE_MIN = 8

/** The results of one round of one side. */
interface Round extends PeerLoadReport {
  readonly cpuUsPerEvent: number
}

/** All rounds of one side with one size of request. */
interface Side {
  readonly peer: Peer
  readonly rounds: Round[]
  /** The reason why the side no longer takes part. Null while it takes part. */
  failure: string | null
}

async function measure(context: BenchContext): Promise<void> {
  const { peers, missing } = await startPeers(context)
  for (const reason of missing) console.error(`# left out: ${reason}`)
  for (const [events, connections] of SIZES) {
    const fitting = peers.filter(({ protocol }) => events > 1 || protocol !== 'nats-batches')
    const sides = fitting.map((peer): Side => ({ peer, rounds: [], failure: null }))
    for (const side of sides) await take(context, side, events, connections, true)
    const endMs = performance.now() + ROUNDS_MS_MAX
    for (let round = 0; round < context.rounds(3); round++) {
      if (round > 0 && performance.now() > endMs) break
      const order = round % 2 === 0 ? sides : sides.toReversed()
      for (const side of order) await take(context, side, events, connections, false)
    }
    report(context, sides, events)
  }
  context.report({
    figure: 'peers that took part',
    value: peers.length - 1,
    unit: 'peers',
    note: descriptionOf(peers, missing),
  })
}

/** Runs one round. If a peer fails, it takes part in no further round, and the notes contain the reason. */
async function take(
  context: BenchContext,
  side: Side,
  events: number,
  connections: number,
  isWarmUp: boolean,
): Promise<void> {
  if (side.failure !== null) return
  try {
    const round = await load(context, side.peer, events, connections, isWarmUp)
    if (!isWarmUp) side.rounds.push(round)
  } catch (error) {
    if (side.peer.name === 'Tenrec') throw error
    side.failure = error instanceof Error ? error.message : String(error)
    console.error(`# ${side.peer.name} fails with ${events} events a request: ${side.failure}`)
  }
}

async function load(
  context: BenchContext,
  peer: Peer,
  eventsPerRequest: number,
  connections: number,
  isWarmUp: boolean,
): Promise<Round> {
  const { stream, seed, distinctEvents } = context.requests(eventsPerRequest)
  const cpu = (): number => peer.pids.reduce((sum, pid) => sum + treeCpuSeconds(pid), 0)
  await peer.clear()
  let cpuBefore = 0
  const report = await runPeerLoad(
    {
      protocol: peer.protocol,
      port: peer.port,
      projectKey: PROJECT_KEY,
      eventsPerRequest,
      seed,
      stream,
      distinctEvents: Math.min(distinctEvents, 20_000),
      connections: Math.min(connections, peer.connectionsMax),
      warmupSeconds: context.size(0.1, 0.3),
      seconds: isWarmUp ? WARM_UP_SECONDS : context.size(0.5, 1.5),
    },
    () => {
      cpuBefore = cpu()
    },
  )
  await peer.settle()
  await sleep(SETTLE_MS)
  const cpuUs = (cpu() - cpuBefore) * 1e6
  await expectStored(peer, report, eventsPerRequest)
  await peer.clear()
  return { ...report, cpuUsPerEvent: cpuUs / report.eventsAcknowledged }
}

/** Throws unless a side has all acknowledged events. Events of unanswered requests may be stored or not. */
async function expectStored(peer: Peer, report: PeerLoadReport, events: number): Promise<void> {
  const { eventsAcknowledged, requestsRefused, requestsLost, refusal } = report
  const unit = peer.protocol === 'nats-batches' ? events : 1
  const stored = (await peer.count()) * unit
  if (eventsAcknowledged === 0) throw new Error(`nothing was acknowledged: ${refusal}`)
  const most = eventsAcknowledged + (requestsRefused + requestsLost) * events
  if (stored >= eventsAcknowledged && stored <= most) return
  throw new Error(`${eventsAcknowledged} events acknowledged, ${stored} stored`)
}

function report(context: BenchContext, sides: readonly Side[], events: number): void {
  const [ours, ...others] = sides
  if (ours === undefined) return
  const size = events === 1 ? 'single events' : `batches of ${events}`
  for (const side of others) {
    const { peer, rounds, failure } = side
    if (rounds.length === 0) {
      const note = `no figures: ${failure ?? 'no round'}`
      context.report({ figure: `${size}: ${peer.name}`, value: 0, unit: 'events/s', note })
      continue
    }
    context.report({
      figure: `${size}: events/s acknowledged, against ${peer.name}`,
      value: rateOf(ours),
      unit: 'events/s',
      baseline: rateOf(side),
      ...targetOf(peer, events),
      note: noteOf(ours, side),
    })
    const isJudged = events === 1 && peer.name === FASTIFY_NAME
    context.report({
      figure: `${size}: CPU per event, against ${peer.name}`,
      value: median(ours.rounds.map((round) => round.cpuUsPerEvent)),
      unit: 'us',
      baseline: median(rounds.map((round) => round.cpuUsPerEvent)),
      ...(isJudged
        ? { target: { of: 'ratio', bound: 'at most', limit: Number(SINGLE_CPU_MAX.toFixed(4)) } }
        : {}),
      note:
        'all processes of the side, until the acknowledged events are worked off, with Tenrec those ' +
        'that keep persons and make columns',
    })
  }
}

function targetOf(peer: Peer, events: number): { readonly target?: Target } {
  const atLeast = (limit: number): { readonly target: Target } => ({
    target: { of: 'ratio', bound: 'at least', limit },
  })
  if (events === 1) return peer.name === FASTIFY_NAME ? atLeast(SINGLE_RATE_MIN) : {}
  if (events !== 100 || peer.protocol === 'nats-batches') return {}
  return atLeast(peer.isDurable ? BATCH_RATE_DURABLE_MIN : BATCH_RATE_MIN)
}

function rateOf(side: Side): number {
  return median(side.rounds.map((round) => round.eventsPerSecond))
}

function noteOf(ours: Side, theirs: Side): string {
  const latencies = [ours, theirs].map(({ peer, rounds }) => {
    const p50 = median(rounds.map((round) => round.p50Ms)).toFixed(1)
    const p99 = median(rounds.map((round) => round.p99Ms)).toFixed(1)
    const cores = median(rounds.map((round) => round.generatorCores)).toFixed(2)
    const refused = rounds.reduce((sum, round) => sum + round.requestsRefused, 0)
    const lost = rounds.reduce((sum, round) => sum + round.requestsLost, 0)
    const refusal = rounds.find((round) => round.refusal !== '')?.refusal ?? ''
    const trouble = refused + lost === 0 ? '' : `, ${refused} refused, ${lost} lost ${refusal}`
    return `${peer.name} p50 ${p50} ms, p99 ${p99} ms, generator ${cores} cores${trouble}`
  })
  const failed = theirs.failure === null ? '' : `; then it failed: ${theirs.failure}`
  const text = `medians of ${theirs.rounds.length}; ${latencies.join('; ')}${failed}`
  const flush = theirs.peer.isDurable ? '' : ', which answers before it flushes'
  return `${text}${flush}`.replaceAll(/[\s|]+/g, ' ')
}

function descriptionOf(peers: readonly Peer[], missing: readonly string[]): string {
  const told = peers.map(({ name, description }) => `${name}: ${description}`)
  return [...told, ...missing.map((reason) => `left out: ${reason}`)].join('; ')
}
