/**
 * The tables of the environments, and the key formats of `events`. All numbers in keys are big-endian, so that the
 * order of the keys is the order of the numbers. Within a project, three kinds of numbers start at 1:
 *
 * | number             | what it counts                   |
 * |--------------------|----------------------------------|
 * | sequence number    | its events, in order of arrival  |
 * | distinct ID number | its distinct_ids                 |
 * | person number      | its persons                      |
 *
 * The key of a segment contains the sequence number of its first event. To find the segment of an event, look for the
 * last key up to the sequence number of the event: with segments from 1, 101 and 201 on, event 150 is in the second
 * one. Sequence numbers and distinct ID numbers are at most 2^32 - 1. That is enough, because so many events would
 * exceed the address space of the environment. Every value ends with a checksum over key and value (codec.ts).
 */
import type { Table } from './environment.ts'

/** The folder of the environment `events` in the data directory. */
export const EVENTS_ENVIRONMENT = 'events'

/**
 * The tables of the environment `events`: key -> value. The file in brackets defines the format of the value.
 * "Sequence" stands for a sequence number, "distinct ID" for a distinct ID number, "person" for a person number.
 */
export const EVENTS_TABLES = [
  'state', // text, one of `STATE_NUMBERS` -> event-state.ts
  'projects', // project u32 -> counters (event-projects.ts)
  'segment_headers', // project u32, first sequence u32 -> header (segment-format.ts)
  'segment_groups', // project u32, first sequence u32, group u16 -> group of columns (segment-format.ts)
  'kept_names', // project u32 -> names of events and properties (kept-names.ts)
  'distinct_ids', // project u32, text UTF-8 -> distinct ID (distinct-ids.ts)
  'distinct_texts', // project u32, distinct ID u32 -> text (distinct-ids.ts)
  'uuid_runs', // run u32 -> directory of a run (uuid-run.ts)
  'uuid_chunks', // run u32, kind u8, chunk u32 -> entries or filter (uuid-run.ts)
  'warnings', // project u32, line u32 -> warning (warning-log.ts)
  'dead_letters', // letter u32 -> dead letter (dead-letter-store.ts)
  'dropped_events', // project u32, block u48, position u32 -> dropped event (dropped-events.ts)
  'dropped_counts', // project u32, hour u32 -> counts (dropped-counts.ts)
  'person_projects', // project u32 -> counters (person-records.ts)
  'persons', // project u32, person u32 -> person (person-records.ts)
  'person_pages', // project u32, person u32, page u32 -> properties of a large person (person-records.ts)
  'moved_persons', // project u32, id u32 -> person (person-records.ts)
  'person_changes', // project u32, block u32 -> changes (person-changes.ts)
  'change_places', // project u32, person / 256 u32 -> locations of changes (person-changes.ts)
  'person_owners', // project u32, distinct ID / 256 u32 -> persons of 256 distinct IDs (person-owners.ts)
  'owner_since', // project u32, distinct ID u32 -> sequence (person-owners.ts)
  'person_ids', // project u32, person u32, position u32 -> distinct ID (linked-ids.ts)
  'person_uuids', // project u32, uuid 16 -> person, when deleted (person-records.ts)
  'kept_properties', // project u32 -> names and values of properties of persons (kept-properties.ts)
  'person_created', // project u32, created_at and uuid inverted -> person (person-records.ts)
  'person_emails', // project u32, text UTF-8, person u32 -> nothing (person-records.ts)
  'email_chunks', // project u32, person / 256 u32 -> texts (person-email-chunks.ts)
  'separations', // project u32, number u32 -> JSON (person-separations.ts)
  'separated', // project u32, distinct ID u32, number u32 -> nothing (person-separations.ts)
  'groups', // project u32, type u8, key UTF-8 -> group (group-store.ts)
  'group_pages', // project u32, type u8, bytes of the key u16, key, page u32 -> properties of a large group (group-store.ts)
  'cohorts', // project u32, cohort u32 -> JSON (cohort-store.ts)
  'cohort_members', // project u32, cohort u32, person u32 -> nothing (cohort-store.ts)
  'activity', // project u32, entry u32 -> JSON (entry-log.ts)
  'activity_items', // project u32, person u32, entry u32 -> nothing (entry-log.ts)
  'deletion_jobs', // project u32, job u32 -> JSON (erasure-records.ts)
  'copied_erasures', // project u32, job u32 -> JSON (erasure-records.ts)
  'retention_rules', // project u32 -> JSON (erasure-records.ts)
  'flag_overrides', // project u32, person u32 -> JSON (flag-overrides.ts)
  'shared_log', // text -> JSON (shared-position.ts)
  'actions', // project u32, action u32 -> JSON (action-store.ts)
] as const

/** One of `EVENTS_TABLES`. */
export type EventsTable = (typeof EVENTS_TABLES)[number]
/** The tables of the environment `events`, opened. */
export type EventTables = Readonly<Record<EventsTable, Table>>

/** The folder of the environment `flags`, which contains the catalogue. */
export const FLAGS_ENVIRONMENT = 'flags'

/**
 * The tables of the environment `flags`. Their formats are defined in the files of store/catalog:
 * directory-environment.ts, role-store.ts, audit-log.ts, flag-records.ts, scheduled-changes.ts, saved-table.ts,
 * dashboard-tiles.ts, saved-store.ts, definition-store.ts, invite-store.ts, password-store.ts, linked-accounts.ts,
 * console-store.ts, project-member-store.ts and usage-store.ts.
 */
export const FLAGS_TABLES = [
  'state',
  'users',
  'passwords',
  'identities',
  'invites',
  'projects',
  'project_members',
  'personal_keys',
  'secret_keys',
  'roles',
  'role_access',
  'audit_log',
  'flags',
  'flag_projects',
  'flag_changes',
  'flag_activity',
  'flag_activity_items',
  'flag_dashboards',
  'scheduled_changes',
  'pending_changes',
  'guard_events',
  'insights',
  'insight_queries',
  'dashboards',
  'dashboard_tiles',
  'insight_tiles',
  'annotations',
  'experiments',
  'holdouts',
  'saved_metrics',
  'share_tokens',
  'deleted_definitions',
  'console_sessions',
  'login_codes',
  'flag_usage',
] as const
/** One of `FLAGS_TABLES`. */
export type FlagsTable = (typeof FLAGS_TABLES)[number]

/**
 * The largest number that four bytes can hold. It limits sequence numbers, distinct ID numbers, and the numbers of runs
 * of the uuid index, of lines of warnings and of dead letters.
 */
export const NUMBER_MAX = 0xffff_ffff

/** Returns a key of one number, such as a project, a user or a run. */
export function numberKey(number: number): Buffer {
  const key = Buffer.allocUnsafe(4)
  key.writeUInt32BE(number)
  return key
}

/** Returns a key of two numbers. Used by most tables. */
export function pairKey(first: number, second: number): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeUInt32BE(first)
  key.writeUInt32BE(second, 4)
  return key
}

/** Returns a key of three numbers, such as a project, a person and a page. */
export function tripleKey(first: number, second: number, third: number): Buffer {
  const key = Buffer.allocUnsafe(12)
  key.writeUInt32BE(first)
  key.writeUInt32BE(second, 4)
  key.writeUInt32BE(third, 8)
  return key
}

/** Returns a key of table `segment_groups`, for a group of columns of one segment. */
export function groupKey(projectId: number, firstSequence: number, group: number): Buffer {
  const key = Buffer.allocUnsafe(10)
  key.writeUInt32BE(projectId)
  key.writeUInt32BE(firstSequence, 4)
  key.writeUInt16BE(group, 8)
  return key
}

/** Returns a key of a number and a text. Used by the tables `distinct_ids` and `deleted_definitions`. */
export function distinctIdKey(projectId: number, text: string): Buffer {
  const key = Buffer.allocUnsafe(4 + Buffer.byteLength(text))
  key.writeUInt32BE(projectId)
  key.write(text, 4, 'utf8')
  return key
}

/**
 * Returns a key of table `dropped_events`: the block of the log that contained the event, and the position of the event
 * in it.
 */
export function droppedKey(projectId: number, block: number, place: number): Buffer {
  const key = Buffer.allocUnsafe(14)
  key.writeUInt32BE(projectId)
  key.writeUIntBE(block, 4, 6)
  key.writeUInt32BE(place, 10)
  return key
}

/** Returns a key of table `uuid_chunks`. */
export function chunkKey(run: number, kind: number, chunk: number): Buffer {
  const key = Buffer.allocUnsafe(9)
  key.writeUInt32BE(run)
  key.writeUInt8(kind, 4)
  key.writeUInt32BE(chunk, 5)
  return key
}

/** The names under which numbers are stored in the table `state` of `events`. */
export const STATE_NUMBERS = [
  'position',
  'log_time',
  'letters',
  'seed',
  'log_through',
  'flags_version',
] as const
/** One of `STATE_NUMBERS`. */
export type StateNumber = (typeof STATE_NUMBERS)[number]

/** Returns a key of table `state`. */
export function stateKey(name: StateNumber): Buffer {
  return Buffer.from(name, 'latin1')
}

/** Returns the range of all keys that begin with one or two numbers. */
export function keysOf(first: number, second?: number): { start: Buffer; end: Buffer } {
  return second === undefined
    ? { start: numberKey(first), end: numberKey(first + 1) }
    : { start: pairKey(first, second), end: tripleKey(first, second, NUMBER_MAX) }
}

/** Returns the number at an offset in a key. */
export function numberInKey(key: Uint8Array, offset: number): number {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).readUInt32BE(offset)
}
