/**
 * Identifies the store of a backup by the id of its organization. A store gets this random UUID at its first start and
 * keeps it after a restore. The UUID is read from the records in the backup, so it can also be found in backups of
 * earlier versions.
 */
import { readFileSync } from 'node:fs'
import { isObject } from '../../../base/json.ts'
import { DamagedRecordError } from '../../faults.ts'
import { unpack, unseal } from '../../lmdb/codec.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import { chunkPath, type Manifest } from './manifest.ts'

/** The key of the record that `DirectoryEnvironment.putOrganization` writes. */
const ORGANIZATION_KEY = Buffer.from('organization', 'latin1')

/**
 * Returns the identity of the store in a backup. Returns null if the store was never started, or if the chunk that
 * contains the identity is missing or damaged.
 */
export function storeIdentity(folder: string, { environments }: Manifest): string | null {
  const chunks = environments.flags.find(({ name }) => name === 'state')?.chunks ?? []
  try {
    for (const chunk of chunks) {
      const path = chunkPath(folder, chunk)
      for (const { key, value } of readChunk(chunk, path, readFileSync(path))) {
        if (!ORGANIZATION_KEY.equals(key)) continue
        const record = unpack(unseal('state', ORGANIZATION_KEY, Buffer.from(value)))
        return isObject(record) && typeof record['id'] === 'string' ? record['id'] : null
      }
    }
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const isDamaged = cause instanceof DamagedChunkError || cause instanceof DamagedRecordError
    if (!isMissing && !isDamaged) throw cause
  }
  return null
}
