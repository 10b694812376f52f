/**
 * The version of environment `flags`: every change of flags, projects, keys, users and roles raises it
 * (`FlagStore`, `DirectoryEnvironment`), nothing lowers it.
 */
import { DamagedRecordError } from '../faults.ts'
import { Environment } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, getRecord } from './project-records.ts'

const STATE = 'state'
const VERSION_KEY = Buffer.from('version', 'latin1')

/** Reads the version again and again; close it before the thread ends. */
export class FlagsVersion {
  readonly #environment: Environment

  /** `isReadOnly`: for a process that does not open the environment to write. */
  constructor(dataDir: string, isReadOnly = false) {
    const options = { dataDir, name: FLAGS_ENVIRONMENT, tables: [STATE], isReadOnly }
    this.#environment = new Environment(options)
  }

  /** As of now; 0 before the first change. Throws `DamagedRecordError`. */
  read(): number {
    this.#environment.refresh()
    const state = this.#environment.find(STATE)
    if (state === undefined) return 0
    const version = getRecord(state, STATE, VERSION_KEY)
    return typeof version === 'number' ? version : 0
  }

  /** The same, and 0 when the record is damaged: others report that. */
  readIfSound(): number {
    try {
      return this.read()
    } catch (cause) {
      if (cause instanceof DamagedRecordError) return 0
      throw cause
    }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}
