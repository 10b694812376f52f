/** Gives queries access to the persons and groups of a project, in the snapshot of the reader. */
import type { JsonObject } from '../../base/json.ts'
import type { FilterGroup } from '../../rules/filters/filter-group.ts'
import {
  type BehaviorTests,
  type PersonTest,
  personTest,
} from '../../rules/filters/person-filter.ts'
import type { GroupView } from '../../rules/persons/group-shapes.ts'
import type { ActorSource, FoundPerson } from '../../rules/queries/actor-source.ts'
import { type EventTables, keysOf } from '../lmdb/keys.ts'
import { entriesOf } from '../lmdb/records.ts'
import { CachedRanges } from './cached-ranges.ts'
import { cohortLookup } from './cohort-store.ts'
import { findGroup } from './group-store.ts'
import { loadPlaces } from './person-changes.ts'
import { loadPerson, type PersonRecord, propertiesOfRecord } from './person-records.ts'

/** Reads the persons and groups of a project for one query. */
export class StoredActors implements ActorSource {
  readonly #tables: EventTables
  readonly #projectId: number
  readonly #idTexts: (record: PersonRecord, idsMax: number) => readonly string[]
  /** Caches the locations of changes. Persons with neighboring numbers have these locations in one record. */
  readonly #places: CachedRanges

  /** `idTexts` returns the texts of the first ids of a person. */
  constructor(
    tables: EventTables,
    projectId: number,
    idTexts: (record: PersonRecord, idsMax: number) => readonly string[],
  ) {
    this.#tables = tables
    this.#projectId = projectId
    this.#idTexts = idTexts
    this.#places = new CachedRanges((...place) => loadPlaces(tables, ...place))
  }

  person(number: number): FoundPerson | null {
    const record = loadPerson(this.#tables, this.#projectId, number, this.#places)
    if (record === null) return null
    const { uuid, createdAtMs, isIdentified, json, changesJson, deltas } = record
    let parsed: JsonObject | null = null
    const properties = (): JsonObject => {
      parsed ??= propertiesOfRecord(record)
      return parsed
    }
    return {
      number,
      uuid,
      createdAtMs,
      isIdentified,
      propertyUnits: json.length + (changesJson?.length ?? 0) + deltas.length,
      get properties() {
        return properties()
      },
      property: (key) => (Object.hasOwn(properties(), key) ? properties()[key] : undefined),
      distinctIds: (idsMax) => this.#idTexts(record, idsMax),
    }
  }

  group(typeIndex: number, key: string): GroupView | null {
    return findGroup(this.#tables, this.#projectId, typeIndex, key)
  }

  *numbers(order: 'created_at' | 'id', isDescending: boolean): Generator<number> {
    const { start, end } = keysOf(this.#projectId)
    const { person_created, person_uuids } = this.#tables
    // Table `person_created` begins with the newest person, but table `person_uuids` begins with the smallest uuid. So
    // a descending order reads only `person_uuids` in reverse, and an ascending order only `person_created`.
    const isReverse = isDescending === (order === 'id')
    const range = isReverse ? { start: end, end: start, reverse: true } : { start, end }
    const table = order === 'id' ? person_uuids : person_created
    for (const { value } of entriesOf(table, range)) yield value.readUInt32LE()
  }

  personTest(filter: FilterGroup, behavior?: BehaviorTests): PersonTest {
    return personTest(filter, cohortLookup(this.#tables, this.#projectId), behavior)
  }
}
