/**
 * What `npm test` prints: a line now and then while the tests run, for each failure one line that says what broke and
 * how to run its file alone, and at the end a summary. tap writes its protocol (https://testanything.org) to this.
 *
 * Environment, set by test.mjs: TEST_FILES, how many files there are; TEST_PROGRESS, a file that has a byte for each one
 * that has ended; TEST_DURATIONS, where the seconds of each file go; TEST_FAILED, where the names of failed files go;
 * TEST_DEPTH and TEST_SEED, told when something fails.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { PassThrough } from 'node:stream'
import { Parser } from 'tap-parser'

/** Between two lines of progress when the output is no terminal. */
const PROGRESS_MS = 15_000
const TERMINAL_PROGRESS_MS = 1000
/** Of one value in the line of a failure. */
const VALUE_CHARACTERS_MAX = 120
const IS_TERMINAL = process.stderr.isTTY === true

export default class Report extends PassThrough {
  #parser = new Parser()
  #startMs = Date.now()
  #timer
  #files = new Map()
  #skipped = new Map()
  #passed = 0
  #failures = 0

  /** With `isOneProcess` it is written to by a test process, and otherwise by tap, for all of them. */
  constructor({ isOneProcess = false } = {}) {
    super()
    if (isOneProcess) this.#followProcess(this.#parser)
    else {
      this.#parser.on('child', (child) => this.#followProcess(child))
      this.#parser.on('assert', (result) => this.takeProcess(result))
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
    this.#showSummary()
    super.end()
    return this
  }

  /** A process, whose subtests are files. */
  #followProcess(parser) {
    parser.on('child', (child) => this.#followTest(child, child.name, []))
    parser.on('assert', (result) => this.#takeFile(result))
  }

  #followTest(parser, file, titles) {
    parser.on('child', (child) => this.#followTest(child, file, [...titles, child.name]))
    parser.on('assert', (result) => {
      if (result.skip) this.#countSkipped(result)
      else if (result.ok) this.#passed++
      // A subtest fails with what failed within it, which was told already; unless it is all there is.
      else if (!this.#isTold(file, [...titles, result.name])) this.#tell(file, titles, result)
    })
    parser.on('bailout', (reason) => this.#print(`BAIL OUT  ${file}: ${reason}`))
  }

  #countSkipped({ skip, name }) {
    const reason = skip === true ? name : String(skip)
    this.#skipped.set(reason, (this.#skipped.get(reason) ?? 0) + 1)
  }

  #takeFile(result) {
    const file = this.#fileOf(result.name)
    file.seconds = (result.time ?? 0) / 1000
    file.isDone = true
    if (!result.ok && file.failures === 0) this.#tell(result.name, [], result)
  }

  /**
   * The end of a process, which is named by the module that it ran. One that ended in the middle names no file: all of
   * its files that did not end have failed.
   */
  takeProcess(result) {
    if (result.ok) return
    const entry = existsSync(result.name) ? readFileSync(result.name, 'utf8') : ''
    const files = [...entry.matchAll(/runFile\("(.*)"\)/g)].map(([, file]) => file)
    const isKilled = typeof result.diag?.signal === 'string'
    const open = files.filter((file) => !this.#fileOf(file).isDone)
    const isTold = files.some((file) => this.#fileOf(file).failures > 0)
    if (isTold && !isKilled && open.length === 0) return
    const [first = files.at(-1) ?? result.name, ...others] = open
    this.#tell(first, [], { ...result, name: first })
    for (const file of others) {
      this.#fileOf(file).failures++
      this.#print(`NOT RUN ${file}: its process had ended`)
    }
  }

  #fileOf(name) {
    const file = this.#files.get(name) ?? { seconds: 0, failures: 0, told: [], isDone: false }
    this.#files.set(name, file)
    return file
  }

  #isTold(file, path) {
    const wanted = path.join(' > ')
    return this.#fileOf(file).told.some(
      (told) => told === wanted || told.startsWith(`${wanted} > `),
    )
  }

  #tell(name, titles, { name: title, diag }) {
    const file = this.#fileOf(name)
    const path = [...titles, title === name ? '' : title].filter((text) => text !== '')
    file.failures++
    this.#failures++
    file.told.push(path.join(' > '))
    const place = diag?.at?.lineNumber === undefined ? '' : `:${diag.at.lineNumber}`
    this.#print(`FAILED ${name}${place}  ${path.join(' > ')}${explain(diag)}`)
    if (file.failures === 1) this.#print(`       alone: ${settings()}node .ci/test.mjs ${name}`)
  }

  #print(text) {
    if (IS_TERMINAL) process.stderr.write('\r\x1b[K')
    process.stderr.write(`${text}\n`)
  }

  #showProgress() {
    const done = statSync(process.env.TEST_PROGRESS).size
    const failed = this.#failures === 0 ? '' : `, ${this.#failures} failed`
    const time = duration(Date.now() - this.#startMs)
    const text = `${done} of ${process.env.TEST_FILES} files${failed}, ${time}`
    process.stderr.write(IS_TERMINAL ? `\r\x1b[K${text}` : `${text}\n`)
  }

  #showSummary() {
    const files = [...this.#files]
    const failed = files.filter(([, { failures }]) => failures > 0).map(([name]) => name)
    saveFailed(failed)
    saveDurations(files)
    for (const [reason, count] of this.#skipped) this.#print(`Skipped ${count}: ${reason}`)
    const time = duration(Date.now() - this.#startMs)
    if (this.#failures === 0) {
      this.#print(`Passed: ${this.#passed} checks in ${files.length} files, ${time}.`)
      return
    }
    const count = `${this.#failures} checks in ${failed.length} of ${files.length} files`
    this.#print(`FAILED: ${count}, ${time}.`)
  }
}

/** What a run of one file needs in front of the command to be like this run. */
function settings() {
  const { TEST_DEPTH, TEST_SEED } = process.env
  return `${TEST_DEPTH === '0.1' ? '' : `TEST_DEPTH=${TEST_DEPTH} `}${TEST_SEED === '0' ? '' : `TEST_SEED=${TEST_SEED} `}`
}

/** What was found and what was expected, in one line. */
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

/** Keeps what other runs have measured of files that did not run now. */
function saveDurations(files) {
  const path = process.env.TEST_DURATIONS
  if (path === undefined) return
  const before = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}
  const now = files.map(([name, { seconds }]) => [name, Math.round(seconds * 100) / 100])
  mkdirSync(dirname(path), { recursive: true })
  const all = Object.entries({ ...before, ...Object.fromEntries(now) }).sort()
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(all), null, 1)}\n`)
}
