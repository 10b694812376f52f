/**
 * `tenrec import`: sends events from files to a running daemon. Every event has a UUID, so an import may be repeated:
 * the daemon recognizes events that are already stored. A small file beside each file, the note, stores the progress.
 * Tables of other programs are converted to lines first.
 */
import {
  closeSync,
  existsSync,
  open as openFile,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { promisify } from 'node:util'
import { writeDurably } from '../../../base/durable-file.ts'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import type { ImportContext } from '../../../rules/capture/import-line.ts'
import { Scanner } from '../../../rules/capture/scanner/scanner.ts'
import { type CommandInput, type Commands, PROJECT_OPTION } from '../../lib/command.ts'
import { BASE_URL_OPTION, daemonAddress } from '../../lib/daemon-client.ts'
import { DamagedFileError, GZIP_MAGIC, unpackGzip } from '../../lib/gzip-members.ts'
import { type FaultListener, ImportBatch } from '../../lib/import-batch.ts'
import { BodySender, RefusedBodyError } from '../../lib/import-sender.ts'
import { withProgress } from '../../lib/progress.ts'
import { readUmamiEventData, type UmamiEventData, umamiLines } from '../../lib/umami-lines.ts'
import { projectOf } from '../../lib/with-store.ts'
import {
  IMPORT_FAULTS_SHOWN_MAX,
  IMPORT_REFUSALS_IN_A_ROW_MAX,
  LINE_BYTES_MAX,
} from '../../limits.ts'

const NOTE_SUFFIX = '.imported'
/**
 * The shortest time between two notes of the progress, in milliseconds. Each note waits for the disk, so notes are
 * rare. After a crash, the events since the last note are sent again, and the daemon recognizes them.
 */
const NOTE_MS = 1000
const READ_BYTES = 1024 * 1024
/** The number of bytes by which the kind of a file is recognized. */
const BEGINNING_BYTES = 1024
const NEWLINE = 0x0a
const MARK = Buffer.from('\ufeff')
const LINE_END = Buffer.from('\n')
/** Files that do not contain lines, by their first bytes, and what the user should do with each. */
const OTHER_FILES: readonly (readonly [string, string])[] = [
  ['504b0304', 'is a ZIP archive. Unpack it, and import the files in it.'],
  ['28b52ffd', "is compressed with zstd. Unpack it with 'zstd -d'."],
  ['425a68', "is compressed with bzip2. Unpack it with 'bunzip2'."],
  ['fd377a585a', "is compressed with xz. Unpack it with 'unxz'."],
  ['50415231', 'is a Parquet file. Convert it to JSON with one object per line.'],
  ['fffe0000', "is encoded in UTF-32. Convert it with 'iconv -f UTF-32 -t UTF-8'."],
  ['0000feff', "is encoded in UTF-32. Convert it with 'iconv -f UTF-32 -t UTF-8'."],
  ['fffe', "is encoded in UTF-16. Convert it with 'iconv -f UTF-16 -t UTF-8'."],
  ['feff', "is encoded in UTF-16. Convert it with 'iconv -f UTF-16 -t UTF-8'."],
  [GZIP_MAGIC, "is compressed twice. Unpack it once with 'gunzip'."],
  ['377abcaf', 'is a 7z archive. Unpack it, and import the files in it.'],
  ['04224d18', "is compressed with LZ4. Unpack it with 'lz4 -d'."],
  ['1f9d', "is compressed with compress. Unpack it with 'uncompress'."],
  ['ff060000734e6150', 'is compressed with Snappy. Unpack it first.'],
  ['4f626a01', 'is an Avro file. Convert it to JSON with one object per line.'],
  ['4f5243', 'is an ORC file. Convert it to JSON with one object per line.'],
  ['53514c697465', 'is an SQLite database. Export its table as JSON with one object per line.'],
]
/** The first bytes of a text in UTF-16 without a byte order mark: each second byte is 0. */
const UTF16_LITTLE_ENDIAN = /^(?:[2-7][0-9a-f]00){4}/
const UTF16_BIG_ENDIAN = /^(?:00[2-7][0-9a-f]){4}/
/** The offset of the text `TAR` in a tar archive. All versions of the format have it there. */
const TAR_OFFSET = 257
const TAR = 'ustar'

/** `tenrec import`. */
export const COMMANDS: Commands = [
  {
    name: 'import',
    sentence:
      'Send events from files with one JSON object per line, plain or as .gz, to a running daemon. Repeating an import creates no duplicates.',
    operands: ['FILE', '...'],
    options: {
      ...PROJECT_OPTION,
      ...BASE_URL_OPTION,
      '--project-key KEY': 'Key of the project. Default: the key in the data directory.',
      '--format FORMAT': {
        sentence:
          'lines, or umami for the table website_event of Umami, as CSV or as one JSON object per line. Default: lines.',
        choices: ['lines', 'umami'],
      },
      '--event-data FILE': 'Table event_data of Umami, with the properties of custom events.',
      '--resume': `Continue where the last import of the file ended, as noted in FILE${NOTE_SUFFIX}.`,
    },
    async run(input) {
      const parquet = input.operands.find((path) => /\.parquet$/i.test(path))
      if (parquet !== undefined) {
        // `tenrec export --format parquet` writes such files, so users may try to import them.
        throw new UsageError(
          `${parquet} is a Parquet file, which cannot be imported. Import files with one JSON object per line, plain or as .gz, such as 'tenrec export' writes.`,
        )
      }
      const { umamiData, faults: dataFaults } = await umamiDataOf(input)
      const settings = input.settings()
      const target = {
        umamiData,
        context: {
          nowMs: Date.now(),
          propertiesBytesMax: settings.eventPropertiesBytesMax,
          aiPropertiesBytesMax: settings.aiEventPropertiesBytesMax,
        },
        url: `${daemonAddress(input)}/batch/`,
        projectKey: input.text('project-key') ?? (await projectOf(input, input.projectId)).apiKey,
      }
      let faults = dataFaults
      for (const path of input.operands) {
        // If `directory/*` is imported a second time, the operands include the notes of the first import.
        if (isNote(path)) input.io.err(`${path}: skipped, it is a note of an import\n`)
        else faults += await importFile(input, path, target)
      }
      return faults === 0 ? 0 : 3
    },
  },
]

interface Target {
  readonly url: string
  readonly projectKey: string
  readonly context: ImportContext
  /** The properties of Umami's events. Null if the files contain lines of events. */
  readonly umamiData: UmamiEventData | null
}

/** Reads the properties for the events of Umami. Returns null for another format. Throws `UsageError`. */
async function umamiDataOf(
  input: CommandInput,
): Promise<{ readonly umamiData: UmamiEventData | null; readonly faults: number }> {
  const format = input.text('format') ?? 'lines'
  const path = input.text('event-data')
  if (format !== 'lines' && format !== 'umami') {
    throw new UsageError(`--format: ${JSON.stringify(format)} is not lines or umami.`)
  }
  if (format === 'lines' && path !== undefined) {
    throw new UsageError('--event-data requires --format umami.')
  }
  if (format === 'lines') return { umamiData: null, faults: 0 }
  if (path === undefined) return { umamiData: new Map(), faults: 0 }
  checkFile(path)
  const faults = new Faults(input, path)
  const blocks = lineBlocks(path, {
    onLongLine: () => faults.add(0, LONG_LINE),
  })
  const umamiData = await readUmamiEventData(blocks, path, faults.add)
  return { umamiData, faults: faults.count }
}

const LONG_LINE = `it has more than ${LINE_BYTES_MAX.toLocaleString('en')} bytes`

/** Counts the lines of a file that are left out, and reports them on standard error. */
class Faults {
  count = 0
  readonly add: FaultListener

  constructor({ io }: CommandInput, path: string) {
    this.add = (lineNumber, fault) => {
      if (++this.count > IMPORT_FAULTS_SHOWN_MAX) return
      io.err(`${path}:${lineNumber}: left out: ${fault}\n`)
    }
  }
}

function isNote(path: string): boolean {
  return path.endsWith(NOTE_SUFFIX) && existsSync(path.slice(0, -NOTE_SUFFIX.length))
}

function checkFile(path: string): void {
  if (!existsSync(path)) throw new OperatorError(`${path} does not exist.`)
  if (statSync(path).isDirectory()) {
    throw new OperatorError(`${path} is a directory. Name the files in it instead.`)
  }
}

/** Sends one file. Returns the number of events that were left out because of faults. */
async function importFile(input: CommandInput, path: string, target: Target): Promise<number> {
  checkFile(path)
  const { io } = input
  const isResumed = input.has('resume')
  // A pipe has no note, because nobody can read it again.
  const isRegular = statSync(path).isFile()
  if (isResumed && !isRegular) {
    throw new OperatorError(
      `${path} is not a regular file, so an import of it cannot be resumed. Import it without --resume.`,
    )
  }
  const skip = isResumed ? linesDone(path) : 0
  // The note may come from an import into another daemon, so it is used only with `--resume`.
  if (!isResumed && isRegular) rmSync(path + NOTE_SUFFIX, { force: true })
  const totalBytes = isRegular && !isGzip(path) ? statSync(path).size : null
  let bytes = 0
  const faults = new Faults(input, path)
  // If the writer of a pipe sends nothing, a read waits forever. A failed import must therefore interrupt the read.
  const stop = new AbortController()
  const importer = new Importer(target, isRegular ? path + NOTE_SUFFIX : null, {
    onFault: faults.add,
    onFailure: (error) => stop.abort(error),
    onWait: (text) => io.err(`${path}: ${text}\n`),
  })
  const tellCount = (): void => {
    const left = faults.count === 0 ? '' : `, ${faults.count.toLocaleString('en')} left out`
    io.err(`${path}: ${importer.eventCount.toLocaleString('en')} events sent${left}\n`)
  }
  await withProgress(io, 'import', async (progress) => {
    try {
      const blocks = lineBlocks(path, {
        onBytes: (count) => {
          bytes += count
          progress.update(bytes, totalBytes)
        },
        onLongLine: () => faults.add(importer.lineNumber + 1, LONG_LINE),
        signal: stop.signal,
      })
      const { umamiData } = target
      const lines =
        umamiData === null
          ? blocks
          : umamiLines(blocks, path, umamiData, {
              onFault: faults.add,
              onCut: () => importer.stopCounting(),
            })
      try {
        for await (const block of lines) await importer.takeBlock(block, skip)
      } catch (error) {
        // The events before the damage are sent anyway.
        if (!(error instanceof DamagedFileError)) throw error
        await importer.finish()
        progress.finish()
        tellCount()
        throw error
      }
      await importer.finish()
    } finally {
      importer.close()
    }
  })
  tellCount()
  return faults.count
}

/** Functions that are called while a file is sent. */
interface ImportListeners {
  readonly onFault: FaultListener
  /** Receives the error that ends the import. */
  readonly onFailure: (error: unknown) => void
  /** Receives the reason why the import waits. */
  readonly onWait: (text: string) => void
}

/** Sends the lines of one file to the daemon. One body is filled while the previous one is in flight. */
class Importer {
  eventCount = 0
  /** The file in which the progress is noted. Null if it is not noted. */
  readonly #notePath: string | null
  readonly #sender: BodySender
  readonly #scanner = new Scanner()
  readonly #onFault: FaultListener
  readonly #onFailure: (error: unknown) => void
  #filling: ImportBatch
  #spare: ImportBatch
  /** The number of events that were refused one after the other. An accepted event sets it to 0. */
  #refusals = 0
  #sending: Promise<void> = Promise.resolve()
  #lineNumber = 0
  /** The number of the last line that ends with a newline and counts as imported. A line after it may be incomplete. */
  #wholeLine = 0
  #isCounting = true
  #acceptedLine = 0
  #notedLine = 0
  #notedAtMs = performance.now()

  constructor(
    { url, projectKey, context }: Target,
    note: string | null,
    { onFault, onFailure, onWait }: ImportListeners,
  ) {
    const head = `{"api_key":${JSON.stringify(projectKey)},"historical_migration":true,"batch":[`
    this.#notePath = note
    this.#sender = new BodySender(url, onWait)
    this.#onFault = onFault
    this.#onFailure = onFailure
    this.#filling = new ImportBatch(head, context, onFault)
    this.#spare = new ImportBatch(head, context, onFault)
  }

  /** The number of the last line that was read, starting with 1. It is 0 if no line was read. */
  get lineNumber(): number {
    return this.#lineNumber
  }

  /** Lines that are added after this call do not count as imported when the import is resumed. */
  stopCounting(): void {
    this.#isCounting = false
  }

  /** Adds whole lines, except the first `skip` ones of the file. Rejects with `OperatorError` if a body was refused. */
  async takeBlock(block: Buffer, skip: number): Promise<void> {
    for (let start = 0; start < block.length; ) {
      const newline = block.indexOf(NEWLINE, start)
      const end = newline < 0 ? block.length : newline
      this.#lineNumber++
      if (newline >= 0 && this.#isCounting) this.#wholeLine = this.#lineNumber
      if (this.#lineNumber > skip) {
        this.#filling.takeLine(block, start, end, this.#lineNumber)
        this.#filling.lastLine = this.#wholeLine
        if (this.#filling.isFull) await this.#send()
      }
      start = end + 1
    }
  }

  /** Sends the remaining events, and waits for the answer. */
  async finish(): Promise<void> {
    this.#filling.lastLine = this.#wholeLine
    await this.#send()
    await this.#sending
  }

  /** Writes a note of the progress and ends the work on the file. */
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
    this.#sending = this.#sendAll(batch, body, count).then(() => {
      this.#acceptedLine = lastLine
    })
    // The error is not lost: the next call of `#send` or `finish` rejects with it.
    this.#sending.catch(this.#onFailure)
  }

  /**
   * Sends the events of a body, in several requests if one line contained so many events that the body is too large.
   */
  async #sendAll(batch: ImportBatch, body: Buffer, count: number): Promise<void> {
    for (let from = 0; from < count; ) {
      const to = batch.partEnd(from)
      const part = to - from === count ? body : batch.part(from, to)
      await this.#sendPart(batch, part, from, to)
      from = to
    }
  }

  /**
   * Sends the events of a body from `from` up to, but not including, `to`. If they are refused, each half is sent
   * separately, then each half of a refused half, and so on, until the faulty events are found. The faulty events are
   * reported and left out, and all others are stored.
   */
  async #sendPart(batch: ImportBatch, body: Buffer, from: number, to: number): Promise<void> {
    try {
      await this.#sender.send(body)
    } catch (error) {
      if (!(error instanceof RefusedBodyError)) throw error
      if (to - from === 1) {
        // If too many events in a row are refused, the cause is the daemon or a proxy, and not the events.
        if (++this.#refusals > IMPORT_REFUSALS_IN_A_ROW_MAX) throw error
        this.#onFault(batch.lineOf(from), `the daemon answered ${error.reason}`)
        return
      }
      const middle = from + Math.ceil((to - from) / 2)
      await this.#sendPart(batch, batch.part(from, middle), from, middle)
      await this.#sendPart(batch, batch.part(middle, to), middle, to)
      return
    }
    this.eventCount += to - from
    this.#refusals = 0
  }

  #note(): void {
    if (this.#notePath !== null && this.#acceptedLine > this.#notedLine) {
      writeDurably(this.#notePath, `${this.#acceptedLine}\n`)
    }
    this.#notedLine = this.#acceptedLine
    this.#notedAtMs = performance.now()
  }
}

/** Functions that are called while a file is read. */
interface BlockListeners {
  /**
   * Receives the number of bytes that were read since the last call. Bytes of a compressed file count when they are
   * unpacked.
   */
  readonly onBytes?: (count: number) => void
  /** Called when the next line is too long and is replaced with an empty line. */
  readonly onLongLine: () => void
  /** Ends the reading of a pipe. The iteration then rejects with the reason. */
  readonly signal?: AbortSignal
}

/**
 * Yields a file in blocks of whole lines. Each block ends with a newline, except perhaps the last one, and its memory
 * is reused for later blocks. Unpacks gzip, and skips the byte order mark. A line that is too long is replaced with an
 * empty line. Rejects with `OperatorError` for a file that does not contain lines, and with `DamagedFileError`.
 */
async function* lineBlocks(
  path: string,
  { onBytes, onLongLine, signal }: BlockListeners,
): AsyncGenerator<Buffer> {
  /** The parts of a line whose end has not been read yet. */
  let begun: Buffer[] = []
  let begunBytes = 0
  let isFirst = true
  let damage: DamagedFileError | null = null
  try {
    for await (const read of contentOf(path, signal)) {
      onBytes?.(read.length)
      let chunk = read
      if (isFirst) {
        refuseOtherFile(path, read)
        if (read.subarray(0, MARK.length).equals(MARK)) chunk = read.subarray(MARK.length)
        isFirst = false
      }
      const end = chunk.lastIndexOf(NEWLINE) + 1
      let start = 0
      if (end > 0 && begunBytes > 0) {
        start = chunk.indexOf(NEWLINE) + 1
        const isLong = begunBytes + start > LINE_BYTES_MAX
        if (isLong) onLongLine()
        yield isLong ? LINE_END : Buffer.concat([...begun, chunk.subarray(0, start)])
        begun = []
        begunBytes = 0
      }
      if (end > start) yield chunk.subarray(start, end)
      begunBytes += chunk.length - end
      if (begunBytes > LINE_BYTES_MAX) begun = []
      else if (end < chunk.length) begun.push(Buffer.from(chunk.subarray(end)))
    }
  } catch (error) {
    if (!(error instanceof DamagedFileError && error.isBetweenMembers)) throw error
    damage = error
  }
  if (begunBytes > LINE_BYTES_MAX) onLongLine()
  else if (begunBytes > 0) yield Buffer.concat(begun)
  if (damage !== null) throw damage
}

/** Throws `OperatorError` if the first bytes of a file show that it does not contain lines of text. */
function refuseOtherFile(path: string, beginning: Buffer): void {
  const hex = beginning.toString('hex', 0, 8)
  for (const [bytes, what] of OTHER_FILES) {
    if (hex.startsWith(bytes)) throw new OperatorError(`${path} ${what}`)
  }
  const order = UTF16_LITTLE_ENDIAN.test(hex) ? 'LE' : UTF16_BIG_ENDIAN.test(hex) ? 'BE' : null
  if (order !== null) {
    throw new OperatorError(
      `${path} is encoded in UTF-16. Convert it with 'iconv -f UTF-16${order} -t UTF-8'.`,
    )
  }
  if (beginning.toString('latin1', TAR_OFFSET, TAR_OFFSET + TAR.length) === TAR) {
    throw new OperatorError(`${path} is a tar archive. Unpack it, and import the files in it.`)
  }
  const text = beginning
    .toString('utf8', 0, BEGINNING_BYTES)
    .replace(/^\ufeff/, '')
    .trimStart()
  if (text.startsWith('[')) {
    throw new OperatorError(
      `${path} is a single JSON array. Convert it to one object per line, for example with 'jq -c ".[]"'.`,
    )
  }
  if (/^\{\s*\n/.test(text)) {
    throw new OperatorError(
      `${path} has JSON objects that span several lines. Convert it to one object per line, for example with 'jq -c .'.`,
    )
  }
}

/** Returns whether a regular file is compressed with gzip, whatever its name is. */
function isGzip(path: string): boolean {
  const file = openSync(path, 'r')
  try {
    const beginning = Buffer.alloc(2)
    readSync(file, beginning, 0, 2, 0)
    return beginning.toString('hex') === GZIP_MAGIC
  } finally {
    closeSync(file)
  }
}

/**
 * Yields a file in chunks, unpacked if it is compressed. It is opened once and read in one go, because a pipe cannot be
 * read again. The memory of a chunk is reused for later chunks. The first chunk has at least `BEGINNING_BYTES`, unless
 * the file is shorter.
 */
async function* contentOf(path: string, signal?: AbortSignal): AsyncGenerator<Buffer> {
  const pipe = statSync(path).isFIFO() ? await openPipe(path) : null
  signal?.addEventListener('abort', () => pipe?.destroy(signal.reason as Error))
  const chunks = withBeginning(pipe === null ? chunksOf(path) : chunksOfPipe(pipe))
  try {
    const first = await chunks.next()
    if (first.done === true) {
      if (!/\.gz$/i.test(path)) return
      throw new DamagedFileError(`${path} is empty, so it is not a gzip file. Fetch it again.`)
    }
    if (first.value.toString('hex', 0, 2) === GZIP_MAGIC) {
      yield* withBeginning(unpackGzip(path, first.value, chunks))
      return
    }
    yield first.value
    yield* chunks
  } finally {
    // If the writer of a pipe sends nothing, `return` waits for the pending read. Closing the pipe ends that read.
    pipe?.destroy()
    await chunks.return(undefined)
  }
}

/**
 * Yields the same bytes, but joins the first chunks until they have `BEGINNING_BYTES`, because a read of a pipe may
 * return a single byte.
 */
async function* withBeginning(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let begun: Buffer | null = Buffer.alloc(0)
  try {
    for await (const chunk of chunks) {
      if (begun === null) {
        yield chunk
        continue
      }
      begun = Buffer.concat([begun, chunk])
      if (begun.length < BEGINNING_BYTES) continue
      yield begun
      begun = null
    }
  } catch (error) {
    // The bytes that were read before the damage still belong to the file.
    if (begun !== null && begun.length > 0) yield begun
    throw error
  }
  if (begun !== null && begun.length > 0) yield begun
}

/**
 * Opens a pipe as a socket, because a socket can be closed while it waits for data. `FileHandle.close` would wait for
 * the writer.
 */
async function openPipe(path: string): Promise<Socket> {
  const pipe = new Socket({ fd: await promisify(openFile)(path, 'r'), readable: true })
  // An error is not lost: the iteration rejects with it.
  pipe.on('error', () => undefined)
  return pipe
}

async function* chunksOfPipe(pipe: Socket): AsyncGenerator<Buffer> {
  for await (const chunk of pipe) if (Buffer.isBuffer(chunk)) yield chunk
}

/**
 * Yields a file in chunks. Two buffers are used in turn, because new buffers for each chunk would cause most of the
 * garbage of an import.
 */
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
      // The error is not lost: the next iteration rejects with it.
      reading.catch(() => undefined)
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

function linesDone(path: string): number {
  const note = path + NOTE_SUFFIX
  if (!existsSync(note)) return 0
  const lines = Number(readFileSync(note, 'utf8'))
  if (Number.isSafeInteger(lines) && lines >= 0) return lines
  throw new OperatorError(
    `${note} should contain the number of lines that are imported already, but it contains something else. Remove it to import the file from the beginning.`,
  )
}
