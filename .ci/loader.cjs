/**
 * Lets Node run the sources directly, for tap and for experiments: `node --require ./.ci/loader.cjs src/main.ts`. Types
 * are replaced by blanks, so lines and columns stay the same and no source maps are needed. The result is stored in
 * `.js/` with the layout of the repository. From there Node loads tests without hooks. Hooks of its module loader would
 * need an additional thread for each thread, which costs more than most tests. Stack traces and coverage contain the
 * names of the sources.
 *
 * A daemon in the process of a test loads some 400 files of `src/` in each of its threads. Node's own loader takes more
 * than twice as long for that as this one. `.js/src/x.ts` is the body of a function, in which imports and exports are
 * rewritten without moving a character. `.js/src/x.js` beside it is the module with the exports of that function. Like
 * any module, it does not run before it is imported.
 *
 * `node .ci/loader.cjs` brings `.js/` up to date and does nothing else. A program that starts many processes afterward
 * sets SOURCES_ARE_BLANKED, so that they skip the check.
 *
 * tap also requests hooks, to record the files of each test, which are not used here. They are not loaded.
 */
const fs = require('node:fs')
const { dirname, join, relative, resolve, sep } = require('node:path')
const { spawnSync } = require('node:child_process')
const { fileURLToPath, pathToFileURL } = require('node:url')
const { compileFunction } = require('node:vm')
const Module = require('node:module')
const workerThreads = require('node:worker_threads')

/** Tests replace functions of `fs` with instrumented ones. This file must use the original functions. */
const REAL = { ...fs }
const ROOT = resolve(__dirname, '..')
const TARGET = join(ROOT, '.js')
const FOLDERS = ['src', 'test', 'bench']
/** Files beside the code of these folders, which the code finds through `import.meta.url`. */
const NEIGHBOURS = ['package.json', 'dist', 'docs']
/** Files that Node runs as a process or a thread. They use top-level await, which a function cannot. */
const ENTRIES = ['src/main.ts', 'src/thread.ts']
/** The property through which the modules of `.js/src/` find the function that runs their source file. */
const RUN = Symbol.for('tenrec.source')
/** The parameters of a source's function. Each has the same length as the text that it replaces. */
const NAMES = ['exports', '_', '_lazy_', 'import_meta']
/** The text by which a typed file refers to another one, in an import or as the file of a thread. */
const IMPORTS = /(\b(?:from|import|new URL)\b\s*\(?\s*)(['"])(\.{1,2}\/[^'"\n]+)\.ts\2/g

/**
 * The module that a test imports as `tap`. It is the root of the process or, if several files share a process, the
 * subtest of the file that runs now, as set by `runWithin` (test-process.mjs).
 */
const TAP_DOOR = `import root from '../@tapjs/tap.mjs'
let current = root
export { root }
export function runWithin(test) {
  current = test
}
export default new Proxy(root, {
  get(_, name) {
    const value = Reflect.get(current, name)
    return typeof value === 'function' ? value.bind(current) : value
  },
  set: (_, name, value) => Reflect.set(current, name, value),
})
`

/** Brings `.js/` up to date. A file there has the modification time of its source. */
function update() {
  const paths = FOLDERS.flatMap((folder) => filesIn(join(ROOT, folder)))
  const changed = paths.filter(updateFile)
  bundleTap()
  if (changed.length === 0) return
  for (const name of NEIGHBOURS) link(name)
  const wanted = new Set(paths.flatMap((path) => [targetOf(path), bodyOf(path), codeOf(path)]))
  for (const path of FOLDERS.flatMap((folder) => filesIn(join(TARGET, folder)))) {
    if (!wanted.has(path) && !path.endsWith('.new')) fs.rmSync(path, { force: true })
  }
}

/** Lists all files below a folder without packages, because npm puts some into `test/node_modules`. */
function filesIn(folder) {
  const entries = fs.readdirSync(folder, { withFileTypes: true })
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : filesIn(path)
    return entry.isFile() ? [path] : []
  })
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

/** Returns the path of the function body that a source is compiled to. */
function bodyOf(path) {
  return join(TARGET, relative(ROOT, path))
}

/** The path of V8's cached code for that body. Compiling every body again would slow each start of a daemon. */
function codeOf(path) {
  return `${bodyOf(path)}.code`
}

/** Returns true if a file was written. */
function updateFile(path) {
  const target = targetOf(path)
  const { mtimeMs } = fs.statSync(path)
  const last = isFunction(path) ? codeOf(path) : target
  const made = fs.statSync(last, { throwIfNoEntry: false })
  if (made !== undefined && Math.abs(made.mtimeMs - mtimeMs) < 1) return false
  fs.mkdirSync(dirname(target), { recursive: true })
  if (isFunction(path)) {
    const { body, names } = functionOf(path)
    write(target, moduleOf(names), mtimeMs)
    write(bodyOf(path), body, mtimeMs)
    const options = { filename: nameOf(bodyOf(path)), produceCachedData: true }
    write(last, compileFunction(body, NAMES, options).cachedData, mtimeMs)
  } else {
    write(target, path.endsWith('.ts') ? blanked(path) : fs.readFileSync(path), mtimeMs)
  }
  return true
}

/**
 * Writes tap as one file that is found before the one in `node_modules/`. Otherwise a test would find, read and link
 * 170 files, which takes most of the time of an empty test. The file is beside tap's own files, so stack traces leave
 * it out.
 */
function bundleTap() {
  const from = join(ROOT, 'node_modules/tap/dist/esm/index.js')
  const scope = join(TARGET, 'node_modules/@tapjs')
  const lock = join(ROOT, 'package-lock.json')
  // This file writes the entry module of tap, which is therefore stale when this file has changed.
  const mtimeMs = Math.max(fs.statSync(lock).mtimeMs, fs.statSync(__filename).mtimeMs)
  const target = join(scope, 'tap.mjs')
  const made = fs.statSync(target, { throwIfNoEntry: false })
  if (made !== undefined && Math.abs(made.mtimeMs - mtimeMs) < 1) return
  buildTap()
  const shim =
    "import * as shim from 'node:module'\nconst require = shim.createRequire(import.meta.url)"
  const { outputFiles } = require('esbuild').buildSync({
    entryPoints: [from],
    bundle: true,
    write: false,
    keepNames: true,
    format: 'esm',
    platform: 'node',
    target: ['node20.19'],
    banner: { js: shim },
  })
  const stub = join(TARGET, 'node_modules/tap')
  for (const folder of [scope, stub]) fs.mkdirSync(folder, { recursive: true })
  write(join(stub, 'package.json'), '{ "type": "module", "exports": "./index.js" }', mtimeMs)
  write(join(stub, 'index.js'), TAP_DOOR, mtimeMs)
  // Written last, because its presence means that all files are there.
  write(target, outputFiles[0].contents, mtimeMs)
}

/** Without the plugins that package.json excludes, as in tap's own runner. This takes a while, once. */
function buildTap() {
  const built = join(ROOT, 'node_modules/@tapjs/test/test-built/dist/esm/index.js')
  const { plugin } = require(join(ROOT, 'package.json')).tap
  const text = fs.readFileSync(built, 'utf8')
  if (!plugin.some((name) => name.startsWith('!') && text.includes(`"${name.slice(1)}"`))) return
  const words = [join(ROOT, 'node_modules/tap/dist/esm/run.mjs'), 'build']
  const options = { cwd: ROOT, stdio: ['ignore', 'ignore', 2] }
  const { status } = spawnSync(process.execPath, words, options)
  if (status !== 0) throw new Error(`tap cannot be built: ${status}`)
}

/** Other processes may read it meanwhile. */
function write(path, content, mtimeMs) {
  const temporary = `${path}.${process.pid}.${workerThreads.threadId}.new`
  REAL.writeFileSync(temporary, content)
  REAL.utimesSync(temporary, mtimeMs / 1000, mtimeMs / 1000)
  REAL.renameSync(temporary, path)
}

function isFunction(path) {
  const name = relative(ROOT, path)
  return /^src\/(?!console\/).*(?<!\.d|\/assembly)\.ts$/.test(name) && !ENTRIES.includes(name)
}

function moduleOf(names) {
  const list = `{ ${names.join(', ')} }`
  return `const ${list} = globalThis[Symbol.for('${RUN.description}')](import.meta.url)\nexport ${list}\n`
}

function blanked(path) {
  // Loaded only now, because loading the compiler takes longer than everything else here.
  const script = require('ts-blank-space').default(fs.readFileSync(path, 'utf8'))
  const named = script.replace(IMPORTS, '$1$2$3.js$2')
  return `${named}\n//# sourceURL=${pathToFileURL(path).href}\n`
}

/** Returns a source as the body of a function, and the names of its exports. */
function functionOf(path) {
  const ts = require('typescript')
  const text = fs.readFileSync(path, 'utf8')
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext)
  let script = require('ts-blank-space').blankSourceFile(source)
  const left = (node) => script.slice(node.getStart(source), node.getEnd())
  const put = (node, rewrite) => {
    const [from, to] = [node.getStart(source), node.getEnd()]
    const written = rewrite(left(node))
    if (written.length !== to - from) throw new Error(`${path}: cannot rewrite ${left(node)}`)
    script = script.slice(0, from) + written + script.slice(to)
  }
  const names = []
  const look = (node) => {
    if (ts.isImportDeclaration(node)) put(node, asCall)
    else if (ts.isMetaProperty(node)) put(node, () => 'import_meta')
    else if (node.kind === ts.SyntaxKind.ImportKeyword) put(node, () => '_lazy_')
    else if (node.kind === ts.SyntaxKind.ExportKeyword) put(node, () => '      ')
    else ts.forEachChild(node, look)
  }
  for (const statement of source.statements) {
    const { modifiers = [], name, declarationList } = statement
    const isExported = modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    const declared = declarationList?.declarations.map((declaration) => declaration.name) ?? [name]
    if (isExported && !/^[;\s]*$/.test(left(statement))) {
      names.push(...declared.map((one) => one.text))
    }
    look(statement)
  }
  const strict = "'use strict'"
  const isRoom = source.statements[0].getStart(source) > strict.length
  if (!isRoom || !script.startsWith('/**')) throw new Error(`${path}: no comment at its beginning`)
  const purpose = script.slice(strict.length, script.indexOf('*/') + 2)
  const rest = script.slice(strict.length + purpose.length)
  const body = strict + purpose.replace(/\S/g, ' ') + rest
  return { body: `${body}\nObject.assign(exports, { ${names.join(', ')} })\n`, names }
}

/** Returns an import declaration as a call of the same length. */
function asCall(declaration) {
  return declaration
    .replace(/^import (\{[^}]*\}) from ('[^']*')/, (_, names, file) => {
      return `const  ${names.replaceAll(' as ', ' :  ')} =_(${file}) `
    })
    .replace(/^import \* as (\w+) from ('[^']*')/, 'const       $1 =_($2) ')
    .replace(/^import ('[^']*')/, '_(    $1)')
}

/** The name of a body in V8's stack traces and coverage: its source file. */
function nameOf(body) {
  return pathToFileURL(join(ROOT, relative(TARGET, body))).href
}

/** Gives the modules of `.js/src/` the function that runs a source, once. */
function runSources() {
  const done = new Map()
  // Coverage counts only code that V8 compiles itself. V8 rejects cached code of another version of Node, and it is
  // compiled again.
  const isCovered = process.env.NODE_V8_COVERAGE !== undefined
  const codeFor = (path) => (isCovered ? undefined : REAL.readFileSync(`${path}.code`))
  const run = (path) => {
    let exports = done.get(path)
    if (exports !== undefined) return exports
    exports = {}
    done.set(path, exports)
    const folder = dirname(path)
    const load = (name) => (name.startsWith('.') ? run(join(folder, name)) : packageOf(name))
    const meta = { url: pathToFileURL(path.replace(/\.ts$/, '.js')).href }
    const options = { filename: nameOf(path), cachedData: codeFor(path) }
    const body = compileFunction(REAL.readFileSync(path, 'utf8'), NAMES, options)
    body(exports, load, async (name) => load(name), meta)
    return exports
  }
  globalThis[RUN] = (url) => run(fileURLToPath(url).replace(/\.js$/, '.ts'))
}

/** Imports stay live bindings, because tests replace functions of node:fs. */
const FILES = Object.fromEntries(
  Object.entries(fs).map(([name, value]) => {
    const isReplaced = typeof value === 'function' && /^[a-z]/.test(name)
    return [name, isReplaced ? (...values) => fs[name](...values) : value]
  }),
)

/** Returns the exports of a package. Some packages only have an ES module. */
function packageOf(name) {
  if (name === 'node:fs') return FILES
  try {
    return require(name)
  } catch (error) {
    if (error.code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error
    const folder = join(ROOT, 'node_modules', name)
    return require(join(folder, require(join(folder, 'package.json')).exports.import))
  }
}

/**
 * Removes variables that only the start of this thread needed. While a thread sees the request for coverage, Node reads
 * the source map of every package and writes all of them once for every thread. The options of tap are not meant for
 * processes that a test starts.
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
 * Threads and processes that a test starts do not get the options that tap and `npm test` pass to Node, because those
 * take longer than their own start. Threads are counted in the coverage.
 */
function startAlone() {
  const { NODE_V8_COVERAGE } = process.env
  const coverage = NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }
  process.execArgv = []
  process.env = environmentWithout(['NODE_V8_COVERAGE', 'NODE_OPTIONS'])
  process.setSourceMapsEnabled(false)
  workerThreads.Worker = class extends workerThreads.Worker {
    constructor(file, options = {}) {
      const env = { ...(options.env ?? process.env), ...coverage }
      super(file, { ...options, execArgv: options.execArgv ?? ['--require', __filename], env })
    }
  }
  Module.syncBuiltinESMExports()
}

/**
 * tap removes the folder of a test before teardowns that were registered later, while daemons still write to it. Here
 * all folders of a file remain until its process ends, or longer on request.
 */
function keepFolders(main) {
  if (process.env.TAP_SAVE_FIXTURE === '1') return
  process.env.TAP_SAVE_FIXTURE = '1'
  const folder = join(ROOT, '.tap/fixtures')
  const own = relative(ROOT, main).replaceAll(sep, '-')
  process.once('exit', () => {
    if (!fs.existsSync(folder)) return
    const found = fs
      .readdirSync(folder)
      .filter((name) => name === own || name.startsWith(`${own}-`))
    const options = { recursive: true, force: true, maxRetries: 9 }
    for (const name of found) fs.rmSync(join(folder, name), options)
  })
}

/** Runs a test file from `.js/`. Like Node, it ends with status 13 if the file never finishes. */
function runMain(main) {
  const path = fs.realpathSync(main)
  const isOurs = FOLDERS.some((folder) => path.startsWith(join(ROOT, folder) + sep))
  if (path.startsWith(join(ROOT, 'test') + sep)) keepFolders(path)
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
  // Before the request for coverage is hidden.
  runSources()
  startAlone()
  if (workerThreads.isMainThread) {
    if (process.env.SOURCES_ARE_BLANKED === undefined) update()
    Module.runMain = runMain
  }
}
