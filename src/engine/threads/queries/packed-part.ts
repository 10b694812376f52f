/**
 * What a thread found in its part of a query, as it crosses threads. Small data is copied; rows of bits, which are
 * most of it where a query asks who came when, change hands with their memory: copies of megabytes, two on either
 * side, made V8 collect garbage with each query.
 */
import { DefaultDeserializer, DefaultSerializer } from 'node:v8'
import { isFreshRow } from '../../../rules/queries/person-bits.ts'

/** A part as plain data. */
export interface PackedPart {
  /** All but the rows. */
  readonly text: Uint8Array<ArrayBuffer>
  /** Each in memory of its own. */
  readonly rows: readonly Uint32Array<ArrayBuffer>[]
}

const COPIED = 0
const HANDED_OVER = 1

/** Packs what was found, which is not to be looked at any more. Throws for what is no plain data. */
export function packPart(found: unknown): PackedPart {
  const writer = new PartWriter()
  writer.writeHeader()
  writer.writeValue(found)
  return { text: writer.releaseBuffer(), rows: writer.rows }
}

/** What was found; the rows are those that were packed. */
export function unpackPart({ text, rows }: PackedPart): unknown {
  const reader = new PartReader(text)
  reader.rows = rows
  reader.readHeader()
  return reader.readValue()
}

/** The memory that changes hands. */
export function memoryOfPart({ text, rows }: PackedPart): readonly ArrayBuffer[] {
  return [text.buffer, ...rows.map(({ buffer }) => buffer)]
}

class PartWriter extends DefaultSerializer {
  readonly rows: Uint32Array<ArrayBuffer>[] = []

  _writeHostObject(view: NodeJS.ArrayBufferView): void {
    const isOver = isFreshRow(view)
    this.writeUint32(isOver ? HANDED_OVER : COPIED)
    if (isOver) {
      this.writeUint32(this.rows.length)
      this.rows.push(view)
    } else WRITER._writeHostObject.call(this, view)
  }
}

class PartReader extends DefaultDeserializer {
  rows: PackedPart['rows'] = []

  _readHostObject(): unknown {
    if (this.readUint32() === COPIED) return READER._readHostObject.call(this)
    return this.rows[this.readUint32()]
  }
}

// Node documents what they do; its types leave them out.
const WRITER = DefaultSerializer.prototype as unknown as {
  _writeHostObject(view: NodeJS.ArrayBufferView): void
}
const READER = DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown }
