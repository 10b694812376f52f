/** Reads all flags of all projects once, without changing anything, for commands that examine a store. */
import type { Flag } from '../../rules/flags/types.ts'
import { Environment } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT } from '../lmdb/keys.ts'
import { recordsOf } from '../lmdb/records.ts'
import { decodeProject } from './directory-environment.ts'
import { decodeFlag } from './flag-records.ts'

/** All flags of a store, as read at one moment. */
export interface StoredFlags {
  readonly projectIds: readonly number[]
  /** The flags that are not deleted, ordered by project and then by number. */
  readonly flags: readonly Flag[]
}

/** Reads all flags of the store in `dataDir`. Throws `OperatorError` and `DamagedRecordError`. */
export async function readStoredFlags(dataDir: string): Promise<StoredFlags> {
  const tables = ['flags', 'projects']
  const environment = new Environment({
    dataDir,
    name: FLAGS_ENVIRONMENT,
    tables,
    isReadOnly: true,
  })
  try {
    const projects = recordsOf(environment.table('projects'))
    const flags = recordsOf(environment.table('flags'))
    return {
      projectIds: [...projects].map((record) => decodeProject(record).id),
      flags: [...flags].map((record) => decodeFlag(record).flag).filter(({ deleted }) => !deleted),
    }
  } finally {
    await environment.close()
  }
}
