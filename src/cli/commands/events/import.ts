/**
 * `tenrec import`: sends events from files to a running daemon. Every event has a uuid, so an import may
 * be repeated: what is stored already is recognised. How far a file came is noted beside it. Tables of
 * other programs become lines first.
 */
import { createReadStream, existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createGunzip } from 'node:zlib'
import { writeDurably } from '../../../base/durable-file.ts'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { Scanner } from '../../../rules/capture/scanner/scanner.ts'
import { type CommandInput, type Commands, PROJECT_OPTION } from '../../lib/command.ts'
import { BASE_URL_OPTION, daemonAddress } from '../../lib/daemon-client.ts'
import { type FaultListener, ImportBatch } from '../../lib/import-batch.ts'
import { BodySender } from '../../lib/import-sender.ts'
import { withProgress } from '../../lib/progress.ts'
import { readUmamiEventData, type UmamiEventData, umamiLines } from '../../lib/umami-lines.ts'
import { projectOf } from '../../lib/with-store.ts'
import { IMPORT_FAULTS_SHOWN_MAX, LINE_BYTES_MAX } from '../../limits.ts'

const NOTE_SUFFIX = '.imported'
/** A note waits for the disk, so not every body gets one: what comes twice is recognised. */
const NOTE_MS = 1000
const READ_BYTES = 1024 * 1024
const NEWLINE = 0x0a

/** `tenrec import`. */
export const COMMANDS: Commands = [
  {
    name: 'import',
    sentence:
      'Send events from files of JSON lines (also .gz) to a running daemon; may be repeated.',
    operands: ['FILE', '...'],
    options: {
      ...PROJECT_OPTION,
      ...BASE_URL_OPTION,
      '--project-key KEY': 'Key of the project; without it the data directory is asked.',
      '--format FORMAT': {
        sentence:
          'lines (the default), or umami: its table website_event, as CSV or lines of JSON.',
        choices: ['lines', 'umami'],
      },
      '--event-data FILE': "Umami's table event_data: what custom events carry.",
      '--resume': `Go on where FILE${NOTE_SUFFIX} says that the last import of the file ended.`,
    },
    async run(input) {
      const parquet = input.operands.find((path) => /\.parquet$/i.test(path))
      if (parquet !== undefined) {
        // What 'tenrec export --format parquet' writes, and other programs, too.
        throw new UsageError(
          `${parquet}: Parquet files are not read; import takes lines of JSON, plain or as .gz, such as 'tenrec export' writes`,
        )
      }
      const umamiData = await umamiDataOf(input)
      const target = {
        umamiData,
        url: `${daemonAddress(input)}/batch/`,
        projectKey: input.text('project-key') ?? (await projectOf(input, input.projectId)).apiKey,
      }
      let faults = 0
      for (const path of input.operands) faults += await importFile(input, path, target)
      return faults === 0 ? 0 : 3
    },
  },
]

interface Target {
  readonly url: string
  readonly projectKey: string
  /** Null when the files hold lines of events. */
  readonly umamiData: UmamiEventData | null
}

/** What goes into the events of Umami's table; null for another format. Throws `UsageError`. */
async function umamiDataOf(input: CommandInput): Promise<UmamiEventData | null> {
  const format = input.text('format') ?? 'lines'
  const path = input.text('event-data')
  if (format !== 'lines' && format !== 'umami') {
    throw new UsageError(`--format: ${JSON.stringify(format)} is not lines or umami`)
  }
  if (format === 'lines' && path !== undefined) {
    throw new UsageError('--event-data needs --format umami')
  }
  if (format === 'lines') return null
  if (path === undefined) return new Map()
  checkFile(path)
  return await readUmamiEventData(lineBlocks(path), path)
}

function checkFile(path: string): void {
  if (!existsSync(path)) throw new OperatorError(`${path} does not exist`)
  if (statSync(path).isDirectory()) {
    throw new OperatorError(`${path} is a folder: name the files in it, one for each import`)
  }
}

/** Sends one file; answers how many events were left out because of faults. */
async function importFile(input: CommandInput, path: string, target: Target): Promise<number> {
  checkFile(path)
  const { io } = input
  const isResumed = input.has('resume')
  const skip = isResumed ? linesDone(path) : 0
  // What an earlier import noted may be of another daemon.
  if (!isResumed) rmSync(path + NOTE_SUFFIX, { force: true })
  const totalBytes = path.endsWith('.gz') ? null : statSync(path).size
  let bytes = 0
  let faults = 0
  const onFault: FaultListener = (lineNumber, fault) => {
    if (++faults <= IMPORT_FAULTS_SHOWN_MAX) io.err(`${path}:${lineNumber}: left out: ${fault}\n`)
  }
  const importer = new Importer(target, path, onFault)
  await withProgress(io, 'import', async (progress) => {
    try {
      const blocks = lineBlocks(path, (count) => {
        bytes += count
        progress.update(bytes, totalBytes)
      })
      const { umamiData } = target
      const lines = umamiData === null ? blocks : umamiLines(blocks, path, umamiData, onFault)
      for await (const block of lines) await importer.takeBlock(block, skip)
      await importer.finish()
    } finally {
      importer.close()
    }
  })
  const left = faults === 0 ? '' : `, ${faults} left out`
  io.err(`${path}: ${importer.eventCount.toLocaleString('en')} events sent${left}\n`)
  return faults
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

/**
 * A file of lines in blocks that end with a newline, the last one perhaps without; each is filled anew when the next
 * one is asked for. Unpacks what is called `.gz`, and says of everything that is read how many bytes it had. Rejects
 * with `OperatorError` for a line that is too long, and with what reading and unpacking say.
 */
async function* lineBlocks(
  path: string,
  onBytes: (count: number) => void = () => undefined,
): AsyncGenerator<Buffer> {
  /** A line whose end has not come yet, in pieces. */
  let begun: Buffer[] = []
  let begunBytes = 0
  for await (const chunk of path.endsWith('.gz') ? unpacked(path) : chunksOf(path)) {
    onBytes(chunk.length)
    const end = chunk.lastIndexOf(NEWLINE) + 1
    let start = 0
    if (end > 0 && begunBytes > 0) {
      start = chunk.indexOf(NEWLINE) + 1
      yield Buffer.concat([...begun, chunk.subarray(0, start)])
      begun = []
      begunBytes = 0
    }
    if (end > start) yield chunk.subarray(start, end)
    if (end < chunk.length) begun.push(Buffer.from(chunk.subarray(end)))
    begunBytes += chunk.length - end
    if (begunBytes > LINE_BYTES_MAX) {
      throw new OperatorError(`${path} has a line of more than ${LINE_BYTES_MAX} bytes: split it`)
    }
  }
  if (begunBytes > 0) yield Buffer.concat(begun)
}

/** Two pieces of memory in turns, one of which is read into meanwhile: new ones would be most of what is collected. */
async function* chunksOf(path: string): AsyncGenerator<Buffer> {
  const file = await open(path)
  try {
    let [next, other] = [Buffer.allocUnsafeSlow(READ_BYTES), Buffer.allocUnsafeSlow(READ_BYTES)]
    let reading = file.read(next, 0, READ_BYTES, null)
    for (;;) {
      const { bytesRead, buffer } = await reading
      if (bytesRead === 0) return
      ;[next, other] = [other, next]
      reading = file.read(next, 0, READ_BYTES, null)
      // Whoever asks for the next chunk is told.
      reading.catch(() => undefined)
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

async function* unpacked(path: string): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: READ_BYTES })
  const gunzip = createGunzip({ chunkSize: READ_BYTES })
  file.on('error', (error) => gunzip.destroy(error))
  for await (const chunk of file.pipe(gunzip)) if (Buffer.isBuffer(chunk)) yield chunk
}

function linesDone(path: string): number {
  const note = path + NOTE_SUFFIX
  if (!existsSync(note)) return 0
  const lines = Number(readFileSync(note, 'utf8'))
  if (Number.isSafeInteger(lines) && lines >= 0) return lines
  throw new OperatorError(`${note} is not a number of lines: remove it to begin anew`)
}
