/**
 * Finds the outline of a large body. The root is the JSON value of the whole body. The elements are the events in it:
 * the entries of a root array, or of `batch` in a root object. The outline is the start and the end of each element.
 * This module walks over the bytes and builds no objects. The size and the key of a body can therefore be checked
 * before anything is parsed, and its elements can be parsed one at a time.
 *
 * The outline does not decide whether the body is JSON. The body is JSON if and only if the root without its elements
 * is JSON and each element is JSON. JSON.parse decides that for each of them.
 */
import { ServiceError } from '../../base/errors.ts'
import { BODY_EVENTS_MAX, EVENT_VALUES_MAX, JSON_DEPTH_MAX } from '../../base/limits.ts'
import { asBuffer } from './form.ts'
import { notJson, stringEnd, tooDeep, tooManyValues } from './json-text.ts'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const BATCH = 'batch'
/** The length in bytes of `"batch"` if each letter is written as an escape such as `\u0062`. */
const BATCH_BYTES_MAX = 32
const FIRST_RANGES = 1024

/** The positions of the parts of a body. */
export interface BodyOutline {
  /**
   * The JSON of the root. If the root is an object, its arrays `batch` are empty in this JSON. If the root is an array,
   * this JSON contains only the first element.
   */
  readonly root: Uint8Array
  /**
   * True if the root is an array or has a `batch`, so that the elements are the events. Otherwise the root is the only
   * event.
   */
  readonly hasElements: boolean
  /**
   * The number of elements. If a body has several members `batch`, the last one counts. The elements before
   * `elementsFrom` belong to an earlier member and are not events.
   */
  readonly elementCount: number
  readonly elementsFrom: number
  /** Returns the JSON of one element. */
  element(index: number): Uint8Array
}

/**
 * Returns the outline of a text in valid UTF-8, or null if the text does not begin with `{` or `[`. The cost is linear,
 * and each element takes 8 bytes of memory.
 *
 * Throws ServiceError `request_too_large` if there are more than BODY_EVENTS_MAX elements, or more than
 * EVENT_VALUES_MAX values in one element or in the root. Throws `invalid_payload` if the text is nested too deeply or
 * cannot be JSON.
 */
export function outlineOf(json: Uint8Array): BodyOutline | null {
  const walk = new OutlineWalk(asBuffer(json))
  return walk.run() ? walk : null
}

class OutlineWalk implements BodyOutline {
  root: Uint8Array
  hasElements = false
  elementCount = 0
  elementsFrom = 0
  readonly #bytes: Buffer
  /** The start and the end of each element, one pair after the other, as offsets in `#bytes`. */
  #ranges = new Uint32Array(2 * FIRST_RANGES)
  /** The number of values counted so far in the root or in the current element, whichever is being read. */
  #values = 0
  /** The bytes of the root without its elements, copied so far. Null as long as nothing was left out. */
  #rootCopy: Buffer | null = null
  #rootBytes = 0
  #copiedTo = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.root = bytes
  }

  element(index: number): Uint8Array {
    return this.#bytes.subarray(this.#ranges[2 * index], this.#ranges[2 * index + 1])
  }

  run(): boolean {
    const start = this.#skipSpace(0)
    const first = this.#bytes[start]
    if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return false
    let end: number
    if (first === OPEN_ARRAY) {
      this.hasElements = true
      end = this.#takeElements(start + 1, 1) + 1
      const only = this.elementCount === 0 ? '' : this.element(0)
      this.root = Buffer.concat([Buffer.from('['), Buffer.from(only), Buffer.from(']')])
    } else {
      end = this.#takeMembers(start + 1) + 1
      this.#closeRoot()
    }
    if (this.#skipSpace(end) !== this.#bytes.length) throw notJson()
    return true
  }

  /**
   * Reads the members of the root object. The first member may begin at `start`. Returns the position where the object
   * closes.
   */
  #takeMembers(start: number): number {
    const bytes = this.#bytes
    let position = this.#skipSpace(start)
    if (bytes[position] === CLOSE_OBJECT) return position
    while (true) {
      if (bytes[position] !== QUOTE) throw notJson()
      const keyEnd = stringEnd(bytes, position + 1) + 1
      const isBatch = isBatchKey(bytes.subarray(position, keyEnd))
      position = this.#skipSpace(keyEnd)
      if (bytes[position] !== COLON) throw notJson()
      position = this.#skipSpace(position + 1)
      if (isBatch) {
        this.hasElements = true
        this.elementsFrom = this.elementCount
      }
      if (isBatch && bytes[position] === OPEN_ARRAY) {
        const rootValues = this.#values
        const end = this.#takeElements(position + 1, 2)
        this.#values = rootValues
        this.#cut(position + 1, end)
        position = end + 1
      }
      position = this.#valueEnd(position, 1)
      this.#count()
      if (bytes[position] === CLOSE_OBJECT) return position
      if (bytes[position] !== COMMA) throw notJson()
      position = this.#skipSpace(position + 1)
    }
  }

  /**
   * Reads the elements of an array. The first element may begin at `start`. Returns the position where the array
   * closes.
   */
  #takeElements(start: number, depth: number): number {
    const bytes = this.#bytes
    let position = this.#skipSpace(start)
    if (bytes[position] === CLOSE_ARRAY) return position
    while (true) {
      this.#values = 0
      const end = this.#valueEnd(position, depth)
      if (end === position) throw notJson()
      this.#addRange(position, end)
      if (bytes[end] === CLOSE_ARRAY) return end
      if (bytes[end] !== COMMA) throw notJson()
      position = this.#skipSpace(end + 1)
    }
  }

  /**
   * Returns the offset of the byte that follows the value at `start`: a comma, a closing bracket, or the end of the
   * text.
   */
  #valueEnd(start: number, depth: number): number {
    const bytes = this.#bytes
    let open = depth
    for (let position = start; position < bytes.length; position++) {
      const byte = bytes[position] ?? 0
      if (byte === QUOTE) {
        position = stringEnd(bytes, position + 1)
      } else if (byte === COMMA) {
        if (open === depth) return position
        this.#count()
      } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        if (++open > JSON_DEPTH_MAX) throw tooDeep()
        this.#count()
      } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        if (open-- === depth) return position
      }
    }
    return bytes.length
  }

  #count(): void {
    if (++this.#values > EVENT_VALUES_MAX) {
      throw tooManyValues(EVENT_VALUES_MAX, 'values in one event')
    }
  }

  #addRange(start: number, end: number): void {
    if (this.elementCount === BODY_EVENTS_MAX) {
      throw new ServiceError(
        'request_too_large',
        `The request holds more than ${BODY_EVENTS_MAX} events. Send fewer in one request.`,
      )
    }
    const place = 2 * this.elementCount++
    if (place === this.#ranges.length) {
      const larger = new Uint32Array(2 * place)
      larger.set(this.#ranges)
      this.#ranges = larger
    }
    this.#ranges[place] = start
    this.#ranges[place + 1] = end
  }

  /** Leaves the bytes from `start` to `end` out of the root. */
  #cut(start: number, end: number): void {
    if (start === end) return
    this.#rootCopy ??= Buffer.allocUnsafe(this.#bytes.length)
    this.#rootBytes += this.#bytes.copy(this.#rootCopy, this.#rootBytes, this.#copiedTo, start)
    this.#copiedTo = end
  }

  #closeRoot(): void {
    if (this.#rootCopy === null) return
    const end = this.#bytes.copy(this.#rootCopy, this.#rootBytes, this.#copiedTo)
    this.root = this.#rootCopy.subarray(0, this.#rootBytes + end)
  }

  #skipSpace(start: number): number {
    let position = start
    while (isSpace(this.#bytes[position])) position++
    return position
  }
}

/** Returns whether a key, given with its quotes, is `batch`. The key may contain escapes. */
function isBatchKey(key: Buffer): boolean {
  if (key.length === BATCH.length + 2) return key.toString('latin1', 1, BATCH.length + 1) === BATCH
  if (key.length > BATCH_BYTES_MAX || !key.includes(BACKSLASH)) return false
  try {
    return JSON.parse(key.toString()) === BATCH
  } catch {
    return false
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}
