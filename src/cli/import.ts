/**
 * `tenrec import`: sends events from files to a running daemon. Every event has a uuid, so an import may
 * be repeated: what is stored already is recognised. How far a file came is noted beside it.
 */
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'
import { OperatorError } from '../base/errors.ts'
import { isJsonObject } from '../ingest/fields.ts'
import { readImportLine } from '../ingest/import-line.ts'
import type { JsonObject } from '../ingest/types.ts'
import { writeDurably } from '../store/data-dir.ts'
import { readCredentials } from '../store/first-start.ts'
import { idOption } from './arguments.ts'
import type { Command, CommandInput } from './command.ts'
import { PROJECT_OPTION } from './event.ts'
import { printable } from './output.ts'
import { Progress } from './progress.ts'
import { withProjectStore } from './with-project-store.ts'

const BATCH_EVENTS = 1000
/** A batch is sent before its text is longer than this. */
const BATCH_UNITS = 4_000_000
/** One at a time: the order of events decides about persons. */
const REQUESTS_MAX = 1
const ATTEMPTS_MAX = 60
const RETRY_MS_DEFAULT = 1000
const ANSWER_MS_MAX = 120_000
const FAULTS_SHOWN_MAX = 10
const NOTE_SUFFIX = '.imported'

/** `tenrec import`. */
export const IMPORT: Command = {
  name: 'import',
  sentence: 'Send events from files of JSON lines (also .gz) to a running daemon; may be repeated.',
  operands: ['FILE', '...'],
  options: [
    PROJECT_OPTION,
    {
      name: 'base-url',
      placeholder: 'URL',
      sentence: 'The daemon, such as http://127.0.0.1:8000; without it from credentials.json.',
    },
    {
      name: 'project-key',
      placeholder: 'KEY',
      sentence: 'Key of the project; without it the data directory is asked.',
    },
    {
      name: 'resume',
      placeholder: null,
      sentence: `Go on where FILE${NOTE_SUFFIX} says that the last import of the file ended.`,
    },
  ],
  settings: ['dataDir'],
  async run(input) {
    const target = await findTarget(input)
    let failures = 0
    for (const path of input.operands) {
      const result = await importFile(input, path, target)
      failures += result.faults
    }
    return failures === 0 ? 0 : 3
  },
}

interface Target {
  readonly url: string
  readonly projectKey: string
}

async function findTarget(input: CommandInput): Promise<Target> {
  const baseUrl =
    input.options.get('base-url') ?? readCredentials(input.settings().dataDir)?.baseUrl
  if (baseUrl === undefined) {
    throw new OperatorError('name the daemon with --base-url: credentials.json does not')
  }
  const projectId = idOption(input, 'project', 1)
  const projectKey =
    input.options.get('project-key') ??
    (await withProjectStore(input, false, (store) => store.project(projectId)?.apiKey))
  if (projectKey === undefined) throw new OperatorError(`there is no project ${projectId}`)
  return { url: `${baseUrl.replace(/\/+$/, '')}/batch/`, projectKey }
}

interface ImportResult {
  readonly events: number
  readonly faults: number
}

async function importFile(
  input: CommandInput,
  path: string,
  target: Target,
): Promise<ImportResult> {
  if (!existsSync(path)) throw new OperatorError(`${path} does not exist`)
  const { io, options } = input
  const skip = options.has('resume') ? linesDone(path) : 0
  const progress = new Progress(io, 'import', 'bytes')
  const sender = new BatchSender(target, (lines) => noteLines(path, lines))
  const totalBytes = path.endsWith('.gz') ? null : statSync(path).size
  let lineNumber = 0
  let bytes = 0
  let faults = 0
  try {
    for await (const line of linesOf(path)) {
      lineNumber++
      bytes += Buffer.byteLength(line) + 1
      if (lineNumber <= skip) continue
      const read = readImportLine(line, lineNumber)
      for (const fault of read.faults) {
        if (++faults <= FAULTS_SHOWN_MAX) io.err(`${path}:${lineNumber}: left out: ${fault}\n`)
      }
      for (const event of read.events) sender.take(event)
      await sender.lineDone(lineNumber)
      progress.update(bytes, totalBytes)
    }
    await sender.finish()
  } finally {
    progress.finish()
  }
  const left = faults === 0 ? '' : `, ${faults} left out`
  io.err(`${path}: ${sender.eventCount.toLocaleString('en')} events sent${left}\n`)
  return { events: sender.eventCount, faults }
}

function linesOf(path: string): AsyncIterable<string> {
  const file = createReadStream(path, { highWaterMark: 1024 * 1024 })
  const isPacked = path.endsWith('.gz')
  const gunzip = createGunzip()
  if (isPacked) file.on('error', (error) => gunzip.destroy(error))
  const input = isPacked ? file.pipe(gunzip) : file
  return createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
}

/** Gathers events to batches and sends some at a time. */
class BatchSender {
  eventCount = 0
  readonly #target: Target
  readonly #noteLines: (lines: number) => void
  #batch: string[] = []
  #units = 0
  /** Batches on their way in order, each with the last line that it completes. */
  readonly #pending: { readonly line: number; isDone: boolean }[] = []
  readonly #requests = new Set<Promise<void>>()
  #failure: Error | null = null

  constructor(target: Target, noteLines: (lines: number) => void) {
    this.#target = target
    this.#noteLines = noteLines
  }

  take(event: JsonObject): void {
    const text = JSON.stringify(event)
    this.#batch.push(text)
    this.#units += text.length
    this.eventCount++
  }

  /** All events of the lines up to this one were taken. Waits while too many batches are on their way. */
  async lineDone(line: number): Promise<void> {
    if (this.#batch.length < BATCH_EVENTS && this.#units < BATCH_UNITS) return
    this.#sendBatch(line)
    while (this.#requests.size >= REQUESTS_MAX) await Promise.race(this.#requests)
    if (this.#failure !== null) throw this.#failure
  }

  /** Sends the rest and waits for all answers. Throws `OperatorError` when the daemon refuses. */
  async finish(): Promise<void> {
    if (this.#batch.length > 0) this.#sendBatch(Number.MAX_SAFE_INTEGER)
    await Promise.all(this.#requests)
    if (this.#failure !== null) throw this.#failure
  }

  #sendBatch(line: number): void {
    const { projectKey } = this.#target
    const head = `{"api_key":${JSON.stringify(projectKey)},"historical_migration":true,"batch":[`
    const body = `${head}${this.#batch.join(',')}]}`
    this.#batch = []
    this.#units = 0
    const entry = { line, isDone: false }
    this.#pending.push(entry)
    const request = post(this.#target.url, body)
      .then(() => {
        entry.isDone = true
        this.#noteProgress()
      })
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => this.#requests.delete(request))
    this.#requests.add(request)
  }

  /** Only lines before the first batch without an answer are done for good. */
  #noteProgress(): void {
    let done = 0
    for (let first = this.#pending[0]; first?.isDone === true; first = this.#pending[0]) {
      if (first.line < Number.MAX_SAFE_INTEGER) done = first.line
      this.#pending.shift()
    }
    if (done > 0) this.#noteLines(done)
  }
}

/** Sends a batch until it is accepted; waits while the daemon is busy or restarts. */
async function post(url: string, body: string): Promise<void> {
  let reason = 'it does not answer'
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    let retryMs = RETRY_MS_DEFAULT
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      })
      const text = await response.text()
      if (response.status === 200) return
      if (response.status !== 503) {
        throw new OperatorError(`${url} answered ${response.status}: ${printable(detailOf(text))}`)
      }
      reason = detailOf(text)
      const seconds = Number(response.headers.get('retry-after'))
      if (seconds > 0) retryMs = seconds * 1000
    } catch (error) {
      if (error instanceof OperatorError) throw error
    }
    await sleep(retryMs)
  }
  throw new OperatorError(`${url} took no events for a long time: ${printable(reason)}`)
}

function detailOf(text: string): string {
  try {
    const body: unknown = JSON.parse(text)
    const detail = isJsonObject(body) ? body['detail'] : undefined
    if (typeof detail === 'string') return detail
  } catch {
    // The answer is not one of ours; its text says what there is to say.
  }
  return text.slice(0, 200)
}

function noteLines(path: string, lines: number): void {
  writeDurably(path + NOTE_SUFFIX, `${lines}\n`)
}

function linesDone(path: string): number {
  const note = path + NOTE_SUFFIX
  if (!existsSync(note)) return 0
  const lines = Number(readFileSync(note, 'utf8'))
  if (Number.isSafeInteger(lines) && lines >= 0) return lines
  throw new OperatorError(`${note} is not a number of lines: remove it to begin anew`)
}
