/**
 * The result of a query part, packed so that it can be sent between threads. Small data is copied. Typed arrays that
 * have a buffer of their own are moved. If a query needs the times of each person's events, these arrays are most of
 * the data. Copying these megabytes, twice on each side, would cause a garbage collection in each query.
 */
import { DefaultDeserializer, DefaultSerializer } from 'node:v8'
import { isInOwnMemory } from '../../../rules/analytics/growing-arrays.ts'

/** A packed result, as plain data. */
export interface PackedPart {
  /** Everything except the typed arrays, serialized. */
  readonly text: Uint8Array<ArrayBuffer>
  /** The typed arrays, each with its own buffer. */
  readonly lists: readonly NodeJS.TypedArray<ArrayBuffer>[]
}

const COPIED = 0
const HANDED_OVER = 1

/** Packs a result. The caller must not use the result afterward. Throws if it is not plain data. */
export function packPart(found: unknown): PackedPart {
  const writer = new PartWriter()
  writer.writeHeader()
  writer.writeValue(found)
  return { text: writer.releaseBuffer(), lists: writer.lists }
}

/** Returns the result from its packed form. The typed arrays are not copied. */
export function unpackPart({ text, lists }: PackedPart): unknown {
  const reader = new PartReader(text)
  reader.lists = lists
  reader.readHeader()
  return reader.readValue()
}

/** Returns the buffers of a packed result, which move to the receiving thread without being copied. */
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
      // The cast is safe, because `isInOwnMemory` is true only for typed arrays with a buffer of their own.
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

// The cast adds methods that Node documents, but that its types do not declare.
const WRITER = DefaultSerializer.prototype as unknown as {
  _writeHostObject(view: NodeJS.ArrayBufferView): void
}
const READER = DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown }
