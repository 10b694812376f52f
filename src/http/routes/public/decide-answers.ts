/**
 * Decisions as JSON, in the shape of every version. What is said of a flag stands in its decision, as
 * bytes: an answer costs a copy for each flag.
 * Source: interface description, sections 2.8 and 9; docs/compatibility/decisions.md, "Flag answers".
 */
import { randomUUID } from 'node:crypto'
import type { Decisions, FlagDecision } from '../../../rules/flags/types.ts'

/** The shapes: `/decide/` of four versions, `/flags/` of two. */
export type AnswerShape =
  | 'decide1'
  | 'decide2'
  | 'decide3'
  | 'decide4'
  | 'flags1'
  | 'flags2'
  /** GET on `/decide/`: what old and new clients look for, empty. */
  | 'decideEmpty'

/** What an answer is made of. */
export interface AnswerParts {
  readonly shape: AnswerShape
  readonly decisions: Decisions
  readonly nowMs: number
  /** What it begins with: the configuration (see `decisionOpening`), or null for none. */
  readonly opening: Uint8Array | null
  /** A daily limit of the project is reached: its events are not stored. Its flags are decided all the same. */
  readonly isLimited?: boolean
}

const MEMORY_BYTES = 64 * 1024
const COMMA = 0x2c
const OPENING = Buffer.from('{')
/** What an answer has beside its flags and the configuration, generously. */
const FRAME_BYTES = 1024
/** What its end has: two names, a uuid and a time. */
const END_ROOM_BYTES = 128
const UUID_BYTES = 36
const END_FRAME_BYTES = ',"requestId":"","evaluatedAt":}'.length + UUID_BYTES

/** Where answers are put together; grows to the largest one. */
let memory = Buffer.allocUnsafeSlow(MEMORY_BYTES)
let length = 0

/**
 * The bytes of an answer, in memory that the next call uses again. Linear in the number of flags: each of
 * them is copied from the bytes of its outcome.
 */
export function answerBytes({ shape, decisions, nowMs, opening, isLimited }: AnswerParts): Buffer {
  length = 0
  putBytes(opening ?? OPENING)
  putMembers(shape, decisions)
  if (isLimited === true) putAscii(',"quotaLimited":["events"]')
  putAscii(endOf(nowMs))
  return memory.subarray(0, length)
}

/** An answer that may be given again, in one piece. */
export interface KeptAnswer extends Pick<AnswerParts, 'shape' | 'opening'> {
  /** How many bytes had been kept before it. */
  readonly start: number
  /** Of what is the same each time. */
  readonly byteLength: number
}

/**
 * Answers that are given again, of which only the end is written anew. They lie in a ring: the newest takes the
 * place of the oldest. Memory of its own for each would cost more than putting it together does.
 */
export class KeptAnswers {
  readonly #memory: Buffer
  /** Bytes that were given out so far, or passed over at the end of the memory. */
  #given = 0

  /** `bytes`: of all answers. */
  constructor(bytes: number) {
    this.#memory = Buffer.allocUnsafeSlow(bytes)
  }

  /** Keeps an answer that was made of the parts; null: it is too long. */
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
   * The bytes of the same answer, given now, until something is kept or given again; null: others have its place,
   * or it has another form.
   */
  again(kept: KeptAnswer, { shape, opening, nowMs }: AnswerParts): Buffer | null {
    const size = this.#memory.length
    if (this.#given - kept.start > size) return null
    if (shape !== kept.shape || opening !== kept.opening) return null
    const start = kept.start % size
    const end = start + kept.byteLength
    return this.#memory.subarray(start, end + this.#memory.write(endOf(nowMs), end, 'latin1'))
  }
}

/** What is another in each answer. */
function endOf(nowMs: number): string {
  return `,"requestId":"${randomUUID()}","evaluatedAt":${nowMs}}`
}

function endBytes(nowMs: number): number {
  return END_FRAME_BYTES + String(nowMs).length
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
      // SDKs read the first name; the API description has the second.
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

/** A flag that could not be computed is left out: false would switch it off for its users. */
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

/** Behind the first member of the object that began at `start` comes a comma. */
function putMember(bytes: Uint8Array, start: number): void {
  if (length > start) memory[length++] = COMMA
  putBytes(bytes)
}

function putBytes(bytes: Uint8Array): void {
  // Leaves room for the comma of the next member.
  ensure(bytes.length + 1)
  memory.set(bytes, length)
  length += bytes.length
}

/** A short text of ASCII characters: for those a loop is faster than a call of the library. */
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
