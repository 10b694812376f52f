/**
 * What a thread found in its part of a query, as it crosses threads. Small data is copied; lists of numbers in memory
 * of their own, which are most of it where a query asks who came when, change hands with it: copies of megabytes, two
 * on either side, made V8 collect garbage with each query.
 */
import { DefaultDeserializer, DefaultSerializer } from 'node:v8'
import { isInOwnMemory } from '../../../rules/analytics/growing-arrays.ts'

/** A part as plain data. */
export interface PackedPart {
  /** All but the lists. */
  readonly text: Uint8Array<ArrayBuffer>
  /** Each in memory of its own. */
  readonly lists: readonly NodeJS.TypedArray<ArrayBuffer>[]
}

const COPIED = 0
const HANDED_OVER = 1

/** Packs what was found, which is not to be looked at any more. Throws for what is no plain data. */
export function packPart(found: unknown): PackedPart {
  const writer = new PartWriter()
  writer.writeHeader()
  writer.writeValue(found)
  return { text: writer.releaseBuffer(), lists: writer.lists }
}

/** What was found; the lists are those that were packed. */
export function unpackPart({ text, lists }: PackedPart): unknown {
  const reader = new PartReader(text)
  reader.lists = lists
  reader.readHeader()
  return reader.readValue()
}

/** The memory that changes hands. */
export function memoryOfPart({ text, lists }: PackedPart): readonly ArrayBuffer[] {
  return [text.buffer, ...lists.map(({ buffer }) => buffer)]
}

class PartWriter extends DefaultSerializer {
  readonly lists: NodeJS.TypedArray<ArrayBuffer>[] = []

  _writeHostObject(view: NodeJS.ArrayBufferView): void {
    const isOver = isInOwnMemory(view)
    this.writeUint32(isOver ? HANDED_OVER : COPIED)
    if (isOver) {
      this.writeUint32(this.lists.length)
      // Nothing else is said to be in memory of its own.
      this.lists.push(view as NodeJS.TypedArray<ArrayBuffer>)
    } else WRITER._writeHostObject.call(this, view)
  }
}

class PartReader extends DefaultDeserializer {
  lists: PackedPart['lists'] = []

  _readHostObject(): unknown {
    if (this.readUint32() === COPIED) return READER._readHostObject.call(this)
    return this.lists[this.readUint32()]
  }
}

// Node documents what they do; its types leave them out.
const WRITER = DefaultSerializer.prototype as unknown as {
  _writeHostObject(view: NodeJS.ArrayBufferView): void
}
const READER = DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown }
