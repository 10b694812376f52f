/**
 * `tenrec import`: sends events from files to a running daemon. Every event has a uuid, so an import may
 * be repeated: what is stored already is recognised. How far a file came is noted beside it.
 */
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { writeDurably } from '../../../base/durable-file.ts'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { Scanner } from '../../../rules/capture/scanner/scanner.ts'
import { readCredentials } from '../../../store/open-store.ts'
import { idOption } from '../../lib/arguments.ts'
import type { Command, CommandInput } from '../../lib/command.ts'
import { type FaultListener, ImportBatch } from '../../lib/import-batch.ts'
import { BodySender } from '../../lib/import-sender.ts'
import { lineBlocks } from '../../lib/line-blocks.ts'
import { Progress } from '../../lib/progress.ts'
import { withStore } from '../../lib/with-store.ts'
import { IMPORT_FAULTS_SHOWN_MAX } from '../../limits.ts'
import { PROJECT_OPTION } from './event.ts'

const NOTE_SUFFIX = '.imported'
/** A note waits for the disk, so not every body gets one: what comes twice is recognised. */
const NOTE_MS = 1000
const NEWLINE = 0x0a

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
    for (const path of input.operands) refuseParquet(path)
    const target = await findTarget(input)
    let failures = 0
    for (const path of input.operands) {
      const result = await importFile(input, path, target)
      failures += result.faults
    }
    return failures === 0 ? 0 : 3
  },
}

/** What `tenrec export --format parquet` writes, and other programs, too. */
function refuseParquet(path: string): void {
  if (!/\.parquet$/i.test(path)) return
  throw new UsageError(
    `${path}: Parquet files are not read; import takes lines of JSON, plain or as .gz, such as 'tenrec export' writes`,
  )
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
    (await withStore(
      input,
      false,
      ({ organization }) => organization.projects.project(projectId)?.apiKey,
    ))
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
  if (statSync(path).isDirectory()) {
    throw new OperatorError(`${path} is a folder: name the files in it, one for each import`)
  }
  const { io, options } = input
  const isResumed = options.has('resume')
  const skip = isResumed ? linesDone(path) : 0
  // What an earlier import noted may be of another daemon.
  if (!isResumed) rmSync(path + NOTE_SUFFIX, { force: true })
  const progress = new Progress(io, 'import', 'bytes')
  const totalBytes = path.endsWith('.gz') ? null : statSync(path).size
  let bytes = 0
  let faults = 0
  const importer = new Importer(target, path, (lineNumber, fault) => {
    if (++faults <= IMPORT_FAULTS_SHOWN_MAX) io.err(`${path}:${lineNumber}: left out: ${fault}\n`)
  })
  try {
    for await (const block of lineBlocks(path)) {
      await importer.takeBlock(block, skip)
      bytes += block.length
      progress.update(bytes, totalBytes)
    }
    await importer.finish()
  } finally {
    importer.close()
    progress.finish()
  }
  const left = faults === 0 ? '' : `, ${faults} left out`
  io.err(`${path}: ${importer.eventCount.toLocaleString('en')} events sent${left}\n`)
  return { events: importer.eventCount, faults }
}

/** Brings the lines of one file to the daemon: one body is filled while the one before is on its way. */
class Importer {
  eventCount = 0
  readonly #path: string
  readonly #sender: BodySender
  readonly #scanner = new Scanner()
  #filling: ImportBatch
  #spare: ImportBatch
  #sending: Promise<void> = Promise.resolve()
  #lineNumber = 0
  /** Lines up to this one end with a newline: what follows may be the beginning of one. */
  #wholeLine = 0
  #acceptedLine = 0
  #notedLine = 0
  #notedAtMs = performance.now()

  constructor({ url, projectKey }: Target, path: string, onFault: FaultListener) {
    const head = `{"api_key":${JSON.stringify(projectKey)},"historical_migration":true,"batch":[`
    this.#path = path
    this.#sender = new BodySender(url)
    this.#filling = new ImportBatch(head, onFault)
    this.#spare = new ImportBatch(head, onFault)
  }

  /** Takes whole lines but the first `skip` of the file. Rejects with `OperatorError` when a body was refused. */
  async takeBlock(block: Buffer, skip: number): Promise<void> {
    for (let start = 0; start < block.length; ) {
      const newline = block.indexOf(NEWLINE, start)
      const end = newline < 0 ? block.length : newline
      this.#lineNumber++
      if (newline >= 0) this.#wholeLine = this.#lineNumber
      if (this.#lineNumber > skip) {
        this.#filling.takeLine(block, start, end, this.#lineNumber)
        this.#filling.lastLine = this.#wholeLine
        if (this.#filling.isFull) await this.#send()
      }
      start = end + 1
    }
  }

  /** Sends the rest and waits for the answer. */
  async finish(): Promise<void> {
    this.#filling.lastLine = this.#wholeLine
    await this.#send()
    await this.#sending
  }

  /** Notes how far the file came. */
  close(): void {
    this.#note()
    this.#sender.close()
  }

  async #send(): Promise<void> {
    const batch = this.#filling
    const body = batch.prove(this.#scanner)
    await this.#sending
    if (performance.now() - this.#notedAtMs > NOTE_MS) this.#note()
    const { count, lastLine } = batch
    this.#filling = this.#spare
    this.#filling.clear()
    this.#spare = batch
    this.#sending = (count === 0 ? Promise.resolve() : this.#sender.send(body)).then(() => {
      this.eventCount += count
      this.#acceptedLine = lastLine
    })
    // Whoever sends or finishes next is told.
    this.#sending.catch(() => undefined)
  }

  #note(): void {
    if (this.#acceptedLine > this.#notedLine) {
      writeDurably(this.#path + NOTE_SUFFIX, `${this.#acceptedLine}\n`)
    }
    this.#notedLine = this.#acceptedLine
    this.#notedAtMs = performance.now()
  }
}

function linesDone(path: string): number {
  const note = path + NOTE_SUFFIX
  if (!existsSync(note)) return 0
  const lines = Number(readFileSync(note, 'utf8'))
  if (Number.isSafeInteger(lines) && lines >= 0) return lines
  throw new OperatorError(`${note} is not a number of lines: remove it to begin anew`)
}
