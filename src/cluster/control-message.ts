/**
 * A message in the stream of the catalogue: a write set, a part of a whole catalogue, or the end of a whole catalogue.
 * Pure. All numbers are little-endian.
 *
 *   magic u32 "TNC1" | kind u32 | id, 16 bytes | number f64 | through f64 | parts u32 | 0 u32 | content
 *
 *   kind  1 write set      id: of the request that waits for it; number: of the set; content: the set
 *         2 part           id: of the whole catalogue; number: index of the part, from 0; content: a set
 *         3 whole          id; number: of the newest set in it; through: the sequence number of that set in this
 *                          incarnation of the stream, 0 if it was written in another one; parts: their number
 */
import { randomBytes } from 'node:crypto'

const MAGIC = 0x31434e54
const HEAD_BYTES = 48
const KINDS = ['set', 'part', 'whole'] as const

/** A message of the stream of the catalogue, decoded. The top of this file explains its members. */
export interface ControlMessage {
  readonly kind: (typeof KINDS)[number]
  /** The id of the message, as 32 hex digits. */
  readonly id: string
  readonly number: number
  readonly through: number
  readonly parts: number
  readonly content: Uint8Array
}

const EMPTY = new Uint8Array()

/** Returns an id that no other message has. */
export function newId(): string {
  return randomBytes(16).toString('hex')
}

/** Encodes a message. Absent fields are 0. */
export function encodeControl(
  message: Pick<ControlMessage, 'kind' | 'id' | 'number'> & Partial<ControlMessage>,
): Buffer {
  const { kind, id, number, through = 0, parts = 0, content = EMPTY } = message
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32LE(MAGIC, 0)
  head.writeUInt32LE(KINDS.indexOf(kind) + 1, 4)
  head.write(id, 8, 'hex')
  head.writeDoubleLE(number, 24)
  head.writeDoubleLE(through, 32)
  head.writeUInt32LE(parts, 40)
  return Buffer.concat([head, content])
}

/** Decodes a message. Throws RangeError if it is not one. */
export function readControl(data: Buffer): ControlMessage {
  const isControl = data.length >= HEAD_BYTES && data.readUInt32LE(0) === MAGIC
  const kind = isControl ? KINDS[data.readUInt32LE(4) - 1] : undefined
  if (kind === undefined) throw new RangeError('a message of the catalogue lacks its mark')
  return {
    kind,
    id: data.toString('hex', 8, 24),
    content: data.subarray(HEAD_BYTES),
    number: data.readDoubleLE(24),
    through: data.readDoubleLE(32),
    parts: data.readUInt32LE(40),
  }
}

/** Collects the parts of whole catalogues, as they arrive from the stream, until a catalogue is complete. */
export class GatheredParts {
  readonly #parts = new Map<string, Uint8Array[]>()

  /** Stores one part in memory. */
  add({ id, number, content }: ControlMessage): void {
    const parts = this.#parts.get(id) ?? []
    parts[number] = content
    this.#parts.set(id, parts)
  }

  /**
   * Returns the parts of a whole catalogue, or null if some are missing. Then forgets all parts that were collected so
   * far, also those of other catalogues.
   */
  take({ id, parts: count }: ControlMessage): readonly Uint8Array[] | null {
    const parts = this.#parts.get(id) ?? []
    this.#parts.clear()
    const isComplete = parts.length === count && !parts.includes(undefined as never)
    return isComplete ? parts : null
  }
}
