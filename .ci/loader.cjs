/**
 * Lets Node run the sources as they are, for tap and for experiments: `node --require ./.ci/loader.cjs
 * src/main.ts`. Their types are blanked out, so that lines and columns stay as they are and need no source
 * maps, and the result is kept in `.js/`, laid out as the repository is. From there Node loads it by
 * itself, in every thread: hooks of its module loader would take a thread beside each thread, which costs
 * more than most tests. Names in stack traces and in the coverage are those of the sources.
 *
 * `node .ci/loader.cjs` brings `.js/` up to date and does nothing else; whoever starts many processes after
 * that sets SOURCES_ARE_BLANKED, so that they do not look again.
 *
 * tap asks for hooks, too, to know the files of each test, which nobody looks at; they are not loaded.
 */
const fs = require('node:fs')
const { join, relative, resolve, sep } = require('node:path')
const { pathToFileURL } = require('node:url')
const Module = require('node:module')
const workerThreads = require('node:worker_threads')

const ROOT = resolve(__dirname, '..')
const TARGET = join(ROOT, '.js')
const FOLDERS = ['src', 'test', 'bench']
/** What code of these folders finds beside them by way of `import.meta.url`. */
const NEIGHBOURS = ['package.json', 'dist', 'docs']
/** What a file with types names when it imports another one, or makes a thread of it. */
const IMPORTS = /(\b(?:from|import|new URL)\b\s*\(?\s*)(['"])(\.{1,2}\/[^'"\n]+)\.ts\2/g

/** Brings `.js/` up to date: a file there has the time of the one that it was made of. */
function update() {
  const paths = FOLDERS.flatMap((folder) => filesIn(join(ROOT, folder)))
  const changed = paths.filter(updateFile)
  if (changed.length === 0) return
  for (const name of NEIGHBOURS) link(name)
  const wanted = new Set(paths.map(targetOf))
  for (const path of FOLDERS.flatMap((folder) => filesIn(join(TARGET, folder)))) {
    if (!wanted.has(path) && !path.endsWith('.new')) fs.rmSync(path, { force: true })
  }
}

function filesIn(folder) {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return files.map((entry) => join(entry.parentPath ?? entry.path, entry.name))
}

function link(name) {
  try {
    fs.symlinkSync(join('..', name), join(TARGET, name))
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
}

function targetOf(path) {
  return join(TARGET, relative(ROOT, path)).replace(/\.ts$/, '.js')
}

/** True if there was something to do. */
function updateFile(path) {
  const target = targetOf(path)
  const { mtimeMs } = fs.statSync(path)
  const made = fs.statSync(target, { throwIfNoEntry: false })
  if (made !== undefined && Math.abs(made.mtimeMs - mtimeMs) < 1) return false
  const content = path.endsWith('.ts') ? blanked(path) : fs.readFileSync(path)
  fs.mkdirSync(join(target, '..'), { recursive: true })
  // Others may read it meanwhile.
  const temporary = `${target}.${process.pid}.new`
  fs.writeFileSync(temporary, content)
  fs.utimesSync(temporary, mtimeMs / 1000, mtimeMs / 1000)
  fs.renameSync(temporary, target)
  return true
}

function blanked(path) {
  // Only now, because loading the compiler takes longer than everything else here.
  const script = require('ts-blank-space').default(fs.readFileSync(path, 'utf8'))
  const named = script.replace(IMPORTS, '$1$2$3.js$2')
  return `${named}\n//# sourceURL=${pathToFileURL(path).href}\n`
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

/**
 * Threads and processes that a test starts get nothing of what tap and `npm test` ask of Node, which takes
 * longer than their own start; threads are counted in the coverage.
 */
function startAlone() {
  const { NODE_V8_COVERAGE } = process.env
  const coverage = NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }
  const needed = NODE_V8_COVERAGE === undefined ? [] : ['--require', __filename]
  process.execArgv = []
  process.env = environmentWithout(['NODE_V8_COVERAGE', 'NODE_OPTIONS'])
  process.setSourceMapsEnabled(false)
  workerThreads.Worker = class extends workerThreads.Worker {
    constructor(file, options = {}) {
      const env = { ...(options.env ?? process.env), ...coverage }
      super(file, { ...options, execArgv: options.execArgv ?? needed, env })
    }
  }
  Module.syncBuiltinESMExports()
}

/** Runs a file of ours from `.js/`. As Node does, it ends with 13 when the file never comes to its end. */
function runMain(main) {
  const path = fs.realpathSync(main)
  const isOurs = FOLDERS.some((folder) => path.startsWith(join(ROOT, folder) + sep))
  const markUnsettled = () => {
    process.exitCode ??= 13
  }
  process.once('exit', markUnsettled)
  const url = pathToFileURL(isOurs ? targetOf(path) : path).href
  import(url).finally(() => process.removeListener('exit', markUnsettled))
}

if (require.main === module) {
  update()
} else {
  startAlone()
  if (workerThreads.isMainThread) {
    if (process.env.SOURCES_ARE_BLANKED === undefined) update()
    Module.runMain = runMain
  }
}
