/**
 * Runs files of tests, each in a process of its own, and says what failed: `node .ci/run-tests.mjs [--jobs=4]
 * [FILE...]`, without files all but those in a browser. tap's own runner reads every assertion again to show how far
 * it is, and takes the files by their names; here only what a file says in the end is read, and what takes longest
 * begins first, so that no core is idle in the end. Files of clusters wait most of their time: at most two of them
 * run at once, beside those that compute.
 *
 * A file holds when its process ends with 0 and has come to the end of its own account. Those that do not are written
 * to the file that TAP_SAVE names.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
/** How long each file took last time, milliseconds. */
const TIMES = join(ROOT, '.tap/times.json')
/** Without one: the rooms of the slowest first. */
const SLOW_FIRST = [
  'cluster',
  'faults',
  'http/public',
  'cli',
  'store',
  'end-to-end',
  'engine',
  'http',
]
const IN_A_BROWSER = /^test\/(console|sdk\/browser)\//
const WAITING = /^test\/cluster\//
const WAITING_MAX = 2
/** What these run of the sources is counted in the tests of its room; counting takes a third of their time again. */
const UNCOUNTED = /^test\/(house|faults|end-to-end)\//
/** A test without a time of its own, as in package.json. */
const TIMEOUT_SECONDS = 300
/** The longest that any file gives itself, and some more for its end. */
const FILE_MS_MAX = 660_000
const SLOWEST_SHOWN = 10
const LEFT_MS = 5000

function allFiles() {
  const entries = readdirSync(join(ROOT, 'test'), { recursive: true })
  const files = entries.filter((name) => name.endsWith('.test.ts')).map((name) => `test/${name}`)
  return files.filter((name) => !IN_A_BROWSER.test(name))
}

function timesOfLastRun() {
  return existsSync(TIMES) ? JSON.parse(readFileSync(TIMES, 'utf8')) : {}
}

/** Longest first; those without a time by their room. */
function inOrder(files, times) {
  const rank = (file) => {
    const room = SLOW_FIRST.findIndex((name) => file.startsWith(`test/${name}/`))
    return times[file] ?? (room === -1 ? 0 : (SLOW_FIRST.length - room) * 1000)
  }
  return files.toSorted((a, b) => rank(b) - rank(a) || a.localeCompare(b))
}

/** Runs one file, and answers what became of it. */
async function runFile(file) {
  const startedAtMs = performance.now()
  const words = ['--require=./.ci/loader.cjs', file]
  const env = { ...process.env, TAP: '1', TAP_TIMEOUT: String(TIMEOUT_SECONDS) }
  if (UNCOUNTED.test(file)) delete env.NODE_V8_COVERAGE
  const child = spawn(process.execPath, words, {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  const said = []
  const complained = []
  child.stdout.on('data', (bytes) => said.push(bytes))
  child.stderr.on('data', (bytes) => complained.push(bytes))
  const limit = setTimeout(() => child.kill('SIGKILL'), FILE_MS_MAX)
  const [code, signal] = await new Promise((settle) => {
    child.once('close', (...ending) => settle(ending))
    // A process that it left behind may keep its output open.
    child.once('exit', (...ending) => setTimeout(settle, LEFT_MS, ending).unref())
  })
  clearTimeout(limit)
  running.delete(child)
  for (const stream of [child.stdout, child.stderr]) stream.destroy()
  const text = Buffer.concat(said).toString()
  const counts = countsOf(text)
  return {
    ...{ file, text, counts, ending: signal ?? code, errors: Buffer.concat(complained) },
    isOk: code === 0 && counts !== null && counts.fail === 0,
    tookMs: performance.now() - startedAtMs,
  }
}

/** The account that tap gives in the end; null: it never came to it. */
function countsOf(text) {
  const [, members] = /^# \{ (total: .*) \}$/m.exec(text) ?? []
  if (members === undefined) return null
  const counts = { total: 0, pass: 0, fail: 0, skip: 0, todo: 0 }
  for (const [, name, value] of members.matchAll(/(\w+): (\d+)/g)) counts[name] = Number(value)
  return counts
}

/** Each assertion that failed with what belongs to it. */
function failuresOf(text) {
  const shown = []
  let depth = null
  for (const line of text.split('\n')) {
    const isPoint = /^\s*(not )?ok \d/.test(line)
    if (isPoint) depth = /^\s*not ok/.test(line) && !/# SKIP/.test(line) ? line.search(/\S/) : null
    if (depth !== null && (isPoint || line.trim() === '' || line.search(/\S/) > depth))
      shown.push(line)
  }
  return shown.join('\n')
}

function showFailure({ file, text, ending, counts, errors }) {
  const how = counts === null ? `ended with ${ending} before its end` : `ended with ${ending}`
  const failures = failuresOf(text)
  // Without a failure: the end of what it said.
  const what = failures === '' ? text.slice(-4000) : failures
  process.stdout.write(`\nFAIL ${file}: ${how}\n${what}\n${errors}\n`)
}

/** Runs files beside each other; answers what became of each. */
async function runAll(files, jobs) {
  const waiting = files.filter((file) => WAITING.test(file))
  const others = files.filter((file) => !WAITING.test(file))
  const outcomes = []
  let atWaiting = 0
  const next = () => {
    if (waiting.length > 0 && (atWaiting < WAITING_MAX || others.length === 0))
      return waiting.shift()
    return others.shift()
  }
  const work = async () => {
    for (let file = next(); file !== undefined; file = next()) {
      const isWaiting = WAITING.test(file)
      if (isWaiting) atWaiting++
      const outcome = await runFile(file)
      if (isWaiting) atWaiting--
      outcomes.push(outcome)
      if (!outcome.isOk) showFailure(outcome)
      if (process.stderr.isTTY) process.stderr.write(`\r${outcomes.length} of ${files.length} `)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return outcomes
}

function keepTimes(times, outcomes) {
  for (const { file, tookMs } of outcomes) times[file] = Math.round(tookMs)
  mkdirSync(dirname(TIMES), { recursive: true })
  writeFileSync(TIMES, JSON.stringify(times, null, 1))
}

function report(outcomes, tookMs) {
  const sum = (name) => outcomes.reduce((all, { counts }) => all + (counts?.[name] ?? 0), 0)
  const failed = outcomes.filter(({ isOk }) => !isOk).map(({ file }) => file)
  const slowest = outcomes.toSorted((a, b) => b.tookMs - a.tookMs).slice(0, SLOWEST_SHOWN)
  const seconds = (ms) => `${(ms / 1000).toFixed(0)} s`
  const lines = [
    ...slowest.map(({ file, tookMs }) => `${seconds(tookMs).padStart(7)} ${file}`),
    `${outcomes.length} files in ${seconds(tookMs)}: ${sum('pass')} assertions hold, ${sum('fail')} fail, ${sum('skip')} are left out`,
    ...failed.map((file) => `FAILED ${file}`),
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
  const { TAP_SAVE } = process.env
  if (TAP_SAVE !== undefined && failed.length > 0) writeFileSync(TAP_SAVE, `${failed.join('\n')}\n`)
  return failed.length === 0
}

const running = new Set()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    for (const child of running) child.kill(signal)
    process.exit(1)
  })
}
const words = process.argv.slice(2)
const jobsWord = words.find((word) => word.startsWith('--jobs='))
const jobs = jobsWord === undefined ? 2 * availableParallelism() : Number(jobsWord.split('=')[1])
const named = words
  .filter((word) => !word.startsWith('--'))
  .map((file) => relative(ROOT, resolve(file)))
const times = timesOfLastRun()
const startedAtMs = performance.now()
const files = inOrder(named.length > 0 ? named : allFiles(), times)
const outcomes = await runAll(files, jobs)
keepTimes(times, outcomes)
process.exitCode = files.length > 0 && report(outcomes, performance.now() - startedAtMs) ? 0 : 1
