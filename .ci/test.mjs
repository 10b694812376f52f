/**
 * Runs the tests with tap.
 *
 * node .ci/test.mjs quick            types, lint, dead code, and the lane `quick`: this is `npm test`
 * node .ci/test.mjs all              the same, and every lane: this is `npm run test:all`
 * node .ci/test.mjs browser          one lane alone; also `cluster`
 * node .ci/test.mjs cover            the lane `quick` and the HTTP tests of other lanes, with coverage, without the
 *                                    checks: this is `npm run cover`
 * node .ci/test.mjs FILE...          these files alone, without the checks
 *
 * Each test file names its lane in its first comment: `@lane quick`, `all`, `cluster` or `browser`. Quick files of one
 * folder share a process, because loading the sources costs more than most tests. A file that changes its process
 * permanently (its memory, its limits, functions of `node:fs`) says `@lane quick alone`. Files of the other lanes run
 * alone.
 *
 * Environment: TEST_JOBS, the number of simultaneous processes (cores + 1); TEST_DEPTH, the part of random tests that
 * runs (0.1 in `quick`, otherwise 1); TEST_SEED, an integer that changes the seed of every random test (0);
 * TEST_TIMEOUT, the seconds after which a process is ended (900); TEST_FAILED, a file for the names of failed files,
 * one on each line; TEST_HTTP_SERVER, the value of the setting `http_server` of all servers and daemons (auto).
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import Report, { readDurations } from './test-report.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const RUNS = join(ROOT, '.js/runs')
/** Two simultaneous runs share no files. */
const RUN = join(RUNS, String(process.pid))
const DURATIONS = join(ROOT, '.tap/durations.json')
/**
 * The seconds that the files of one process may take together, according to the last run. About a tenth of `npm test`.
 */
const PROCESS_SECONDS_MAX = 20
/** The assumed seconds of a file that no run has measured yet: alone, and beside others. */
const UNKNOWN_ALONE_SECONDS = 8
const UNKNOWN_SHARED_SECONDS = 1
/** Only a process that hangs takes this long. */
const TIMEOUT_SECONDS = numberOf('TEST_TIMEOUT', 900, (value) => value > 0)
/** The time in which a process must end by itself after that, or after a signal, before it is killed. */
const GRACE_MS = 10_000
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }

const PLANS = {
  quick: { lanes: ['quick'], isChecked: true, depth: '0.1' },
  all: { lanes: ['quick', 'all', 'cluster', 'browser'], isChecked: true, depth: '1' },
  cover: { lanes: ['quick'], hasHttp: true, isCovered: true, depth: '0.1' },
  cluster: { lanes: ['cluster'], depth: '1' },
  browser: { lanes: ['browser'], depth: '1' },
}

/**
 * Files and folders (with a slash) whose result can depend on the HTTP library. With `cover`, `.ci/run` runs them once
 * more with the other one.
 */
const HTTP_TESTS = ['test/http/', 'test/faults/slow-connections.test.ts']

/** Paths of all test files. */
function listPaths() {
  const folders = readdirSync(join(ROOT, 'test')).filter((name) => name !== 'node_modules')
  const paths = folders.flatMap((name) => {
    const folder = join('test', name)
    if (!statSync(join(ROOT, folder)).isDirectory()) return []
    return readdirSync(join(ROOT, folder), { recursive: true }).map((path) => join(folder, path))
  })
  return paths.filter((path) => path.endsWith('.test.ts')).sort()
}

/** @returns {{ path: string, lane: string, isAlone: boolean }} A test file with the contents of its tag. */
function readTag(path) {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const tag = /^ \* @lane (quick|all|cluster|browser)( alone)?$/m.exec(
    text.slice(0, text.indexOf('*/')),
  )
  if (tag === null) {
    refuse(`${path}: its first comment needs a line "@lane quick", "all", "cluster" or "browser".`)
  }
  return { path, lane: tag[1], isAlone: tag[1] !== 'quick' || tag[2] !== undefined }
}

/** Divides tests among processes. Each process is a list of files, and the longest process comes first. */
function planProcesses(tests, durations) {
  const secondsOf = ({ path, isAlone }) =>
    durations[path] ?? (isAlone ? UNKNOWN_ALONE_SECONDS : UNKNOWN_SHARED_SECONDS)
  const processes = []
  const folders = new Map()
  for (const test of tests) {
    if (test.isAlone) processes.push({ files: [test.path], seconds: secondsOf(test) })
    else folders.set(folderOf(test.path), [...(folders.get(folderOf(test.path)) ?? []), test])
  }
  for (const shared of folders.values()) processes.push(...divide(shared, secondsOf))
  return processes.sort((a, b) => b.seconds - a.seconds)
}

/** `http/api` for test/http/api/x.test.ts, `rules` for everything below test/rules/. */
function folderOf(path) {
  const [, first, second] = dirname(path).split('/')
  return first === 'http' && second !== undefined ? `${first}/${second}` : first
}

/** Divides the files of a folder among as many processes as they need. The next file goes to the shortest process. */
function divide(tests, secondsOf) {
  const total = tests.reduce((sum, test) => sum + secondsOf(test), 0)
  const count = Math.max(1, Math.ceil(total / PROCESS_SECONDS_MAX))
  const processes = Array.from({ length: count }, () => ({ files: [], seconds: 0 }))
  for (const test of [...tests].sort((a, b) => secondsOf(b) - secondsOf(a))) {
    const [least] = processes.sort((a, b) => a.seconds - b.seconds)
    least.files.push(test.path)
    least.seconds += secondsOf(test)
  }
  return processes.filter(({ files }) => files.length > 0)
}

/**
 * Writes one module for each process, which runs its files one after the other, each as a subtest, and the plan of all.
 * tap sorts the modules by name, so their names are numbers.
 */
function writeRun(processes) {
  removeOldRuns()
  mkdirSync(RUN, { recursive: true })
  const plan = processes.map(({ files }, index) => {
    const path = join(RUN, `${String(index + 1).padStart(3, '0')}.mjs`)
    const lines = files.map((file) => `await runFile(${JSON.stringify(file)})\n`)
    writeFileSync(
      path,
      `import { runFile } from '../../../.ci/test-process.mjs'\n${lines.join('')}`,
    )
    return { entry: relative(ROOT, path), files }
  })
  writeFileSync(join(RUN, 'plan.json'), JSON.stringify(plan))
  writeFileSync(join(RUN, 'progress'), '')
  return plan.map(({ entry }) => entry)
}

/** Removes the folders of runs that were killed. */
function removeOldRuns() {
  if (!existsSync(RUNS)) return
  for (const name of readdirSync(RUNS)) {
    if (!existsSync(`/proc/${name}`)) rmSync(join(RUNS, name), { recursive: true, force: true })
  }
}

/** A number from the environment, or the default. */
function numberOf(name, whole, isFitting) {
  const text = process.env[name]
  if (text === undefined || text === '') return whole
  const value = Number(text)
  if (Number.isFinite(value) && isFitting(value)) return value
  return refuse(
    `${name}=${text} is no number that fits. See the comment at the top of .ci/test.mjs.`,
  )
}

function refuse(sentence) {
  process.stderr.write(`${sentence}\n`)
  process.exit(1)
}

function run(command, words) {
  return spawnSync(command, words, { cwd: ROOT, stdio: 'inherit' }).status === 0
}

/** The environment of test processes and of the report. */
function environmentOf(depth) {
  return {
    // tap would remove the folders before teardowns that write to them, so test-process.mjs removes them.
    TAP_SAVE_FIXTURE: '1',
    // A process without tap's runner needs the same limit.
    TAP_TIMEOUT: String(TIMEOUT_SECONDS),
    TEST_FOLDERS_STAY: process.env.TAP_SAVE_FIXTURE === '1' ? '1' : '0',
    TEST_DEPTH: String(numberOf('TEST_DEPTH', depth, (value) => value > 0 && value <= 1)),
    TEST_SEED: String(numberOf('TEST_SEED', 0, Number.isSafeInteger)),
    TEST_DURATIONS: DURATIONS,
    TEST_RUN: RUN,
  }
}

/** Resolves to true if all tests passed. */
async function runTests(tests, { depth, isCovered = false }) {
  const jobs = numberOf('TEST_JOBS', availableParallelism() + 1, (value) => value >= 1)
  Object.assign(process.env, environmentOf(depth))
  const entries = writeRun(planProcesses(tests, readDurations(DURATIONS)))
  try {
    if (entries.length === 1 && !isCovered) return await runOneProcess(entries[0])
    if (!run(process.execPath, [join(ROOT, '.ci/loader.cjs')])) return false
    const tap = [
      join(ROOT, 'node_modules/tap/dist/esm/run.mjs'),
      `--jobs=${jobs}`,
      `--timeout=${TIMEOUT_SECONDS}`,
      '--reporter=./.ci/test-report.mjs',
      ...entries,
    ]
    const c8 = [join(ROOT, 'node_modules/c8/bin/c8.js'), process.execPath]
    const child = spawn(process.execPath, isCovered ? [...c8, ...tap] : tap, {
      cwd: ROOT,
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, SOURCES_ARE_BLANKED: '1' },
    })
    const [exitCode] = await endOf(child)
    return exitCode === 0
  } finally {
    rmSync(RUN, { recursive: true, force: true })
  }
}

/** Runs a file without tap's runner, whose start takes longer than most files. */
async function runOneProcess(entry) {
  const report = new Report({ entry })
  const child = spawn(process.execPath, ['--require', join(ROOT, '.ci/loader.cjs'), entry], {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // An endless loop does not notice its own timeout.
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), TIMEOUT_SECONDS * 1000 + GRACE_MS)
  child.stdout.on('data', (chunk) => report.write(chunk))
  const [exitCode, signal] = await endOf(child)
  clearTimeout(timer)
  if (exitCode !== 0) report.takeProcess({ ok: false, name: entry, diag: { exitCode, signal } })
  report.end()
  return report.isPassed
}

/**
 * Waits until a process that leads its own group has ended. A signal to this process goes to the whole group, including
 * daemons that tests have started, and then ends this process.
 */
async function endOf(child) {
  let received = null
  const forward = (signal) => {
    received ??= signal
    signalGroup(child, signal)
    setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS).unref()
  }
  for (const signal of Object.keys(SIGNALS)) process.on(signal, forward)
  const ending = await once(child, 'close')
  for (const signal of Object.keys(SIGNALS)) process.removeListener(signal, forward)
  if (received === null) return ending
  signalGroup(child, 'SIGKILL')
  rmSync(RUN, { recursive: true, force: true })
  process.stderr.write('Interrupted.\n')
  return process.exit(128 + SIGNALS[received])
}

/** Signals all processes of a group, if any is left. */
function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

/** The tests that the lane `quick` leaves out, and the command that runs them. */
function tellLeftOut() {
  const count = (lane) =>
    `${
      listPaths()
        .map(readTag)
        .filter((test) => test.lane === lane).length
    } files`
  process.stderr.write(
    `Left out:
  ${count('all')} of long and random tests     npm run test:all
  ${count('cluster')} with brokers and ClickHouse     npm run test:cluster
  ${count('browser')} with Chromium     npm run test:browser
`,
  )
}

function isHttp({ path }) {
  return HTTP_TESTS.some((start) => path.startsWith(start))
}

/** The tests that the arguments of the command line name, by file or folder. */
function namedTests(words) {
  const tests = listPaths()
  const named = words.map((word) => {
    const path = resolve(word)
    const name = relative(ROOT, existsSync(path) ? realpathSync(path) : path)
    const found = tests.filter((test) => test === name || test.startsWith(`${name}/`))
    return found.length > 0 ? found : refuse(`There is no test file at ${word}.`)
  })
  return [...new Set(named.flat())].map(readTag)
}

async function main(words) {
  const [command = 'quick'] = words
  const plan = PLANS[command]
  if (plan === undefined) return runTests(namedTests(words), { depth: '0.1' })
  if (plan.isChecked && !run(join(ROOT, '.ci/check'), command === 'all' ? ['all'] : []))
    return false
  const isPassed = await runTests(
    listPaths()
      .map(readTag)
      .filter((test) => plan.lanes.includes(test.lane) || (plan.hasHttp === true && isHttp(test))),
    plan,
  )
  if (command === 'quick') tellLeftOut()
  return isPassed
}

process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1
