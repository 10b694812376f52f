/**
 * The manifests of backups. A backup folder contains many backups, which share their chunks:
 *
 *   format             the line `tenrec-backup 1`
 *   backups/NAME.json  one manifest for each backup; the name is its time, such as 20261121T145109Z
 *   chunks/ab/abcd...  chunks by the first two digits of their names
 *
 * Several stores may use one folder. A manifest is one line of JSON, which begins with its sequence number, and a
 * second line `sha256 <digits>` with the checksum of the first. A manifest is written only when all chunks that it
 * names are on the disk. An interrupted backup therefore has no manifest and does not count.
 */
import { createHash } from 'node:crypto'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { FORMAT_VERSION, PART_NAMES, type PartName } from '../../directory/data-dir.ts'
import { EVENTS_TABLES, FLAGS_TABLES } from '../../lmdb/keys.ts'

/** The format of backup folders that this program writes and reads. */
export const BACKUP_VERSION = 1

const NAME_PATTERN = /^\d{8}T\d{6}Z(-\d{1,3})?$/
const CHUNK_NAME_PATTERN = /^[0-9a-f]{64}$/

/** The number of bytes to read at the beginning of a manifest in order to find the sequence number. */
const HEAD_BYTES = 64
/**
 * The tables that a backup may contain, for each part of the store. Table `state` of the log exists only in backups of
 * format 2.
 */
const TABLES_KNOWN: Readonly<Record<PartName, readonly string[]>> = {
  log: ['blocks', 'state'],
  events: EVENTS_TABLES,
  flags: FLAGS_TABLES,
}
/** The tables that a backup must contain, because a store has them from its first start on. */
const TABLES_NEEDED: Readonly<Record<PartName, readonly string[]>> = {
  log: ['blocks'],
  events: ['state', 'projects', 'segment_headers', 'segment_groups', 'distinct_ids', 'persons'],
  flags: ['state', 'users', 'projects', 'personal_keys', 'flags'],
}

/** One table in a backup. */
export interface TableBackup {
  readonly name: string
  readonly entries: number
  readonly bytes: number
  /** The names of the table's chunks, in the order of its entries. */
  readonly chunks: readonly string[]
}

/** The manifest of a backup. */
export interface Manifest {
  readonly version: number
  /** The format of the data directory from which the backup was created. */
  readonly storeFormat: number
  /** The version of the program that created the backup. */
  readonly program: string
  /**
   * The creation time in ISO 8601, by the clock of the machine. It is also the name of the backup. Backups are not
   * ordered by it, because a clock may be wrong.
   */
  readonly createdAt: string
  /**
   * The number of the backup in the folder, from 1. Later backups have larger numbers. Backups of earlier versions have
   * none.
   */
  readonly sequence?: number
  readonly environments: Readonly<Record<PartName, readonly TableBackup[]>>
}

/** Returns the path of a chunk in a backup folder. */
export function chunkPath(folder: string, name: string): string {
  return join(folder, 'chunks', name.slice(0, 2), name)
}

/** Returns the path of a manifest in a backup folder. */
export function manifestPath(folder: string, name: string): string {
  return join(folder, 'backups', `${name}.json`)
}

/** Returns the text of a manifest. */
export function encodeManifest({ sequence, ...manifest }: Manifest): string {
  // The sequence number must be the first member, because `sequenceOf` reads only the beginning of the text.
  const line = JSON.stringify(sequence === undefined ? manifest : { sequence, ...manifest })
  return `${line}\nsha256 ${hashOf(line)}\n`
}

/**
 * Returns the names of all backups in a folder in the order of their creation, or none for a folder without backups.
 * The order is that of the sequence numbers in the manifests, because a clock may have been wrong.
 */
export function backupNames(folder: string): readonly string[] {
  return numberedBackups(folder).map(({ name }) => name)
}

/** Returns the sequence number for the next backup in a folder. */
export function nextSequence(folder: string): number {
  return (numberedBackups(folder).at(-1)?.sequence ?? 0) + 1
}

function numberedBackups(folder: string): readonly { name: string; sequence: number }[] {
  const path = join(folder, 'backups')
  if (!existsSync(path)) return []
  const names = readdirSync(path)
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -5))
    .filter((name) => NAME_PATTERN.test(name))
    .sort()
  // A backup without a sequence number gets the sequence number of the backup before it in the order of the names.
  let last = 0
  const numbered = names.map((name) => {
    last = sequenceOf(manifestPath(folder, name)) ?? last
    return { name, sequence: last }
  })
  return numbered.sort((a, b) => a.sequence - b.sequence)
}

/**
 * Reads the sequence number from the beginning of a manifest. Returns null if the manifest has none or cannot be read.
 */
function sequenceOf(path: string): number | null {
  const head = Buffer.alloc(HEAD_BYTES)
  try {
    const descriptor = openSync(path, 'r')
    try {
      readSync(descriptor, head, 0, HEAD_BYTES, 0)
    } finally {
      closeSync(descriptor)
    }
  } catch {
    // Ignored here. A restore reads the whole manifest and reports the error.
    return null
  }
  const [, digits] = /^\{"sequence":(\d{1,15}),/.exec(head.toString('latin1')) ?? []
  return digits === undefined ? null : Number(digits)
}

/**
 * Reads a manifest, whose store may have the current format or an older one. Throws `OperatorError`, with exit code 78
 * if the manifest is damaged or was made by a newer version of Tenrec.
 */
export function readManifest(folder: string, name: string): Manifest {
  const path = manifestPath(folder, name)
  if (!NAME_PATTERN.test(name) || !existsSync(path)) {
    const known = backupNames(folder)
    const names =
      known.length === 0 ? 'The folder has none' : `The folder has ${known.slice(-5).join(', ')}`
    throw new OperatorError(`There is no backup ${JSON.stringify(name)} in ${folder}. ${names}.`)
  }
  const [line = '', checksum = ''] = readFileSync(path, 'utf8').split('\n')
  if (checksum !== `sha256 ${hashOf(line)}`) throw damaged(path, 'its checksum does not match')
  const value = parseOrNull(line)
  if (!isObject(value)) throw damaged(path, 'it is not a manifest')
  const { version, storeFormat } = value
  if (typeof version !== 'number' || typeof storeFormat !== 'number') {
    throw damaged(path, 'it does not say which format it has')
  }
  if (version > BACKUP_VERSION || storeFormat > FORMAT_VERSION) {
    throw new OperatorError(
      `${path} was made by a newer version of Tenrec (backup format ${version}, store format ${storeFormat}). ` +
        `This version supports ${BACKUP_VERSION} and ${FORMAT_VERSION}. Use the newer version.`,
      { exitCode: 78 },
    )
  }
  const problem = problemOf(value)
  if (problem !== null) throw damaged(path, problem)
  return value as unknown as Manifest
}

function parseOrNull(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

/**
 * Checks a manifest. Returns the fault as a clause, or null. A manifest is untrusted input, because somebody may have
 * edited it.
 */
function problemOf({ program, createdAt, environments }: Record<string, unknown>): string | null {
  if (typeof program !== 'string' || typeof createdAt !== 'string')
    return 'it does not say which version made it'
  if (!isObject(environments)) return 'it has no tables'
  for (const part of PART_NAMES) {
    const tables = environments[part]
    if (!Array.isArray(tables)) return `it has no tables of ${part}`
    const names = new Set<unknown>()
    for (const table of tables as readonly unknown[]) {
      const problem = tableProblem(table, part)
      if (problem !== null) return problem
      const { name } = table as TableBackup
      if (names.has(name)) return `it names the table ${part}/${name} twice`
      names.add(name)
    }
    const missing = TABLES_NEEDED[part].find((name) => !names.has(name))
    if (missing !== undefined) return `it lacks the table ${part}/${missing}`
  }
  return null
}

function tableProblem(table: unknown, part: PartName): string | null {
  if (!isObject(table)) return `a table of ${part} is not an object`
  const { name, entries, bytes, chunks } = table
  if (typeof name !== 'string' || !TABLES_KNOWN[part].includes(name)) {
    return `it names a table that ${part} does not have`
  }
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0
  if (!isCount(entries) || !isCount(bytes))
    return `the table ${part}/${name} has an impossible size`
  const areNames =
    Array.isArray(chunks) &&
    chunks.every((chunk) => typeof chunk === 'string' && CHUNK_NAME_PATTERN.test(chunk))
  return areNames ? null : `the table ${part}/${name} has an impossible chunk name`
}

/** Returns the numbers of bytes and entries of a whole backup. */
export function manifestTotals(manifest: Manifest): { bytes: number; entries: number } {
  let bytes = 0
  let entries = 0
  for (const table of allTables(manifest)) {
    bytes += table.bytes
    entries += table.entries
  }
  return { bytes, entries }
}

/** Returns every table of a backup. */
export function allTables(manifest: Manifest): readonly TableBackup[] {
  return PART_NAMES.flatMap((environment) => manifest.environments[environment])
}

function hashOf(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

function damaged(path: string, what: string): OperatorError {
  return new OperatorError(`${path} is damaged (${what}). Use another backup.`, { exitCode: 78 })
}
