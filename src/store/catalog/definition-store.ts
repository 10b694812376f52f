/**
 * Deleted event definitions. Deleting a definition deletes no events. The next event with the same name creates the
 * definition again. Table `deleted_definitions`: project u32, id as text -> `DeletedDefinition`, MessagePack with a
 * checksum.
 */
import type { DeletedDefinition } from '../../rules/events/event-definitions.ts'
import { distinctIdKey, keysOf } from '../lmdb/keys.ts'
import { putRecord, recordsOf } from '../lmdb/records.ts'
import { demandRoom } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { DELETED_DEFINITIONS_MAX } from './limits.ts'

/** Deletes definitions, each in a durable transaction, and lists the deleted ones. */
export class DefinitionStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /**
   * Returns the deleted definitions of a project: the id of each definition, and the sequence number of the newest
   * event of the project at the time of the deletion. Only an event with a higher number creates the definition again.
   */
  deleted(projectId: number): ReadonlyMap<string, number> {
    const table = this.#environment.table('deleted_definitions')
    // The cast is right: `delete` wrote the records, and their checksums match.
    const records = [...recordsOf(table, keysOf(projectId))] as unknown as DeletedDefinition[]
    return new Map(records.map(({ id, sequence }) => [id, sequence]))
  }

  /**
   * Deletes a definition. This does not raise the version number of the environment, because no flag decision depends
   * on definitions. Throws 400 if the project has too many deleted definitions.
   */
  delete(projectId: number, definition: DeletedDefinition): void {
    this.#environment.record(() => {
      const deleted = this.deleted(projectId)
      if (!deleted.has(definition.id)) {
        demandRoom(deleted.size, DELETED_DEFINITIONS_MAX, 'deleted definitions')
      }
      const key = distinctIdKey(projectId, definition.id)
      putRecord(this.#environment.table('deleted_definitions'), key, definition)
    })
  }
}
