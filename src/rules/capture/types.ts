/** Plain data types that the ingestion rules exchange. They have no behavior. */
import type { JsonObject, OwnObject } from '../../base/json.ts'
import type { AutomaticValues } from '../persons/automatic-properties.ts'
import type { LossReason } from './drop-reasons.ts'

/** The types of warnings that an operator sees. Source: docs/compatibility/events.md, "Ingestion warnings". */
export const WARNING_TYPES = [
  'cannot_merge_already_identified',
  'cannot_merge_with_illegal_distinct_id',
  'ignored_invalid_timestamp',
  'event_timestamp_in_future',
  'invalid_process_person_profile',
  'invalid_event_when_process_person_profile_is_false',
  'cookieless_unsupported_event',
  'cookieless_missing_user_agent',
  'cookieless_missing_ip',
  'cookieless_missing_host',
  'message_size_too_large',
  'person_properties_size_violation',
  'client_ingestion_warning',
] as const
/** One of `WARNING_TYPES`. */
export type WarningType = (typeof WARNING_TYPES)[number]

/** One warning about one event. `details` are small and contain no property values of persons. */
export interface IngestionWarning {
  readonly type: WarningType
  readonly details: JsonObject
}

/** The facts about a request that apply to each of its events. */
export interface EventContext {
  /** The time at which the request arrived, in milliseconds since 1970. */
  readonly arrivedAtMs: number
  /** The time of sending by the client's clock, in milliseconds since 1970. Null if the client sent no valid time. */
  readonly sentAtMs: number | null
  /** True if the client sent an invalid time of sending. Each event of the request then gets a warning. */
  readonly isSentAtInvalid: boolean
  /** The sender's IP address as it is stored in `$ip`, or '' if unknown. */
  readonly ip: string
  /** True if the project stores no IP addresses. */
  readonly isIpAnonymized: boolean
  readonly isHistorical: boolean
  /** The maximum number of JSON bytes of `properties`. An event with more is dropped. 0 switches the limit off. */
  readonly propertiesBytesMax: number
  /** The maximum for events of language models, whose names begin with `$ai_`. 0 switches the limit off. */
  readonly aiPropertiesBytesMax: number
}

/**
 * What an event means for its person. `full` is an ordinary event, and `propertyless` is a personless event.
 * `force_upgrade` is a personless event whose distinct_id has had a person for more than a minute. Source:
 * docs/compatibility/persons.md, "Personless events".
 */
export const PERSON_MODES = ['full', 'propertyless', 'force_upgrade'] as const
/** One of `PERSON_MODES`. */
export type PersonMode = (typeof PERSON_MODES)[number]

/**
 * An event after normalization, in its compact stored form. Values that can be derived from the rest (automatic `$set`
 * and `$set_once` entries) are left out; `expandProperties` adds them again.
 */
export interface NormalizedEvent {
  readonly name: string
  readonly distinctId: string
  readonly timestampMs: number
  /**
   * The client's properties after normalization, without automatic entries of `$set` and `$set_once`. The event owns
   * the object, so a caller may keep it. A property that was removed has the value undefined, because deleting a key
   * makes V8 slow on the whole object.
   */
  readonly properties: OwnObject
  /** The automatic properties; see `PersonEvent`. */
  readonly automatic?: AutomaticValues
  readonly elementsChain: string
  /** True if `$process_person_profile` is false or `$cookieless_mode` is true. No person is then created or changed. */
  readonly isPersonless: boolean
}

/**
 * All properties of an event that was read without building an object. Each property that the client sent is one cell.
 * The properties that processing has added are in `addedNames` and `addedValues`. A key or a value is represented by a
 * number, which is valid only within one epoch. An epoch ends when the reader discards all keys and values. The cells
 * are valid until the next event is read.
 */
export interface EventCells {
  readonly epoch: number
  readonly cellCount: number
  /** Returns the key of a cell, which is a small number that stands for the name of its property. */
  keyAt(cell: number): number
  /**
   * Returns the code of a cell: the number of its value among the different values of its key, for example 3 for the
   * third value. The code is 0 or less if the value has no number.
   */
  codeAt(cell: number): number
  /**
   * Returns the value of a cell. If the code of the cell is greater than 0, each call returns the same object, which
   * must not be changed.
   */
  valueAt(cell: number): unknown
  /**
   * Passes the value of a cell to a sink if the value has no number. Returns false if the sink does not accept this
   * kind of value.
   */
  copyValue(cell: number, sink: ValueSink): boolean
  /** Returns whether the value of a cell is the distinct_id of the event. */
  isId(cell: number): boolean
  /** Returns whether the cell was taken out and is no longer a property of the event. */
  isTakenOut(cell: number): boolean
  nameOfKey(key: number): string
  /**
   * Writes the cells of an event into row `row` of the columns in `table`. A cell is written only if its column already
   * has an id for its value. Returns the number of cells that were not written; `leftAt(0)`, `leftAt(1)` and so on are
   * these cells. A cell that was taken out is neither written nor counted. A cell takes about 3 ns.
   */
  fill(table: ColumnBlock | null, row: number): number
  leftAt(index: number): number
  /** The number of rows of a block that is used as a column. */
  readonly blockRows: number
  /**
   * Returns a block for a column or for a table of columns. Its bytes are zeros. Returns null if there is no memory
   * left for it.
   */
  takeBlock(): ColumnBlock | null
  /** Releases a block. The caller must have set all of its memory to zeros. */
  releaseBlock(block: ColumnBlock): void
  /** The number of added properties. Their names and values are in `addedNames` and `addedValues`. */
  readonly addedCount: number
  readonly addedNames: readonly string[]
  readonly addedValues: readonly unknown[]
  add(name: string, value: unknown): void
  /**
   * The distinct_id in ASCII. It has `idBytes` bytes, four in each word from `idFirstWord` on, with zeros after the
   * last one. Callers use it to compare ids without creating a string. If `idBytes` is 0, the id is available only as
   * text.
   */
  readonly idWords: Int32Array
  readonly idFirstWord: number
  readonly idBytes: number
}

/**
 * Memory that `fill` reads and writes. It is either one column, or a table with the addresses of the columns of a
 * segment. Its address never changes.
 */
export interface ColumnBlock {
  readonly address: number
  /**
   * Two words: the number of rows that have a value, and whether every value is the distinct_id of its row (1) or not
   * (0).
   */
  readonly state: Int32Array
  /** The id of the value in each row, or 0 if the row has no value. */
  readonly ids: Uint16Array
  /** The id of each value by its code, or 0 if the value is not in the column yet. */
  readonly codes: Uint16Array
  /**
   * If the block is a table: for each key, the memory address of its column, or 0 if it has no column. The view shares
   * its memory with the other views.
   */
  readonly columns: Int32Array
}

/** Accepts values without the need to create strings or number objects. */
export interface ValueSink {
  /** True if the sink accepts texts as bytes. Such a text is ASCII, and its JSON contains no escapes. */
  readonly takesBytes: boolean
  readonly takesNumbers: boolean
  /**
   * Adds the text in the bytes from `start` to `end`, which include its quotes. Call it only while `takesBytes` is
   * true.
   */
  pushBytes(source: Uint8Array, start: number, end: number): void
  /** Adds a number. Call it only while `takesNumbers` is true. */
  pushNumber(value: number): void
}

/** The outcome of one event of a request. */
export type EventOutcome =
  | {
      readonly kind: 'event'
      readonly event: NormalizedEvent
      readonly warnings: readonly IngestionWarning[]
    }
  | {
      readonly kind: 'drop'
      readonly reason: LossReason
      readonly warnings: readonly IngestionWarning[]
    }
