/**
 * Makes a checkout ready to run: installs what the lock file names and compiles what changed.
 * Plain Node without dependencies, because it runs before there are any. Both steps compare content
 * hashes, not times (a fresh clone has equal times everywhere), and cost about 30 ms when nothing is
 * to do. All output goes to stderr, so that the output of the command behind it stays clean.
 *
 * node .ci/prepare.mjs            install and build if needed
 * node .ci/prepare.mjs bench      the same, and the benchmarks
 * node .ci/prepare.mjs rebuild    install if needed, build in any case
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const NODE_OLDEST = [20, 19]
const INSTALL_STAMP = 'node_modules/.tenrec-install'
const BUILD_STAMP = 'dist/.tenrec-build'
const BENCH_STAMP = '.bench/.tenrec-build'
const SCANNER = 'ingest/scanner/scanner.wasm'

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

/** Runs a program with its output on stderr; true if it succeeded. */
function run(command, args) {
  const child = spawnSync(command, args, { stdio: ['ignore', 2, 2] })
  if (child.signal !== null) process.kill(process.pid, child.signal)
  return child.status === 0
}

/** npm is a script of the running Node when npm started us, and on the path otherwise. */
function runNpm(args) {
  const script = process.env.npm_execpath
  return script?.endsWith('.js') ? run(process.execPath, [script, ...args]) : run('npm', args)
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > NODE_OLDEST[0] || (major === NODE_OLDEST[0] && minor >= NODE_OLDEST[1])) return
  fail(`Node ${NODE_OLDEST.join('.')} or newer is needed, this is ${process.versions.node}.`)
}

/** What an installation depends on: the lock file, and what native addons are compiled for. */
function installHash() {
  const { modules } = process.versions
  return createHash('sha256')
    .update(`${process.platform} ${process.arch} ${modules}\n`)
    .update(readFileSync('package-lock.json'))
    .digest('hex')
}

/**
 * True if npm itself recorded, in `node_modules`, the packages that the lock file asks for: somebody
 * ran `npm ci` by hand. Optional packages may be absent, they are for other machines.
 */
function isInstalledByHand() {
  const recorded = readOrNull('node_modules/.package-lock.json')
  if (recorded === null) return false
  const wanted = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages
  const present = new Map(Object.entries(JSON.parse(recorded).packages))
  for (const [path, { version, integrity, optional }] of Object.entries(wanted)) {
    if (path === '') continue
    const found = present.get(path)
    if (found === undefined && optional) continue
    if (found?.version !== version || found?.integrity !== integrity) return false
  }
  return true
}

function install() {
  const hash = installHash()
  const stamp = readOrNull(INSTALL_STAMP)
  if (stamp === hash) return
  if (stamp === null && isInstalledByHand()) {
    writeFileSync(INSTALL_STAMP, hash)
    return
  }
  // npm would empty the folder behind the link, which others may be using.
  if (lstatSync('node_modules', { throwIfNoEntry: false })?.isSymbolicLink()) {
    fail('node_modules is a symbolic link and does not fit package-lock.json: remove the link.')
  }
  say('installing the packages of package-lock.json')
  // The build needs the development packages, whatever NODE_ENV says.
  const options = ['--include=dev', '--no-audit', '--no-fund', '--loglevel=error']
  if (!runNpm(['ci', ...options])) fail('npm ci failed, see above. Is the registry reachable?')
  writeFileSync(INSTALL_STAMP, hash)
}

/** Hash of the names and contents of all files in `folders`, and of what else decides a build. */
function sourceHash(folders) {
  const paths = ['package.json', 'package-lock.json', 'tsconfig.json', '.ci/prepare.mjs']
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() && !entry.name.endsWith('.wasm')) {
        paths.push(join(entry.parentPath ?? entry.path, entry.name))
      }
    }
  }
  const hash = createHash('sha256')
  for (const path of paths.sort()) {
    const content = readFileSync(path)
    hash.update(`${path}\n${content.length}\n`).update(content)
  }
  return hash.digest('hex')
}

function compile(project) {
  const compiler = 'node_modules/typescript/bin/tsc'
  if (!run(process.execPath, [compiler, '-p', project])) fail(`${project} does not compile.`)
}

function build({ force }) {
  const hash = sourceHash(['src'])
  if (!force && readOrNull(BUILD_STAMP) === hash) return
  say('building')
  // A file whose source was deleted must not stay behind.
  rmSync('dist', { recursive: true, force: true })
  compile('src')
  if (!runNpm(['run', '--silent', 'build:scanner'])) fail('the scanner does not compile.')
  if (existsSync('dist/main.js')) chmodSync('dist/main.js', 0o755)
  writeFileSync(BUILD_STAMP, hash)
}

function buildBench() {
  const hash = sourceHash(['src', 'bench'])
  if (readOrNull(BENCH_STAMP) === hash) return
  say('building the benchmarks')
  rmSync('.bench', { recursive: true, force: true })
  compile('bench')
  if (existsSync(join('dist', SCANNER))) {
    const target = join('.bench/src', SCANNER)
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(join('dist', SCANNER), target)
  }
  writeFileSync(BENCH_STAMP, hash)
}

const task = process.argv[2]
checkNode()
install()
build({ force: task === 'rebuild' })
if (task === 'bench') buildBench()
