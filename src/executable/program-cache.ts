/**
 * The cache with the files of the single executable. Each version of the program has its own folder, which is named
 * after the hash of its list of files. Every start compares each file with its hash, and writes missing and damaged
 * files again. The cache therefore repairs itself after a partial cleanup or a full disk.
 *
 * The folder must belong to this user, and no other user may be able to write to it. Otherwise another user could
 * decide which code the daemon runs.
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

/** A file of the program. */
export interface PackedFile {
  /** The path within the folder of the program, with `/`. */
  readonly path: string
  /** The SHA-256 of the content, in hexadecimal. */
  readonly sha256: string
}

/** The files of a program, and the function that reads their contents. */
export interface PackedProgram {
  readonly version: string
  readonly files: readonly PackedFile[]
  read(path: string): Uint8Array
}

/** The facts that determine where the cache is. */
export interface CachePlaces {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The home directory of the user, or '' if there is none. */
  readonly home: string
  /** The folder for temporary files. */
  readonly temporary: string
  readonly userId: number
}

/** The result of unpacking a program. */
export interface Unpacked {
  /** The folder that contains the files. */
  readonly folder: string
  /** The number of files that were written because they were missing or damaged. */
  readonly writtenCount: number
}

/**
 * Returns the folders that may hold the cache, the preferred one first. If `TENREC_CACHE_DIR` is set, it is the only
 * one. Otherwise these are the cache folder that systemd gives the service, the cache folder of the user, and the
 * folder for temporary files.
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
 * Makes sure that the files of the program are in the first usable folder of the list. If no folder is usable, throws
 * `OperatorError` with the reason for each of them.
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

/**
 * Creates the folder with permissions for this user only. Throws if the folder belongs to another user, or if other
 * users can write to it.
 */
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

/** Writes the files that are missing or damaged, and returns how many there were. */
function writeMissing(program: PackedProgram, target: string): number {
  const folders = new Set(program.files.map(({ path }) => dirname(path)))
  for (const folder of folders) makeFolder(target, folder)
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

/**
 * Throws if the file system is mounted with `noexec`, because native libraries cannot be loaded from such a file
 * system.
 */
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

/**
 * Makes sure that a folder of the program exists and that only this user can use it. A file or a link that has taken
 * the place of a folder is removed.
 */
function makeFolder(target: string, path: string): void {
  const parts = path === '.' ? [] : path.split('/')
  let folder = target
  for (const part of ['', ...parts]) {
    folder = join(folder, part)
    const status = lstatSync(folder, { throwIfNoEntry: false })
    if (status?.isDirectory()) {
      if ((status.mode & 0o777) !== 0o700) chmodSync(folder, 0o700)
      continue
    }
    if (status !== undefined) rmSync(folder, { force: true })
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }
}

/**
 * Writes a complete file. If another process reads or writes the same file at this moment, it sees either the
 * complete old or the complete new content. A folder that has taken the place of the file is removed.
 */
function writeWhole(file: string, content: Uint8Array, mode: number): void {
  const draft = `${file}.${process.pid}`
  try {
    writeFileSync(draft, content, { mode: 0o600 })
    chmodSync(draft, mode)
    if (lstatSync(file, { throwIfNoEntry: false })?.isDirectory())
      rmSync(file, { recursive: true, force: true })
    renameSync(draft, file)
  } finally {
    rmSync(draft, { force: true })
  }
}

/**
 * Removes the files of other versions of the program, unless a process has loaded them. If it is unknown which files
 * are loaded, nothing is removed.
 */
function removeUnused(folder: string, target: string): void {
  for (const name of readdirSync(folder)) {
    const other = join(folder, name)
    // Only folders that this file has created are removed. Their names consist of a version and a hash.
    if (other === target || !/^\d+\.\d+\.\d+\S*-[0-9a-f]{16}$/.test(name)) continue
    if (isLoaded(other) === false) rmSync(other, { recursive: true, force: true })
  }
}

/** Returns true if a process on this machine has loaded a binary from the folder. Returns null if this is unknown. */
function isLoaded(folder: string): boolean | null {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .some((pid) => mapsOf(pid).includes(`${folder}/`))
  } catch {
    return null
  }
}

/**
 * Returns the list of the files that a process has mapped. Returns '' for a process of another user, whose cache is
 * elsewhere.
 */
function mapsOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
  } catch {
    return ''
  }
}
