/**
 * Lets Node run the sources as they are, for tap and for experiments: `node --import ./.ci/loader.mjs`.
 * Types are blanked out, so that lines and columns stay as they are and need no source maps. Every
 * thread loads the sources again, hence the cache on disk; its entries are named after the content.
 * Threads and processes that a test starts get this loader and nothing of tap's, which costs each of
 * them more time than all that the test does with it.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire, register, syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import workerThreads, { isMainThread, threadId } from 'node:worker_threads'

const CACHE_DIR = fileURLToPath(new URL('../node_modules/.cache/tenrec-sources/', import.meta.url))
/** The package with which tap adds itself to the environment of every child process. */
const SPAWN_LISTENERS = Symbol.for('process-on-spawn@*:singletonId')
const require = createRequire(import.meta.url)

/** A hook of Node's module loader. */
export async function load(url, context, nextLoad) {
  if (!url.endsWith('.ts') || url.includes('/node_modules/')) return nextLoad(url, context)
  const source = readFileSync(new URL(url))
  return { format: 'module', shortCircuit: true, source: blanked(source) }
}

function blanked(source) {
  const path = join(CACHE_DIR, createHash('sha1').update(source).digest('hex'))
  try {
    return readFileSync(path)
  } catch {
    // Only now, because loading the compiler takes longer than everything else here.
    const script = require('ts-blank-space').default(source.toString())
    mkdirSync(CACHE_DIR, { recursive: true })
    // Others may read it meanwhile.
    const temporary = `${path}.${process.pid}.${threadId}`
    writeFileSync(temporary, script)
    renameSync(temporary, path)
    return script
  }
}

/**
 * Hides from this thread what only its start needed: as long as a thread sees that coverage is asked
 * for, Node reads the source map of every package and writes all of them once for every thread. The
 * options are tap's, and not for what a test starts.
 */
function environmentWithout(hidden) {
  const isShown = (name) => !hidden.includes(name)
  return new Proxy(process.env, {
    get: (all, name) => (isShown(name) ? all[name] : undefined),
    has: (all, name) => isShown(name) && name in all,
    ownKeys: (all) => Reflect.ownKeys(all).filter(isShown),
    getOwnPropertyDescriptor: (all, name) =>
      isShown(name) ? Reflect.getOwnPropertyDescriptor(all, name) : undefined,
    set: (all, name, value) => Reflect.set(all, name, value),
  })
}

/** Threads and processes get this loader alone; threads are counted in the coverage as before. */
function startAlone() {
  const { NODE_V8_COVERAGE } = process.env
  const coverage = NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }
  process.env = environmentWithout(['NODE_V8_COVERAGE', 'NODE_OPTIONS'])
  process.setSourceMapsEnabled(false)
  workerThreads.Worker = class extends workerThreads.Worker {
    constructor(file, options = {}) {
      const execArgv = options.execArgv ?? [`--import=${import.meta.url}`]
      super(file, { ...options, execArgv, env: { ...(options.env ?? process.env), ...coverage } })
    }
  }
  syncBuiltinESMExports()
  globalThis[SPAWN_LISTENERS]?.listeners.splice(0)
}

// Loaded a second time as the hooks.
if (!import.meta.url.endsWith('?hooks')) {
  // The thread of a thread's hooks asks as well; it runs nothing that counts.
  if (!isMainThread) delete process.env.NODE_V8_COVERAGE
  register(`${import.meta.url}?hooks`)
  startAlone()
}
