/**
 * Writes decisions as JSON, in the form of each protocol version. A decision already contains the JSON of its flag as
 * bytes, so the JSON of each flag is only copied to the answer. Source: interface description, sections 2.8 and 9;
 * docs/compatibility/decisions.md, "Flag answers".
 */
import { UUID_CHARACTERS, writeUuidV4Text } from '../../../base/ids.ts'
import type { Decisions, FlagDecision } from '../../../rules/flags/types.ts'

/** The forms of answers: four versions of `/decide/`, two of `/flags/`, and the answer to a GET. */
export type AnswerShape =
  | 'decide1'
  | 'decide2'
  | 'decide3'
  | 'decide4'
  | 'flags1'
  | 'flags2'
  /** The answer to a GET of `/decide/`. It has the members that old and new clients read, without flags. */
  | 'decideEmpty'

/** The contents of an answer. */
export interface AnswerParts {
  readonly shape: AnswerShape
  readonly decisions: Decisions
  readonly nowMs: number
  /**
   * The bytes with which the answer begins: the configuration (see `decisionOpening`), or null for no configuration.
   */
  readonly opening: Uint8Array | null
  /**
   * True if a daily limit of the project is reached, so that its events are not stored. Its flags are decided all the
   * same.
   */
  readonly isLimited?: boolean
}

const MEMORY_BYTES = 64 * 1024
const COMMA = 0x2c
const OPENING = Buffer.from('{')
/** The assumed length of an answer in bytes, without its flags and configuration. The real length is always smaller. */
const FRAME_BYTES = 1024
/** The number of bytes that are reserved for the end of an answer: two names, a UUID and a time. */
const END_ROOM_BYTES = 128
const REQUEST_ID = Buffer.from(',"requestId":"')

/** The memory in which answers are built. It grows to the size of the largest answer. */
let memory = Buffer.allocUnsafeSlow(MEMORY_BYTES)
let length = 0

/**
 * Returns the bytes of an answer. They are valid until the next call, which uses the same memory. The time is linear in
 * the number of flags, because the bytes of each flag are copied.
 */
export function answerBytes({ shape, decisions, nowMs, opening, isLimited }: AnswerParts): Buffer {
  length = 0
  putBytes(opening ?? OPENING)
  putMembers(shape, decisions)
  if (isLimited === true) putAscii(',"quotaLimited":["events"]')
  ensure(END_ROOM_BYTES)
  length = putEnd(memory, length, nowMs)
  return memory.subarray(0, length)
}

/** The position of an answer in the cache. The answer occupies consecutive bytes. */
export interface KeptAnswer extends Pick<AnswerParts, 'shape' | 'opening'> {
  /**
   * The position at which the answer begins, in the sequence of all bytes that the cache has ever written or skipped.
   * The offset in the ring buffer is this position modulo the size of the buffer.
   */
  readonly start: number
  /** The number of bytes before the end that `putEnd` writes. They are the same each time the answer is sent. */
  readonly byteLength: number
}

/**
 * A cache of answers that are sent repeatedly. When an answer is sent again, only its end (the request ID and the time)
 * is written anew. The answers are in a ring buffer, in which the newest answer overwrites the oldest ones. Separate
 * memory for each answer would cost more than building the answer again.
 */
export class KeptAnswers {
  readonly #memory: Buffer
  /**
   * How many bytes the cache has written or skipped since its creation. Bytes are skipped where an answer would not fit
   * before the end of the buffer.
   */
  #given = 0

  /** Creates a cache that uses `bytes` bytes of memory. */
  constructor(bytes: number) {
    this.#memory = Buffer.allocUnsafeSlow(bytes)
  }

  /**
   * Caches an answer that was built from these parts. Returns null if the answer does not fit into the memory of the
   * cache.
   */
  keep({ shape, opening, nowMs }: AnswerParts, bytes: Uint8Array): KeptAnswer | null {
    const room = bytes.length + END_ROOM_BYTES
    const size = this.#memory.length
    if (room > size) return null
    const place = this.#given % size
    if (place + room > size) this.#given += size - place
    const start = this.#given
    this.#given += room
    this.#memory.set(bytes, start % size)
    return { shape, opening, start, byteLength: bytes.length - endBytes(nowMs) }
  }

  /**
   * Returns the bytes of a cached answer with a new end. They are valid until the next call of `keep` or `again`.
   * Returns null if the answer was overwritten, or if the request needs another form or configuration.
   */
  again(kept: KeptAnswer, { shape, opening, nowMs }: AnswerParts): Buffer | null {
    const size = this.#memory.length
    if (this.#given - kept.start > size) return null
    if (shape !== kept.shape || opening !== kept.opening) return null
    const start = kept.start % size
    const end = start + kept.byteLength
    return this.#memory.subarray(start, putEnd(this.#memory, end, nowMs))
  }
}

let timeMs = Number.NaN
let time = Buffer.alloc(0)

/**
 * Writes the end of an answer, which is different each time, to `target` at `start`. Returns the offset after it. It is
 * written byte by byte, because that takes a third of the time of building a text first.
 */
function putEnd(target: Uint8Array, start: number, nowMs: number): number {
  let position = start
  for (let index = 0; index < REQUEST_ID.length; index++)
    target[position++] = REQUEST_ID[index] ?? 0
  writeUuidV4Text(target, position)
  position += UUID_CHARACTERS
  const rest = timeOf(nowMs)
  for (let index = 0; index < rest.length; index++) target[position++] = rest[index] ?? 0
  return position
}

/** Returns the bytes that follow the request ID at the end of an answer. They are built once for each millisecond. */
function timeOf(nowMs: number): Buffer {
  if (nowMs !== timeMs) {
    time = Buffer.from(`","evaluatedAt":${nowMs}}`)
    timeMs = nowMs
  }
  return time
}

function endBytes(nowMs: number): number {
  return REQUEST_ID.length + UUID_CHARACTERS + timeOf(nowMs).length
}

function putMembers(shape: AnswerShape, { decisions, hasErrors }: Decisions): void {
  const error = `"errorsWhileComputingFlags":${hasErrors}`
  switch (shape) {
    case 'decide1':
      putBytes(Buffer.from(`"featureFlags":[${keysOn(decisions)}]`))
      break
    case 'decide2':
      putAscii('"featureFlags":{')
      putValues(decisions, true)
      putAscii('}')
      break
    case 'decide3':
    case 'flags1':
      putAscii('"featureFlags":{')
      putValues(decisions, false)
      putAscii('},"featureFlagPayloads":{')
      putPayloads(decisions)
      // SDKs read `errorsWhileComputingFlags`, and the API description has `errorComputingFlags`. Both have the same
      // value.
      putAscii(`},${error},"errorComputingFlags":${hasErrors}`)
      break
    case 'decide4':
    case 'flags2':
      putAscii('"flags":{')
      putDetails(decisions)
      putAscii(`},${error}`)
      break
    case 'decideEmpty':
      putAscii(`"featureFlags":{},"flags":{},${error}`)
      break
  }
}

function putDetails(decisions: readonly FlagDecision[]): void {
  const start = length
  for (const decision of decisions) putMember(decision.bytes.detail, start)
}

/**
 * Writes the values of flags. A flag that could not be computed is left out, because the value false would switch it
 * off for its users.
 */
function putValues(decisions: readonly FlagDecision[], areOnlyThoseOn: boolean): void {
  const start = length
  for (const decision of decisions) {
    if (decision.isFailed || (areOnlyThoseOn && !decision.isEnabled)) continue
    putMember(decision.bytes.value, start)
  }
}

function putPayloads(decisions: readonly FlagDecision[]): void {
  const start = length
  for (const decision of decisions) {
    const { payload } = decision.bytes
    if (payload.length > 0) putMember(payload, start)
  }
}

/** Appends a member to the object that began at `start`. A comma precedes every member except the first. */
function putMember(bytes: Uint8Array, start: number): void {
  if (length > start) memory[length++] = COMMA
  putBytes(bytes)
}

function putBytes(bytes: Uint8Array): void {
  // The additional byte is for the comma before the next member.
  ensure(bytes.length + 1)
  memory.set(bytes, length)
  length += bytes.length
}

/** Writes a short ASCII text. For short texts, a loop is faster than a call of a library. */
function putAscii(text: string): void {
  ensure(text.length)
  for (let index = 0; index < text.length; index++) memory[length + index] = text.charCodeAt(index)
  length += text.length
}

function ensure(bytes: number): void {
  if (length + bytes + FRAME_BYTES <= memory.length) return
  const larger = Buffer.allocUnsafeSlow((length + bytes + FRAME_BYTES) * 2)
  larger.set(memory.subarray(0, length))
  memory = larger
}

function keysOn(decisions: readonly FlagDecision[]): string {
  return decisions
    .filter((decision) => decision.isEnabled && !decision.isFailed)
    .map(({ flag }) => JSON.stringify(flag.key))
    .join(',')
}
