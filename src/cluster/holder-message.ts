/**
 * What a machine that does not hold a partition asks one that does, and what comes back: plain data, in parts where it is more
 * than a message holds. Pure but for the memory that it makes.
 *
 *   answer   kind u8 | of a part: its index u32, bytes; of the end: parts before it u32, bytes; of a refusal: JSON
 */
import { DefaultDeserializer, serialize } from 'node:v8'
import type { ErrorBody } from '../base/errors.ts'
import type { WantedFacts } from '../engine/front/decisions.ts'
import type { CallOptions } from '../ports/task-runner.ts'

/** Where machines that hold a partition are asked; one of the group gets each question. */
export const HOLDERS = {
  of: (partition: number) => `tenrec.holders.${partition}`,
  group: 'holders',
}
/** Who does not wait any more says so here: the place of its answer. */
export const LEAVERS = 'tenrec.leavers'
/** Projects of a partition whose cohorts or group types have changed, as JSON. */
export const DEFINITIONS = {
  of: (partition: number) => `tenrec.definitions.${partition}`,
  ofAll: 'tenrec.definitions.*',
}

/** What is asked. */
export type Asked =
  | {
      readonly ask: 'call'
      readonly name: string
      readonly values: readonly unknown[]
      readonly options: Pick<CallOptions, 'format' | 'weight'>
    }
  | { readonly ask: 'facts'; readonly wanted: WantedFacts }
  | { readonly ask: 'definitions'; readonly projects: readonly number[] }
  | { readonly ask: 'outcome'; readonly uuid: string }

/** A question, with what the answer must not be older than. */
export interface Question {
  readonly asked: Asked
  /** A block of the shared log. */
  readonly after: number
  /** A change of the catalogue. */
  readonly control: number
}

/** An answer, with the newest change of the catalogue that whoever gave it has. */
export interface Answer {
  readonly result: unknown
  readonly control: number
}

/** What comes back, before it is put together. */
export type Frame =
  /** Somebody works on it. */
  | { readonly kind: 'working' }
  | { readonly kind: 'part'; readonly index: number; readonly bytes: Uint8Array }
  /** Behind so many parts. */
  | { readonly kind: 'end'; readonly index: number; readonly bytes: Uint8Array }
  | {
      readonly kind: 'refused'
      readonly body: ErrorBody
      readonly retryAfterSeconds: number | null
    }
  /** Who was asked is not as far as it is asked for. */
  | { readonly kind: 'behind' }

const KINDS = ['working', 'part', 'end', 'refused', 'behind'] as const
const HEAD_BYTES = 5

/** Plain data as bytes. Throws for what cannot be copied. */
export function encodeData(value: Question | Answer): Buffer {
  return serialize(value)
}

/** Plain data of bytes; bytes in it are in memory of their own. Throws for what is none. */
export function decodeData(bytes: Uint8Array): unknown {
  const reader = new OwnMemory(bytes)
  reader.readHeader()
  return reader.readValue()
}

/** Without it bytes in what is read are parts of what it is read from, which others keep. */
class OwnMemory extends DefaultDeserializer {
  _readHostObject(): unknown {
    const parent = DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown }
    const view = parent._readHostObject.call(this)
    return view instanceof Uint8Array ? Uint8Array.prototype.slice.call(view) : view
  }
}

/** A frame as a message. */
export function encodeFrame(frame: Frame): Buffer {
  const kind = KINDS.indexOf(frame.kind)
  if (frame.kind === 'refused') {
    const { body, retryAfterSeconds } = frame
    return Buffer.concat([
      Buffer.of(kind),
      Buffer.from(JSON.stringify({ body, retryAfterSeconds })),
    ])
  }
  if (!('bytes' in frame)) return Buffer.of(kind)
  const head = Buffer.alloc(HEAD_BYTES)
  head[0] = kind
  head.writeUInt32LE(frame.index, 1)
  return Buffer.concat([head, frame.bytes])
}

/** Reads a frame. Throws for what is none. */
export function decodeFrame(data: Buffer): Frame {
  const kind = KINDS[data[0] ?? KINDS.length]
  if (kind === undefined) throw new RangeError('not an answer of a machine that holds events')
  if (kind === 'working' || kind === 'behind') return { kind }
  if (kind !== 'refused') {
    return { kind, index: data.readUInt32LE(1), bytes: data.subarray(HEAD_BYTES) }
  }
  // Written by `encodeFrame`.
  return { kind, ...(JSON.parse(data.toString('utf8', 1)) as Omit<RefusedFrame, 'kind'>) }
}

type RefusedFrame = Extract<Frame, { kind: 'refused' }>

/** An answer as frames, each of at most `partBytes` and its head. */
export function* framesOf(answer: Uint8Array, partBytes: number): Generator<Buffer> {
  const last = Math.max(0, Math.ceil(answer.length / partBytes) - 1)
  for (let index = 0; index <= last; index++) {
    const bytes = answer.subarray(index * partBytes, (index + 1) * partBytes)
    yield encodeFrame({ kind: index === last ? 'end' : 'part', index, bytes })
  }
}
