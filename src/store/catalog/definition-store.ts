/**
 * Definitions of events that were deleted: the events stay, and one that comes later brings its definition
 * back. Table `deleted_definitions`: project u32, id as text -> `DeletedDefinition`, MessagePack with a
 * checksum.
 */
import type { DeletedDefinition } from '../../rules/events/definitions.ts'
import { distinctIdKey, keysOf } from '../lmdb/keys.ts'
import { putRecord, recordsOf } from '../lmdb/records.ts'
import { demandRoom } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { DELETED_DEFINITIONS_MAX } from './limits.ts'

/** Deletes definitions, each in a durable transaction, and tells which are. */
export class DefinitionStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** Id of each that was deleted in a project -> the newest S that does not count for it. */
  deleted(projectId: number): ReadonlyMap<string, number> {
    const table = this.#environment.table('deleted_definitions')
    // Written by `delete`, and unchanged since: the checksum says so.
    const records = [...recordsOf(table, keysOf(projectId))] as unknown as DeletedDefinition[]
    return new Map(records.map(({ id, sequence }) => [id, sequence]))
  }

  /** Nobody decides by it, so that no version is raised. Throws 400 when there are too many. */
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
