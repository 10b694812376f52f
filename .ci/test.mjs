/**
 * Runs the tests with tap.
 *
 *   node .ci/test.mjs quick            types, lint, dead code, and the lane `quick`: what `npm test` does
 *   node .ci/test.mjs all              the same, every lane, and coverage: what `npm run test:all` does
 *   node .ci/test.mjs browser          one lane alone; also `cluster`
 *   node .ci/test.mjs cover            the lanes `quick` and `all` with coverage, without the checks
 *   node .ci/test.mjs cover            the lanes `quick` and `all` with coverage, without the checks
 *   node .ci/test.mjs FILE...          these files alone, without the checks
 *
 * Each test file names its lane in its first comment: `@lane quick`, `all`, `cluster` or `browser`. Quick files of one
 * folder share a process, because loading the sources costs more than most tests; a file that changes its process for
 * good (its memory, its limits, functions of `node:fs`) says `@lane quick alone`. Files of the other lanes run alone.
 *
 * Environment: TEST_JOBS, processes at a time (cores + 1); TEST_DEPTH, the part of random tests that runs (0.1 in
 * `quick`, otherwise 1); TEST_SEED, a number added to the seed of every random test (0); TEST_FAILED, a file that gets
 * the names of the files that failed, one a line.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const ENTRIES = join(ROOT, '.js/processes')
const PROGRESS = join(ROOT, '.tap/progress')
const DURATIONS = join(ROOT, '.tap/durations.json')
/** Seconds that the files of one process may take together by the last run; about a tenth of `npm test`. */
const PROCESS_SECONDS_MAX = 20
/** Seconds that a file counts when no run has measured it yet: alone, and beside others. */
const UNKNOWN_ALONE_SECONDS = 8
const UNKNOWN_SHARED_SECONDS = 1
/** Only a process that hangs takes so long. */
const PROCESS_TIMEOUT_SECONDS = 900

const PLANS = {
  quick: { lanes: ['quick'], isChecked: true, depth: '0.1' },
  all: {
    lanes: ['quick', 'all', 'cluster', 'browser'],
    isChecked: true,
    isCovered: true,
    depth: '1',
  },
  cover: { lanes: ['quick', 'all'], isCovered: true, depth: '1' },
  cluster: { lanes: ['cluster'], depth: '1' },
  browser: { lanes: ['browser'], depth: '1' },
}

/** @returns {{ path: string, lane: string, isAlone: boolean }[]} every test file with what its tag says. */
function listTests() {
  const folders = readdirSync(join(ROOT, 'test')).filter((name) => name !== 'node_modules')
  const paths = folders.flatMap((name) => {
    const folder = join('test', name)
    if (!statSync(join(ROOT, folder)).isDirectory()) return []
    return readdirSync(join(ROOT, folder), { recursive: true }).map((path) => join(folder, path))
  })
  return paths
    .filter((path) => path.endsWith('.test.ts'))
    .sort()
    .map(readTag)
}

function readTag(path) {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const tag = /^ \* @lane (quick|all|cluster|browser)( alone)?$/m.exec(
    text.slice(0, text.indexOf('*/')),
  )
  if (tag === null) {
    throw new Error(
      `${path}: the first comment needs a line "@lane quick", "all", "cluster" or "browser".`,
    )
  }
  return { path, lane: tag[1], isAlone: tag[1] !== 'quick' || tag[2] !== undefined }
}

/** Divides tests among processes: each is a list of files. The longest process comes first. */
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

/** Fills as many processes as the files of a folder need, always the one that has least to do. */
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
 * Writes one module for each process, which runs its files one after the other, each as a subtest. tap sorts what it
 * is given by name, so the names are numbers.
 */
function writeEntries(processes) {
  rmSync(ENTRIES, { recursive: true, force: true })
  mkdirSync(ENTRIES, { recursive: true })
  return processes.map(({ files }, index) => {
    const path = join(ENTRIES, `${String(index + 1).padStart(3, '0')}.mjs`)
    const lines = files.map((file) => `await runFile(${JSON.stringify(file)})\n`)
    writeFileSync(path, `import { runFile } from '../../.ci/test-process.mjs'\n${lines.join('')}`)
    return relative(ROOT, path)
  })
}

function readDurations() {
  return existsSync(DURATIONS) ? JSON.parse(readFileSync(DURATIONS, 'utf8')) : {}
}

function run(command, words, env = {}) {
  const { status } = spawnSync(command, words, {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  return status === 0
}

/** What the processes of tests and the report read from the environment. */
function environmentOf(tests, depth) {
  mkdirSync(dirname(PROGRESS), { recursive: true })
  writeFileSync(PROGRESS, '')
  return {
    // Teardowns that write to a folder run after tap would remove it, so test-process.mjs does that.
    TAP_SAVE_FIXTURE: '1',
    // Also of a process that runs without tap's runner.
    TAP_TIMEOUT: String(PROCESS_TIMEOUT_SECONDS),
    TEST_FOLDERS_STAY: process.env.TAP_SAVE_FIXTURE === '1' ? '1' : '0',
    TEST_DEPTH: process.env.TEST_DEPTH ?? depth,
    TEST_SEED: process.env.TEST_SEED ?? '0',
    TEST_FILES: String(tests.length),
    TEST_DURATIONS: DURATIONS,
    TEST_PROGRESS: PROGRESS,
  }
}

/** Resolves to true if all tests passed. */
async function runTests(tests, { depth, isCovered = false }) {
  const entries = writeEntries(planProcesses(tests, readDurations()))
  const environment = environmentOf(tests, depth)
  if (entries.length === 1 && !isCovered) return runOneProcess(entries[0], environment)
  if (!run(process.execPath, [join(ROOT, '.ci/loader.cjs')])) return false
  const jobs = process.env.TEST_JOBS ?? String(availableParallelism() + 1)
  const tap = [
    join(ROOT, 'node_modules/tap/dist/esm/run.mjs'),
    `--jobs=${jobs}`,
    `--timeout=${PROCESS_TIMEOUT_SECONDS}`,
    '--reporter=./.ci/test-report.mjs',
    ...entries,
  ]
  const c8 = [join(ROOT, 'node_modules/c8/bin/c8.js'), process.execPath]
  const words = isCovered ? [...c8, ...tap] : tap
  return run(process.execPath, words, { SOURCES_ARE_BLANKED: '1', ...environment })
}

/** The same without tap's runner, whose start takes longer than most files. */
async function runOneProcess(entry, environment) {
  Object.assign(process.env, environment)
  const { default: Report } = await import('./test-report.mjs')
  const report = new Report({ isOneProcess: true })
  const child = spawn(process.execPath, ['--require', join(ROOT, '.ci/loader.cjs'), entry], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.on('data', (chunk) => report.write(chunk))
  const [exitCode, signal] = await once(child, 'close')
  const isPassed = exitCode === 0
  if (!isPassed) report.takeProcess({ ok: false, name: entry, diag: { exitCode, signal } })
  report.end()
  return isPassed
}

/** What the lane `quick` leaves out, and how to run it. */
function tellLeftOut() {
  const count = (lane) => `${listTests().filter((test) => test.lane === lane).length} files`
  process.stderr.write(
    `Left out:
  ${count('all')} of long and random tests     npm run test:all
  ${count('cluster')} with brokers and ClickHouse     npm run test:cluster
  ${count('browser')} with Chromium     npm run test:browser
`,
  )
}

/** The tests that the words of the command line name, by file or folder. */
function namedTests(words) {
  const wanted = words.map((word) => relative(ROOT, resolve(word)))
  const tests = listTests().filter(({ path }) =>
    wanted.some((name) => path === name || path.startsWith(`${name}/`)),
  )
  if (tests.length > 0) return tests
  process.stderr.write(`There is no test file at ${words.join(' ')}.\n`)
  process.exit(1)
}

async function main(words) {
  const [command = 'quick'] = words
  const plan = PLANS[command]
  if (plan === undefined) return runTests(namedTests(words), { depth: '0.1' })
  if (plan.isChecked && !run(join(ROOT, '.ci/check'), command === 'all' ? ['all'] : []))
    return false
  const isPassed = await runTests(
    listTests().filter(({ lane }) => plan.lanes.includes(lane)),
    plan,
  )
  if (command === 'quick') tellLeftOut()
  return isPassed
}

process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1
