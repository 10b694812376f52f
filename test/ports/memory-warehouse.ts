/**
 * A warehouse in shared memory. The processing thread publishes the events of each commit as JSON, and every reader
 * keeps a copy. Every query reads every event. It is lost with its process.
 */
import { ServiceError } from '../../src/base/errors.ts'
import { formatUuid, parseUuid } from '../../src/base/ids.ts'
import type { RowsWriter } from '../../src/base/rows-writer.ts'
import type {
  Admission,
  CommitStats,
  ErasedJob,
  ErasureJob,
  EventIdentity,
  ScanLimits,
  Warehouse,
  WarehouseWriter,
} from '../../src/ports/warehouse.ts'
import type { EventScanner } from '../../src/rules/analytics/event-columns.ts'
import type { NormalizedEvent, PersonMode } from '../../src/rules/capture/types.ts'
import type { ErasureTarget } from '../../src/rules/events/erasure-job.ts'
import type { EventListQuery, EventRows, EventView } from '../../src/rules/events/event-queries.ts'
import { expandProperties } from '../../src/rules/persons/automatic-properties.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import { MemoryScanner } from '../fixtures/analytics/memory-scanner.ts'
import type { SharedBlocks } from './memory-log.ts'

interface Row {
  readonly projectId: number
  readonly sequence: number
  readonly distinctId: number
  readonly uuid: string
  readonly createdAtMs: number
  readonly personMode: PersonMode
  readonly isHistorical: boolean
  readonly event: NormalizedEvent
}

/** The content of one publication. */
interface Published {
  readonly rows: readonly Row[]
  readonly erased: readonly { readonly projectId: number; readonly job: ErasureTarget }[]
}

const keyOf = ({ projectId, uuid, event, distinctId }: Omit<Row, 'sequence'>): string =>
  JSON.stringify([projectId, uuid, event.name, distinctId])

function isMeant({ ids, rules, oldestThrough, through }: ErasureTarget, row: Row): boolean {
  const { sequence, distinctId, event } = row
  if (sequence > through) return false
  const isOfThem =
    ids === null ||
    ids.some(([id, after, last]) => id === distinctId && sequence > after && sequence <= last)
  if (!isOfThem) return false
  if (sequence <= oldestThrough) return true
  const rule =
    rules.find(({ event: name }) => name === event.name) ?? rules.find((one) => one.event === null)
  if (rule === undefined) return false
  const { afterMs, beforeMs } = rule
  const { timestampMs } = event
  return (
    (afterMs === null || timestampMs >= afterMs) && (beforeMs === null || timestampMs < beforeMs)
  )
}

/** The rows that exist after the publications so far. */
class Rows {
  readonly all: Row[] = []

  take({ rows, erased }: Published): void {
    for (const { projectId, job } of erased) {
      for (const [index, row] of [...this.all.entries()].reverse()) {
        if (row.projectId === projectId && isMeant(job, row)) this.all.splice(index, 1)
      }
    }
    this.all.push(...rows)
  }
}

/** The writing end. */
export class MemoryWarehouseWriter implements WarehouseWriter {
  readonly gatheredBytes = 0
  readonly #shared: SharedBlocks
  readonly #rows = new Rows()
  readonly #last = new Map<number, number>()
  readonly #keys = new Set<string>()
  #gathered: Row[] = []
  #jobs: ErasureJob[] = []
  #ordered: ErasureJob[] = []
  #carriedOut: ErasedJob[] = []

  constructor(shared: SharedBlocks) {
    this.#shared = shared
  }

  admit(identity: EventIdentity, distinctId: number, isNew: boolean): Admission | null {
    const isKnown =
      !isNew && identity.hasClientUuid && this.#keys.has(this.#keyOf(identity, distinctId))
    return isKnown ? null : { distinctId }
  }

  append(
    identity: EventIdentity,
    { distinctId }: Admission,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
  ): void {
    const { projectId, event, uuidBytes, uuidOffset } = identity
    const sequence = this.lastSequence(projectId) + 1
    const uuid = formatUuid(uuidBytes, uuidOffset)
    const row = { projectId, sequence, distinctId, uuid, createdAtMs, personMode, isHistorical }
    // The caller may still change a gathered event.
    this.#gathered.push(structuredClone({ ...row, event }))
    this.#last.set(projectId, sequence)
    this.#keys.add(this.#keyOf(identity, distinctId))
  }

  order(job: ErasureJob): void {
    this.#ordered.push(job)
    this.#findKeys()
  }

  takeCarriedOut(): readonly ErasedJob[] {
    return this.#carriedOut.splice(0)
  }

  lastSequence(projectId: number): number {
    return this.#last.get(projectId) ?? 0
  }

  get isFull(): boolean {
    return true
  }

  prepare(): void {}

  store(): CommitStats {
    return { rows: this.#gathered.length, segments: 1, bytes: 0 }
  }

  settle(jobs: readonly ErasureJob[]): void {
    this.#publish({ rows: this.#gathered, erased: [] })
    this.#gathered = []
    this.#jobs.push(...jobs)
  }

  maintain(): boolean {
    if (this.#jobs.length > 0) this.#publish({ rows: [], erased: this.#jobs })
    this.#carriedOut.push(...this.#jobs.map(({ projectId, number }) => ({ projectId, number })))
    this.#jobs = []
    this.#ordered = []
    return false
  }

  #publish(published: Published): void {
    if (published.rows.length + published.erased.length === 0) return
    this.#shared.add([Buffer.from(JSON.stringify(published))])
    this.#rows.take(published)
    this.#gathered = []
    this.#findKeys()
  }

  #findKeys(): void {
    this.#keys.clear()
    for (const row of [...this.#rows.all, ...this.#gathered]) {
      const isErased = this.#ordered.some(
        ({ projectId, job }) => projectId === row.projectId && isMeant(job, row),
      )
      if (!isErased) this.#keys.add(keyOf(row))
    }
  }

  #keyOf({ projectId, uuidBytes, uuidOffset, event }: EventIdentity, distinctId: number): string {
    const uuid = formatUuid(uuidBytes, uuidOffset)
    return keyOf({ projectId, uuid, event, distinctId } as Row)
  }
}

/** The reading end. Persons come from the store beside it. */
export class MemoryWarehouse implements Warehouse {
  readonly #shared: SharedBlocks
  readonly #reader: EventReader
  readonly #rows = new Rows()
  #seen = 0

  constructor(shared: SharedBlocks, reader: EventReader) {
    this.#shared = shared
    this.#reader = reader
  }

  scanner(limits: ScanLimits): EventScanner {
    const all = this.#refresh()
    const persons = this.#reader.persons()
    const made: MemoryScanner[] = []
    const of = (projectId: number): MemoryScanner => {
      const list = { projectId, limit: 10_000, offset: 0, nowMs: 8e15 }
      const scanner = new MemoryScanner({
        events: all
          .filter((row) => row.projectId === projectId)
          .map(({ event }) => ({ ...event, timeMs: event.timestampMs })),
        persons: persons.list(list).results.map((person) => ({
          number: person.id,
          uuid: person.uuid,
          properties: person.properties,
          createdMs: Date.parse(person.created_at),
          distinctIds: person.distinct_ids,
        })),
      })
      made.push(scanner)
      return scanner
    }
    const checkLimits = (): void => {
      if (!limits.isCanceled() && performance.now() <= limits.deadlineMs) return
      throw new ServiceError('query_timeout', 'the time is over')
    }
    return {
      scan: (request) => {
        checkLimits()
        return of(request.projectId).scan(request)
      },
      scanChunks: (request, visit) => {
        checkLimits()
        of(request.projectId).scanChunks(request, visit)
      },
      extent: (projectId) => of(projectId).extent(),
      owners: (projectId) => of(projectId).owners(),
      eventsWithin: (projectId) => of(projectId).eventsWithin(),
      sessionBounds: (projectId) => of(projectId).sessionBounds(),
      valuesAt: (projectId, sequences, values) =>
        of(projectId).valuesAt(projectId, sequences, values),
      remembered: (_projectId, _name, make) => make(),
      known: (projectId) => of(projectId).known(),
      movedBehind: (projectId) => of(projectId).movedBehind(),
      looksAtPersons: true,
      releaseResults: () => {
        for (const one of made.splice(0)) one.releaseResults()
      },
      firstEventMs: (projectId) => of(projectId).firstEventMs(),
      personUuid: (projectId, person) => of(projectId).personUuid(projectId, person),
      personlessOf: (projectId, uuid) => of(projectId).personlessOf(projectId, uuid),
      firstPersonless: (projectId) => of(projectId).firstPersonless(),
      personlessId: (projectId, number) => of(projectId).personlessId(projectId, number),
      uuidPrefix: (projectId, person) => of(projectId).uuidPrefix(projectId, person),
      createdWithin: (projectId, fromMs, untilMs) =>
        of(projectId).createdWithin(projectId, fromMs, untilMs),
      checkLimits,
    }
  }

  eventRows(query: EventListQuery, writer: RowsWriter, check: () => void): EventRows {
    const { projectId, event: name, cursor, limit } = query
    const found = this.#refresh()
      .filter((row) => row.projectId === projectId && (name ?? row.event.name) === row.event.name)
      .filter(({ event }) => event.distinctId === (query.distinctId ?? event.distinctId))
      .filter(({ event: { timestampMs: ms } }) => ms > (query.afterMs ?? Number.NEGATIVE_INFINITY))
      .filter(({ event: { timestampMs: ms } }) => ms < (query.beforeMs ?? Number.POSITIVE_INFINITY))
      .sort((a, b) => b.event.timestampMs - a.event.timestampMs || b.sequence - a.sequence)
      .filter(({ event: { timestampMs: ms }, sequence }) => {
        if (cursor === undefined) return true
        return ms < cursor.timestampMs || (ms === cursor.timestampMs && sequence < cursor.id)
      })
    const page = found.slice(0, limit)
    for (const row of page) {
      check()
      writer.add(this.#viewOf(row))
    }
    const last = found.length > limit ? page.at(-1) : undefined
    const next = last && { timestampMs: last.event.timestampMs, id: last.sequence }
    return { ...writer.finish(), nextCursor: next ?? null }
  }

  getEvent(projectId: number, text: string): EventView | null {
    const bytes = parseUuid(text)
    const uuid = bytes === null ? null : formatUuid(bytes, 0)
    const isIt = (row: Row): boolean => row.projectId === projectId && row.uuid === uuid
    const found = this.#refresh().findLast(isIt)
    return found === undefined ? null : this.#viewOf(found)
  }

  #viewOf({ projectId, sequence, distinctId, ...row }: Row): EventView {
    const { event, personMode } = row
    const person = this.#reader.persons().summaryOf(projectId, distinctId, sequence)
    return {
      id: sequence,
      uuid: row.uuid,
      event: event.name,
      distinct_id: event.distinctId,
      timestamp: new Date(event.timestampMs).toISOString(),
      created_at: new Date(row.createdAtMs).toISOString(),
      properties: expandProperties(event.properties, event.name, personMode !== 'full'),
      person,
      person_id: person?.uuid ?? '',
      person_mode: personMode,
      elements_chain: event.elementsChain,
      ...(row.isHistorical ? { historical_migration: true as const } : {}),
    }
  }

  #refresh(): readonly Row[] {
    while (this.#seen < this.#shared.count) {
      const text = this.#shared.read(++this.#seen)
      // As written by `publish`.
      if (text !== undefined) this.#rows.take(JSON.parse(text.toString()) as Published)
    }
    return this.#rows.all
  }
}
