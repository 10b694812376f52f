/**
 * All persons or groups of a project, one after the other, for questions that have to look at each.
 * Blocks its thread: for threads of the pool.
 */
import type { JsonObject } from '../../base/json.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, EVENTS_TABLES, numberInKey, pairKey } from '../lmdb/keys.ts'
import { isMember } from './cohort-store.ts'
import { loadDistinctText } from './distinct-ids.ts'
import { allGroups } from './group-store.ts'
import { loadPerson, propertiesOfRecord } from './person-records.ts'
import { personTables } from './person-store.ts'
import type { PersonTables } from './person-writes.ts'

/** A person of a scan. */
export interface ScannedPerson {
  readonly number: number
  /** The oldest distinct_id; '' when there is none. */
  readonly distinctId: string
  readonly properties: JsonObject
}

/** A group of a scan. */
export interface ScannedGroup {
  readonly key: string
  readonly properties: JsonObject
}

/** Goes through persons and groups. Close it before its thread ends. */
export class PersonScan {
  readonly #environment: Environment
  readonly #tables: PersonTables
  readonly #distinctTables: { readonly ids: Table; readonly texts: Table }

  constructor(dataDir: string) {
    this.#environment = new Environment({
      dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
    })
    this.#tables = personTables(this.#environment)
    this.#distinctTables = {
      ids: this.#environment.table('distinct_ids'),
      texts: this.#environment.table('distinct_texts'),
    }
  }

  /** Lets the next scan see everything that is committed now. */
  refresh(): void {
    this.#environment.refresh()
  }

  /** All living persons, oldest number first. Throws `DamagedRecordError`. */
  *persons(projectId: number): Generator<ScannedPerson> {
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
    for (const key of this.#tables.persons.getKeys(range)) {
      const number = numberInKey(key, 4)
      const record = loadPerson(this.#tables, projectId, number)
      if (record === null) continue
      const id = record.firstIds[0]
      yield {
        number,
        distinctId: id === undefined ? '' : loadDistinctText(this.#distinctTables, projectId, id),
        properties: propertiesOfRecord(record),
      }
    }
  }

  /** All groups of one type in the order of their keys. Throws `DamagedRecordError`. */
  groups(projectId: number, typeIndex: number): Iterable<ScannedGroup> {
    return allGroups(this.#tables.groups, projectId, typeIndex)
  }

  /** Whether person P is on the fixed list of a cohort. */
  isInStaticCohort(projectId: number, cohortId: number, number: number): boolean {
    return isMember(this.#tables.members, projectId, cohortId, number)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}
