/**
 * Checks the consistency of the records in environment `events`:
 *
 * - Segments cover every event exactly once and have all their groups.
 * - Every distinct_id has a text, and every text a distinct_id.
 * - There are as many persons as the counters say.
 * - Every distinct_id of a person is owned by that person, and every owner has the distinct_id.
 * - The index by time of creation is complete.
 *
 * The check needs only one pass over all entries, and little memory. Two sets are compared by the sums of the hashes of
 * their members.
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

/** The figures collected for one project. */
class ProjectFigures {
  /** The counters of the project, or null if there are none. */
  counters: { rows: number; distinctIds: number; segments: number } | null = null
  segments = 0
  /** The sequence number after the last segment so far. */
  nextSequence = 1
  /** For each segment, by its first sequence number, the number of groups that are still missing. */
  readonly groupsMissing = new Map<number, number>()
  distinctIds = 0
  distinctTexts = 0
  idsHash = 0n
  textsHash = 0n
  persons = 0
  /** The number of persons in the counters. */
  countedPersons = 0
  /** The number of distinct_ids in the records of persons, and the number in the records of owners. */
  idsOfPersons = 0
  idsOfOwners = 0
  linksOfPersons = 0
  /** The number of pages named by the directories of large persons and groups, and the number that exist. */
  pagesNamed = 0
  pages = 0
  linksOfOwners = 0
  /**
   * The sums of ids that differ from the number of their person, in the records of persons and in table
   * `moved_persons`.
   */
  movedOfPersons = 0
  movedOfIds = 0
  created = 0
  uuidsOfPersons = 0
  uuidsOfCreated = 0
}

type Take = (figures: ProjectFigures, key: Buffer, bytes: Buffer) => void

/** Adds an entry of a table to the figures of its project. */
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
    // `ProjectPersons` wrote the record, and its checksum matches.
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

/** Collects figures while the tables are read, and then compares them. */
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
      this.#fault(where, `has ${rows} events, its segments hold ${nextSequence - 1}`)
    }
    if (segments !== counted.segments) {
      this.#fault(where, `has ${counted.segments} segments, ${segments} are there`)
    }
    if (distinctIds !== counted.distinctIds) {
      this.#fault(where, `has ${counted.distinctIds} distinct_ids, ${distinctIds} are there`)
    }
    if (distinctIds !== distinctTexts || figures.idsHash !== figures.textsHash) {
      this.#fault(where, 'distinct_ids and their texts do not mirror each other')
    }
    for (const [first, missing] of figures.groupsMissing) {
      const place = `${where}, segment ${first}`
      if (missing > 0) this.#fault(place, `lacks ${missing} of its groups`)
      if (missing < 0) this.#fault(place, 'has groups that it does not name')
    }
  }

  #comparePersons(projectId: number, figures: ProjectFigures): void {
    const { persons, countedPersons: counted, created, uuidsOfPersons, uuidsOfCreated } = figures
    const { idsOfPersons, idsOfOwners, linksOfPersons, linksOfOwners } = figures
    const where = `persons of project ${projectId}`
    if (counted !== persons) this.#fault(where, `${counted} are counted, ${persons} are there`)
    if (figures.pagesNamed !== figures.pages) {
      const what = `${figures.pagesNamed} pages of properties are named, ${figures.pages} are there`
      this.#fault(where, what)
    }
    if (idsOfPersons !== idsOfOwners || linksOfPersons !== linksOfOwners) {
      this.#fault(where, 'distinct_ids and their owners do not mirror each other')
    }
    if (figures.movedOfPersons !== figures.movedOfIds) {
      this.#fault(where, 'ids that differ from numbers do not find their persons')
    }
    if (created !== persons || uuidsOfCreated !== uuidsOfPersons) {
      this.#fault(where, 'the list by time of creation has other persons')
    }
  }

  readonly #takeHeader: Take = (figures, key, bytes) => {
    const [projectId, first] = [numberInKey(key, 0), numberInKey(key, 4)]
    const { rows, groups } = decodeSummary(projectId, first, bytes)
    if (first !== figures.nextSequence) {
      const what = `begins at event ${first}, the one before ends at ${figures.nextSequence - 1}`
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

/** Returns a hash of a uuid. `wordAt` returns the four bytes at an offset. */
function hashOfUuid(wordAt: (offset: number) => number): number {
  let hash = 0
  for (let offset = 0; offset < 16; offset += 4) hash = mix(hash, wordAt(offset))
  return hash
}

/** Returns a sum that does not depend on the order of its members. */
function sum(total: number, first: number, second: number): number {
  return (total + mix(mix(0, first), second)) >>> 0
}

function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x9e37_79b1)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85eb_ca77)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
