/**
 * The entry of the single executable: makes sure that the files of the program lie in the cache, and runs the program
 * from there. It is bundled as a CommonJS file, the only kind that Node runs from inside an executable.
 */
import { existsSync, realpathSync } from 'node:fs'
import { createRequire, Module } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { getAsset, getRawAsset } from 'node:sea'
import { OperatorError } from '../base/errors.ts'
import { cacheFolders, type PackedProgram, unpackProgram } from './program-cache.ts'

/** Asset with the version and the list of files, see `.ci/build-file.mjs`. */
const LIST = 'files.json'
/** Loads `dist/main.js`, which only a file outside of the executable can do. */
const START = 'start.cjs'
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'
/** Folder beside the program for what V8 compiled of it. */
const COMPILED = 'compiled'
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
interface CompileCache {
  enableCompileCache?(folder: string): unknown
}

/** The same of `process`. */
interface Replaceable {
  /** Runs a program in place of this process. Returns only if that fails. */
  execve?(file: string, args: readonly string[], environment: NodeJS.ProcessEnv): never
}

try {
  if (process.argv[2] === 'serve') startWithAllocator()
  const program = packedProgram()
  const { folder } = unpackProgram(program, programFolders(), userId())
  checkLibraries(program, folder)
  // The store is locked by the program `flock`. A machine that has none takes this one.
  process.env['PATH'] = `${process.env['PATH'] ?? USUAL_PATH}:${join(folder, 'bin')}`
  keepCompiled(join(folder, COMPILED))
  createRequire(join(folder, START))(`./${START}`)
} catch (error) {
  if (!(error instanceof OperatorError)) throw error
  process.stderr.write(`tenrec: ${error.message}\n`)
  process.exitCode = error.exitCode
}

/** Starts this process again with the settings of the allocator. Does nothing when the environment has all of them. */
function startWithAllocator(): void {
  const missing = Object.keys(ALLOCATOR).some((name) => process.env[name] === undefined)
  if (!missing) return
  const { execve } = process as Replaceable
  const args = [process.execPath, ...process.argv.slice(2)]
  execve?.call(process, process.execPath, args, { ...ALLOCATOR, ...process.env })
}

/** Loads the binary of the store, so that a C library that is too old is refused in a sentence and not with a stack trace. */
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
 * Lets Node keep the compiled code of the program, which saves a seventh of a later start. Node compares what it finds
 * there with checksums and compiles again what does not fit. Threads read the name of the folder from the environment.
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

/** The folder that systemd gives a service whose user exists only while it runs is a link, which systemd made. */
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
