/**
 * Question: what does a merge of two persons cost, from the log to the commit, without accepting it and without the log?
 * Workload: persons with one event and about 30 properties each, then `$identify` events that each join two of them.
 * The store is opened again in between, so no person is in memory. `plain`: the `$identify` events have no properties.
 * `browser`: they have the properties that a browser sends with each event, so each merge also changes the person.
 * Requests of 1,000 events, accepted beforehand into blocks in memory. One thread, commits of the usual size.
 * Baseline: the same run of an earlier version, at the same time on another core.
 * Reconsider: decision 057, if merges without properties limit a machine.
 */
import { readFileSync } from 'node:fs'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import type { LogReader } from '../../src/ports/log.ts'
import type { ProjectDirectory } from '../../src/rules/access/project-directory.ts'
import { LogBlockWriter } from '../../src/rules/capture/log-block.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { EventGenerator } from '../ingest/events.ts'
import { BlocksInMemory } from './blocks-in-memory.ts'

/** The sizes of a run. */
export interface MergesRun {
  readonly persons: number
  /** The number of merges, at most half of the persons. */
  readonly merges: number
  readonly kind: 'plain' | 'browser'
  readonly seed: number
  readonly dataDir: string
  /** If true, the persons are joined in random order. */
  readonly isShuffled?: boolean
}

/** The results of a run. */
export interface MergesFigures {
  readonly merges: number
  /** The merges for each second of elapsed time. */
  readonly perSecond: number
  /** The CPU time of a merge in all threads, and in the processing thread alone, in microseconds. */
  readonly cpuUs: number
  readonly threadUs: number
  /** The time that the thread was not running although it was ready, in microseconds for each merge. */
  readonly waitUs: number
  /** The elapsed time of the commits, in microseconds for each merge. */
  readonly commitUs: number
  readonly commits: number
  readonly personCount: number
}

const EVENTS_PER_REQUEST = 1000
const KEY = 'phc_bench'
const PROJECT = { id: 1, apiKey: KEY, isIpAnonymized: false }
const DIRECTORY: ProjectDirectory = {
  projectByKey: () => PROJECT,
  projectById: () => PROJECT,
  personalKey: () => null,
}
const START_MS = Date.UTC(2024, 4, 1)

type Draw = (index: number) => Record<string, unknown>

/** Replaces the blocks by those of `count` events, one block for each request. */
function fill(blocks: BlocksInMemory, count: number, draw: Draw): void {
  blocks.removeThrough(blocks.extent().last)
  for (let first = 0; first < count; first += EVENTS_PER_REQUEST) {
    const length = Math.min(EVENTS_PER_REQUEST, count - first)
    const batch = Array.from({ length }, (_, index) => draw(first + index))
    const body = Buffer.from(JSON.stringify({ api_key: KEY, batch }))
    const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(body.length * 2))
    blocks.accept(writer, body, START_MS + blocks.extent().last)
    blocks.add(writer)
  }
}

/** Makes persons in an empty data directory, merges them, and prints one line of JSON. */
export async function run(options: MergesRun): Promise<MergesFigures> {
  const { persons, merges, kind, seed } = options
  const blocks = new BlocksInMemory(DIRECTORY)
  const arrivals = new EventGenerator({ seed, content: 'arrivals' })
  const first = open(options, blocks)
  for (let left = persons; left > 0; left -= 50_000) {
    fill(blocks, Math.min(left, 50_000), () => ({ ...arrivals.event() }))
    first.run(600_000)
  }
  await first.close()
  const traffic = new EventGenerator({ seed, draw: 1 })
  const pairs = Array.from({ length: merges }, (_, index) => index)
  if (options.isShuffled === true) shuffle(pairs)
  fill(blocks, merges, (index) => {
    const event = traffic.event()
    const user = (pairs[index] ?? 0) * 2
    const ids = { distinct_id: traffic.idOf(user), $anon_distinct_id: traffic.idOf(user + 1) }
    const properties = kind === 'plain' ? ids : { ...event.properties, ...ids }
    return { event: '$identify', timestamp: event.timestamp, uuid: event.uuid, properties }
  })
  const again = open(options, blocks)
  const before = { all: cpuUs(), at: performance.now(), ...ownUs() }
  const result = again.run(600_000, false, merges)
  const figures = { commits: 1, commitMs: result.commitMs, events: result.eventCount }
  while (figures.events < merges) {
    const next = again.run(600_000, false, merges)
    if (next.eventCount === 0) throw new Error('the merges were not processed')
    figures.commits++
    figures.commitMs += next.commitMs
    figures.events += next.eventCount
  }
  const seconds = (performance.now() - before.at) / 1000
  const own = ownUs()
  const all = cpuUs() - before.all
  await again.close()
  const found = {
    merges,
    perSecond: Math.round(merges / seconds),
    cpuUs: rounded(all / merges),
    threadUs: rounded((own.ran - before.ran) / merges),
    waitUs: rounded((own.waited - before.waited) / merges),
    commitUs: rounded((figures.commitMs * 1000) / merges),
    commits: figures.commits,
    personCount: await countPersons(options),
  }
  console.log(JSON.stringify({ bench: 'merges', kind, persons, ...found }))
  return found
}

function open({ dataDir }: MergesRun, log: LogReader): LogProcessor {
  const onDamage = (error: Error): void => {
    throw error
  }
  const store = new ProcessingWriter({ dataDir, onDamage })
  const settings = {
    dataDir,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
    isFlushDeferred: false,
  }
  return new LogProcessor({ settings, log, store, onDamage })
}

/** Returns the number of persons after the merges. */
async function countPersons({ dataDir }: MergesRun): Promise<number> {
  const store = new ProcessingWriter({ dataDir })
  const { persons } = store.persons(PROJECT.id).counters
  await store.close()
  return persons
}

function shuffle(numbers: number[]): void {
  let state = 1
  for (let index = numbers.length - 1; index > 0; index--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const other = state % (index + 1)
    const moved = numbers[index] ?? 0
    numbers[index] = numbers[other] ?? 0
    numbers[other] = moved
  }
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** Returns how long the main thread ran, and how long it was ready but did not run, in microseconds. */
function ownUs(): { readonly ran: number; readonly waited: number } {
  if (process.platform !== 'linux') return { ran: 0, waited: 0 }
  const [ran = 0, waited = 0] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8')
    .split(' ')
    .map(Number)
  return { ran: ran / 1000, waited: waited / 1000 }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
