/**
 * Question: what do persons cost in processing, memory and answers?
 * Workload: traffic of 20,000 persons; then a million persons with some 30 properties, hit uniformly, up to 10 million
 * events (`--persons`, `--events` for fewer); reads after a restart; merges; the deletion of a person with 100,000
 * events under load; random histories against the reference model.
 * Baseline: (c) `JSON.parse` of the same bodies in a loop in a new process. For the deletion, ingestion without one.
 * Reconsider: the storage of persons, if a target is missed widely at a million persons.
 */

import type { Daemon } from '../daemon.ts'
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
} from '../harness.ts'
import type { EventRequestOptions } from '../ingest/bodies.ts'
import { closedLoop, runLoad } from '../load.ts'
import { median } from '../samples.ts'
import { measureDeletion } from './persons-deletion.ts'
import { measureHistories } from './persons-histories.ts'
import { measureReads } from './persons-reads.ts'

export const PERSONS: Bench = {
  name: 'persons',
  group: 'persons',
  question: 'What do persons cost, in processing, memory and answers?',
  workload:
    '20,000 persons, skewed; a million persons, uniform; restart and reads; merges; a deletion',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 32
/**
 * The number of events that one generator process sends. Their bodies are made before it sends, and take a kilobyte for
 * each event.
 */
const ARRIVALS_PER_RUN = 100_000
const EVENTS_PER_RUN = 500_000
const FEW_PERSONS = 20_000

async function measure(context: BenchContext): Promise<void> {
  measureHistories(context, context.size(200, 10_000))
  await measureFew(context)
  const persons = context.persons(5000, 1_000_000)
  const dataDir = context.newFolder()
  const daemon = await context.startDaemon({ dataDir })
  let stored = await sendArrivals(context, daemon, persons)
  stored += await measureMany(context, daemon, persons)
  stored += await fill(context, daemon, persons, context.events(20_000, 10_000_000) - stored)
  await expectAllStored(daemon, stored)
  await daemon.stop()
  const again = await context.startDaemon({ dataDir })
  await measureReads(context, again, { persons, events: stored })
  await measureMerges(context, again, persons)
  await again.stop()
  await measureDeletion(context)
}

/** Sends `count` events, and waits until they are processed. */
async function sendAll(
  daemon: Daemon,
  request: EventRequestOptions,
  count: number,
): Promise<{ readonly sent: number; readonly seconds: number }> {
  const report = await runLoad(
    closedLoop({
      url: daemon.url,
      request,
      connections: CONNECTIONS,
      seconds: 900,
      requestsMax: Math.ceil(count / EVENTS_PER_REQUEST),
    }),
  )
  expectOnlyOk(report)
  const drainMs = await daemon.drain()
  return { sent: report.eventsAcknowledged, seconds: report.seconds + drainMs / 1000 }
}

/** Returns the CPU time of the daemon per event of one load, in microseconds. */
async function cpuOf(
  daemon: Daemon,
  request: EventRequestOptions,
  count: number,
): Promise<{ readonly us: number; readonly sent: number }> {
  const before = daemon.cpuSeconds()
  const { sent } = await sendAll(daemon, request, count)
  return { us: ((daemon.cpuSeconds() - before) * 1e6) / sent, sent }
}

async function measureFew(context: BenchContext): Promise<void> {
  const users = context.size(500, FEW_PERSONS)
  const events = context.size(5000, 200_000)
  const daemon = await context.startDaemon()
  await sendArrivals(context, daemon, users)
  // The first events are not measured, because their cost includes compilation.
  await sendAll(daemon, context.requests(EVENTS_PER_REQUEST, { users }), events / 4)
  const [ours = [], theirs = []] = await interleaved(context.rounds(5), [
    async () => (await cpuOf(daemon, context.requests(EVENTS_PER_REQUEST, { users }), events)).us,
    () => context.measureParseLoop(EVENTS_PER_REQUEST, events, { users }),
  ])
  await daemon.stop()
  context.report({
    figure: `CPU per event, accepted and processed, ${users} persons, against JSON.parse (c)`,
    value: median(ours),
    unit: 'us',
    baseline: median(theirs),
    target: { of: 'ratio', bound: 'at most', limit: 2.5 },
    note: `median of ${ours.length} rounds with ${events} events each; all threads; activity skewed`,
  })
}

async function sendArrivals(
  context: BenchContext,
  daemon: Daemon,
  persons: number,
): Promise<number> {
  let sent = 0
  while (sent < persons) {
    const count = Math.min(ARRIVALS_PER_RUN, persons - sent)
    const content = { content: 'arrivals', firstUser: sent, distinctEvents: count } as const
    sent += (await sendAll(daemon, context.requests(EVENTS_PER_REQUEST, content), count)).sent
    if (!context.isQuick) console.error(`# ${sent} of ${persons} persons made`)
  }
  return sent
}

/** Measures the traffic of a million persons. Returns the number of events that were sent. */
async function measureMany(context: BenchContext, daemon: Daemon, users: number): Promise<number> {
  const events = context.size(2000, 200_000)
  const traffic = { users, isUniform: true }
  let stored = 0
  let round = 0
  const [ours = [], theirs = []] = await interleaved(context.rounds(3), [
    async () => {
      // Each round draws new bodies. Repeated bodies would only contain persons that were used before.
      const own = { ...traffic, draw: ++round, distinctEvents: events }
      const { us, sent } = await cpuOf(daemon, context.requests(EVENTS_PER_REQUEST, own), events)
      stored += sent
      return us
    },
    () => context.measureParseLoop(EVENTS_PER_REQUEST, events, traffic),
  ])
  context.report({
    figure: `CPU per event, accepted and processed, ${users} persons uniformly hit, against JSON.parse (c)`,
    value: median(ours),
    unit: 'us',
    baseline: median(theirs),
    target: { of: 'ratio', bound: 'at most', limit: 4 },
    note: `median of ${ours.length} rounds with ${events} events each; all threads`,
  })
  return stored
}

/** Stores `count` further events. */
async function fill(
  context: BenchContext,
  daemon: Daemon,
  users: number,
  count: number,
): Promise<number> {
  let stored = 0
  while (stored < count) {
    const next = Math.min(EVENTS_PER_RUN, count - stored)
    stored += (await sendAll(daemon, context.requests(EVENTS_PER_REQUEST, { users }), next)).sent
    if (!context.isQuick) console.error(`# ${stored} of ${count} further events stored`)
  }
  return stored
}

async function measureMerges(
  context: BenchContext,
  daemon: Daemon,
  persons: number,
): Promise<void> {
  const merges = Math.min(context.size(1000, 200_000), Math.floor(persons / 4))
  const rates: number[] = []
  const cpuBefore = daemon.cpuSeconds()
  const rounds = Math.min(context.rounds(2), 2)
  for (let round = 0; round < rounds; round++) {
    const content = {
      content: 'merges',
      firstUser: round * merges * 2,
      distinctEvents: merges,
    } as const
    const { sent, seconds } = await sendAll(
      daemon,
      context.requests(EVENTS_PER_REQUEST, content),
      merges,
    )
    rates.push(sent / seconds)
  }
  const cpuUs = ((daemon.cpuSeconds() - cpuBefore) * 1e6) / (rounds * merges)
  context.report({
    figure: '$identify merges a second, each joining two persons of 30 properties',
    value: median(rates),
    unit: 'merges/s',
    target: { of: 'value', bound: 'at least', limit: 60_000 },
    note: `median of ${rates.length} rounds, each with ${merges} events in requests of ${EVENTS_PER_REQUEST} until all are processed; ${cpuUs.toFixed(0)} us of CPU for each merge`,
  })
}
