/**
 * The names of the events and properties of one project, gathered segment by segment in order of S, with what
 * is known about each. Bounded in bytes: names that come when there is no more room are left out.
 */

import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import {
  definitionId,
  type EventFacts,
  type PropertyFacts,
} from '../../../rules/events/definitions.ts'
import { type EventShare, namesOf, STORED_TYPES } from '../format/segment-names.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { PROJECT_NAMES_BYTES_MAX } from '../limits.ts'

/** What a name costs besides its characters: an estimate. */
const NAME_BYTES = 300

/** As the definitions have it, while it is gathered. */
type Growing<Facts> = { -readonly [Name in keyof Facts]: Facts[Name] }

/** A name of events; `number` counts them from 0. */
interface EventEntry extends Growing<EventFacts> {
  readonly number: number
}

/** A name of properties. */
export interface PropertyEntry extends Growing<Required<PropertyFacts>> {
  /** A bit for the number of each event that has it. */
  eventBits: Uint32Array
}

/** Names as they are kept: MessagePack of it. Events in the order of their numbers. */
export type PackedProjectNames = readonly [
  bytes: number,
  events: readonly (readonly [name: string, ...numbers: number[]])[],
  properties: readonly (readonly [
    name: string,
    count: number,
    firstMs: number,
    lastMs: number,
    type: number,
    eventBits: Uint8Array,
  ])[],
]

/** Names of one project. */
export class ProjectNames {
  readonly #projectId: number
  readonly #events = new Map<string, EventEntry>()
  readonly #properties = new Map<string, PropertyEntry>()
  readonly #textOf: (distinctId: number) => string
  /** S of the newest event that is gathered. */
  through = 0
  /** Memory, about. */
  bytes = 0

  /** `textOf` gives the text of a distinct_id, which some properties have. */
  constructor(projectId: number, textOf: (distinctId: number) => string) {
    this.#projectId = projectId
    this.#textOf = textOf
  }

  /** What `restore` takes. */
  pack(): PackedProjectNames {
    const events = [...this.#events.values()].map((event) => {
      const { name, count, firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs } = event
      const times = [firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs]
      return [name, count, ...times, event.lastSequence] as const
    })
    const properties = [...this.#properties.values()].map((property) => {
      const { name, count, firstSeenMs, lastSeenMs, type, eventBits } = property
      const bits = eventBits.slice(0, Math.ceil(events.length / 32))
      const bytes = new Uint8Array(bits.buffer)
      return [name, count, firstSeenMs, lastSeenMs, STORED_TYPES.indexOf(type), bytes] as const
    })
    return [this.bytes, events, properties]
  }

  /** Becomes what was packed, of all events up to S `through`. Only while it is new. Some microseconds a name. */
  restore([bytes, events, properties]: PackedProjectNames, through: number): void {
    for (const [name, count = 0, ...numbers] of events) {
      const [firstSeenMs = 0, lastSeenMs = 0, firstArrivalMs = 0, lastArrivalMs = 0] = numbers
      const event = this.#event(name)
      if (event === null) continue
      const times = { firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs }
      Object.assign(event, { count, ...times, lastSequence: numbers[4] ?? 0 })
    }
    for (const [name, count, firstSeenMs, lastSeenMs, type, bits] of properties) {
      const eventBits = new Uint32Array(Math.max(1, Math.ceil(events.length / 32)))
      new Uint8Array(eventBits.buffer).set(bits)
      const facts = { count, firstSeenMs, lastSeenMs, type: STORED_TYPES[type] ?? null }
      this.#properties.set(name, { name, ...facts, eventBits })
    }
    this.through = through
    this.bytes = bytes
  }

  get events(): Iterable<EventFacts> {
    return this.#events.values()
  }

  get properties(): Iterable<PropertyEntry> {
    return this.#properties.values()
  }

  /** Tells of a property whether one of these events has it. */
  isSeenOn(eventNames: readonly string[]): (property: PropertyEntry) => boolean {
    const numbers = eventNames.flatMap((name) => this.#events.get(name)?.number ?? [])
    return ({ eventBits }) => numbers.some((number) => hasBit(eventBits, number))
  }

  /**
   * Adds the events of a segment behind `through`. Throws `DamagedRecordError`, and has then added nothing.
   * Cost: that of `namesOf`, and some 0.2 us for each name.
   */
  add(view: SegmentView): void {
    const { firstSequence, rows } = view.summary
    const firstRow = Math.max(0, this.through + 1 - firstSequence)
    const isTyped = (name: string): boolean => (this.#properties.get(name)?.type ?? null) !== null
    const { events, properties } = namesOf(view, firstRow, isTyped, this.#textOf)
    const numbers = events.map((share) => this.#addEvent(share, firstSequence))
    for (const share of properties) {
      const property = this.#property(share.name)
      if (property === null) continue
      add(property, share)
      property.type ??= share.type
      const { eventBits } = share
      for (let byte = 0; byte < eventBits.length; byte++) {
        for (let left = eventBits[byte] ?? 0; left !== 0; left &= left - 1) {
          const number = numbers[byte * 8 + 31 - Math.clz32(left & -left)] ?? -1
          if (number >= 0) this.#setBit(property, number)
        }
      }
    }
    this.through = firstSequence + rows - 1
  }

  /** The number of the name; -1 when it has none. */
  #addEvent(share: EventShare, firstSequence: number): number {
    const event = share.count === 0 ? null : this.#event(share.name)
    if (event === null) return -1
    add(event, share)
    event.firstArrivalMs = Math.min(event.firstArrivalMs, share.firstArrivalMs)
    event.lastArrivalMs = Math.max(event.lastArrivalMs, share.lastArrivalMs)
    event.lastSequence = firstSequence + share.lastRow
    return event.number
  }

  /** The name of events, or null when there is no room for it. */
  #event(name: string): EventEntry | null {
    const known = this.#events.get(name)
    if (known !== undefined) return known
    if (!this.#hasRoomFor(name)) return null
    const event: EventEntry = {
      ...{ id: definitionId(this.#projectId, 'event', name), name, number: this.#events.size },
      ...{ count: 0, firstSeenMs: Number.POSITIVE_INFINITY, lastSeenMs: Number.NEGATIVE_INFINITY },
      firstArrivalMs: Number.POSITIVE_INFINITY,
      lastArrivalMs: Number.NEGATIVE_INFINITY,
      lastSequence: 0,
    }
    this.#events.set(name, event)
    return event
  }

  #property(name: string): PropertyEntry | null {
    const known = this.#properties.get(name)
    if (known !== undefined) return known
    if (!this.#hasRoomFor(name)) return null
    const property: PropertyEntry = {
      ...{ name, type: null, eventBits: new Uint32Array(1) },
      ...{ count: 0, firstSeenMs: Number.POSITIVE_INFINITY, lastSeenMs: Number.NEGATIVE_INFINITY },
    }
    this.#properties.set(name, property)
    return property
  }

  #hasRoomFor(name: string): boolean {
    const bytes = NAME_BYTES + name.length * 2
    if (this.bytes + bytes > PROJECT_NAMES_BYTES_MAX) return false
    this.bytes += bytes
    return true
  }

  #setBit(property: PropertyEntry, number: number): void {
    const word = number >>> 5
    const { length } = property.eventBits
    if (word >= length) {
      if (this.bytes > PROJECT_NAMES_BYTES_MAX) return
      property.eventBits = withRoom(property.eventBits, word)
      this.bytes += (property.eventBits.length - length) * Uint32Array.BYTES_PER_ELEMENT
    }
    property.eventBits[word] = (property.eventBits[word] ?? 0) | (1 << (number & 31))
  }
}

/** What is counted of events and properties alike. */
type Counted = Growing<Required<Pick<PropertyFacts, 'count' | 'firstSeenMs' | 'lastSeenMs'>>>

function add(facts: Counted, { count, firstSeenMs, lastSeenMs }: Readonly<Counted>): void {
  facts.count += count
  facts.firstSeenMs = Math.min(facts.firstSeenMs, firstSeenMs)
  facts.lastSeenMs = Math.max(facts.lastSeenMs, lastSeenMs)
}

function hasBit(bits: Uint32Array, number: number): boolean {
  return ((bits[number >>> 5] ?? 0) & (1 << (number & 31))) !== 0
}
