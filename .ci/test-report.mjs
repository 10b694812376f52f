/**
 * The output of `npm test`: a line of progress from time to time while the tests run, one line for each failure with
 * the broken check and the command that runs its file alone, and a summary at the end. tap writes its protocol
 * (https://testanything.org) to this program.
 *
 * A run passes only if every planned file has ended, contains checks, and none of them failed. The output of a test
 * process, or its exit code, cannot make a run pass.
 *
 * Environment, set by test.mjs: TEST_RUN, a folder with `plan.json`, which lists the files of each process, and
 * `progress`, which has a byte for each file that has ended; TEST_DURATIONS, the file for the seconds of each test
 * file; TEST_FAILED, the file for the names of failed files; TEST_DEPTH and TEST_SEED, printed with a failure.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Parser } from 'tap-parser'

/** The interval between two lines of progress if the output is not a terminal. */
const PROGRESS_MS = 15_000
const TERMINAL_PROGRESS_MS = 1000
/** Longer values are truncated in the line of a failure. */
const VALUE_CHARACTERS_MAX = 120
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal
const CONTROL_CHARACTERS = /[\x00-\x1f\x7f-\x9f]/g
const IS_TERMINAL = process.stderr.isTTY === true

export default class Report extends PassThrough {
  #parser = new Parser()
  #startMs = Date.now()
  #timer
  /** The files of each process, by the module that it runs. */
  #plan = new Map(readPlan().map(({ entry, files }) => [entry, files]))
  #files = new Map()
  #skipped = new Map()
  #passed = 0
  #failures = 0

  /** With `entry` the process that runs this module writes to it, and otherwise tap does for all processes. */
  constructor({ entry } = {}) {
    super()
    for (const files of this.#plan.values()) {
      for (const name of files) {
        this.#files.set(name, { seconds: 0, checks: 0, failures: 0, told: [], isDone: false })
      }
    }
    if (entry !== undefined) this.#followProcess(this.#parser, entry)
    else {
      this.#parser.on('child', (child) => this.#followProcess(child, child.name))
      this.#parser.on('assert', (result) => this.takeProcess(result))
      this.#parser.on('bailout', (reason) => this.#takeBailout('', reason))
    }
    const everyMs = IS_TERMINAL ? TERMINAL_PROGRESS_MS : PROGRESS_MS
    this.#timer = setInterval(() => this.#showProgress(), everyMs)
  }

  write(chunk) {
    this.#parser.write(chunk)
    return true
  }

  get isPassed() {
    return this.#failures === 0
  }

  end(chunk) {
    this.#parser.end(chunk)
    clearInterval(this.#timer)
    this.#checkFiles()
    this.#showSummary()
    if (!this.isPassed) failProcess()
    super.end()
    return this
  }

  /** A process, whose subtests are files. */
  #followProcess(parser, entry) {
    parser.on('child', (child) => {
      if (this.#files.has(child.name)) this.#followTest(child, child.name, [])
    })
    parser.on('assert', (result) => this.#takeFile(result, entry))
    parser.on('bailout', (reason) => this.#takeBailout(entry, reason))
  }

  #followTest(parser, name, titles) {
    const file = this.#files.get(name)
    parser.on('child', (child) => this.#followTest(child, name, [...titles, child.name]))
    parser.on('assert', (result) => {
      file.checks++
      if (result.skip || result.todo) this.#countSkipped(result)
      else if (result.ok) this.#passed++
      // A subtest fails when a check inside it fails. That check has its own line, so the subtest needs none.
      else if (!isTold(file, [...titles, result.name])) this.#tell(name, titles, result)
    })
  }

  #countSkipped({ skip, todo, name }) {
    const text = skip || todo
    const reason = text === true ? name : String(text)
    this.#skipped.set(reason, (this.#skipped.get(reason) ?? 0) + 1)
  }

  #takeFile(result, entry) {
    const file = this.#files.get(result.name)
    if (file === undefined) {
      // Printed by a test, or reported by tap for the whole process.
      if (!result.ok && !result.todo) this.#tell(this.#currentFile(entry), [], result)
      return
    }
    file.seconds = (result.time ?? 0) / 1000
    file.isDone = true
    if (!result.ok && file.failures === 0) this.#tell(result.name, [], result)
  }

  #takeBailout(entry, reason) {
    const diag = { message: `it printed "Bail out!" ${reason}` }
    this.#tell(this.#currentFile(entry), [], { name: '', diag })
  }

  /** The file that a process is running. */
  #currentFile(entry) {
    const files = this.#plan.get(entry) ?? [...this.#files.keys()]
    return files.find((name) => !this.#files.get(name).isDone) ?? files.at(-1)
  }

  /** The end of a process, which has the name of its module. */
  takeProcess(result) {
    if (result.ok) return
    const files = this.#plan.get(result.name) ?? []
    const isKilled = typeof result.diag?.signal === 'string'
    const isExplained = files.some((name) => this.#files.get(name).failures > 0)
    if (isExplained && !isKilled) return
    this.#tell(this.#currentFile(result.name), [], { ...result, name: '' })
  }

  /** Every planned file must have finished and contain checks. */
  #checkFiles() {
    for (const [name, { isDone, checks, failures }] of this.#files) {
      if (failures > 0) continue
      if (!isDone) this.#tell(name, [], { name: 'it did not run to its end' })
      else if (checks === 0) this.#tell(name, [], { name: 'it has no checks' })
    }
  }

  #tell(name, titles, { name: title, diag }) {
    const file = this.#files.get(name)
    const path = [...titles, title === name ? '' : title].filter((text) => text !== '')
    file.failures++
    this.#failures++
    file.told.push(pathText(path))
    const place = diag?.at?.lineNumber === undefined ? '' : `:${diag.at.lineNumber}`
    this.#print(`FAILED ${name}${place}  ${path.join(' > ')}${explain(diag)}`)
    if (file.failures === 1) this.#print(`       alone: ${settings()}node .ci/test.mjs ${name}`)
  }

  #print(text) {
    const line = text.replace(/\s*[\r\n]+\s*/g, ' ').replace(CONTROL_CHARACTERS, '')
    process.stderr.write(`${IS_TERMINAL ? '\r\x1b[K' : ''}${line}\n`)
  }

  #showProgress() {
    const done = statSync(join(process.env.TEST_RUN, 'progress')).size
    const failed = this.#failures === 0 ? '' : `, ${this.#failures} failed`
    const time = duration(Date.now() - this.#startMs)
    const text = `${done} of ${this.#files.size} files${failed}, ${time}`
    process.stderr.write(IS_TERMINAL ? `\r\x1b[K${text}` : `${text}\n`)
  }

  #showSummary() {
    const files = [...this.#files]
    const failed = files.filter(([, { failures }]) => failures > 0).map(([name]) => name)
    for (const [reason, count] of this.#skipped) this.#print(`Skipped ${count}: ${reason}`)
    const time = duration(Date.now() - this.#startMs)
    this.#print(
      this.isPassed
        ? `Passed: ${counted(this.#passed, 'check')} in ${counted(files.length, 'file')}, ${time}.`
        : `FAILED: ${counted(this.#failures, 'check')} in ${failed.length} of ${counted(files.length, 'file')}, ${time}.`,
    )
    this.#attempt(() => saveFailed(failed))
    this.#attempt(() => saveDurations(files))
  }

  /** A failure to store data for later runs does not fail the run. */
  #attempt(action) {
    try {
      action()
    } catch (error) {
      this.#print(`Not saved: ${error.message}`)
    }
  }
}

function readPlan() {
  return JSON.parse(readFileSync(join(process.env.TEST_RUN, 'plan.json'), 'utf8'))
}

/** Makes this process end with status 1, whatever tap concludes about the run. */
function failProcess() {
  process.on('exit', () => {
    process.exitCode ||= 1
  })
}

function isTold({ told }, path) {
  const wanted = pathText(path)
  return told.some((text) => text === wanted || text.startsWith(`${wanted} > `))
}

/** Normalizes titles, because tap escapes some characters at the start of a test and not at its end. */
function pathText(path) {
  return path.map((title) => title.replaceAll('\\', '').replace(/\s+/g, ' ').trim()).join(' > ')
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** The variables that a run of one file needs in front of the command to be like this run. */
function settings() {
  const { TEST_DEPTH, TEST_SEED, TEST_HTTP_SERVER } = process.env
  const server = TEST_HTTP_SERVER === undefined ? '' : `TEST_HTTP_SERVER=${TEST_HTTP_SERVER} `
  return `${server}${TEST_DEPTH === '0.1' ? '' : `TEST_DEPTH=${TEST_DEPTH} `}${TEST_SEED === '0' ? '' : `TEST_SEED=${TEST_SEED} `}`
}

/** The found and the expected value, in one line. */
function explain(diag) {
  if (diag === null || diag === undefined) return ''
  const { found, wanted, diff, message, expired, signal, exitCode } = diag
  const parts = []
  if (expired !== undefined) parts.push('it did not end in time')
  if (typeof diff === 'string') parts.push(differenceOf(diff))
  else if ('found' in diag || 'wanted' in diag) {
    parts.push(`found ${shorten(found)}, expected ${shorten(wanted)}`)
  }
  if (typeof message === 'string' && message !== '') parts.push(shorten(message))
  if (signal) parts.push(`the process was ended by ${signal}`)
  else if (exitCode) parts.push(`the process ended with ${exitCode}`)
  return parts.length === 0 ? '' : `: ${parts.join('; ')}`
}

/** The first lines of a diff that differ. */
function differenceOf(diff) {
  const lines = diff.split('\n').filter((line) => /^[-+](?![-+]{2} )/.test(line))
  const of = (sign) =>
    lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1).trim())
  const [wanted, found] = [of('-').join(' '), of('+').join(' ')]
  return `found ${shorten(found)}, expected ${shorten(wanted)}`
}

function shorten(value) {
  const text = (typeof value === 'string' ? value : JSON.stringify(value)) ?? 'nothing'
  const line = text.replace(/\s+/g, ' ').trim()
  if (line === '') return 'nothing'
  return line.length <= VALUE_CHARACTERS_MAX ? line : `${line.slice(0, VALUE_CHARACTERS_MAX)}...`
}

function duration(ms) {
  const seconds = Math.round(ms / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

function saveFailed(names) {
  const path = process.env.TEST_FAILED
  if (path === undefined || path === '') return
  if (names.length === 0) rmSync(path, { force: true })
  else writeFileSync(path, `${names.join('\n')}\n`)
}

/** Updates the durations of the files that ran. Other files keep theirs. */
function saveDurations(files) {
  const path = process.env.TEST_DURATIONS
  if (path === undefined) return
  const now = files.map(([name, { seconds }]) => [name, Math.round(seconds * 100) / 100])
  mkdirSync(dirname(path), { recursive: true })
  const all = Object.entries({ ...readDurations(path), ...Object.fromEntries(now) }).sort()
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(Object.fromEntries(all), null, 1)}\n`)
  renameSync(draft, path)
}

/** Returns the seconds of each file in earlier runs. Empty if the file is missing or damaged. */
export function readDurations(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return {}
  }
}
