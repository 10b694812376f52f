/**
 * What must hold between the records of persons: as many as the counters say, every distinct_id with the
 * person that owns it and the other way round, and the index by time of creation complete. Works like
 * events-check.ts, on one pass: sets are compared by the sum of the hashes of their members.
 */

import { checkChangesBlock } from '../../identity/person-changes.ts'
import { INLINE_IDS_MAX, type PersonCounters } from '../../identity/person-records.ts'
import { unpack } from '../../lmdb/codec.ts'
import { numberInKey } from '../../lmdb/keys.ts'
import type { FaultListener } from './events-check.ts'

const PERSON_IDS_OFFSET = 8
const PERSON_UUID_OFFSET = 20
const PERSON_FIRST_IDS_OFFSET = 36
const OWNER_MASK = 0x3fff_ffff
const OWNERS_PER_CHUNK = 256
const CREATED_KEY_UUID_OFFSET = 12

interface ProjectPersons {
  persons: number
  counted: number | null
  /** Distinct_ids that persons say they have, and that owners say. */
  idsOfPersons: number
  idsOfOwners: number
  linksOfPersons: number
  linksOfOwners: number
  created: number
  uuidsOfPersons: number
  uuidsOfCreated: number
}

/** Collects while the tables are read, then compares. */
export class PersonsCheck {
  readonly #projects = new Map<number, ProjectPersons>()
  readonly #fault: FaultListener

  constructor(fault: FaultListener) {
    this.#fault = fault
  }

  /** Takes one entry; `bytes` is the value without its checksum. */
  take(table: string, key: Buffer, bytes: Buffer): void {
    switch (table) {
      case 'person_projects':
        // Written by `storePersonCounters`; the checksum fits.
        this.#project(key).counted = (unpack(bytes) as PersonCounters).persons
        break
      case 'persons':
        this.#takePerson(this.#project(key), numberInKey(key, 4), bytes)
        break
      case 'person_ids': {
        const project = this.#project(key)
        project.linksOfPersons = sum(
          project.linksOfPersons,
          numberInKey(key, 4),
          bytes.readUInt32LE(),
        )
        break
      }
      case 'person_owners':
        this.#takeOwners(this.#project(key), numberInKey(key, 4), bytes)
        break
      case 'person_created': {
        const project = this.#project(key)
        project.created++
        let hash = 0
        for (let offset = 0; offset < 16; offset += 4) {
          hash = mix(hash, ~key.readUInt32BE(CREATED_KEY_UUID_OFFSET + offset))
        }
        project.uuidsOfCreated = sum(project.uuidsOfCreated, hash, bytes.readUInt32LE())
        break
      }
      default:
        break
    }
  }

  /** Takes a value of table `person_changes`, which carries its own checksums. Throws when one does not fit. */
  takeChanges(key: Buffer, value: Buffer): void {
    checkChangesBlock(key, value)
  }

  /** Compares what was collected. */
  finish(): void {
    for (const [projectId, project] of this.#projects) {
      const where = `persons of project ${projectId}`
      if (project.counted !== project.persons) {
        this.#fault(where, `${project.counted ?? 0} are counted, ${project.persons} are there`)
      }
      const isLinked =
        project.idsOfPersons === project.idsOfOwners &&
        project.linksOfPersons === project.linksOfOwners
      if (!isLinked) this.#fault(where, 'distinct_ids and their owners do not mirror each other')
      const isListed =
        project.created === project.persons && project.uuidsOfCreated === project.uuidsOfPersons
      if (!isListed) this.#fault(where, 'the list by time of creation has other persons')
    }
  }

  #takePerson(project: ProjectPersons, number: number, bytes: Buffer): void {
    project.persons++
    const count = bytes.readUInt32LE(PERSON_IDS_OFFSET)
    project.idsOfPersons += count
    for (let index = 0; index < Math.min(count, INLINE_IDS_MAX); index++) {
      const distinctId = bytes.readUInt32LE(PERSON_FIRST_IDS_OFFSET + index * 4)
      project.linksOfPersons = sum(project.linksOfPersons, number, distinctId)
    }
    let hash = 0
    for (let offset = 0; offset < 16; offset += 4) {
      hash = mix(hash, bytes.readUInt32BE(PERSON_UUID_OFFSET + offset))
    }
    project.uuidsOfPersons = sum(project.uuidsOfPersons, hash, number)
  }

  #takeOwners(project: ProjectPersons, chunk: number, bytes: Buffer): void {
    for (let index = 0; index < OWNERS_PER_CHUNK; index++) {
      const owner = bytes.readUInt32LE(index * 4) & OWNER_MASK
      if (owner === 0) continue
      project.idsOfOwners++
      const distinctId = chunk * OWNERS_PER_CHUNK + index
      project.linksOfOwners = sum(project.linksOfOwners, owner, distinctId)
    }
  }

  #project(key: Buffer): ProjectPersons {
    const projectId = numberInKey(key, 0)
    let project = this.#projects.get(projectId)
    if (project === undefined) {
      project = {
        persons: 0,
        counted: null,
        idsOfPersons: 0,
        idsOfOwners: 0,
        linksOfPersons: 0,
        linksOfOwners: 0,
        created: 0,
        uuidsOfPersons: 0,
        uuidsOfCreated: 0,
      }
      this.#projects.set(projectId, project)
    }
    return project
  }
}

/** A sum that does not depend on the order of its members. */
function sum(total: number, first: number, second: number): number {
  return (total + mix(mix(0, first), second)) >>> 0
}

function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x9e37_79b1)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85eb_ca77)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
