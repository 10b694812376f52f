/**
 * Finds records of the catalogue that are in a wrong table. The checksum of a record covers its key and its value, but
 * not the name of its table. So a record in a wrong table looks intact. The code here recognizes the records of a table
 * by their form: the length of the key, and the members that every version of Tenrec has written. Members whose names
 * come from clients are not checked, so that no request can make a store look damaged.
 */
import { isObject } from '../../base/json.ts'
import { unpack } from '../lmdb/codec.ts'
import { FLAGS_TABLES, type FlagsTable } from '../lmdb/keys.ts'

/**
 * The form of a table: returns whether a record can belong to the table. Instead of returning false, the function may
 * also throw.
 */
type Form = (key: Buffer, bytes: Buffer) => boolean

const ID_BYTES = 4
const PAIR_BYTES = 8
const TRIPLE_BYTES = 12
const HASH_BYTES = 32
/** The members of a dashboard that an older version stored. Such a dashboard has these members and no others. */
const OLD_DASHBOARD = ['id', 'name', 'createdAtMs']

const FORMS: Readonly<Record<FlagsTable, Form>> = {
  state: (key) => isName(key),
  users: packed(ID_BYTES, ['uuid', 'email', 'isActive']),
  passwords: packed(ID_BYTES, ['userId', 'hash', 'setAtMs']),
  identities: packed(HASH_BYTES, ['userId', 'issuer', 'subject']),
  invites: packed(ID_BYTES, ['number', 'email', 'hash', 'expiresAtMs']),
  projects: packed(ID_BYTES, ['apiKey', 'name', 'timezone']),
  project_members: packed(PAIR_BYTES, ['userId', 'level', 'joinedAtMs']),
  personal_keys: packed(ID_BYTES, ['userId', 'scopes', 'lastFour', 'hash']),
  secret_keys: packed(ID_BYTES, ['projectId', 'lastFour', 'hash']),
  roles: packed(ID_BYTES, ['number', 'level', 'memberships']),
  role_access: packed(TRIPLE_BYTES, ['flagId', 'roleNumber']),
  audit_log: packed(ID_BYTES, ['atMs', 'source', 'route']),
  flags: packed(PAIR_BYTES, ['key', 'filtersJson', 'change']),
  flag_projects: packed(ID_BYTES, ['change', 'entry']),
  flag_changes(key, bytes) {
    return isLong(key, PAIR_BYTES) && !isName(key) && typeof unpack(bytes) === 'number'
  },
  flag_activity: json(PAIR_BYTES, ['activity', 'scope', 'item_id']),
  flag_activity_items: (key, bytes) => isLong(key, TRIPLE_BYTES) && bytes.length === 0,
  flag_dashboards(key, bytes) {
    const record = unpack(bytes)
    const isOwn = hasAll(record, OLD_DASHBOARD) && Object.keys(record).length === 3
    return isLong(key, PAIR_BYTES) && isOwn
  },
  scheduled_changes: json(PAIR_BYTES, ['flagId', 'payload', 'scheduledAtMs']),
  pending_changes: json(PAIR_BYTES, ['flagId', 'dueAtMs', 'isWatched']),
  guard_events: json(PAIR_BYTES, ['projectId', 'uuid', 'properties']),
  insights: saved(['short_id', 'favorited']),
  // A query may be any JSON, because clients choose its members.
  insight_queries: (key, bytes) => isLong(key, PAIR_BYTES) && parse(bytes) !== undefined,
  dashboards: saved(['pinned', 'filters']),
  dashboard_tiles: json(TRIPLE_BYTES, ['dashboardId', 'insightId', 'layouts']),
  insight_tiles: (key, bytes) => isLong(key, TRIPLE_BYTES) && typeof parse(bytes) === 'number',
  annotations: saved(['content', 'date_marker']),
  experiments: saved(['flag_id', 'metrics']),
  holdouts: saved(['percentage']),
  saved_metrics: saved(['metric']),
  share_tokens: json(HASH_BYTES, ['kind', 'projectId', 'id']),
  deleted_definitions(key, bytes) {
    const record = unpack(bytes)
    return hasAll(record, ['id', 'sequence']) && record['id'] === key.toString('utf8', ID_BYTES)
  },
  console_sessions: packed(HASH_BYTES, ['userId', 'lastSeenAtMs']),
  login_codes: packed(HASH_BYTES, ['userId', 'expiresAtMs']),
  flag_usage: packed(ID_BYTES, ['hourMs', 'flags']),
}

/** The tables that contain only a part of each object, each with the table that contains the rest. */
const PARTS_OF: Partial<Record<FlagsTable, FlagsTable>> = { insight_queries: 'insights' }

/** Returns whether a record has the form of its table. `bytes` is the value without its checksum, which matches. */
export function hasForm(table: string, key: Buffer, bytes: Buffer): boolean {
  const name = FLAGS_TABLES.find((one) => one === table)
  if (name === undefined) return true
  try {
    return FORMS[name](key, bytes)
  } catch {
    // The value cannot be decoded as MessagePack or JSON, so it is not of this table.
    return false
  }
}

/**
 * If `table` contains only a part of each object, returns the table that contains the rest, otherwise null. If `table`
 * has records, the returned table must not be empty.
 */
export function neededTable(table: string): string | null {
  return PARTS_OF[table as FlagsTable] ?? null
}

/** Returns the form of records whose key has `keyBytes` bytes and whose value is MessagePack with `members`. */
function packed(keyBytes: number, members: readonly string[]): Form {
  return (key, bytes) => isLong(key, keyBytes) && hasAll(unpack(bytes), members)
}

/** Returns the form of records whose key has `keyBytes` bytes and whose value is JSON with `members`. */
function json(keyBytes: number, members: readonly string[]): Form {
  return (key, bytes) => isLong(key, keyBytes) && hasAll(parse(bytes), members)
}

/** Returns the form of saved objects that have these fields. */
function saved(fields: readonly string[]): Form {
  return (key, bytes) => {
    const object = parse(bytes)
    const isSaved = isObject(object) && hasAll(object, ['fields', 'isDeleted', 'createdById'])
    return isLong(key, PAIR_BYTES) && isSaved && hasAll(object['fields'], fields)
  }
}

/**
 * Returns whether a key consists of letters and underscores, as in the table `state`. Keys of other tables contain
 * other bytes: they begin with a number below 2^24, whose first byte is 0, or they are hashes.
 */
function isName(key: Buffer): boolean {
  return /^[a-z_]+$/.test(key.toString('latin1'))
}

function isLong(key: Buffer, bytes: number): boolean {
  return key.length === bytes
}

function hasAll(record: unknown, members: readonly string[]): record is Record<string, unknown> {
  return isObject(record) && members.every((name) => Object.hasOwn(record, name))
}

function parse(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString('utf8')) as unknown
}
