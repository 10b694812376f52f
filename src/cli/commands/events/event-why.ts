/**
 * `tenrec event why`: what became of an accepted event, from all that the data directory still knows of
 * it: the events, the log, the dead letters, the dropped events and the warnings.
 */
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import type { JsonObject } from '../../../base/json.ts'
import type { DropReason } from '../../../rules/capture/drop-reasons.ts'
import { eventUuidOffset, readBlock } from '../../../rules/capture/log-block.ts'
import type { WarningView } from '../../../rules/events/event-queries.ts'
import { openEvents, openStore } from '../../../store/open-store.ts'
import type { EventReader } from '../../../store/warehouse/read/event-reader.ts'
import { type CommandInput, type Commands, JSON_OPTION, PROJECT_OPTION } from '../../lib/command.ts'
import { isoTime, print } from '../../lib/output.ts'
import { WARNINGS_READ_MAX } from '../../limits.ts'
import { keptAfterMs } from './event-dropped.ts'

/** Warnings about events that were not stored, and the reason that they stand for. */
const DROPPING_WARNINGS: ReadonlyMap<string, DropReason> = new Map([
  ['message_size_too_large', 'properties_too_large'],
  ['invalid_event_when_process_person_profile_is_false', 'personless_person_event'],
  ['client_ingestion_warning', 'client_ingestion_warning'],
])

/** `tenrec event why`. */
export const COMMANDS: Commands = [
  {
    name: 'event why',
    sentence: 'Tell what became of an event: stored, waiting, skipped or a dead letter.',
    operands: ['UUID'],
    options: { ...PROJECT_OPTION, ...JSON_OPTION },
    async run(input) {
      const { operand, projectId } = input
      const uuid = parseUuid(operand)
      if (uuid === null) throw new UsageError(`${JSON.stringify(operand)} is not a UUID`)
      // The log first: what is processed meanwhile is then found among the events.
      const sequence = await findInLog(input, uuid)
      const found = await openEvents(input.dataDir, (reader) =>
        fateIn(reader, projectId, uuid, sequence),
      )
      print(input.io, { uuid: formatUuid(uuid, 0), ...found }, input.isJson)
      return found['fate'] === 'unknown' ? 1 : 0
    },
  },
]

function fateIn(
  reader: EventReader,
  projectId: number,
  uuid: Uint8Array,
  sequence: number | null,
): JsonObject {
  const text = formatUuid(uuid, 0)
  const event = reader.getEvent(projectId, text)
  const warnings = reader
    .listWarnings(projectId, WARNINGS_READ_MAX)
    .filter(({ details }) => Object.hasOwn(details, 'uuid') && details['uuid'] === text)
  const warned = warnings.length === 0 ? {} : { warnings: warnings.map(({ type }) => type) }
  if (event !== null) {
    const { id, event: name, distinct_id, timestamp, created_at, person_id } = event
    const because = 'it is stored; further copies of it are skipped as duplicates'
    const stored = { id, event: name, distinct_id, timestamp, created_at, person_id }
    return { fate: 'stored', because, ...stored, ...warned }
  }
  if (sequence !== null && sequence > reader.statistics().position) {
    return { fate: 'waiting', because: 'it is in the log and not processed yet', block: sequence }
  }
  return (
    deadLetterIn(reader, projectId, uuid) ??
    droppedIn(reader, projectId, text) ??
    skippedBy(warnings, sequence !== null)
  )
}

/** The number of the newest block of the log that holds the event; null when none does. */
function findInLog({ dataDir, projectId }: CommandInput, uuid: Uint8Array): Promise<number | null> {
  return openStore({ dataDir, environments: ['log'], isWriting: false }, ({ log }) => {
    const extent = log.extent()
    if (extent === null) return null
    let found: number | null = null
    for (let sequence = extent.first; sequence <= extent.last; sequence++) {
      const block = log.block(sequence)
      if (block !== undefined && hasEvent(block, projectId, uuid)) found = sequence
    }
    return found
  })
}

/** False for a damaged block: it becomes a dead letter, and there it is found. */
function hasEvent(block: Buffer, projectId: number, uuid: Uint8Array): boolean {
  if (block.indexOf(uuid) < 0) return false
  try {
    return readBlock(block).some((record) => {
      if (record.projectId !== projectId) return false
      for (let index = 0; index < record.eventCount; index++) {
        const offset = eventUuidOffset(record, index)
        if (record.bytes.compare(uuid, 0, 16, offset, offset + 16) === 0) return true
      }
      return false
    })
  } catch (cause) {
    if (cause instanceof RangeError) return false
    throw new OperatorError('the log cannot be read', { cause })
  }
}

function deadLetterIn(reader: EventReader, projectId: number, uuid: Uint8Array): JsonObject | null {
  const text = formatUuid(uuid, 0)
  const compact = text.replaceAll('-', '')
  for (const letter of reader.deadLetters()) {
    if (letter.projectId !== projectId && letter.projectId !== 0) continue
    const raw = Buffer.from(letter.raw)
    const json = raw.toString('latin1').toLowerCase()
    if (raw.indexOf(uuid) < 0 && !json.includes(text) && !json.includes(compact)) continue
    return {
      fate: 'dead_letter',
      because: `a fault of ours: ${letter.reason}`,
      letter: letter.number,
      step: letter.step,
      stored_at: isoTime(letter.storedAtMs),
    }
  }
  return null
}

function droppedIn(reader: EventReader, projectId: number, uuid: string): JsonObject | null {
  const dropped = reader.findDropped(projectId, uuid, keptAfterMs())
  if (dropped === null) return null
  const { reason, timestamp, event, distinct_id, bytes, data } = dropped
  const known = { event, distinct_id, bytes, data }
  return { fate: 'skipped', because: reason, dropped_at: timestamp, ...known }
}

function skippedBy(warnings: readonly WarningView[], isInLog: boolean): JsonObject {
  for (const { type, timestamp } of warnings) {
    const reason = DROPPING_WARNINGS.get(type)
    if (reason === undefined) continue
    return { fate: 'skipped', because: reason, warning: type, warned_at: timestamp }
  }
  if (isInLog) {
    const because =
      'it has no name, no distinct_id, or is of a kind that is not stored; or it was deleted'
    return { fate: 'skipped', because }
  }
  const because =
    'no trace: it was never accepted by this project, was skipped longer ago than is remembered, or was deleted'
  return { fate: 'unknown', because }
}
