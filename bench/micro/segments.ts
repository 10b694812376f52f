/**
 * Question: what does storing a parsed event cost, and how many bytes does it take?
 * Workload: generated events of about 25 properties, parsed in slices of 512 as in processing, added and committed in
 * batches. One project, one thread, flushes deferred; the first third is a warm-up.
 * Baseline: `JSON.parse` of the same events in the same run. CPU time of the process, including the threads of the
 * garbage collector; a collection counts where it happens.
 * Reconsider: columns, if an event costs more than 1.5 parses or takes more than 110 bytes.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { parseUuid } from '../../src/base/ids.ts'
import type { JsonObject } from '../../src/base/json.ts'
import {
  type EventInput,
  ProcessingWriter,
} from '../../src/store/events/write/processing-writer.ts'
import { EventGenerator } from '../ingest/events.ts'

/** The results of a run for each event. */
export interface SegmentFigures {
  readonly events: number
  readonly jsonBytes: number
  readonly parseUs: number
  readonly addUs: number
  readonly commitUs: number
  readonly maintainUs: number
  /** The bytes of the segments. `fileBytes` are the bytes of the whole data file of the environment. */
  readonly segmentBytes: number
  readonly fileBytes: number
}

/** The sizes of a run. */
export interface SegmentRun {
  readonly events: number
  readonly seed: number
  readonly dataDir: string
  /** The number of events in a commit. The default is 8192. */
  readonly batch?: number
}

const SLICE = 512

/** Stores events in an empty data directory and prints one line of JSON. */
export async function run(options: SegmentRun): Promise<SegmentFigures> {
  const batch = options.batch ?? 8192
  const generator = new EventGenerator({ seed: options.seed })
  const writer = new ProcessingWriter({ dataDir: options.dataDir, isFlushDeferred: true })
  const batches = Math.max(3, Math.ceil(options.events / batch))
  const spent = { parse: 0, add: 0, commit: 0, maintain: 0, json: 0, segments: 0 }
  let total = { events: 0, segmentBytes: 0 }
  for (let index = 0; index < batches; index++) {
    if (index === Math.floor(batches / 3)) {
      total = { events: 0, segmentBytes: 0 }
      Object.assign(spent, { parse: 0, add: 0, commit: 0, maintain: 0, json: 0 })
    }
    const texts = Array.from({ length: batch }, () => JSON.stringify(generator.event()))
    for (let start = 0; start < batch; start += SLICE) {
      const slice = texts.slice(start, start + SLICE)
      const before = cpuUs()
      const parsed = slice.map((text) => JSON.parse(text) as JsonObject)
      spent.parse += cpuUs() - before
      const inputs = parsed.map(inputOf)
      const ready = cpuUs()
      for (const input of inputs) writer.add(input)
      spent.add += cpuUs() - ready
    }
    for (const text of texts) spent.json += text.length
    const before = cpuUs()
    total.segmentBytes += writer.commit(index + 1).bytes
    writer.warehouse.writeIndex?.()
    const committed = cpuUs()
    writer.warehouse.maintain(50)
    spent.commit += committed - before
    spent.maintain += cpuUs() - committed
    total.events += batch
  }
  await writer.close()
  const file = statSync(join(options.dataDir, 'events', 'data.mdb')).size
  const figures: SegmentFigures = {
    events: total.events,
    jsonBytes: rounded(spent.json / total.events),
    parseUs: rounded(spent.parse / total.events),
    addUs: rounded(spent.add / total.events),
    commitUs: rounded(spent.commit / total.events),
    maintainUs: rounded(spent.maintain / total.events),
    segmentBytes: rounded(total.segmentBytes / total.events),
    fileBytes: rounded(file / (batches * batch)),
  }
  console.log(JSON.stringify({ bench: 'segments', batch, ...figures }))
  return figures
}

function inputOf(event: JsonObject): EventInput {
  const properties = event['properties'] as JsonObject
  return {
    projectId: 1,
    event: {
      name: String(event['event']),
      distinctId: String(properties['distinct_id']),
      timestampMs: Date.parse(String(event['timestamp'])),
      properties,
      elementsChain: '',
      isPersonless: false,
    },
    uuidBytes: parseUuid(String(event['uuid'])) ?? new Uint8Array(16),
    uuidOffset: 0,
    hasClientUuid: true,
    createdAtMs: Date.UTC(2024, 5, 1),
    personMode: 'full',
    isHistorical: false,
  }
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
