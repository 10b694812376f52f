/**
 * The cache in which the files of the single executable lie: one folder for each program, named after the hash of its
 * list of files. Every start compares each file with its hash and writes again what is missing or damaged, so
 * a cache that somebody cleaned in part, or a disk that was full, mends itself.
 *
 * The folder must belong to this user, and no other user may be able to write to it: a user who can change these files
 * decides what the daemon runs.
 */
import { hash } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { OperatorError } from '../base/errors.ts'

/** One file of the program. */
export interface PackedFile {
  /** Relative to the folder of the program, with `/`. */
  readonly path: string
  /** SHA-256 of its content, in hexadecimal. */
  readonly sha256: string
}

/** The files of a program, and where their contents come from. */
export interface PackedProgram {
  readonly version: string
  readonly files: readonly PackedFile[]
  read(path: string): Uint8Array
}

/** What decides where the cache is. */
export interface CachePlaces {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Home directory, or '' if there is none. */
  readonly home: string
  /** The folder for temporary files. */
  readonly temporary: string
  readonly userId: number
}

/** What became of the files at a start. */
export interface Unpacked {
  /** Where they are. */
  readonly folder: string
  /** How many were written because they were missing or damaged. */
  readonly writtenCount: number
}

/**
 * Returns the folders that may hold the cache, best first: `TENREC_CACHE_DIR` alone where it is set, otherwise the
 * cache of the service (systemd), that of the user, and the folder for temporary files.
 */
export function cacheFolders({
  environment,
  home,
  temporary,
  userId,
}: CachePlaces): readonly string[] {
  const {
    TENREC_CACHE_DIR: asked,
    CACHE_DIRECTORY: ofService,
    XDG_CACHE_HOME: ofUser,
  } = environment
  if (asked !== undefined && asked !== '') return [asked]
  const folders: string[] = []
  if (ofService !== undefined && ofService !== '')
    folders.push(ofService.split(':')[0] ?? ofService)
  if (ofUser?.startsWith('/')) folders.push(join(ofUser, 'tenrec'))
  if (home !== '' && home !== '/') folders.push(join(home, '.cache/tenrec'))
  folders.push(join(temporary, `tenrec-${userId}`))
  return folders
}

/**
 * Makes sure that the files of the program lie in the first of the folders that can be used. Throws `OperatorError`
 * with the reason of each folder when none can.
 */
export function unpackProgram(
  program: PackedProgram,
  folders: readonly string[],
  userId: number,
): Unpacked {
  const reasons: string[] = []
  for (const folder of folders) {
    try {
      claim(folder, userId)
      const target = join(folder, nameOf(program))
      const writtenCount = writeMissing(program, target)
      checkExecutable(program, target)
      if (writtenCount === program.files.length) removeUnused(folder, target)
      return { folder: target, writtenCount }
    } catch (error) {
      reasons.push(`${folder}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  throw new OperatorError(
    `The files of the program cannot be unpacked. Set TENREC_CACHE_DIR to a directory that this user can write to and run ` +
      `programs from (${reasons.join('; ')}).`,
  )
}

/** Makes the folder, readable by this user only. Throws when it is somebody else's, or others can write to it. */
function claim(folder: string, userId: number): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const status = lstatSync(folder)
  const { mode, uid } = status
  if (!status.isDirectory()) throw new Error('it is not a directory, or it is a link')
  if (uid !== userId) throw new Error('it belongs to another user')
  if ((mode & 0o022) !== 0) throw new Error('other users can write to it')
}

function nameOf({ version, files }: PackedProgram): string {
  const lines = files.map(({ path, sha256 }) => `${path}\n${sha256}\n`)
  return `${version}-${hash('sha256', lines.join(''), 'hex').slice(0, 16)}`
}

/** Writes the files that are not there as they should be, and returns their number. */
function writeMissing(program: PackedProgram, target: string): number {
  let writtenCount = 0
  for (const packed of program.files) {
    if (isIntact(target, packed)) continue
    const { path } = packed
    writeWhole(join(target, path), program.read(path), isBinary(path) ? 0o700 : 0o600)
    writtenCount++
  }
  return writtenCount
}

function isIntact(target: string, { path, sha256 }: PackedFile): boolean {
  const file = join(target, path)
  try {
    const status = lstatSync(file)
    if (!status.isFile() || (isBinary(path) && (status.mode & 0o100) === 0)) return false
    return hash('sha256', readFileSync(file), 'hex') === sha256
  } catch {
    return false
  }
}

/** Throws on a file system that is mounted with `noexec`, from which no binary can be loaded. */
function checkExecutable({ files }: PackedProgram, target: string): void {
  const binary = files.find(({ path }) => isBinary(path))
  if (binary === undefined) return
  try {
    accessSync(join(target, binary.path), constants.X_OK)
  } catch {
    throw new Error('its file system is mounted with noexec, so no program can be run from it')
  }
}

function isBinary(path: string): boolean {
  return path.endsWith('.node') || path.startsWith('bin/')
}

/** Another process may read or write the same file at this moment: it sees the whole file or the one before. */
function writeWhole(file: string, content: Uint8Array, mode: number): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${process.pid}`
  try {
    writeFileSync(draft, content, { mode: 0o600 })
    chmodSync(draft, mode)
    renameSync(draft, file)
  } finally {
    rmSync(draft, { force: true })
  }
}

/** Removes the files of other programs that no process has loaded. They stay where that cannot be told. */
function removeUnused(folder: string, target: string): void {
  for (const name of readdirSync(folder)) {
    const other = join(folder, name)
    // The names that this file gives: nothing else in the folder is touched.
    if (other === target || !/^\d+\.\d+\.\d+\S*-[0-9a-f]{16}$/.test(name)) continue
    if (isLoaded(other) === false) rmSync(other, { recursive: true, force: true })
  }
}

/** Whether a process of this machine has a binary of the folder loaded; null: it cannot be told. */
function isLoaded(folder: string): boolean | null {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .some((pid) => mapsOf(pid).includes(`${folder}/`))
  } catch {
    return null
  }
}

/** What is mapped by a process; '' for one of another user, whose cache is elsewhere. */
function mapsOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
  } catch {
    return ''
  }
}
