/**
 * The rules for the events that the kernel reads. For an event that contains nothing unusual and needs no warning, the
 * result is the same as that of `normalize.ts`. Every other event is left to `normalize.ts`. This module may leave any
 * event to `normalize.ts`, the slow path. If it does not, its result must equal that of the slow path
 * (test/rules/capture/kernel.test.ts).
 */
import { isObject, type OwnObject } from '../../../base/json.ts'
import {
  type AutomaticValues,
  EVENT_SLOT_OF,
  isSystemSlot,
} from '../../persons/automatic-properties.ts'
import { elementsChain } from '../elements-chain.ts'
import { isTimestampUsable, sharedIsoText, timestampOf } from '../event-time.ts'
import { eventName, isEmptyValue, textOfId } from '../fields.ts'
import { KERNEL_EVENT_BYTES_MAX } from '../limits.ts'
import { redacted } from '../normalize.ts'
import { parseTimestamp } from '../timestamp.ts'
import type { EventCells, EventContext, NormalizedEvent } from '../types.ts'
import { EventKernel, KEY_KINDS } from './kernel.ts'

/** Properties that make an event unusual, whatever their value. */
const UNUSUAL_KEYS: ReadonlySet<string> = new Set([
  '$unset',
  '$sent_at',
  '$ignore_sent_at',
  '$cookieless_mode',
  '$group_0',
  '$group_1',
  '$group_2',
  '$group_3',
  '$group_4',
  '__proto__',
])
/** The names of events that are never stored. */
const UNUSUAL_NAMES: ReadonlySet<string> = new Set([
  '$snapshot',
  '$snapshot_items',
  '$performance_event',
  '$$heatmap',
  '$$client_ingestion_warning',
])
/**
 * The names of events with which clients identify, merge or describe persons and groups. Only these events use the
 * properties with ROLE_TELLING.
 */
const TELLING_NAMES: ReadonlySet<string> = new Set([
  '$identify',
  '$create_alias',
  '$merge_dangerously',
  '$groupidentify',
])
// A role of a property (see `ROLES`) is a number. A number below ROLE_NONE is a slot: the property is copied to the
// person automatically (automatic-properties.ts). ROLE_NONE means that the property is only stored.
const ROLE_NONE = 100
const ROLE_PROFILE = 101
const ROLE_ELEMENTS = 102
const ROLE_CHAIN = 103
const ROLE_ADDRESS = 104
const ROLE_GROUPS = 105
const ROLE_SERVER = 106
const ROLE_OS_NAME = 107
const ROLE_SET = 108
const ROLE_SET_ONCE = 109
/** The role of a property that is read only for the events of `TELLING_NAMES`. */
const ROLE_TELLING = 110
/** The role of each property that has one. A role says what the property is used for in addition to being stored. */
const ROLES: ReadonlyMap<string, number> = new Map([
  ...EVENT_SLOT_OF,
  ['$os_name', ROLE_OS_NAME],
  ['$is_server', ROLE_SERVER],
  ['$groups', ROLE_GROUPS],
  ['$process_person_profile', ROLE_PROFILE],
  ['$elements', ROLE_ELEMENTS],
  ['$elements_chain', ROLE_CHAIN],
  ['$ip', ROLE_ADDRESS],
  ['$set', ROLE_SET],
  ['$set_once', ROLE_SET_ONCE],
  ...['$anon_distinct_id', 'alias', '$group_type', '$group_key', '$group_set'].map(
    (name): [string, number] => [name, ROLE_TELLING],
  ),
])

const NO_PROPERTIES: OwnObject = Object.freeze(emptyProperties())

/**
 * Returns an object with all members that the rules of persons and groups usually read. V8 then gives all these objects
 * the same shape.
 */
function emptyProperties(): OwnObject {
  return { $groups: undefined, $set: undefined, $set_once: undefined }
}

/** The automatic properties of an event. The object is filled again for each event. */
class Automatic implements AutomaticValues {
  count = 0
  readonly slots = new Uint8Array(EVENT_SLOT_OF.size)
  readonly values: unknown[] = []

  add(slot: number, value: unknown): void {
    this.slots[this.count] = slot
    this.values[this.count++] = value
  }

  /**
   * Removes the properties that describe the operating system. A server sends the properties of its own system, not of
   * the person's.
   */
  leaveOutSystem(): void {
    let kept = 0
    for (let index = 0; index < this.count; index++) {
      const slot = this.slots[index] ?? 0
      if (isSystemSlot(slot)) continue
      this.slots[kept] = slot
      this.values[kept++] = this.values[index]
    }
    this.count = kept
  }
}

/**
 * The event that was recognized last. The same object serves all events, because a new object for each event is
 * expensive.
 */
class RecognizedEvent implements NormalizedEvent {
  readonly #kernel: EventKernel
  readonly automatic: Automatic
  name = ''
  timestampMs = 0
  properties: OwnObject = NO_PROPERTIES
  elementsChain = ''
  isPersonless = false

  constructor(kernel: EventKernel, automatic: Automatic) {
    this.#kernel = kernel
    this.automatic = automatic
  }

  /**
   * The distinct_id as text. The text is created only when a caller reads it, because most callers compare the bytes in
   * `cells`.
   */
  get distinctId(): string {
    return this.#kernel.id
  }
}

/** Recognizes usual events. Each thread that processes events has one instance. */
export class EventRecognizer {
  readonly #kernel: EventKernel
  #epoch = -1
  /** The role of each property, by its key number in the kernel. */
  #roles: number[] = []
  /** The event name to store, by its code in the kernel. '' means that the name makes the event unusual. */
  #eventNames: string[] = []
  /** A cache of elements chains, by the code in the kernel of the list of elements that a chain was made from. */
  #chains: string[] = []
  readonly #automatic = new Automatic()
  readonly #event: RecognizedEvent
  #hasAddress = false
  /** True if the name of the event is one of `TELLING_NAMES`. */
  #isTelling = false

  /** `drawSecret` is passed to the `EventKernel`. */
  constructor(drawSecret: () => bigint) {
    this.#kernel = new EventKernel({ kindOf, isStoredAsSent, valueOf: storedValue }, drawSecret)
    this.#event = new RecognizedEvent(this.#kernel, this.#automatic)
  }

  /** All properties of the event that was recognized last. They are valid until the next call of `recognize`. */
  get cells(): EventCells {
    return this.#kernel
  }

  /** Prepares for a new block of the log. Everything that was read from earlier blocks is released. */
  beginBlock(): void {
    this.#kernel.makeRoom()
  }

  /**
   * Returns the event whose JSON has `length` bytes from `start`, or null if the event is unusual. `properties` of the
   * result contains only the properties that concern persons and groups; `cells` contains all properties. The next call
   * changes the returned object.
   */
  recognize(
    bytes: Uint8Array,
    start: number,
    length: number,
    context: EventContext,
  ): NormalizedEvent | null {
    const { propertiesBytesMax } = context
    if (propertiesBytesMax > 0 && length > propertiesBytesMax) return null
    if (length > KERNEL_EVENT_BYTES_MAX || context.isSentAtInvalid) return null
    const kernel = this.#kernel
    if (!kernel.read(bytes, start, length)) return null
    if (kernel.epoch !== this.#epoch) this.#beginEpoch()
    const name = this.#eventNames[kernel.nameCode] ?? this.#readName(kernel.nameCode)
    if (name === '') return null
    this.#isTelling = name.charCodeAt(0) === 0x24 && TELLING_NAMES.has(name)
    // If the distinct_id must be cut or cleaned, the stored distinct_id no longer equals the property `distinct_id`, so
    // the event is unusual.
    if (kernel.idBytes === 0 && textOfId(kernel.id) !== kernel.id) return null
    const timestampMs = this.#timestampMs(context)
    if (Number.isNaN(timestampMs) || !this.#sortCells(context)) return null
    const event = this.#event
    event.name = name
    if (!this.#addUpdates() || (event.isPersonless && this.#isTelling)) return null
    this.#addSender(context)
    event.timestampMs = timestampMs
    return event
  }

  #beginEpoch(): void {
    this.#epoch = this.#kernel.epoch
    this.#roles = []
    this.#eventNames = []
    this.#chains = []
  }

  #readName(code: number): string {
    const name = eventName({ event: this.#kernel.nameOf(code) }) ?? ''
    const usual = UNUSUAL_NAMES.has(name) ? '' : name
    this.#eventNames[code] = usual
    return usual
  }

  /** Returns the time of the event in milliseconds since 1970, or NaN if the event is unusual. */
  #timestampMs(context: EventContext): number {
    const kernel = this.#kernel
    const { arrivedAtMs, sentAtMs } = context
    if (sentAtMs === null && kernel.hasSentAt) return Number.NaN
    let givenMs: number | null = kernel.usualTimestampMs
    if (Number.isNaN(givenMs)) {
      const text = kernel.timestamp
      givenMs = text === '' ? null : parseTimestamp(text)
      if (text !== '' && givenMs === null) return Number.NaN
    }
    const timestampMs = timestampOf(givenMs, kernel.offsetMs, sentAtMs, arrivedAtMs)
    return isTimestampUsable(timestampMs, arrivedAtMs) ? timestampMs : Number.NaN
  }

  /** Evaluates the cells of properties that have a role. Returns false if the event is unusual. */
  #sortCells(context: EventContext): boolean {
    const kernel = this.#kernel
    const automatic = this.#automatic
    automatic.count = 0
    const event = this.#event
    event.properties = NO_PROPERTIES
    event.elementsChain = ''
    event.isPersonless = false
    this.#hasAddress = false
    let osName = -1
    let elements = -1
    let isServer = false
    const { cellCount } = kernel
    for (let cell = 0; cell < cellCount; cell++) {
      const key = kernel.keyAt(cell)
      const role = this.#roles[key] ?? this.#roleOf(key)
      if (role === ROLE_NONE) continue
      if (role < ROLE_NONE) automatic.add(role, kernel.valueAt(cell))
      else if (role === ROLE_TELLING) {
        if (this.#isTelling) this.#own()[kernel.nameOfKey(key)] = kernel.valueAt(cell)
      } else if (role === ROLE_GROUPS) this.#own()['$groups'] = kernel.valueAt(cell)
      else if (role === ROLE_SERVER) isServer = kernel.valueAt(cell) === true
      else if (role === ROLE_OS_NAME) osName = cell
      else if (role === ROLE_ELEMENTS) elements = cell
      else if (!this.#sortCell(cell, role, context)) return false
    }
    if (elements >= 0) this.#takeElements(elements)
    if (osName >= 0 && !automatic.slots.subarray(0, automatic.count).includes(0)) {
      automatic.add(0, kernel.valueAt(osName))
    }
    if (isServer) automatic.leaveOutSystem()
    return true
  }

  /**
   * Returns the properties of the current event for writing. All events without properties about persons and groups
   * share one frozen object, so the event first gets an object of its own.
   */
  #own(): OwnObject {
    const event = this.#event
    if (event.properties === NO_PROPERTIES) event.properties = emptyProperties()
    return event.properties
  }

  /** Adds the `$set` and `$set_once` of the event itself to its properties. Returns false if the event is unusual. */
  #addUpdates(): boolean {
    const kernel = this.#kernel
    const { rootSet, rootSetOnce } = kernel
    if (!this.#addUpdate('$set', rootSet) || !this.#addUpdate('$set_once', rootSetOnce))
      return false
    const { properties, name, isPersonless } = this.#event
    if (properties['$set'] === undefined && properties['$set_once'] === undefined) return true
    // The slow path removes `$set` and `$set_once` from a personless event and from `$groupidentify`, so such events
    // are left to the slow path.
    return !isPersonless && name !== '$groupidentify'
  }

  #addUpdate(field: '$set' | '$set_once', value: unknown): boolean {
    if (value === undefined) return true
    if (this.#event.properties[field] !== undefined) return false
    this.#own()[field] = value
    this.#kernel.add(field, value)
    return true
  }

  #sortCell(cell: number, role: number, context: EventContext): boolean {
    const kernel = this.#kernel
    const value = kernel.valueAt(cell)
    if (role === ROLE_SET || role === ROLE_SET_ONCE) {
      this.#own()[role === ROLE_SET ? '$set' : '$set_once'] = value
      return isObject(value)
    }
    if (role === ROLE_PROFILE) {
      this.#event.isPersonless = value === false
      if (value === true) kernel.takeOut(cell)
      return value === true || value === false
    }
    if (role === ROLE_CHAIN) {
      if (typeof value === 'string') this.#event.elementsChain = value
      kernel.takeOut(cell)
      return true
    }
    this.#hasAddress = true
    return !context.isIpAnonymized && !isEmptyValue(value)
  }

  /** Stores the list of elements as an elements chain, unless the event already has a chain. */
  #takeElements(cell: number): void {
    const event = this.#event
    if (event.elementsChain === '') event.elementsChain = this.#chainAt(cell)
    this.#kernel.takeOut(cell)
  }

  #addSender({ ip, isIpAnonymized, sentAtMs }: EventContext): void {
    if (!this.#hasAddress && !isIpAnonymized && ip !== '') this.#kernel.add('$ip', ip)
    if (sentAtMs !== null) this.#kernel.add('$sent_at', sharedIsoText(sentAtMs))
  }

  #roleOf(key: number): number {
    const role = ROLES.get(this.#kernel.nameOfKey(key)) ?? ROLE_NONE
    this.#roles[key] = role
    return role
  }

  #chainAt(cell: number): string {
    const kernel = this.#kernel
    const code = kernel.codeAt(cell)
    const known = code > 0 ? this.#chains[code] : undefined
    if (known !== undefined) return known
    const elements = kernel.valueAt(cell)
    const chain = Array.isArray(elements) ? elementsChain(elements) : ''
    if (code > 0) this.#chains[code] = chain
    return chain
  }
}

function kindOf(key: string): number {
  if (UNUSUAL_KEYS.has(key)) return KEY_KINDS.refused
  if (key === '$heatmap_data') return KEY_KINDS.leftOut
  return key === 'distinct_id' ? KEY_KINDS.id : KEY_KINDS.usual
}

function isStoredAsSent(key: string): boolean {
  return key !== 'token'
}

function storedValue(key: string, value: unknown): unknown {
  return isStoredAsSent(key) ? value : redacted(value)
}
