/**
 * Finds out what became of an accepted event: whether it is stored, waits in the log, became a dead letter, or was
 * dropped or erased. It searches everything that the store still has. A route and a command use it.
 */
import { OperatorError } from '../../base/errors.ts'
import { formatUuid } from '../../base/ids.ts'
import type { LogReader } from '../../ports/log.ts'
import type { DropReason } from '../../rules/capture/drop-reasons.ts'
import { eventUuidOffset, readBlock } from '../../rules/capture/log-block.ts'
import type { EventFate } from '../../rules/events/event-fate.ts'
import type { WarningView } from '../../rules/events/event-queries.ts'
import type { EventReader } from '../../store/events/read/event-reader.ts'
import { FATE_WARNINGS_READ_MAX } from './limits.ts'

/**
 * Maps the type of a warning to the reason why its event was dropped. Warnings of all other types are about stored
 * events.
 */
const DROPPING_WARNINGS: ReadonlyMap<string, DropReason> = new Map([
  ['message_size_too_large', 'properties_too_large'],
  ['invalid_event_when_process_person_profile_is_false', 'personless_person_event'],
  ['client_ingestion_warning', 'client_ingestion_warning'],
])

/** The event to look for. */
export interface FateQuery {
  readonly projectId: number
  /** The uuid of the event, 16 bytes. */
  readonly uuid: Uint8Array
  /** A time in milliseconds since 1970. Events that were dropped before it are not found. */
  readonly keptAfterMs: number
}

/** Where an event is in the log: the newest block that contains it. */
interface LogPlace {
  readonly block: number
  readonly arrivedAtMs: number
}

/**
 * Returns the fate of an event. Costs one read of the log, of the dead letters, and of the project's dropped events.
 * Throws `DamagedRecordError`, and `OperatorError` if the log cannot be read.
 */
export function fateOf(reader: EventReader, log: LogReader, query: FateQuery): EventFate {
  // The log is read first. If the event is processed in the meantime, it is then found among the stored events.
  const place = findInLog(log, query)
  const { projectId, uuid } = query
  const text = formatUuid(uuid, 0)
  const event = reader.getEvent(projectId, text)
  const warnings = reader
    .listWarnings(projectId, FATE_WARNINGS_READ_MAX)
    .filter(({ details }) => Object.hasOwn(details, 'uuid') && details['uuid'] === text)
  if (event !== null) {
    const because =
      'The event is stored. If it is sent again, the copies are dropped as duplicates.'
    const { id, event: name, distinct_id, timestamp, created_at, person_id } = event
    const warned = warnings.length === 0 ? {} : { warnings: warnings.map(({ type }) => type) }
    const stored = { id, event: name, distinct_id, timestamp, created_at, person_id }
    return { fate: 'stored', because, ...stored, ...warned }
  }
  if (place !== null && place.block > reader.statistics().position) {
    const arrived_at = new Date(place.arrivedAtMs).toISOString()
    const because = 'The event is in the log and is not processed yet.'
    return { fate: 'waiting', because, block: place.block, arrived_at }
  }
  return (
    deadLetterIn(reader, query, text) ??
    droppedIn(reader, query, text) ??
    skippedBy(warnings, place !== null) ??
    erasedIn(reader, query)
  )
}

function findInLog(log: LogReader, { projectId, uuid }: FateQuery): LogPlace | null {
  log.refresh()
  const extent = log.extent()
  let found: LogPlace | null = null
  for (let block = extent?.first ?? 1; block <= (extent?.last ?? 0); block++) {
    const bytes = log.block(block)
    const arrivedAtMs = bytes === undefined ? null : arrivalIn(bytes, projectId, uuid)
    if (arrivedAtMs !== null) found = { block, arrivedAtMs }
  }
  return found
}

/**
 * Returns the arrival time of an event in a block. Returns null if the block does not contain the event. Also returns
 * null for a damaged block, because such a block becomes a dead letter and the event is found there.
 */
function arrivalIn(block: Buffer, projectId: number, uuid: Uint8Array): number | null {
  if (block.indexOf(uuid) < 0) return null
  try {
    for (const record of readBlock(block)) {
      if (record.projectId !== projectId) continue
      for (let index = 0; index < record.eventCount; index++) {
        const offset = eventUuidOffset(record, index)
        if (record.bytes.compare(uuid, 0, 16, offset, offset + 16) === 0) return record.arrivedAtMs
      }
    }
    return null
  } catch (cause) {
    if (cause instanceof RangeError) return null
    throw new OperatorError('The log of accepted events cannot be read.', { cause })
  }
}

function deadLetterIn(reader: EventReader, query: FateQuery, text: string): EventFate | null {
  const compact = text.replaceAll('-', '')
  for (const letter of reader.deadLetters()) {
    if (letter.projectId !== query.projectId && letter.projectId !== 0) continue
    const raw = Buffer.from(letter.raw)
    const json = raw.toString('latin1').toLowerCase()
    if (raw.indexOf(query.uuid) < 0 && !json.includes(text) && !json.includes(compact)) continue
    const { origin } = letter
    const stored_at = new Date(letter.storedAtMs).toISOString()
    return {
      fate: 'dead_letter',
      because: `A fault of the server: ${letter.reason}`,
      letter: letter.number,
      step: letter.step,
      stored_at,
      ...(origin === null ? {} : { arrived_at: new Date(origin.arrivedAtMs).toISOString() }),
    }
  }
  return null
}

function droppedIn(reader: EventReader, query: FateQuery, text: string): EventFate | null {
  const dropped = reader.findDropped(query.projectId, text, query.keptAfterMs)
  if (dropped === null) return null
  const { reason, timestamp, event, distinct_id, bytes, data } = dropped
  const known = { event, distinct_id, bytes, data }
  return { fate: 'skipped', because: reason, dropped_at: timestamp, ...known }
}

function skippedBy(warnings: readonly WarningView[], isInLog: boolean): EventFate | null {
  for (const { type, timestamp } of warnings) {
    const reason = DROPPING_WARNINGS.get(type)
    if (reason === undefined) continue
    return { fate: 'skipped', because: reason, warning: type, warned_at: timestamp }
  }
  if (!isInLog) return null
  const because =
    'The event has no name or no distinct_id, is of a kind that is not stored, or was deleted.'
  return { fate: 'skipped', because }
}

function erasedIn(reader: EventReader, { projectId, uuid }: FateQuery): EventFate {
  if (reader.wasErased(projectId, uuid)) {
    return {
      fate: 'erased',
      because: 'The event was stored and then erased. Nothing of it is left.',
    }
  }
  const because =
    'The server has no record of this event. The project never accepted it, it was skipped too long ago, or it was deleted.'
  return { fate: 'unknown', because }
}
