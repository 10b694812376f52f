/** Plain data that the ingestion rules pass on. No behaviour. */
import type { JsonObject, OwnObject } from '../../base/json.ts'
import type { AutomaticValues } from '../persons/automatic-properties.ts'
import type { LossReason } from './drop-reasons.ts'

/** What an operator is warned of. Source: docs/compatibility/events.md, "Ingestion warnings". */
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

/** One warning about one event; `details` are small and hold no property values of persons. */
export interface IngestionWarning {
  readonly type: WarningType
  readonly details: JsonObject
}

/** What the request says about each of its events. */
export interface EventContext {
  /** Arrival of the request, milliseconds. */
  readonly arrivedAtMs: number
  /** The client's clock when it sent the request, milliseconds; null when it gave none that is valid. */
  readonly sentAtMs: number | null
  /** The request gave a clock that is invalid: each of its events gets a warning. */
  readonly isSentAtInvalid: boolean
  /** The sender's address as stored in `$ip`, or '' when unknown. */
  readonly ip: string
  /** The project stores no addresses at all. */
  readonly isIpAnonymized: boolean
  readonly isHistorical: boolean
  /** JSON bytes of `properties` beyond which an event is dropped; 0 switches the limit off. */
  readonly propertiesBytesMax: number
}

/** How an event relates to its person. Source: docs/compatibility/persons.md, "Personless events". */
export const PERSON_MODES = ['full', 'propertyless', 'force_upgrade'] as const
/** One of `PERSON_MODES`. */
export type PersonMode = (typeof PERSON_MODES)[number]

/**
 * An event after normalisation, in its compact stored form: what can be derived from the rest
 * (automatic `$set` and `$set_once` entries) is left out and added again by `expandProperties`.
 */
export interface NormalisedEvent {
  readonly name: string
  readonly distinctId: string
  readonly timestampMs: number
  /**
   * Client properties after normalisation, without derived entries. Owned by the event: may be kept. What
   * was taken out has the value undefined: deleting a key makes V8 slow on the whole object.
   */
  readonly properties: OwnObject
  /** As of `PersonEvent`. */
  readonly automatic?: AutomaticValues
  readonly elementsChain: string
  /** `$process_person_profile` is false, or `$cookieless_mode` is true: no person is made or changed. */
  readonly isPersonless: boolean
}

/**
 * All properties of an event that was read without making an object of it: a cell for each, and some that
 * were added behind them. What stands for a key or a value means something else in another epoch. Valid
 * until the next event is read.
 */
export interface EventCells {
  readonly epoch: number
  readonly cellCount: number
  /** The key of a cell, a small number. */
  keyAt(cell: number): number
  /** A number from 1 that stands for the value among those of its key; 0 or less: the value has none. */
  codeAt(cell: number): number
  /** The value of a cell. What has a number is the same each time; nobody may change it. */
  valueAt(cell: number): unknown
  /** Gives the value of a cell without a number to who takes it as it is; false: it is not of that kind. */
  copyValue(cell: number, sink: ValueSink): boolean
  /** Whether the value of a cell is the distinct_id of the event. */
  isId(cell: number): boolean
  /** Whether the cell is no property of the event after all. */
  isTakenOut(cell: number): boolean
  nameOfKey(key: number): string
  /**
   * Puts the cells into a row of those columns of a table that know their values, and answers how many are
   * left: the cells `leftAt` 0, 1 and so on. Cells that were taken out are not among them. About 3 ns a cell.
   */
  fill(table: ColumnBlock | null, row: number): number
  leftAt(index: number): number
  /** Rows of a block. */
  readonly blockRows: number
  /** Blank memory for a column or a table of them; null: there is none left. */
  takeBlock(): ColumnBlock | null
  /** Only when it is blank again. */
  giveBack(block: ColumnBlock): void
  /** So many properties with these names and values follow. */
  readonly addedCount: number
  readonly addedNames: readonly string[]
  readonly addedValues: readonly unknown[]
  add(name: string, value: unknown): void
  /**
   * The distinct_id as `idBytes` bytes of ASCII, four to a word from `idFirstWord` on, with zeros behind the
   * last one, for who compares it without making a text of it. 0 bytes: it is known as text alone.
   */
  readonly idWords: Int32Array
  readonly idFirstWord: number
  readonly idBytes: number
}

/** Memory that `fill` knows: a column, or the table of the columns of a segment. It stays where it is. */
export interface ColumnBlock {
  readonly address: number
  /** Rows that have a value; 1 while all values are the distinct_id of their row, else 0. */
  readonly state: Int32Array
  /** For each row its id, or 0. */
  readonly ids: Uint16Array
  /** For the number of a value its id, or 0: it is not known. */
  readonly codes: Uint16Array
  /** Of a table: for each key the address of its column, or 0. The same memory as all of the others. */
  readonly columns: Int32Array
}

/** Takes values without making texts and number objects of them. */
export interface ValueSink {
  /** Takes texts that are their own JSON, one byte a character. */
  readonly takesBytes: boolean
  readonly takesNumbers: boolean
  /** The bytes from `start` to `end` are a text with its quotes. Only while `takesBytes`. */
  pushBytes(source: Uint8Array, start: number, end: number): void
  /** Only while `takesNumbers`. */
  pushNumber(value: number): void
}

/** What became of one event of a request. */
export type EventOutcome =
  | {
      readonly kind: 'event'
      readonly event: NormalisedEvent
      readonly warnings: readonly IngestionWarning[]
    }
  | {
      readonly kind: 'drop'
      readonly reason: LossReason
      readonly warnings: readonly IngestionWarning[]
    }
