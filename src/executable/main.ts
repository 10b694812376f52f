/**
 * The entry of the single executable. It unpacks the files of the program to the cache if they are not there yet, and
 * runs the program from the cache. This file is bundled as a CommonJS file, because Node runs no other kind from inside
 * an executable.
 */
import { existsSync, realpathSync } from 'node:fs'
import { createRequire, Module } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { getAsset, getRawAsset } from 'node:sea'
import { OperatorError } from '../base/errors.ts'
import { cacheFolders, type PackedProgram, unpackProgram } from './program-cache.ts'

/** The name of the embedded file with the version and the list of files. `.ci/build-file.mjs` writes it. */
const LIST = 'files.json'
/**
 * The file in the cache that loads `dist/main.js`. It is needed because code inside the executable cannot load ES
 * modules from the disk.
 */
const START = 'start.cjs'
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'
/** The folder in the cache, beside the files of the program, in which Node stores compiled code. */
const COMPILED = 'compiled'
/**
 * The settings of glibc's memory allocator, the same as in `npm start` and the systemd unit. Without them, a daemon
 * takes twice as much memory. glibc reads them when a process starts.
 */
const ALLOCATOR: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '262144',
  MALLOC_TRIM_THRESHOLD_: '4194304',
}

/** A function of Node 22 that the type declarations of Node 20 do not contain. */
interface CompileCache {
  enableCompileCache?(folder: string): unknown
}

/** A function of `process` in newer versions of Node that the type declarations of Node 20 do not contain. */
interface Replaceable {
  /** Runs a program in place of this process. Returns only if that fails. */
  execve?(file: string, args: readonly string[], environment: NodeJS.ProcessEnv): never
}

try {
  if (process.argv[2] === 'serve') startWithAllocator()
  const program = packedProgram()
  const { folder } = unpackProgram(program, programFolders(), userId())
  checkLibraries(program, folder)
  // The store is locked with the program `flock`. If the machine does not have this program, the copy in this folder is
  // used.
  process.env['PATH'] = `${process.env['PATH'] ?? USUAL_PATH}:${join(folder, 'bin')}`
  keepCompiled(join(folder, COMPILED))
  createRequire(join(folder, START))(`./${START}`)
} catch (error) {
  if (!(error instanceof OperatorError)) throw error
  process.stderr.write(`tenrec: ${error.message}\n`)
  process.exitCode = error.exitCode
}

/** Starts this process again with the settings of the allocator. Does nothing if all of them are set already. */
function startWithAllocator(): void {
  const missing = Object.keys(ALLOCATOR).some((name) => process.env[name] === undefined)
  if (!missing) return
  const { execve } = process as Replaceable
  const args = [process.execPath, ...process.argv.slice(2)]
  execve?.call(process, process.execPath, args, { ...ALLOCATOR, ...process.env })
}

/**
 * Loads the native library of the store. If the C library of the system is too old for it, the user gets an error
 * message instead of a stack trace.
 */
function checkLibraries({ files }: PackedProgram, folder: string): void {
  const name = `.abi${process.versions.modules}.glibc.node`
  const found = files.find(({ path }) => path.includes('@lmdb/') && path.endsWith(name))
  if (found === undefined) return
  const file = join(folder, found.path)
  try {
    createRequire(file)(file)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new OperatorError(
      'This system is too old for Tenrec, which needs glibc 2.34 or newer and libstdc++ of GCC 11 or newer. Use Debian 12, ' +
        `Ubuntu 22.04, RHEL 9 or a newer system (${reason}).`,
    )
  }
}

/**
 * Lets Node cache the compiled code of the program. Later starts are then about a seventh faster. Node verifies cached
 * code with checksums, and compiles again if they differ. Threads read the name of the folder from the environment.
 */
function keepCompiled(folder: string): void {
  const { NODE_COMPILE_CACHE: asked, NODE_DISABLE_COMPILE_CACHE: isRefused } = process.env
  if (asked !== undefined || isRefused !== undefined) return
  process.env['NODE_COMPILE_CACHE'] = folder
  const { enableCompileCache } = Module as unknown as CompileCache
  enableCompileCache?.(folder)
}

function packedProgram(): PackedProgram {
  const { version, files } = JSON.parse(getAsset(LIST, 'utf8')) as Omit<PackedProgram, 'read'>
  return { version, files, read: (path) => new Uint8Array(getRawAsset(path) as ArrayBuffer) }
}

/**
 * Returns the folders that may hold the cache, the preferred one first. If the service runs as a dynamic user of
 * systemd, CACHE_DIRECTORY is a symbolic link. The link is resolved, because the cache refuses a folder that is a link.
 */
function programFolders(): readonly string[] {
  const { CACHE_DIRECTORY: ofService } = process.env
  const environment = { ...process.env }
  if (ofService !== undefined && existsSync(ofService))
    environment['CACHE_DIRECTORY'] = realpathSync(ofService)
  return cacheFolders({
    environment,
    home: homedir(),
    temporary: tmpdir(),
    userId: userId(),
  })
}

function userId(): number {
  return process.getuid?.() ?? 0
}
