/**
 * Question: is every acknowledged event on each machine exactly once, whatever fails?
 * Workload: three machines, each with a NATS server (three replicas of a stream) and a node, and the first one with a
 * warehouse. Clients send some 1,500 events a second with recorded uuids to all nodes, and resend unanswered ones to
 * another node. Random faults (fault-kinds.ts) are injected, several at a time. At the end all acknowledged events are
 * compared with the data of each machine and of ClickHouse, and the tables of the machines with each other.
 * Reconsider: the design, if one event is lost or duplicated, or tables differ.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { tableDigests } from '../../test/fixtures/table-digests.ts'
import { mainPath } from '../daemon.ts'
import { type Bench, type BenchContext, sleep } from '../harness.ts'
import { FAULT_KINDS, type FaultKind, type FaultSetup } from './fault-kinds.ts'
import { brokerVersion, Machines } from './machines.ts'
import { RecordedLoad } from './recorded-load.ts'

export const CLUSTER_FAULTS: Bench = {
  name: 'cluster-faults',
  group: 'cluster',
  question: 'Is every acknowledged event on each machine exactly once, whatever fails?',
  workload:
    'three brokers, three nodes, ClickHouse; 1,500 events a second, sent again elsewhere when not answered; ' +
    'random faults of brokers, nodes, disks, streams and networks, several at a time; --faults N, 8 minutes at most unless --minutes says otherwise',
  isOnlyByName: true,
  needsDaemon: true,
  run: measure,
}

const MACHINES = 3
const EVENTS_PER_SECOND = 1500
const FAULTS_AT_ONCE = 4
const PAUSE_MS = 100
const COPIED_MS_MAX = 90_000

async function measure(context: BenchContext): Promise<void> {
  const random = randomOf(context.seed)
  const machines = await Machines.make({ context, machines: MACHINES, hasWarehouse: true })
  const load = new RecordedLoad({
    urls: () => machines.nodes.map(({ url }) => url),
    eventsPerSecond: EVENTS_PER_SECOND,
    random,
  })
  const setup: FaultSetup = { machines, load, random, isWhole: true, story: [] }
  try {
    const deadline = performance.now() + context.minutes(1, 8) * 60_000
    const counts = await breakThings(setup, context.faults(20, 1000), deadline)
    await load.stop()
    await machines.settled()
    const findings = await compare(machines, load.acknowledged)
    report(context, counts, load, findings)
  } catch (error) {
    for (const { name, machine, fromMs, toMs } of setup.story) {
      console.error(`# ${fromMs} to ${toMs}: ${name}, machine ${machine}`)
    }
    for (const [index, { lines }] of machines.nodes.entries()) {
      console.error(`# the last lines of node ${index}:\n${lines.join('\n')}`)
    }
    throw error
  }
}

/** Injects this many faults, or as many as the time allows. Returns how often each kind was injected. */
async function breakThings(
  setup: FaultSetup,
  faults: number,
  deadline: number,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  const taken = new Set<string>()
  const running = new Set<Promise<void>>()
  const failures: Error[] = []
  for (let count = 0; count < faults && failures.length === 0; ) {
    if (performance.now() > deadline) break
    const machine = Math.floor(setup.random() * MACHINES)
    const kind = choose(setup)
    const needs = kind.needs.map((need) => need.replace(' n', ` ${machine}`))
    // A fault that needs many resources waits until no other fault is active, and no other fault begins before it ends.
    const isMuch = needs.length > 2
    while (isMuch ? running.size > 0 : running.size >= FAULTS_AT_ONCE) await Promise.race(running)
    if (needs.some((need) => taken.has(need))) {
      await Promise.race([...running, sleep(PAUSE_MS)])
      continue
    }
    for (const need of needs) taken.add(need)
    const line = { name: kind.name, machine, fromMs: Date.now(), toMs: 0 }
    setup.story.push(line)
    const fault = kind.run(setup, machine).catch((error: unknown) => {
      failures.push(new Error(`${kind.name} ${machine}: ${String(error)}`, { cause: error }))
    })
    const ended = fault.then(() => {
      line.toMs = Date.now()
      for (const need of needs) taken.delete(need)
      running.delete(ended)
    })
    running.add(ended)
    counts.set(kind.name, (counts.get(kind.name) ?? 0) + 1)
    count++
    if (isMuch) await ended
    await sleep(setup.random() * PAUSE_MS)
  }
  await Promise.all(running)
  const [failure] = failures
  if (failure !== undefined) throw failure
  return counts
}

function choose({ machines, random }: FaultSetup): FaultKind {
  const possible = FAULT_KINDS.filter(({ needs }) => {
    if (needs.includes('network n') && !machines.network.canCut) return false
    return !needs.includes('clickhouse') || machines.clickhouse !== null
  })
  let place = random() * possible.reduce((sum, { weight }) => sum + weight, 0)
  for (const kind of possible) {
    place -= kind.weight
    if (place < 0) return kind
  }
  throw new RangeError('no fault is possible')
}

interface Findings {
  readonly lost: number
  readonly doubled: number
  /** The number of sequence numbers that have no event. */
  readonly gaps: number
  /** The number of stored events that were not acknowledged. */
  readonly unknown: number
  readonly stored: number
  /** Descriptions of the differences between machines. */
  readonly differences: readonly string[]
}

/** Stops the nodes and compares their data. Also compares ClickHouse with the data of the first node. */
async function compare(machines: Machines, acknowledged: ReadonlySet<string>): Promise<Findings> {
  const { clickhouse, nodes } = machines
  const differences: string[] = []
  const [first] = nodes
  if (clickhouse !== null && first !== undefined) {
    const stored = await exported(first.dataDir)
    const there = await copied(machines, stored.length)
    if (digestOf(there) !== digestOf(stored)) {
      const health = await first.health()
      differences.push(`ClickHouse (${there.length} rows of ${stored.length}; ${health})`)
    }
  }
  for (const node of nodes) await node.stop()
  const sums = { lost: 0, doubled: 0, gaps: 0, unknown: 0, stored: 0 }
  const lists: string[] = []
  for (const node of nodes) {
    const rows = await exported(node.dataDir)
    lists.push(digestOf(rows))
    const uuids = new Set(rows.map(({ uuid }) => uuid))
    for (const uuid of acknowledged) if (!uuids.has(uuid)) sums.lost++
    for (const uuid of uuids) if (!acknowledged.has(uuid)) sums.unknown++
    sums.doubled += rows.length - uuids.size
    sums.gaps += (rows.at(-1)?.id ?? 0) - rows.length
    sums.stored = rows.length
  }
  if (new Set(lists).size > 1) differences.push('numbers of events')
  const tables = await Promise.all(nodes.map(({ dataDir }) => tableDigests(dataDir)))
  for (const [name, digest] of Object.entries(tables[0] ?? {})) {
    if (name === 'shared_log') continue
    if (tables.some((digests) => digests[name] !== digest)) differences.push(name)
  }
  return { ...sums, differences }
}

/** Waits until ClickHouse has the event with the newest number, but at most a minute and a half. Returns its rows. */
async function copied(machines: Machines, last: number): Promise<readonly Row[]> {
  const deadline = performance.now() + COPIED_MS_MAX
  const newest = 'SELECT max(sequence) FROM events.tenrec_events'
  while (Number(await machines.clickhouse?.ask(newest)) < last && performance.now() < deadline) {
    await sleep(PAUSE_MS)
  }
  const all =
    'SELECT sequence, uuid FROM events.tenrec_events GROUP BY sequence, uuid ORDER BY sequence FORMAT TSV'
  const answer = (await machines.clickhouse?.ask(all)) ?? ''
  return answer
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [id, uuid = ''] = line.split('\t')
      return { id: Number(id), uuid }
    })
}

interface Row {
  readonly id: number
  readonly uuid: string
}

/** Returns the events of a data directory, in order. */
async function exported(dataDir: string): Promise<readonly Row[]> {
  const child = spawn(process.execPath, [mainPath(), 'export', '--data-dir', dataDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const rows: Row[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    const [, id = '', uuid = ''] = /^\{"id":(\d+),.*?"uuid":"([^"]+)"/.exec(line) ?? []
    rows.push({ id: Number(id), uuid })
  }
  if ((await ended) !== 0) throw new Error(`the events of ${dataDir} cannot be exported`)
  return rows
}

function digestOf(rows: readonly Row[]): string {
  const hash = createHash('sha256')
  for (const { id, uuid } of rows) hash.update(`${id} ${uuid}\n`)
  return hash.digest('hex')
}

function report(
  context: BenchContext,
  counts: ReadonlyMap<string, number>,
  load: RecordedLoad,
  { lost, doubled, gaps, unknown, stored, differences }: Findings,
): void {
  const acknowledged = load.acknowledged.size
  const faults = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const kinds = [...counts].map(([name, count]) => `${name} ${count}`).join(', ')
  // There are more values than a call may have arguments, so the maximum is found in a loop.
  const longestMs = Math.round(load.answeredMs.reduce((longest, ms) => Math.max(longest, ms), 0))
  context.report({
    figure: 'acknowledged events that each machine has exactly once, against all',
    value: acknowledged - lost - doubled,
    unit: 'events',
    baseline: acknowledged,
    target: { of: 'ratio', bound: 'at least', limit: 1 },
    note:
      `${faults} faults (${kinds}); ${lost} lost, ${doubled} doubled, ${gaps} gaps, ${unknown} unknown; ` +
      `${stored} stored; differences: ${differences.join(', ') || 'none'}; ${load.again} requests sent again, longest time to an acknowledgment ${longestMs} ms; ${brokerVersion()}`,
  })
  if (lost + doubled + gaps + unknown > 0) throw new Error('events were lost, doubled or invented')
  if (differences.length > 0) throw new Error(`machines differ: ${differences.join(', ')}`)
}

/** Returns a function that draws numbers from 0 to 1. The same seed gives the same sequence. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
