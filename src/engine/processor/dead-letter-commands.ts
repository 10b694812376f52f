/**
 * Carries out commands about dead letters, on the processing thread. One transaction removes a letter and stores its
 * events, so that a crash neither loses nor duplicates anything.
 */
import { createHash } from 'node:crypto'
import { parseUuid } from '../../base/ids.ts'
import { isObject } from '../../base/json.ts'
import {
  eventUuidOffset,
  hasClientUuid,
  LogBlockWriter,
  type LogRecord,
  ParsedEvents,
  RECORD_IP_ANONYMIZED,
  readBlock,
  seal,
} from '../../rules/capture/log-block.ts'
import type { DeadLetterOrigin, StoredDeadLetter } from '../../rules/events/dead-letter.ts'
import type { DeadLetterCommand, DeadLetterOutcome } from '../../rules/events/dead-letters.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import { COMMAND_LETTER_BYTES_MAX, COMMAND_LETTERS_MAX } from './limits.ts'

/** Carries out one command. `process` processes the records of a dead letter as if they had been read from the log. */
export function runDeadLetterCommand(
  letters: ProcessingWriter['deadLetters'],
  command: DeadLetterCommand,
  process: (record: LogRecord) => void,
): DeadLetterOutcome {
  const { newest } = letters
  let [done, failed, skipped, last, bytes, seen] = [0, 0, 0, command.after, 0, 0]
  for (const letter of [...letters.some(command.after, command.through, COMMAND_LETTERS_MAX + 1)]) {
    if (seen === COMMAND_LETTERS_MAX || bytes > COMMAND_LETTER_BYTES_MAX) {
      return { done, failed, skipped, last, newest, hasMore: true }
    }
    seen++
    last = letter.number
    bytes += letter.raw.length
    if (command.kind === 'drop_dead_letters') {
      letters.remove(letter.number)
      done++
    } else if (letter.step === 'command') skipped++
    else {
      const records = recordsOf(letter)
      const addedBefore = letters.added
      for (const record of records ?? []) process(record)
      if (records !== null) letters.remove(letter.number)
      if (records !== null && letters.added === addedBefore) done++
      else failed++
    }
  }
  return { done, failed, skipped, last, newest, hasMore: false }
}

/**
 * Returns the data about the request of an event that the dead letter stores. With this data, a replay can process the
 * event as if it had just been read from the log.
 */
export function originOf(record: LogRecord, index: number): DeadLetterOrigin {
  const { flags, arrivedAtMs, sentAtMs, address } = record
  const uuidOffset = eventUuidOffset(record, index)
  const hasUuid = hasClientUuid(record, index)
  return {
    flags,
    arrivedAtMs,
    sentAtMs,
    address: (flags & RECORD_IP_ANONYMIZED) === 0 ? address : '',
    uuid: hasUuid ? record.bytes.subarray(uuidOffset, uuidOffset + 16) : null,
  }
}

/** Returns the log records of a letter, or null if they cannot be read. */
function recordsOf(letter: StoredDeadLetter): readonly LogRecord[] | null {
  try {
    return letter.step === 'read' ? readBlock(Buffer.from(letter.raw)) : recordsOfEvent(letter)
  } catch {
    return null
  }
}

/** Returns the log records of a letter that contains a single event. */
function recordsOfEvent(letter: StoredDeadLetter): readonly LogRecord[] {
  const { projectId, storedAtMs, raw, origin } = letter
  const text = Buffer.from(raw).toString()
  const uuid = origin === null ? uuidIn(text) : origin.uuid
  const block = new LogBlockWriter(Buffer.allocUnsafeSlow(raw.length + 1024))
  const { flags, arrivedAtMs, sentAtMs, address } = origin ?? {
    flags: 0,
    arrivedAtMs: storedAtMs,
    sentAtMs: Number.NaN,
    address: '',
  }
  block.add({ projectId, flags, arrivedAtMs, sentAtMs, address }, new ParsedEvents([text], [uuid]))
  const bytes = block.finish()
  seal(bytes)
  const records = readBlock(bytes)
  for (const record of records) {
    if (uuid === null) bytes.set(uuidFor(letter, arrivedAtMs), eventUuidOffset(record, 0))
  }
  return records
}

/** Returns a uuid of version 7 that is derived from the letter, so that every replay gives the event the same uuid. */
function uuidFor({ number, raw }: StoredDeadLetter, timeMs: number): Uint8Array {
  const bytes = createHash('sha256').update(`${number} `).update(raw).digest().subarray(0, 16)
  bytes.writeUIntBE(timeMs, 0, 6)
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  return bytes
}

/**
 * Returns the uuid in the JSON of an event, or null. It is needed for letters of old versions, which store no uuid of
 * their own.
 */
function uuidIn(text: string): Uint8Array | null {
  const event: unknown = JSON.parse(text)
  const uuid = isObject(event) ? event['uuid'] : null
  return typeof uuid === 'string' ? parseUuid(uuid) : null
}
