/**
 * Question: what does it cost to list the property names of a project?
 * Workload: events with 20 of 2,000 properties each, so that three quarters of them share a column. The readers have no
 * cached names, all but those of one commit, and all. Measured is the CPU time of the process.
 * Baseline: `JSON.parse` of the same events in the same run, which is the minimum cost of reading each event.
 * Reconsider: gathering names on request, if a list of cached names takes more than 20 ms, or the first list takes
 * longer than parsing.
 */
import {
  definitionId,
  findProperties,
  propertyBody,
} from '../../src/rules/events/event-definitions.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import {
  type EventInput,
  ProcessingWriter,
} from '../../src/store/events/write/processing-writer.ts'

/** The sizes of a run. */
export interface NamesRun {
  readonly events: number
  readonly properties: number
  readonly dataDir: string
}

/** The results of a run. */
export interface NamesFigures {
  readonly events: number
  readonly properties: number
  readonly parseMs: number
  /** The time of reading all names by a reader without cached names. */
  readonly firstMs: number
  /** The time of reading all names after another commit. */
  readonly nextMs: number
  /** The time of a page of a hundred cached names, with a search and an order. */
  readonly listMs: number
}

const BATCH = 8192
const EVENT_PROPERTIES = 20
const EVENT_NAMES = 100
const ROUNDS = 20

/** Stores events in an empty data directory, and prints one line of JSON. */
export async function run({ events, properties, dataDir }: NamesRun): Promise<NamesFigures> {
  const writer = new ProcessingWriter({ dataDir, isFlushDeferred: true })
  let parseMs = 0
  let stored = 0
  const storeBatch = (): void => {
    const inputs = Array.from({ length: BATCH }, (_, index) => inputOf(stored + index, properties))
    const texts = inputs.map(({ event }) => JSON.stringify(event))
    parseMs += timed(() => {
      for (const text of texts) JSON.parse(text)
    })
    for (const input of inputs) writer.add(input)
    stored += BATCH
    writer.commit(stored / BATCH)
  }
  while (stored < events) storeBatch()
  const reader = new EventReader({ dataDir })
  const check = (): void => {}
  const figures = { events: stored, properties, parseMs: rounded(parseMs) }
  const firstMs = timed(() => reader.names(1, check))
  storeBatch()
  const nextMs = timed(() => reader.names(1, check))
  const query = {
    ...({ of: 'event', words: ['p'], excluded: [], names: null, isNumerical: false } as const),
    isFeatureFlag: null,
    isSeenOnly: false,
  }
  const list = (): unknown => {
    const names = reader.names(1, check)
    const found = findProperties(names.properties, names.isSeenOn(['event 7']), query)
    const page = found.slice(0, 100)
    return page.map((one) => propertyBody(definitionId(1, 'event_property', one.facts.name), one))
  }
  for (let round = 0; round < ROUNDS; round++) list()
  const listMs = timed(() => {
    for (let round = 0; round < ROUNDS; round++) list()
  })
  await reader.close()
  await writer.close()
  const found = { ...figures, firstMs: rounded(firstMs), nextMs: rounded(nextMs) }
  const all: NamesFigures = { ...found, listMs: rounded(listMs / ROUNDS) }
  console.log(JSON.stringify({ bench: 'names', ...all }))
  return all
}

function inputOf(number: number, properties: number): EventInput {
  const uuidBytes = Buffer.alloc(16)
  uuidBytes.writeUInt32BE(number, 12)
  const own: Record<string, unknown> = {}
  for (let index = 0; index < EVENT_PROPERTIES; index++) {
    const property = (number * 131 + index * (index + 17)) % properties
    own[`property ${property}`] = property % 3 === 0 ? number % 1000 : `value ${number % 50}`
  }
  return {
    projectId: 1,
    event: {
      name: `event ${number % EVENT_NAMES}`,
      distinctId: `user ${number % 1000}`,
      timestampMs: Date.UTC(2024, 5, 1) + number,
      properties: own,
      elementsChain: '',
      isPersonless: false,
    },
    uuidBytes,
    uuidOffset: 0,
    hasClientUuid: false,
    createdAtMs: Date.UTC(2024, 5, 2),
    personMode: 'full',
    isHistorical: false,
  }
}

function timed(action: () => unknown): number {
  const before = process.cpuUsage()
  action()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
