/**
 * Whether the backups of a folder can be restored, as far as their files tell: manifests and chunks are
 * read and compared with their checksums. A backup takes a chunk that is there for a good one, so one
 * that rots would otherwise show when somebody needs it.
 */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { OperatorError } from '../../../base/errors.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import { allTables, backupNames, chunkPath, type Manifest, readManifest } from './manifest.ts'

/** What was checked. */
export interface BackupCheck {
  readonly backups: number
  /** Chunks, each counted once. */
  readonly chunks: number
  readonly bytes: number
  /** What is wrong, a sentence for each file, with the file and the way out. */
  readonly findings: readonly string[]
}

/**
 * Reads all that the backups of a folder consist of. `onProgress` gets the bytes so far. Throws
 * `OperatorError` when the folder holds no backup. Cost: one read of the folder; a chunk in memory.
 */
export async function checkBackups(
  folder: string,
  onProgress: (bytes: number) => void,
): Promise<BackupCheck> {
  const path = resolve(folder)
  const names = backupNames(path)
  if (names.length === 0) throw new OperatorError(`there is no backup in ${path}`)
  const findings: string[] = []
  const chunks = new Set<string>()
  for (const name of names) {
    const manifest = manifestOrNull(path, name, findings)
    if (manifest === null) continue
    for (const table of allTables(manifest)) for (const chunk of table.chunks) chunks.add(chunk)
  }
  let bytes = 0
  for (const chunk of chunks) {
    bytes += await checkChunk(chunk, chunkPath(path, chunk), findings)
    onProgress(bytes)
  }
  return { backups: names.length, chunks: chunks.size, bytes, findings }
}

function manifestOrNull(folder: string, name: string, findings: string[]): Manifest | null {
  try {
    return readManifest(folder, name)
  } catch (cause) {
    if (!(cause instanceof OperatorError)) throw cause
    findings.push(cause.message)
    return null
  }
}

/** The bytes of a chunk that are there. */
async function checkChunk(name: string, path: string, findings: string[]): Promise<number> {
  const remedy = 'the next backup writes it anew if the store still has what it held'
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const what = isMissing ? 'is missing' : `cannot be read (${String(cause)})`
    findings.push(`${path} ${what}: ${remedy}`)
    return 0
  }
  try {
    for (const _entry of readChunk(name, path, bytes));
  } catch (cause) {
    if (!(cause instanceof DamagedChunkError)) throw cause
    findings.push(`${cause.message}: remove it, and ${remedy}`)
  }
  return bytes.length
}
