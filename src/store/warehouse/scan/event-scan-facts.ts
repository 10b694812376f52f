/**
 * What scans know about persons, groups and distinct_ids beyond the segments. Owners and uuids are asked
 * for so often that they are kept as arrays: owners until something is processed, uuids for as long as
 * the thread lives, because a person never changes its uuid.
 */
import { parseUuid } from '../../../base/ids.ts'
import { type PersonCandidate, personTest } from '../../../rules/filters/person-filter.ts'
import { cohortLookup } from '../../identity/cohort-store.ts'
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import { loadGroup } from '../../identity/group-store.ts'
import { loadOwnerTable, type OwnerTable } from '../../identity/person-owners.ts'
import {
  candidateOf,
  createdStart,
  loadPerson,
  numberOfValue,
  parseProperties,
} from '../../identity/person-records.ts'
import type { PersonTables } from '../../identity/person-writes.ts'
import type { Table } from '../../lmdb/environment.ts'
import { pairKey } from '../../lmdb/keys.ts'
import { loadCounters } from '../format/event-projects.ts'
import { readNumber } from '../format/event-state.ts'
import {
  SCAN_CANDIDATES_MAX,
  SCAN_CREATED_RANGES_MAX,
  SCAN_LOOKUPS_MAX,
  SCAN_PROJECTS_MAX,
} from '../limits.ts'
import type { ScanFacts } from './event-scan-filter.ts'

const PREFIX_BYTES = 6
const UUID_AT = 12

/** Reads between two looks at the limits of the query; some microseconds each. */
const READS_BETWEEN_CHECKS = 128

type LimitCheck = () => void

/** The tables that facts are read from. */
export interface FactTables extends PersonTables {
  /** Counters of events. */
  readonly eventProjects: Table
  readonly state: Table
  readonly distinctIds: Table
  readonly distinctTexts: Table
}

/** Facts of one project as of one snapshot. */
export class ProjectFacts implements ScanFacts {
  readonly projectId: number
  /** Log position of the snapshot that it was read from. */
  readonly position: number
  readonly #tables: FactTables
  readonly #uuids: UuidPrefixes
  readonly #texts = new Map<number, string>()
  readonly #candidates = new Map<number, PersonCandidate | null>()
  #owners: OwnerTable | null = null
  readonly #createdWithin = new Map<string, Uint32Array>()
  #limits: LimitCheck = () => undefined
  #singleLookups = 0
  #reads = 0

  constructor(tables: FactTables, projectId: number, position: number, uuids: UuidPrefixes) {
    this.projectId = projectId
    this.position = position
    this.#tables = tables
    this.#uuids = uuids
  }

  get owners(): OwnerTable {
    if (this.#owners === null) {
      const lastDistinctId = loadCounters(this.#tables.eventProjects, this.projectId)?.distinctIds
      this.#owners = loadOwnerTable(this.#tables, this.projectId, lastDistinctId ?? 0)
    }
    return this.#owners
  }

  textOf = (distinctId: number): string => {
    let text = this.#texts.get(distinctId)
    if (text === undefined) {
      this.#noteRead()
      const tables = { ids: this.#tables.distinctIds, texts: this.#tables.distinctTexts }
      text = loadDistinctText(tables, this.projectId, distinctId)
      if (this.#texts.size >= SCAN_CANDIDATES_MAX) this.#texts.clear()
      this.#texts.set(distinctId, text)
    }
    return text
  }

  personTest: ScanFacts['personTest'] = (tree) => {
    const test = personTest(tree, cohortLookup(this.#tables, this.projectId))
    return (person) => {
      const candidate = this.#candidate(person)
      return candidate !== null && test(candidate)
    }
  }

  personProperty: ScanFacts['personProperty'] = (person, key) =>
    this.#candidate(person)?.property(key)

  groupProperty: ScanFacts['groupProperty'] = (typeIndex, groupKey, key) => {
    this.#noteRead()
    const record = loadGroup(this.#tables.groups, this.projectId, typeIndex, groupKey)
    if (record === null) return undefined
    const properties = parseProperties(record.json)
    return Object.hasOwn(properties, key) ? properties[key] : undefined
  }

  /** The first 48 bits of the uuid of P as a number; 0 for nobody. */
  uuidPrefix(person: number): number {
    const known = this.#uuids.get(person)
    if (known !== undefined) return known
    this.#look(person)
    return this.#uuids.get(person) ?? 0
  }

  /** The P that were created at a time or later, but before another; milliseconds. */
  createdWithin(fromMs: number, untilMs: number): Uint32Array {
    const name = `${fromMs} ${untilMs}`
    const known = this.#createdWithin.get(name)
    if (known !== undefined) return known
    const found: number[] = []
    const start = createdStart(this.projectId, untilMs - 1)
    const end = createdStart(this.projectId, fromMs - 1)
    for (const { key, value } of this.#tables.created.getRange({ start, end })) {
      found.push(numberOfValue('person_created', key, value))
      this.#noteRead()
    }
    if (this.#createdWithin.size >= SCAN_CREATED_RANGES_MAX) this.#createdWithin.clear()
    const persons = Uint32Array.from(found)
    this.#createdWithin.set(name, persons)
    return persons
  }

  /** What throws when the query at hand has to end. */
  limitBy(check: LimitCheck): void {
    this.#limits = check
  }

  checkLimits = (): void => this.#limits()

  #noteRead(): void {
    if (++this.#reads % READS_BETWEEN_CHECKS === 0) this.#limits()
  }

  /** Reads one person, or, when many were asked for, everybody. */
  #look(person: number): void {
    if (this.#singleLookups++ === SCAN_LOOKUPS_MAX) this.#lookAtAll()
    if (this.#singleLookups > SCAN_LOOKUPS_MAX) return
    const record = loadPerson(this.#tables, this.projectId, person)
    if (record === null) return
    const bytes = parseUuid(record.uuid)
    if (bytes !== null) this.#uuids.set(person, prefixOf(bytes, 0))
  }

  #lookAtAll(): void {
    const { projectId } = this
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
    for (const { key, value } of this.#tables.created.getRange(range)) {
      const person = numberOfValue('person_created', key, value)
      this.#uuids.set(person, INVERTED_END - prefixOf(key, UUID_AT))
      this.#noteRead()
    }
  }

  #candidate(person: number): PersonCandidate | null {
    const known = this.#candidates.get(person)
    if (known !== undefined) return known
    this.#noteRead()
    const record = loadPerson(this.#tables, this.projectId, person)
    const candidate = record === null ? null : candidateOf(record)
    if (this.#candidates.size >= SCAN_CANDIDATES_MAX) this.#candidates.clear()
    this.#candidates.set(person, candidate)
    return candidate
  }
}

/** What the prefix of an inverted uuid and that of the uuid add up to. */
const INVERTED_END = 2 ** (8 * PREFIX_BYTES) - 1

/** The beginnings of the uuids of a project's persons, by P. */
class UuidPrefixes {
  /** Plus one; 0 where none is known. */
  #prefixes = new Float64Array(1024)

  get(person: number): number | undefined {
    const prefix = this.#prefixes[person] ?? 0
    return prefix === 0 ? undefined : prefix - 1
  }

  set(person: number, prefix: number): void {
    if (person >= this.#prefixes.length) {
      const larger = new Float64Array(Math.max(person + 1, this.#prefixes.length * 2))
      larger.set(this.#prefixes)
      this.#prefixes = larger
    }
    this.#prefixes[person] = prefix + 1
  }
}

/** Keeps the facts of a few projects between scans. */
export class FactCache {
  readonly #tables: FactTables
  readonly #facts = new Map<number, ProjectFacts>()
  readonly #uuids = new Map<number, UuidPrefixes>()

  constructor(tables: FactTables) {
    this.#tables = tables
  }

  /** The facts of a project as of the snapshot that the thread reads. */
  facts(projectId: number): ProjectFacts {
    const position = readNumber(this.#tables.state, 'position') ?? 0
    const known = this.#facts.get(projectId)
    if (known?.position === position) return known
    let uuids = this.#uuids.get(projectId)
    if (uuids === undefined) {
      uuids = new UuidPrefixes()
      this.#uuids.set(projectId, uuids)
    }
    const facts = new ProjectFacts(this.#tables, projectId, position, uuids)
    this.#facts.set(projectId, facts)
    for (const oldest of this.#facts.keys()) {
      if (this.#facts.size <= SCAN_PROJECTS_MAX) break
      this.#facts.delete(oldest)
      this.#uuids.delete(oldest)
    }
    return facts
  }
}

function prefixOf(bytes: Uint8Array, offset: number): number {
  let prefix = 0
  for (let index = 0; index < PREFIX_BYTES; index++) {
    prefix = prefix * 256 + (bytes[offset + index] ?? 0)
  }
  return prefix
}
