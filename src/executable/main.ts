/**
 * The entry of the single executable: makes sure that the files of the program lie in the cache, and runs the program
 * from there. It is bundled as a CommonJS file, the only kind that Node runs from inside an executable.
 */
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { getAsset, getRawAsset } from 'node:sea'
import { OperatorError } from '../base/errors.ts'
import { cacheFolders, type PackedProgram, unpackProgram } from './program-cache.ts'

/** Asset with the version and the list of files, see `.ci/build-file.mjs`. */
const LIST = 'files.json'
/** Loads `dist/main.js`, which only a file outside of the executable can do. */
const START = 'start.cjs'
/**
 * How glibc keeps memory, the same as in `npm start` and the unit of systemd: without these a daemon takes twice as
 * much. glibc reads them when a process begins.
 */
const ALLOCATOR: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '262144',
  MALLOC_TRIM_THRESHOLD_: '4194304',
}

/** What Node 22 has and the declarations of Node 20 lack. */
interface Replaceable {
  /** Runs a program in place of this process. Returns only if that fails. */
  execve?(file: string, args: readonly string[], environment: NodeJS.ProcessEnv): never
}

try {
  if (process.argv[2] === 'serve') startWithAllocator()
  const { folder } = unpackProgram(packedProgram(), places(), userId())
  createRequire(join(folder, START))(`./${START}`)
} catch (error) {
  if (!(error instanceof OperatorError)) throw error
  process.stderr.write(`tenrec: ${error.message}\n`)
  process.exitCode = error.exitCode
}

/** Starts this process again with the settings of the allocator, unless it has them or whoever started it set others. */
function startWithAllocator(): void {
  const missing = Object.keys(ALLOCATOR).some((name) => process.env[name] === undefined)
  if (!missing) return
  const { execve } = process as Replaceable
  const args = [process.execPath, ...process.argv.slice(2)]
  execve?.call(process, process.execPath, args, { ...ALLOCATOR, ...process.env })
}

function packedProgram(): PackedProgram {
  const { version, files } = JSON.parse(getAsset(LIST, 'utf8')) as Omit<PackedProgram, 'read'>
  return { version, files, read: (path) => new Uint8Array(getRawAsset(path) as ArrayBuffer) }
}

function places(): readonly string[] {
  return cacheFolders({
    environment: process.env,
    home: homedir(),
    temporary: tmpdir(),
    userId: userId(),
  })
}

function userId(): number {
  return process.getuid?.() ?? 0
}
