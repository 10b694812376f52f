/**
 * Checks the consistency of the records in environment `events`:
 *
 * - Segments cover every event exactly once and have all their groups.
 * - Every distinct_id has a text, and every text a distinct_id.
 * - There are as many persons as the counters say.
 * - Every distinct_id of a person is owned by that person, and every owner has the distinct_id.
 * - The index by time of creation is complete.
 *
 * The check needs only one pass over all entries, and little memory: instead of comparing two sets member by member, it
 * compares the sums of the hashes of their members.
 */
import { createHash } from 'node:crypto'
import { getOrAdd } from '../../../base/maps.ts'
import { decodeSummary } from '../../events/format/segment-format.ts'
import { pagesOfGroup } from '../../identity/group-store.ts'
import { PERSON_NUMBER_MAX } from '../../identity/person-owners.ts'
import {
  INLINE_IDS_MAX,
  idOfPerson,
  type PersonCounters,
  pagesOfPerson,
} from '../../identity/person-records.ts'
import { unpack } from '../../lmdb/codec.ts'
import { type EventsTable, numberInKey } from '../../lmdb/keys.ts'

const PERSON_IDS_OFFSET = 8
const PERSON_UUID_OFFSET = 20
const PERSON_FIRST_IDS_OFFSET = 36
const OWNERS_PER_CHUNK = 256
const CREATED_KEY_UUID_OFFSET = 12

/** Receives each inconsistency. `where` names the record. */
export type FaultListener = (where: string, what: string) => void

/** The numbers and sums that were collected for one project. */
class ProjectFigures {
  /** The counters that are stored for the project, or null if there are none. */
  counters: { rows: number; distinctIds: number; segments: number } | null = null
  segments = 0
  /** The sequence number at which the next segment must begin. */
  nextSequence = 1
  /**
   * For each segment, the number of groups that were not found yet. The key is the first sequence number of the
   * segment.
   */
  readonly groupsMissing = new Map<number, number>()
  distinctIds = 0
  distinctTexts = 0
  idsHash = 0n
  textsHash = 0n
  persons = 0
  /** The number of persons according to the project's counters. */
  countedPersons = 0
  /**
   * The number of distinct_ids according to the records of persons, and the same number according to table
   * `person_owners`.
   */
  idsOfPersons = 0
  idsOfOwners = 0
  linksOfPersons = 0
  /**
   * `pagesNamed` is the number of pages that the directories of large persons and groups name. `pages` is the number of
   * pages that exist.
   */
  pagesNamed = 0
  pages = 0
  linksOfOwners = 0
  /**
   * For persons whose id differs from their person number: the sums of the hashes of (id, number), from the records of
   * persons and from table `moved_persons`.
   */
  movedOfPersons = 0
  movedOfIds = 0
  created = 0
  uuidsOfPersons = 0
  uuidsOfCreated = 0
}

type Take = (figures: ProjectFigures, key: Buffer, bytes: Buffer) => void

/** For each table, a function that adds one of its entries to the figures of the project. */
const TAKES: Readonly<Partial<Record<EventsTable, Take>>> = {
  projects: (figures, _key, bytes) => {
    const [rows, distinctIds] = [bytes.readUInt32LE(4), bytes.readUInt32LE(8)]
    figures.counters = { rows, distinctIds, segments: bytes.readUInt32LE(16) }
  },
  segment_groups: ({ groupsMissing }, key) => addTo(groupsMissing, numberInKey(key, 4), -1),
  distinct_ids: (figures, key, bytes) => {
    figures.distinctIds++
    figures.idsHash += memberHash(bytes.readUInt32LE(), key.subarray(4))
  },
  distinct_texts: (figures, key, bytes) => {
    figures.distinctTexts++
    figures.textsHash += memberHash(numberInKey(key, 4), bytes)
  },
  person_projects: (figures, _key, bytes) => {
    // The cast is right: `ProjectPersons` wrote the record, and its checksum matches.
    figures.countedPersons = (unpack(bytes) as PersonCounters).persons
  },
  persons: (figures, key, bytes) => {
    const number = numberInKey(key, 4)
    const count = bytes.readUInt32LE(PERSON_IDS_OFFSET)
    figures.persons++
    const id = idOfPerson(bytes, number)
    if (id !== number) figures.movedOfPersons = sum(figures.movedOfPersons, id, number)
    figures.pagesNamed += pagesOfPerson(bytes)
    figures.idsOfPersons += count
    for (let index = 0; index < Math.min(count, INLINE_IDS_MAX); index++) {
      const distinctId = bytes.readUInt32LE(PERSON_FIRST_IDS_OFFSET + index * 4)
      figures.linksOfPersons = sum(figures.linksOfPersons, number, distinctId)
    }
    const uuid = hashOfUuid((offset) => bytes.readUInt32BE(PERSON_UUID_OFFSET + offset))
    figures.uuidsOfPersons = sum(figures.uuidsOfPersons, uuid, number)
  },
  moved_persons: (figures, key, bytes) => {
    figures.movedOfIds = sum(figures.movedOfIds, numberInKey(key, 4), bytes.readUInt32LE())
  },
  person_pages: (figures) => {
    figures.pages++
  },
  group_pages: (figures) => {
    figures.pages++
  },
  groups: (figures, _key, bytes) => {
    figures.pagesNamed += pagesOfGroup(bytes)
  },
  person_ids: (figures, key, bytes) => {
    const person = numberInKey(key, 4)
    figures.linksOfPersons = sum(figures.linksOfPersons, person, bytes.readUInt32LE())
  },
  person_owners: (figures, key, bytes) => {
    for (let index = 0; index < OWNERS_PER_CHUNK; index++) {
      const owner = bytes.readUInt32LE(index * 4) & PERSON_NUMBER_MAX
      if (owner === 0) continue
      figures.idsOfOwners++
      const distinctId = numberInKey(key, 4) * OWNERS_PER_CHUNK + index
      figures.linksOfOwners = sum(figures.linksOfOwners, owner, distinctId)
    }
  },
  person_created: (figures, key, bytes) => {
    figures.created++
    const uuid = hashOfUuid((offset) => ~key.readUInt32BE(CREATED_KEY_UUID_OFFSET + offset))
    figures.uuidsOfCreated = sum(figures.uuidsOfCreated, uuid, bytes.readUInt32LE())
  },
}

/** Collects figures while the tables are read, compares them at the end, and reports the inconsistencies. */
export class RecordsCheck {
  readonly #projects = new Map<number, ProjectFigures>()
  readonly #fault: FaultListener

  constructor(fault: FaultListener) {
    this.#fault = fault
  }

  /** Adds one entry. `bytes` is the value without its checksum, which matches. */
  take(table: string, key: Buffer, bytes: Buffer): void {
    const isHeader = table === 'segment_headers'
    const add = isHeader ? this.#takeHeader : TAKES[table as EventsTable]
    if (add === undefined) return
    add(getOrAdd(this.#projects, numberInKey(key, 0), newFigures), key, bytes)
  }

  /** Compares the collected figures. Call it after every table has been read. */
  finish(): void {
    for (const [projectId, figures] of this.#projects) {
      this.#compareEvents(projectId, figures)
      this.#comparePersons(projectId, figures)
    }
  }

  #compareEvents(projectId: number, figures: ProjectFigures): void {
    const where = `project ${projectId}`
    const { counters, segments, nextSequence, distinctIds, distinctTexts } = figures
    const hasEvents = segments + distinctIds + distinctTexts + figures.groupsMissing.size > 0
    if (counters === null && hasEvents) this.#fault(where, 'has records, but no counters')
    const { rows, ...counted } = counters ?? { rows: nextSequence - 1, segments, distinctIds }
    if (nextSequence !== rows + 1) {
      this.#fault(where, `should have ${rows} events, but its segments have ${nextSequence - 1}`)
    }
    if (segments !== counted.segments) {
      this.#fault(where, `should have ${counted.segments} segments, but has ${segments}`)
    }
    if (distinctIds !== counted.distinctIds) {
      this.#fault(where, `should have ${counted.distinctIds} distinct_ids, but has ${distinctIds}`)
    }
    if (distinctIds !== distinctTexts || figures.idsHash !== figures.textsHash) {
      this.#fault(where, 'the tables distinct_ids and distinct_texts do not match')
    }
    for (const [first, missing] of figures.groupsMissing) {
      const place = `${where}, segment ${first}`
      if (missing > 0) this.#fault(place, `lacks ${missing} of its groups`)
      if (missing < 0) this.#fault(place, 'has more groups than its header says')
    }
  }

  #comparePersons(projectId: number, figures: ProjectFigures): void {
    const { persons, countedPersons: counted, created, uuidsOfPersons, uuidsOfCreated } = figures
    const { idsOfPersons, idsOfOwners, linksOfPersons, linksOfOwners } = figures
    const where = `persons of project ${projectId}`
    if (counted !== persons)
      this.#fault(where, `there should be ${counted} persons, but there are ${persons}`)
    if (figures.pagesNamed !== figures.pages) {
      const what = `there should be ${figures.pagesNamed} pages of properties, but there are ${figures.pages}`
      this.#fault(where, what)
    }
    if (idsOfPersons !== idsOfOwners || linksOfPersons !== linksOfOwners) {
      this.#fault(where, 'the distinct_ids of persons and the owners of distinct_ids do not match')
    }
    if (figures.movedOfPersons !== figures.movedOfIds) {
      this.#fault(where, 'the ids of moved persons do not match the table moved_persons')
    }
    if (created !== persons || uuidsOfCreated !== uuidsOfPersons) {
      this.#fault(where, 'the table person_created has other persons than the table persons')
    }
  }

  readonly #takeHeader: Take = (figures, key, bytes) => {
    const [projectId, first] = [numberInKey(key, 0), numberInKey(key, 4)]
    const { rows, groups } = decodeSummary(projectId, first, bytes)
    if (first !== figures.nextSequence) {
      const what = `begins at event ${first}, but the segment before it ends at ${figures.nextSequence - 1}`
      this.#fault(`project ${projectId}, segment ${first}`, what)
    }
    figures.segments++
    figures.nextSequence = first + rows
    addTo(figures.groupsMissing, first, groups)
  }
}

function newFigures(): ProjectFigures {
  return new ProjectFigures()
}

function addTo(counts: Map<number, number>, key: number, added: number): void {
  counts.set(key, (counts.get(key) ?? 0) + added)
}

function memberHash(number: number, text: Uint8Array): bigint {
  const hash = createHash('sha1').update(text).update(String(number)).digest()
  return hash.readBigUInt64LE()
}

/** Returns a hash of a uuid. `wordAt` returns the four bytes of the uuid at an offset. */
function hashOfUuid(wordAt: (offset: number) => number): number {
  let hash = 0
  for (let offset = 0; offset < 16; offset += 4) hash = mix(hash, wordAt(offset))
  return hash
}

/** Adds the hash of a pair of numbers to a sum. The order in which pairs are added does not matter. */
function sum(total: number, first: number, second: number): number {
  return (total + mix(mix(0, first), second)) >>> 0
}

function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x9e37_79b1)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85eb_ca77)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
