/**
 * Question: what does an event cost from the log to the segment, without accepting it and without the log?
 * Workload: the usual traffic, 100 events in a request, accepted beforehand into blocks in memory. Commits are full, as
 * in a busy daemon, and the remaining merges are included. One thread, flushes deferred; the first third is a warm-up.
 * Baseline: `JSON.parse` of the same requests in the same run. CPU time of the process, including the threads of the
 * garbage collector.
 * Reconsider: cells, if an event costs more than 2.5 parses including accepting, which takes one of them.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import type { ProjectDirectory } from '../../src/rules/access/project-directory.ts'
import { LogBlockWriter } from '../../src/rules/capture/log-block.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { eventRequests, type RequestTemplate, stampUuids } from '../ingest/bodies.ts'
import { BlocksInMemory } from './blocks-in-memory.ts'

/** The sizes of a run. */
export interface ProcessingRun {
  readonly commits: number
  /** The approximate number of events in a commit. */
  readonly commitEvents: number
  readonly seed: number
  readonly dataDir: string
  /** The number of active users. The default is 5000. */
  readonly users?: number
  /** If true, all users are equally active. */
  readonly isUniform?: boolean
}

/** The results of a run for each event. */
export interface ProcessingFigures {
  readonly events: number
  readonly jsonBytes: number
  readonly parseUs: number
  /**
   * The phases of the fastest commit: reading, persons, columns, and the encoding between them. The fastest commit is
   * used because other processes share the machine.
   */
  readonly processUs: number
  /** The time of the commit itself. */
  readonly commitUs: number
  readonly recognized: number
  /** The bytes of the whole data file of the environment. */
  readonly fileBytes: number
}

const EVENTS_PER_REQUEST = 100
const REQUESTS_PER_BLOCK = 16
const DISTINCT_EVENTS = 20_000
const KEY = 'phc_bench'
const PROJECT = { id: 1, apiKey: KEY, isIpAnonymized: false }
const DIRECTORY: ProjectDirectory = {
  projectByKey: () => PROJECT,
  projectById: () => PROJECT,
  personalKey: () => null,
}
const SECOND_MS = 1000
const LONG_US = 1e9

/** Blocks of some requests each. */
class Blocks extends BlocksInMemory {
  readonly #templates: RequestTemplate[]
  #requests = 0

  constructor({ seed, users, isUniform = false, commitEvents }: ProcessingRun) {
    super(DIRECTORY)
    const distinctEvents = Math.min(DISTINCT_EVENTS, commitEvents)
    const usual = { kind: 'events', projectKey: KEY, seed, stream: 1, isUniform } as const
    const options = { ...usual, eventsPerRequest: EVENTS_PER_REQUEST, distinctEvents }
    this.#templates = eventRequests('', users === undefined ? options : { ...options, users }, 1)
  }

  /** Returns the JSON of the next request. Its events have new uuids. */
  next(): Buffer {
    const template = this.#templates[this.#requests % this.#templates.length]
    if (template === undefined) throw new Error('there is no request')
    stampUuids(template, 1, this.#requests++ * EVENTS_PER_REQUEST)
    return template.bytes.subarray(template.bytes.length - template.bodyBytes)
  }

  /** Removes the blocks up to `processed`, and makes new blocks until they contain at least this many events. */
  fill(events: number, processed: number, arrivedAtMs: number): void {
    this.removeThrough(processed)
    const left = this.count * REQUESTS_PER_BLOCK * EVENTS_PER_REQUEST
    for (let made = left; made < events; ) {
      const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(1024 * 1024))
      for (let count = 0; count < REQUESTS_PER_BLOCK; count++) {
        this.accept(writer, this.next(), arrivedAtMs)
      }
      made += writer.eventCount
      this.add(writer)
    }
  }
}

/** Processes events into an empty data directory and prints one line of JSON. */
export async function run(options: ProcessingRun): Promise<ProcessingFigures> {
  const { commits, commitEvents, dataDir } = options
  const blocks = new Blocks(options)
  const onDamage = (error: Error): void => {
    throw error
  }
  const store = new ProcessingWriter({ dataDir, isFlushDeferred: true, onDamage })
  const settings = {
    dataDir,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
    isFlushDeferred: true,
  }
  const processor = new LogProcessor({ settings, log: blocks, store, onDamage, commitEvents })
  const none = { events: 0, process: LONG_US, commit: 0, recognized: 0, parse: LONG_US, json: 0 }
  const spent = { ...none, all: 0 }
  let processed = 0
  for (let index = 0; index < commits; index++) {
    if (index === Math.ceil(commits / 3)) Object.assign(spent, none)
    parseSome(blocks, Math.ceil(commitEvents / EVENTS_PER_REQUEST / 8), spent)
    // A commit takes some more events to fill its last segment.
    blocks.fill(commitEvents * 1.5, processed, Date.UTC(2024, 4, 1, 1) + index * SECOND_MS)
    const before = cpuUs()
    const result = processor.run(600_000, false, commitEvents)
    const us = (cpuUs() - before) / result.eventCount
    processed = result.processed
    if (us < spent.process) spent.process = us
    spent.events += result.eventCount
    spent.all += result.eventCount
    spent.commit += result.commitMs * 1000
    spent.recognized += result.recognizedCount
  }
  await processor.close()
  const { events } = spent
  const figures: ProcessingFigures = {
    events,
    jsonBytes: rounded(spent.json),
    parseUs: rounded(spent.parse),
    processUs: rounded(spent.process),
    commitUs: rounded(spent.commit / events),
    recognized: rounded(spent.recognized / events),
    fileBytes: rounded(statSync(join(dataDir, 'events', 'data.mdb')).size / spent.all),
  }
  console.log(JSON.stringify({ bench: 'processing', commitEvents, ...figures }))
  return figures
}

function parseSome(blocks: Blocks, requests: number, spent: { parse: number; json: number }): void {
  let bytes = 0
  const texts = Array.from({ length: requests }, () => blocks.next().toString('utf8'))
  const before = cpuUs()
  for (const text of texts) {
    JSON.parse(text)
    bytes += text.length
  }
  spent.parse = Math.min(spent.parse, (cpuUs() - before) / requests / EVENTS_PER_REQUEST)
  spent.json = bytes / requests / EVENTS_PER_REQUEST
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
