/**
 * The requests of a machine to the holders of a partition, and their answers. Both are plain data. An answer that does
 * not fit into one message is sent in parts. Pure, except for the memory that decoding allocates.
 *
 *   answer   kind u8 | for a part: its index u32, bytes; for the end: number of parts before it u32, bytes;
 *            for a refusal: JSON
 */
import { DefaultDeserializer, serialize } from 'node:v8'
import type { ErrorBody } from '../base/errors.ts'
import type { WantedFacts } from '../engine/front/decisions.ts'
import type { CallOptions } from '../ports/task-runner.ts'

/**
 * The subjects for requests to the holders of a partition, and the name of the group that the holders form. The brokers
 * give each request to one member of the group.
 */
export const HOLDERS = {
  of: (partition: number) => `tenrec.holders.${partition}`,
  group: 'holders',
}
/**
 * The subject on which a request is canceled. The body of the message is the subject to which the answer would have
 * been sent.
 */
export const LEAVERS = 'tenrec.leavers'
/**
 * The subjects on which a holder reports that cohorts or group types of projects have changed. The body of the message
 * is a JSON list of the project numbers.
 */
export const DEFINITIONS = {
  of: (partition: number) => `tenrec.definitions.${partition}`,
  ofAll: 'tenrec.definitions.*',
}

/** What is asked: a thread call, facts for a flag decision, definitions, or the outcome of a command. */
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

/** A request to a holder. The holder answers only after it has reached the state given by `after` and `control`. */
export interface Question {
  readonly asked: Asked
  /** The number of the block that the holder must have processed before it answers. */
  readonly after: number
  /** The number of the catalogue change that the holder must have applied before it answers. */
  readonly control: number
}

/** An answer, and the number of the newest catalogue change on the machine that answered. */
export interface Answer {
  readonly result: unknown
  readonly control: number
}

/** One message on the way from a holder to the machine that asks. */
export type Frame =
  /** Shows that the holder is still working on the request. */
  | { readonly kind: 'working' }
  | { readonly kind: 'part'; readonly index: number; readonly bytes: Uint8Array }
  /** The last part of an answer. `index` is the number of parts before it. */
  | { readonly kind: 'end'; readonly index: number; readonly bytes: Uint8Array }
  | {
      readonly kind: 'refused'
      readonly body: ErrorBody
      readonly retryAfterSeconds: number | null
    }
  /** The holder has not reached the requested state in time. Another holder can be asked. */
  | { readonly kind: 'behind' }

const KINDS = ['working', 'part', 'end', 'refused', 'behind'] as const
const HEAD_BYTES = 5

/** Encodes a question or an answer. Throws if it contains something that cannot be copied, such as a function. */
export function encodeData(value: Question | Answer): Buffer {
  return serialize(value)
}

/**
 * Decodes what `encodeData` has encoded. Typed arrays in the result have their own memory. Throws if the input is
 * invalid.
 */
export function decodeData(bytes: Uint8Array): unknown {
  const reader = new OwnMemory(bytes)
  reader.readHeader()
  return reader.readValue()
}

/**
 * Gives each typed array its own memory. By default, typed arrays would be views of the input, whose memory is reused.
 */
class OwnMemory extends DefaultDeserializer {
  _readHostObject(): unknown {
    const parent = DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown }
    const view = parent._readHostObject.call(this)
    if (view instanceof DataView) {
      const { buffer, byteOffset, byteLength } = view
      return new DataView(buffer.slice(byteOffset, byteOffset + byteLength))
    }
    // The cast is right: all typed arrays share the method `slice`, which returns an array of the same type.
    return ArrayBuffer.isView(view) ? Uint8Array.prototype.slice.call(view as Uint8Array) : view
  }
}

/** Encodes one frame as the body of a message. */
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

/** Decodes a frame. Throws if it is invalid. */
export function decodeFrame(data: Buffer): Frame {
  const kind = KINDS[data[0] ?? KINDS.length]
  if (kind === undefined) throw new RangeError('not an answer of a machine that holds events')
  if (kind === 'working' || kind === 'behind') return { kind }
  if (kind !== 'refused') {
    return { kind, index: data.readUInt32LE(1), bytes: data.subarray(HEAD_BYTES) }
  }
  // The cast is right: `encodeFrame` wrote the message.
  return { kind, ...(JSON.parse(data.toString('utf8', 1)) as Omit<RefusedFrame, 'kind'>) }
}

type RefusedFrame = Extract<Frame, { kind: 'refused' }>

/** Yields an answer as frames. Each frame contains at most `partBytes` bytes of the answer. */
export function* framesOf(answer: Uint8Array, partBytes: number): Generator<Buffer> {
  const last = Math.max(0, Math.ceil(answer.length / partBytes) - 1)
  for (let index = 0; index <= last; index++) {
    const bytes = answer.subarray(index * partBytes, (index + 1) * partBytes)
    yield encodeFrame({ kind: index === last ? 'end' : 'part', index, bytes })
  }
}
