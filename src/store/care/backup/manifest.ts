/**
 * What a backup consists of. A backup folder holds many backups, which share their chunks:
 *
 *   format            the line `tenrec-backup 1`
 *   backups/NAME.json one manifest for each backup; the name is its time, such as 20261121T145109Z
 *   chunks/ab/abcd... chunks by the first two digits of their names
 *
 * A manifest is one line of JSON and a second line `sha256 <digits>` over the first. It is written when
 * everything it names is on the disk: a backup without manifest does not exist.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { FORMAT_VERSION, PART_NAMES, type PartName } from '../../directory/data-dir.ts'

/** The format of backup folders that this program writes and reads. */
export const BACKUP_VERSION = 1

const NAME_PATTERN = /^\d{8}T\d{6}Z(-\d{1,3})?$/
const CHUNK_NAME_PATTERN = /^[0-9a-f]{64}$/

/** One table in a backup. */
export interface TableBackup {
  readonly name: string
  readonly entries: number
  readonly bytes: number
  /** Names of its chunks, in order. */
  readonly chunks: readonly string[]
}

/** One backup. */
export interface Manifest {
  readonly version: number
  /** Format of the data directory that it was made from. */
  readonly storeFormat: number
  /** Version of the program that made it. */
  readonly program: string
  /** ISO 8601. */
  readonly createdAt: string
  readonly environments: Readonly<Record<PartName, readonly TableBackup[]>>
}

/** Where a chunk lies in a backup folder. */
export function chunkPath(folder: string, name: string): string {
  return join(folder, 'chunks', name.slice(0, 2), name)
}

/** Where a manifest lies in a backup folder. */
export function manifestPath(folder: string, name: string): string {
  return join(folder, 'backups', `${name}.json`)
}

/** The bytes of a manifest. */
export function encodeManifest(manifest: Manifest): string {
  const line = JSON.stringify(manifest)
  return `${line}\nsha256 ${hashOf(line)}\n`
}

/** The names of all backups in a folder, oldest first; empty for a folder that holds none. */
export function backupNames(folder: string): readonly string[] {
  const path = join(folder, 'backups')
  if (!existsSync(path)) return []
  return readdirSync(path)
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -5))
    .filter((name) => NAME_PATTERN.test(name))
    .sort()
}

/**
 * Reads a manifest, of the current store format or an older one. Throws `OperatorError`, exit code 78 when
 * it is damaged or from a newer program.
 */
export function readManifest(folder: string, name: string): Manifest {
  const path = manifestPath(folder, name)
  if (!NAME_PATTERN.test(name) || !existsSync(path)) {
    const known = backupNames(folder)
    const names = known.length === 0 ? 'it holds none' : `it holds ${known.slice(-5).join(', ')}`
    throw new OperatorError(`there is no backup ${JSON.stringify(name)} in ${folder}: ${names}`)
  }
  const [line = '', checksum = ''] = readFileSync(path, 'utf8').split('\n')
  if (checksum !== `sha256 ${hashOf(line)}`) throw damaged(path, 'its checksum does not fit')
  const value: unknown = JSON.parse(line)
  if (!isObject(value)) throw damaged(path, 'it is no manifest')
  const { version, storeFormat } = value
  if (typeof version !== 'number' || typeof storeFormat !== 'number') {
    throw damaged(path, 'it names no format')
  }
  if (version > BACKUP_VERSION || storeFormat > FORMAT_VERSION) {
    throw new OperatorError(
      `${path} was made by a newer program (backup format ${version}, store format ${storeFormat}; ` +
        `this one knows ${BACKUP_VERSION} and ${FORMAT_VERSION}): use that program`,
      { exitCode: 78 },
    )
  }
  // The checksum fits, so it is what `encodeManifest` wrote.
  const manifest = value as unknown as Manifest
  const isComplete = PART_NAMES.every((environment) =>
    manifest.environments[environment].every(({ chunks }) =>
      chunks.every((chunk) => CHUNK_NAME_PATTERN.test(chunk)),
    ),
  )
  if (!isComplete) throw damaged(path, 'it names chunks that cannot be')
  return manifest
}

/** Bytes and entries of a whole backup. */
export function manifestTotals(manifest: Manifest): { bytes: number; entries: number } {
  let bytes = 0
  let entries = 0
  for (const table of allTables(manifest)) {
    bytes += table.bytes
    entries += table.entries
  }
  return { bytes, entries }
}

/** Every table of a backup. */
export function allTables(manifest: Manifest): readonly TableBackup[] {
  return PART_NAMES.flatMap((environment) => manifest.environments[environment])
}

function hashOf(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

function damaged(path: string, what: string): OperatorError {
  return new OperatorError(`${path} is damaged (${what}): use another backup`, { exitCode: 78 })
}
