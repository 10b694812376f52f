/**
 * A body for `/batch/` that is filled line by line. Lines of our own export are copied as they are, and
 * proved to be one well-formed event each before the body is sent; all others are parsed.
 */
import { isUtf8 } from 'node:buffer'
import { JsonBytes } from '../../base/json-bytes.ts'
import { readImportLine } from '../../rules/capture/import-line.ts'
import { findOwnLine, type OwnLine } from '../../rules/capture/own-line.ts'
import { type Scanner, TABLE_ENTRY_BYTES } from '../../rules/capture/scanner/scanner.ts'
import { IMPORT_BATCH_BYTES_MAX, IMPORT_BATCH_EVENTS_MAX } from '../limits.ts'

const COMMA = 0x2c
const CARRIAGE_RETURN = 0x0d
const OBJECT_START = 0x7b
const LENGTH_MASK = 0x7fffffff
const TAIL = Buffer.from(']}')
const CHAIN = Buffer.from('"$elements_chain":')
const CLOSING_BRACES = 2

/** An event of a body, and what it was made from. */
interface BatchItem {
  start: number
  end: number
  /** The line, if it was copied and not parsed. */
  readonly line: Buffer | null
  readonly lineNumber: number
}

/** Told of what is left out. */
export type FaultListener = (lineNumber: number, fault: string) => void

/** One body; filled, sent, and then filled again. */
export class ImportBatch {
  /** Number of the last line that is in it as a whole. */
  lastLine = 0
  readonly #head: string
  readonly #onFault: FaultListener
  #json = new JsonBytes()
  #items: BatchItem[] = []
  readonly #found: OwnLine = { headStart: 0, headEnd: 0, chainStart: 0, chainEnd: 0, tailStart: 0 }

  /** `head`: what stands in front of the events. */
  constructor(head: string, onFault: FaultListener) {
    this.#head = head
    this.#onFault = onFault
    this.clear()
  }

  /** Events in it. */
  get count(): number {
    return this.#items.length
  }

  get isFull(): boolean {
    return (
      this.#items.length >= IMPORT_BATCH_EVENTS_MAX || this.#json.length >= IMPORT_BATCH_BYTES_MAX
    )
  }

  /** Forgets the events; the memory stays. */
  clear(): void {
    this.#items = []
    this.#json.length = 0
    this.#json.writeText(this.#head)
  }

  /**
   * Takes the events of a line (without its newline). Bytes of `block` must stay as they are until the
   * body was proved.
   */
  takeLine(block: Buffer, start: number, lineEnd: number, lineNumber: number): void {
    const end = block[lineEnd - 1] === CARRIAGE_RETURN ? lineEnd - 1 : lineEnd
    if (findOwnLine(block, start, end, this.#found)) {
      this.#copyLine(block, start, end, lineNumber)
    } else if (end > start) {
      this.#parseLine(block.toString('utf8', start, end), lineNumber)
    }
  }

  /**
   * The finished body; valid until the next `clear`. Whatever was copied is one well-formed event for
   * the scanner, or was parsed.
   */
  prove(scanner: Scanner): Buffer {
    this.#json.writeBytes(TAIL, 0, TAIL.length)
    const body = this.#json.bytes.subarray(0, this.#json.length)
    if (this.#items.every(({ line }) => line === null) || this.#isRegular(body, scanner))
      return body
    return this.#withoutIrregular(scanner)
  }

  #copyLine(block: Buffer, start: number, end: number, lineNumber: number): void {
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
    const line = block.subarray(start, end)
    this.#items.push({ start: itemStart, end: json.length, line, lineNumber })
  }

  #parseLine(text: string, lineNumber: number): void {
    const { events, faults } = readImportLine(text, lineNumber)
    for (const fault of faults) this.#onFault(lineNumber, fault)
    for (const event of events) {
      const start = this.#beginItem()
      this.#json.writeText(JSON.stringify(event))
      this.#items.push({ start, end: this.#json.length, line: null, lineNumber })
    }
  }

  #beginItem(): number {
    if (this.#items.length > 0) this.#json.writeByte(COMMA)
    return this.#json.length
  }

  #isRegular(body: Buffer, scanner: Scanner): boolean {
    const items = this.#items
    if (!isUtf8(body) || !scanner.scan(body) || scanner.eventCount !== items.length) return false
    const table = Buffer.allocUnsafe(items.length * TABLE_ENTRY_BYTES)
    scanner.copyTable(table, 0)
    return items.every(({ start, end }, index) => {
      const entry = index * TABLE_ENTRY_BYTES
      const length = table.readUInt32LE(entry + 4) & LENGTH_MASK
      return table.readUInt32LE(entry) === start && length === end - start
    })
  }

  /** The body made anew: what is irregular on its own is parsed. */
  #withoutIrregular(scanner: Scanner): Buffer {
    const old = this.#json
    const items = this.#items
    const single = new ImportBatch(this.#head, this.#onFault)
    this.#json = new JsonBytes(old.bytes.length)
    this.clear()
    for (const { start, end, line, lineNumber } of items) {
      if (line !== null) {
        single.clear()
        single.takeLine(line, 0, line.length, lineNumber)
        single.#json.writeBytes(TAIL, 0, TAIL.length)
        if (!single.#isRegular(single.#json.bytes.subarray(0, single.#json.length), scanner)) {
          this.#parseLine(line.toString('utf8'), lineNumber)
          continue
        }
      }
      const itemStart = this.#beginItem()
      this.#json.writeBytes(old.bytes, start, end)
      this.#items.push({ start: itemStart, end: this.#json.length, line, lineNumber })
    }
    this.#json.writeBytes(TAIL, 0, TAIL.length)
    return this.#json.bytes.subarray(0, this.#json.length)
  }
}
