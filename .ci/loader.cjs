/**
 * Lets Node run the sources as they are, for tap and for experiments: `node --require ./.ci/loader.cjs
 * src/main.ts`. Their types are blanked out, so that lines and columns stay as they are and need no source
 * maps, and the result is kept in `.js/`, laid out as the repository is. From there Node loads tests by
 * itself: hooks of its module loader would take a thread beside each thread, which costs more than most
 * tests. Names in stack traces and in the coverage are those of the sources.
 *
 * A daemon in the process of a test loads some 400 files of `src/` in each of its threads, with which Node's
 * own way takes more than twice as long as this: `.js/src/x.ts` is the body of a function, in which imports and
 * exports are rewritten without moving a character, and `.js/src/x.js` beside it is the module that has what
 * the function exports. It is not run before it is imported, as any module.
 *
 * `node .ci/loader.cjs` brings `.js/` up to date and does nothing else; whoever starts many processes after
 * that sets SOURCES_ARE_BLANKED, so that they do not look again.
 *
 * tap asks for hooks, too, to know the files of each test, which nobody looks at; they are not loaded.
 */
const fs = require('node:fs')
const { dirname, join, relative, resolve, sep } = require('node:path')
const { spawnSync } = require('node:child_process')
const { fileURLToPath, pathToFileURL } = require('node:url')
const { compileFunction } = require('node:vm')
const Module = require('node:module')
const workerThreads = require('node:worker_threads')

/** Tests put steps and faults in the place of those of `fs`, which are not for what is done here. */
const REAL = { ...fs }
const ROOT = resolve(__dirname, '..')
const TARGET = join(ROOT, '.js')
const FOLDERS = ['src', 'test', 'bench']
/** What code of these folders finds beside them by way of `import.meta.url`. */
const NEIGHBOURS = ['package.json', 'dist', 'docs']
/** Run by Node as a process or a thread: they wait for others, which a function cannot. */
const ENTRIES = ['src/main.ts', 'src/thread.ts']
/** Where the modules of `.js/src/` find the function that runs the file they stand for. */
const RUN = Symbol.for('tenrec.source')
/** What a function of a source is called with: all as long as what they stand in the place of. */
const NAMES = ['exports', '_', '_lazy_', 'import_meta']
/** What a file with types names when it imports another one, or makes a thread of it. */
const IMPORTS = /(\b(?:from|import|new URL)\b\s*\(?\s*)(['"])(\.{1,2}\/[^'"\n]+)\.ts\2/g

/**
 * What a test imports as `tap`: the root of the process or, when several files share a process, the subtest that
 * stands for the file that runs now, set by `runWithin` (test-process.mjs).
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

/** Brings `.js/` up to date: a file there has the time of the one that it was made of. */
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

/** All files below a folder, without packages: npm puts some into `test/node_modules`. */
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

/** Where the body of the function is that a source becomes. */
function bodyOf(path) {
  return join(TARGET, relative(ROOT, path))
}

/** The path of V8's cached code for that body. Compiling every body again would slow each start of a daemon. */
function codeOf(path) {
  return `${bodyOf(path)}.code`
}

/** True if there was something to do. */
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
 * tap as one file, found before that in `node_modules/`: a test finds, reads and links 170 files otherwise, which is
 * most of what an empty one costs. It lies where tap's own files do, so that stack traces leave it out.
 */
function bundleTap() {
  const from = join(ROOT, 'node_modules/tap/dist/esm/index.js')
  const scope = join(TARGET, 'node_modules/@tapjs')
  const lock = join(ROOT, 'package-lock.json')
  // The door to tap is written by this file, so it is stale when this file has changed.
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
  // Last: by it this knows that all is there.
  write(target, outputFiles[0].contents, mtimeMs)
}

/** Without the plugins that package.json leaves out, as tap's own runner does it: it takes a while, once. */
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

/** Others may read it meanwhile. */
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
  // Only now, because loading the compiler takes longer than everything else here.
  const script = require('ts-blank-space').default(fs.readFileSync(path, 'utf8'))
  const named = script.replace(IMPORTS, '$1$2$3.js$2')
  return `${named}\n//# sourceURL=${pathToFileURL(path).href}\n`
}

/** A source as the body of a function, and the names that it exports. */
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

/** A declaration of what is imported, as a call that answers it; as long as it was. */
function asCall(declaration) {
  return declaration
    .replace(/^import (\{[^}]*\}) from ('[^']*')/, (_, names, file) => {
      return `const  ${names.replaceAll(' as ', ' :  ')} =_(${file}) `
    })
    .replace(/^import \* as (\w+) from ('[^']*')/, 'const       $1 =_($2) ')
    .replace(/^import ('[^']*')/, '_(    $1)')
}

/** What V8 calls a body in stack traces and in the coverage: the file that it was made of. */
function nameOf(body) {
  return pathToFileURL(join(ROOT, relative(TARGET, body))).href
}

/** Gives the modules of `.js/src/` what runs a source, once. */
function runSources() {
  const done = new Map()
  // Coverage counts only what V8 compiles itself. Code of another version of Node is refused, and compiled again.
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

/** Imports stay those of the moment: tests put steps and faults in the place of functions of node:fs. */
const FILES = Object.fromEntries(
  Object.entries(fs).map(([name, value]) => {
    const isReplaced = typeof value === 'function' && /^[a-z]/.test(name)
    return [name, isReplaced ? (...values) => fs[name](...values) : value]
  }),
)

/** What a package exports; some of them only have a file for modules. */
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
 * tap removes the folder of a test before the teardowns that were asked for behind it, while daemons still write
 * there. Here all folders of a file stay until its process ends, unless somebody wants them to stay for longer.
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

/** Runs a file of ours from `.js/`. As Node does, it ends with 13 when the file never comes to its end. */
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
