/**
 * A body for `/batch/` that is filled line by line. Lines that `tenrec export` wrote are copied unchanged, and each is
 * checked to be one well-formed event before the body is sent. All other lines are parsed.
 */
import { isUtf8 } from 'node:buffer'
import { JsonBytes } from '../../base/json-bytes.ts'
import { isTimestampUsable } from '../../rules/capture/event-time.ts'
import { type ImportContext, readImportLine } from '../../rules/capture/import-line.ts'
import { findOwnLine, type OwnLine } from '../../rules/capture/own-line.ts'
import { type Scanner, TABLE_ENTRY_BYTES } from '../../rules/capture/scanner/scanner.ts'
import { usualMomentAt } from '../../rules/capture/timestamp.ts'
import { IMPORT_BATCH_BYTES_MAX, IMPORT_BATCH_EVENTS_MAX } from '../limits.ts'

const COMMA = 0x2c
const CARRIAGE_RETURN = 0x0d
const OBJECT_START = 0x7b
const LENGTH_MASK = 0x7fffffff
const TAIL = Buffer.from(']}')
const CHAIN = Buffer.from('"$elements_chain":')
const CLOSING_BRACES = 2
/** Length of `YYYY-MM-DDThh:mm:ss.sssZ` and the quote after it. */
const QUOTED_TIME_BYTES = 25
const MARK = Buffer.from('\ufeff')
const DOLLAR = 0x24
const BACKSLASH = 0x5c
const SPACE = 0x20
const LAST_VISIBLE = 0x7e
const ID_KEY = Buffer.from('","distinct_id":"')
/** The offset of the name in the head of an exported line, which begins with `"uuid":"`, the UUID and `","event":"`. */
const NAME_OFFSET = '"uuid":"","event":"'.length + 36
/**
 * The largest head of a line that may be copied, in bytes. In such a head, neither the name nor the ID can exceed the
 * lengths that the daemon stores. A line with a longer head is parsed.
 */
const COPIED_HEAD_BYTES = 300
/** The names of events that the daemon never stores. */
const NEVER_STORED = bytesOf([
  '$snapshot"',
  '$snapshot_items"',
  '$performance_event"',
  '$$heatmap"',
  '$$client_ingestion_warning"',
])
/** The names of events that the daemon drops if they have one of the properties in `PERSONLESS`. */
const PERSON_EVENTS = bytesOf([
  '$identify"',
  '$create_alias"',
  '$merge_dangerously"',
  '$groupidentify"',
])
const PERSONLESS = bytesOf(['"$process_person_profile"', '"$cookieless_mode"'])

/** The events of a body, as parallel arrays. An object for each event would be most of the garbage of an import. */
class BatchItems {
  /** The offset in the body at which each event starts. `ends` contains the offset after each event. */
  readonly starts: number[] = []
  readonly ends: number[] = []
  readonly lineNumbers: number[] = []
  /** For each event, whether its line was copied instead of parsed. */
  readonly areCopies: boolean[] = []

  get count(): number {
    return this.starts.length
  }

  add(start: number, end: number, lineNumber: number, isCopy: boolean): void {
    this.starts.push(start)
    this.ends.push(end)
    this.lineNumbers.push(lineNumber)
    this.areCopies.push(isCopy)
  }

  clear(): void {
    for (const list of [this.starts, this.ends, this.lineNumbers, this.areCopies]) list.length = 0
  }
}

/** The reason for leaving out a line or record that is not in UTF-8. */
export const NOT_UTF8 = 'it is not in UTF-8; convert the file'

/** Receives the number of a line that is left out, and the reason. */
export type FaultListener = (lineNumber: number, fault: string) => void

/** The body of a request, which is filled with events, sent, and filled again. */
export class ImportBatch {
  /** Number of the last line that is completely in the body. */
  lastLine = 0
  readonly #head: string
  readonly #context: ImportContext
  readonly #onFault: FaultListener
  #json = new JsonBytes()
  #items = new BatchItems()
  readonly #found: OwnLine = { headStart: 0, headEnd: 0, chainStart: 0, chainEnd: 0, tailStart: 0 }

  /** `head` is the text at the beginning of the body, before the events. */
  constructor(head: string, context: ImportContext, onFault: FaultListener) {
    this.#head = head
    this.#context = context
    this.#onFault = onFault
    this.clear()
  }

  /** The number of events in the body. */
  get count(): number {
    return this.#items.count
  }

  get isFull(): boolean {
    return this.count >= IMPORT_BATCH_EVENTS_MAX || this.#json.length >= IMPORT_BATCH_BYTES_MAX
  }

  /** Removes the events and keeps the memory. */
  clear(): void {
    this.#items.clear()
    this.#json.length = 0
    this.#json.writeText(this.#head)
  }

  /**
   * Adds the events of a line; the range does not include its newline. The memory of `block` may be reused after the
   * call.
   */
  takeLine(block: Buffer, start: number, lineEnd: number, lineNumber: number): void {
    const end = block[lineEnd - 1] === CARRIAGE_RETURN ? lineEnd - 1 : lineEnd
    // Files that were joined to one can have a byte order mark at the start of any line.
    const isMarked = block[start] === MARK[0] && isAt(block, start, MARK)
    const textStart = isMarked ? start + MARK.length : start
    const isOwn = findOwnLine(block, textStart, end, this.#found)
    if (isOwn && this.#mayBeCopied(block, textStart, end)) {
      this.#copyLine(block, end, lineNumber)
    } else if (end > textStart) {
      this.#parseLine(block.subarray(textStart, end), lineNumber)
    }
  }

  /** Returns the number of the line from which an event comes. */
  lineOf(event: number): number {
    return this.#items.lineNumbers[event] ?? 0
  }

  /**
   * Splits a body that is larger than a full one, because a single line contained a whole page of events. Returns the
   * index after the last event of the part that begins with the event `from`. The part is about as large as a full
   * body.
   */
  partEnd(from: number): number {
    const { starts } = this.#items
    const latest = (starts[from] ?? 0) + IMPORT_BATCH_BYTES_MAX
    let to = from + 1
    while (to < this.count && to - from < IMPORT_BATCH_EVENTS_MAX && (starts[to] ?? 0) < latest)
      to++
    return to
  }

  /** Returns a smaller body with the events `from` to `to - 1` of the body that `prove` returned. */
  part(from: number, to: number): Buffer {
    const { starts, ends } = this.#items
    const events = this.#json.bytes.subarray(starts[from], ends[to - 1])
    return Buffer.concat([Buffer.from(this.#head), events, TAIL])
  }

  /**
   * Returns the finished body, which is valid until the next `clear`. `scanner` checks that each copied line is one
   * well-formed event. A copied line that fails this check is parsed instead.
   */
  prove(scanner: Scanner): Buffer {
    this.#json.writeBytes(TAIL, 0, TAIL.length)
    const body = this.#json.bytes.subarray(0, this.#json.length)
    if (!this.#items.areCopies.includes(true) || this.#isRegular(body, scanner)) return body
    return this.#withoutIrregular(scanner)
  }

  /** Returns whether a line may be copied: the daemon would store its event without a change. */
  #mayBeCopied(block: Buffer, start: number, end: number): boolean {
    const { nowMs, propertiesBytesMax } = this.#context
    if (propertiesBytesMax > 0 && end - start > propertiesBytesMax) return false
    const { headStart, headEnd } = this.#found
    // An export contains no event that the daemon drops or shortens, but a line may have been edited.
    if (headEnd - headStart > COPIED_HEAD_BYTES) return false
    if (mayBeDropped(block, headStart + NAME_OFFSET, end)) return false
    const timeMs = usualMomentAt(block, headEnd - QUOTED_TIME_BYTES)
    return isTimestampUsable(timeMs, nowMs)
  }

  #copyLine(block: Buffer, end: number, lineNumber: number): void {
    const json = this.#json
    const { headStart, headEnd, chainStart, chainEnd, tailStart } = this.#found
    const itemStart = this.#beginItem()
    json.writeByte(OBJECT_START)
    json.writeBytes(block, headStart, headEnd)
    if (chainEnd === 0) json.writeBytes(block, tailStart, end)
    else {
      json.writeBytes(block, tailStart, end - CLOSING_BRACES)
      if (json.bytes[json.length - 1] !== OBJECT_START) json.writeByte(COMMA)
      json.writeBytes(CHAIN, 0, CHAIN.length)
      json.writeBytes(block, chainStart, chainEnd)
      json.writeBytes(block, end - CLOSING_BRACES, end)
    }
    this.#items.add(itemStart, json.length, lineNumber, true)
  }

  #parseLine(line: Buffer, lineNumber: number): void {
    if (!isUtf8(line)) {
      this.#onFault(lineNumber, NOT_UTF8)
      return
    }
    const { events, faults } = readImportLine(line, lineNumber, this.#context)
    for (const fault of faults) this.#onFault(lineNumber, fault)
    for (const event of events) {
      const start = this.#beginItem()
      this.#json.writeText(event)
      this.#items.add(start, this.#json.length, lineNumber, false)
    }
  }

  #beginItem(): number {
    if (this.count > 0) this.#json.writeByte(COMMA)
    return this.#json.length
  }

  #isRegular(body: Buffer, scanner: Scanner): boolean {
    const { count, starts, ends } = this.#items
    if (!isUtf8(body) || !scanner.scan(body) || scanner.eventCount !== count) return false
    const table = Buffer.allocUnsafe(count * TABLE_ENTRY_BYTES)
    scanner.copyTable(table, 0)
    return starts.every((start, index) => {
      const entry = index * TABLE_ENTRY_BYTES
      const length = table.readUInt32LE(entry + 4) & LENGTH_MASK
      return table.readUInt32LE(entry) === start && length === (ends[index] ?? 0) - start
    })
  }

  /** Builds the body again. Parses the copied lines that are not one well-formed event each. */
  #withoutIrregular(scanner: Scanner): Buffer {
    const old = this.#json
    const { starts, ends, lineNumbers, areCopies } = this.#items
    const single = new ImportBatch(this.#head, this.#context, this.#onFault)
    this.#json = new JsonBytes(old.bytes.length)
    this.#items = new BatchItems()
    this.clear()
    for (const [index, start] of starts.entries()) {
      const end = ends[index] ?? start
      const lineNumber = lineNumbers[index] ?? 0
      const isCopy = areCopies[index] === true
      if (isCopy && !single.#isRegularAlone(old.bytes, start, end, scanner)) {
        this.#parseLine(old.bytes.subarray(start, end), lineNumber)
        continue
      }
      this.#copyItem(old.bytes, start, end, lineNumber, isCopy)
    }
    this.#json.writeBytes(TAIL, 0, TAIL.length)
    return this.#json.bytes.subarray(0, this.#json.length)
  }

  #isRegularAlone(bytes: Buffer, start: number, end: number, scanner: Scanner): boolean {
    this.clear()
    this.#copyItem(bytes, start, end, 0, true)
    this.#json.writeBytes(TAIL, 0, TAIL.length)
    return this.#isRegular(this.#json.bytes.subarray(0, this.#json.length), scanner)
  }

  #copyItem(bytes: Buffer, start: number, end: number, lineNumber: number, isCopy: boolean): void {
    const itemStart = this.#beginItem()
    this.#json.writeBytes(bytes, start, end)
    this.#items.add(itemStart, this.#json.length, lineNumber, isCopy)
  }
}

/**
 * Returns whether the daemon may drop the event of an exported line because of its name or ID. The name begins at
 * `nameStart`, and the line ends before `end`.
 */
function mayBeDropped(block: Buffer, nameStart: number, end: number): boolean {
  if (block[nameStart] === DOLLAR) {
    const isNamed = (name: Buffer): boolean => isAt(block, nameStart, name)
    if (NEVER_STORED.some(isNamed)) return true
    if (PERSON_EVENTS.some(isNamed)) {
      const rest = block.subarray(nameStart, end)
      if (PERSONLESS.some((key) => rest.includes(key))) return true
    }
  }
  const first = block[block.indexOf(ID_KEY, nameStart) + ID_KEY.length] ?? 0
  return first <= SPACE || first > LAST_VISIBLE || first === BACKSLASH
}

function isAt(bytes: Buffer, start: number, expected: Buffer): boolean {
  return expected.every((byte, index) => bytes[start + index] === byte)
}

function bytesOf(texts: readonly string[]): readonly Buffer[] {
  return texts.map((text) => Buffer.from(text))
}
