/** An event, or a block of the log, that could not be processed, and how it is listed. The store keeps them. */
import { RECORD_IP_ANONYMIZED } from '../capture/log-block.ts'
import type { FateSample } from './ingestion-fates.ts'
import { LETTER_BODY_BYTES_MAX } from './limits.ts'

/** What else the log knew about an event. */
export interface DeadLetterOrigin {
  /** RECORD_* bits of the record. */
  readonly flags: number
  readonly arrivedAtMs: number
  /** NaN when the client gave no send time. */
  readonly sentAtMs: number
  /** '' where the project stores no addresses. */
  readonly address: string
  /** 16 bytes; null when the client gave none. */
  readonly uuid: Uint8Array | null
}

/** How many letters there are. */
export interface DeadLetterCounts {
  readonly count: number
  readonly bytes: number
  /** Given up for the limits since the last call. */
  readonly forgotten: number
}

/** An event, or a whole block, that could not be processed. */
export interface DeadLetter {
  /** 0 when the project is not known. */
  readonly projectId: number
  /** Where it failed: `read` or `process`. */
  readonly step: string
  /** What was thrown. */
  readonly reason: string
  /** What was accepted. */
  readonly raw: Uint8Array
  readonly origin?: DeadLetterOrigin
}

/** A dead letter as it was stored. */
export interface StoredDeadLetter extends Omit<DeadLetter, 'origin'> {
  readonly number: number
  readonly storedAtMs: number
  /** Null for blocks, commands, and letters of old versions. */
  readonly origin: DeadLetterOrigin | null
}

/** A dead letter as it is listed. */
export interface DeadLetterView {
  readonly number: number
  /** ISO 8601, UTC. */
  readonly stored_at: string
  /** Null: not known. */
  readonly project: number | null
  readonly step: string
  readonly reason: string
  readonly bytes: number
  /** The beginning of what was accepted; null for blocks, and where the project stores no addresses. */
  readonly body: string | null
}

/** How a letter is listed. */
export function letterView(letter: StoredDeadLetter): DeadLetterView {
  const { number, storedAtMs, projectId, step, reason, raw } = letter
  // As it was sent an event may tell an address.
  const isPrivate = ((letter.origin?.flags ?? 0) & RECORD_IP_ANONYMIZED) !== 0
  const start = raw.subarray(0, LETTER_BODY_BYTES_MAX)
  const isCut = start.length < raw.length
  return {
    number,
    stored_at: new Date(storedAtMs).toISOString(),
    project: projectId === 0 ? null : projectId,
    step,
    reason,
    bytes: raw.length,
    body: step === 'read' || isPrivate ? null : new TextDecoder().decode(start, { stream: isCut }),
  }
}

/** The same among samples of a reason. */
export function letterSample(letter: StoredDeadLetter): FateSample {
  const { stored_at: at, reason: detail, body } = letterView(letter)
  const known = { at, distinct_id: null, event: null, uuid: null, detail }
  return body === null ? known : { ...known, body }
}
