/**
 * Prepares a checkout for running: installs the packages of the lock file and compiles changed sources. It is plain
 * Node without dependencies, because it runs before they are installed. Both steps compare content hashes instead of
 * times, because all files of a fresh clone have the same time. If nothing is to do they take about 30 ms. All output
 * goes to stderr, so that the output of the following command stays clean.
 *
 * The build does not check types, which would take longer. `npm test` checks them.
 *
 * node .ci/prepare.mjs            install the packages for serving and build, if needed
 * node .ci/prepare.mjs test       the same, and install the packages of tests and benches
 * node .ci/prepare.mjs bench      all of that, and build the benchmarks
 * node .ci/prepare.mjs rebuild    install if needed, build in any case
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The HTTP library: one package with the binaries of 24 combinations of machine and Node, 130 MB in all. */
const ADDONS = 'node_modules/uWebSockets.js/dist/bin'
const STORE = 'node_modules/@lmdb/lmdb'
const INSTALL_STAMP = 'node_modules/.tenrec-install'
const BUILD_STAMP = 'dist/.tenrec-build'
const BENCH_STAMP = '.bench/.tenrec-build'
const KERNELS = [
  'rules/capture/kernel/kernel.wasm',
  'rules/capture/scanner/scanner.wasm',
  'rules/filters/text-search/search.wasm',
  'rules/flags/sha1/sha1.wasm',
  'store/events/format/lz4/lz4.wasm',
]

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))

function say(text) {
  process.stderr.write(`tenrec: ${text}\n`)
}

function fail(text) {
  say(text)
  process.exit(1)
}

function readOrNull(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

/** Runs a program. Returns true if it succeeded. `output` receives its stdout. */
function run(command, args, output) {
  const child = spawnSync(command, args, { stdio: ['ignore', output, 2] })
  if (child.signal !== null) process.kill(process.pid, child.signal)
  return child.status === 0
}

/**
 * npm is a script of the running Node if npm started this process, and otherwise in the search path. Its errors are on
 * stderr. Its stdout only contains the number of added packages.
 */
function runNpm(args) {
  const script = process.env.npm_execpath
  const isScript = script?.endsWith('.js')
  const [command, ...first] = isScript ? [process.execPath, script] : ['npm']
  return run(command, [...first, ...args], 'ignore')
}

/** Refuses a Node that package.json does not name: `engines.node` there lists release lines, `^20.19.0 || ^22.0.0`. */
function checkNode() {
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8'))
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const lines = [...engines.node.matchAll(/\^(\d+)\.(\d+)/g)].map((line) =>
    line.slice(1).map(Number),
  )
  if (lines.some((line) => line[0] === major && minor >= line[1])) return
  const names = lines.map((line) => line.join('.')).join(', ')
  fail(
    `Node.js ${process.versions.node} is not supported. Install one of ${names} (or a newer release of the same line). ` +
      'Nothing was changed.',
  )
}

/** The inputs of an installation: the lock file, and the platform for which native addons are compiled. */
function installHash() {
  const { modules } = process.versions
  return createHash('sha256')
    .update(`${process.platform} ${process.arch} ${modules}\n`)
    .update(readFileSync('package-lock.json'))
    .digest('hex')
}

/**
 * Returns true if npm itself recorded, in `node_modules`, the packages of the lock file, because `npm ci` was run by
 * hand. Optional packages may be absent, because they are for other machines.
 */
function isInstalledByHand() {
  const recorded = readOrNull('node_modules/.package-lock.json')
  if (recorded === null) return false
  const wanted = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages
  const present = new Map(Object.entries(JSON.parse(recorded).packages))
  for (const [path, { version, integrity, optional, link }] of Object.entries(wanted)) {
    if (!path.startsWith('node_modules/') || link) continue
    const found = present.get(path)
    if (found === undefined && optional) continue
    if (found?.version !== version || found?.integrity !== integrity) return false
  }
  return true
}

/**
 * Installs the packages of the root, and with `needsTests` also those of the workspace `test`. The stamp contains the
 * hash of the lock file and the installed part. If everything was installed before, everything is installed again.
 */
function install({ needsTests }) {
  const hash = installHash()
  const [done, extent] = readOrNull(INSTALL_STAMP)?.split(' ') ?? []
  if (done === hash && (extent === 'all' || !needsTests)) return
  if (done === undefined && isInstalledByHand()) {
    removeOtherAddons()
    writeFileSync(INSTALL_STAMP, `${hash} all`)
    return
  }
  // npm would empty the folder behind the link, which other checkouts may be using.
  if (lstatSync('node_modules', { throwIfNoEntry: false })?.isSymbolicLink()) {
    fail('node_modules is a symbolic link and does not fit package-lock.json: remove the link.')
  }
  // Existing files stay unchanged, because a daemon may be using them.
  const isAdded = done === hash
  say(
    `installing the packages of package-lock.json${isAdded ? ' that tests and benches need' : ''}`,
  )
  const isAll = needsTests || extent === 'all'
  const command = isAdded ? ['install', '--no-save'] : ['ci']
  if (!isAll) command.push('--workspaces=false')
  // The build needs the development packages, whatever the value of NODE_ENV is.
  const options = ['--include=dev', '--no-audit', '--no-fund', '--loglevel=error']
  if (!runNpm([...command, ...options])) {
    fail(`npm ${command[0]} failed, see above. Is the registry reachable?`)
  }
  removeOtherAddons()
  writeFileSync(INSTALL_STAMP, `${hash} ${isAll ? 'all' : 'serving'}`)
}

/** Removes the binaries that this machine and this Node do not load. `npm ci` installs those of another Node. */
function removeOtherAddons() {
  removeMuslStore()
  const own = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
  // A release of uWebSockets.js itself, in place of uws-pack, keeps its binaries elsewhere.
  if (!existsSync(ADDONS)) return
  for (const name of readdirSync(ADDONS)) {
    if (name.endsWith('.node') && name !== own) rmSync(join(ADDONS, name))
  }
}

/** The package of the store has a binary of 3.5 MB for musl. With glibc, it is never loaded. */
function removeMuslStore() {
  if (process.report.getReport().header.glibcVersionRuntime === undefined) return
  rmSync(`${STORE}-${process.platform}-${process.arch}/node.napi.musl.node`, { force: true })
}

/** Hashes the names and contents of all files in `folders`, and all other inputs of a build. */
function sourceHash(folders) {
  const paths = ['package.json', 'package-lock.json', 'tsconfig.json']
  for (const folder of [...folders, '.ci']) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) paths.push(join(entry.parentPath ?? entry.path, entry.name))
    }
  }
  const hash = createHash('sha256')
  for (const path of paths.sort()) {
    const content = readFileSync(path)
    hash.update(`${path}\n${content.length}\n`).update(content)
  }
  return hash.digest('hex')
}

function build({ force }) {
  const hash = sourceHash(['src'])
  if (!force && readOrNull(BUILD_STAMP) === hash) return
  say('building')
  if (!run(process.execPath, ['.ci/build-program.mjs'], 2)) fail('src does not build.')
  if (!run(process.execPath, ['.ci/build-console.mjs'], 2)) fail('src/console does not build.')
  chmodSync('dist/main.js', 0o755)
  writeFileSync(BUILD_STAMP, hash)
}

function buildBench() {
  const hash = sourceHash(['src', 'bench'])
  if (readOrNull(BENCH_STAMP) === hash) return
  say('building the benchmarks')
  // A file whose source was deleted must not remain.
  rmSync('.bench', { recursive: true, force: true })
  const compiler = ['node_modules/typescript/bin/tsc', '-p', 'bench', '--noCheck']
  if (!run(process.execPath, compiler, 2)) fail('bench does not compile.')
  for (const kernel of KERNELS) copyFileSync(join('src', kernel), join('.bench/src', kernel))
  writeFileSync(BENCH_STAMP, hash)
}

const task = process.argv[2]
checkNode()
// Some benches use parts of the tests to check their results.
install({ needsTests: task === 'test' || task === 'bench' })
build({ force: task === 'rebuild' })
if (task === 'bench') buildBench()
