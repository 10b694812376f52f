/**
 * The names of the events and properties of one project, with facts about each name. They are collected segment by
 * segment, in the order of sequence numbers. There is one limit for the bytes of event names, and another for those of
 * property names. When a limit is reached, the least important names are removed (`choose`), so that there is always
 * room for a new name. If a name that was removed occurs again, its count starts again at 0.
 */
import {
  definitionId,
  type EventFacts,
  type PropertyFacts,
} from '../../../rules/events/event-definitions.ts'
import { NumberSet, type PackedNumbers, visitNumbers } from '../format/number-set.ts'
import {
  type EventShare,
  namesOf,
  type PropertyShare,
  STORED_TYPES,
} from '../format/segment-names.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { PROJECT_EVENT_NAMES_BYTES_MAX, PROJECT_PROPERTY_NAMES_BYTES_MAX } from '../limits.ts'

const DAY_MS = 24 * 60 * 60 * 1000
/** The estimated number of bytes that a name takes in addition to its characters. */
const NAME_BYTES = 300
/**
 * When names must be removed, those that stay fill at most this fraction of the limit. The two shares below are
 * fractions of this *room*.
 */
const FILLED_SHARE = 3 / 4
/**
 * When names must be removed, the names that saved objects use are the first to stay. They may fill this fraction of
 * the room.
 */
const REFERRED_SHARE = 1 / 2
/**
 * Names that occurred on several days are the next to stay. Together with the names that saved objects use, they may
 * fill this fraction of the room. Other names get the rest.
 */
const LASTING_SHARE = 3 / 4

/** The facts in a writable form, while they are collected. */
type Growing<Facts> = { -readonly [Name in keyof Facts]: Facts[Name] }

/** The facts about one name. */
class Entry {
  readonly name: string
  count = 0
  firstSeenMs = Number.POSITIVE_INFINITY
  lastSeenMs = Number.NEGATIVE_INFINITY
  firstArrivalMs = Number.POSITIVE_INFINITY
  lastArrivalMs = Number.NEGATIVE_INFINITY
  lastSequence = 0

  constructor(name: string) {
    this.name = name
  }

  /** The estimated number of bytes of memory. */
  get bytes(): number {
    return NAME_BYTES + this.name.length * 2
  }

  /** True if events with the name arrived on more than one day (UTC). */
  get isLasting(): boolean {
    return Math.floor(this.firstArrivalMs / DAY_MS) !== Math.floor(this.lastArrivalMs / DAY_MS)
  }

  noteArrivals(firstMs: number, lastMs: number, lastSequence: number): void {
    this.firstArrivalMs = Math.min(this.firstArrivalMs, firstMs)
    this.lastArrivalMs = Math.max(this.lastArrivalMs, lastMs)
    this.lastSequence = Math.max(this.lastSequence, lastSequence)
  }
}

/**
 * The facts about the events with one name. `number` identifies the name among the event names of the project, from 0
 * on.
 */
class EventEntry extends Entry implements EventFacts {
  readonly #projectId: number
  #id: string | null = null
  number: number

  constructor(projectId: number, name: string, number: number) {
    super(name)
    this.#projectId = projectId
    this.number = number
  }

  /** Created when it is first read, because most of these ids are never needed. */
  get id(): string {
    this.#id ??= definitionId(this.#projectId, 'event', this.name)
    return this.#id
  }
}

/** The facts about the properties with one name. */
export class PropertyEntry extends Entry implements Required<PropertyFacts> {
  type: PropertyFacts['type'] = null
  /** The numbers of the event names that occur together with the property. */
  events = new NumberSet()

  override get bytes(): number {
    return super.bytes + this.events.bytes
  }
}

type PackedEntry = readonly [
  name: string,
  count: number,
  firstSeenMs: number,
  lastSeenMs: number,
  firstArrivalMs: number,
  lastArrivalMs: number,
  lastSequence: number,
]

/** The names in the form in which they are stored, as MessagePack. Events are in the order of their numbers. */
export type PackedProjectNames = readonly [
  events: readonly PackedEntry[],
  properties: readonly (readonly [...PackedEntry, type: number, events: PackedNumbers])[],
]

/** The names of the events and properties of one project. */
export class ProjectNames {
  readonly #projectId: number
  #events = new Map<string, EventEntry>()
  #properties = new Map<string, PropertyEntry>()
  readonly #textOf: (distinctId: number) => string
  readonly #referred: () => ReadonlySet<string>
  #eventBytes = 0
  #propertyBytes = 0
  /** The sequence number of the newest event that is included. */
  through = 0
  /** True if names were removed since the object was created or restored. */
  isCut = false

  /**
   * `textOf` returns the text of a distinct ID number, for properties whose values are the distinct_ids. `referred`
   * returns the names that saved objects use. It is called only when names must be removed.
   */
  constructor(
    projectId: number,
    textOf: (distinctId: number) => string,
    referred: () => ReadonlySet<string> = () => new Set(),
  ) {
    this.#projectId = projectId
    this.#textOf = textOf
    this.#referred = referred
  }

  /** The approximate number of bytes of memory. */
  get bytes(): number {
    return this.#eventBytes + this.#propertyBytes
  }

  /** Returns the names in the form in which they are stored; see `restore`. */
  pack(): PackedProjectNames {
    return [
      [...this.#events.values()].map(packEntry),
      [...this.#properties.values()].map((property) => {
        const type = STORED_TYPES.indexOf(property.type)
        return [...packEntry(property), type, property.events.pack()] as const
      }),
    ]
  }

  /**
   * Adds names in their stored form. They were collected from all events up to the sequence number `through`. Call it
   * only for an object that is still empty. It takes a few microseconds for each name.
   */
  restore([events, properties]: PackedProjectNames, through: number): void {
    for (const packed of events) restoreEntry(this.#event(packed[0]), packed)
    for (const packed of properties) {
      const property = this.#property(packed[0])
      restoreEntry(property, packed)
      property.type = STORED_TYPES[packed[7]] ?? null
      this.#propertyBytes -= property.events.bytes
      property.events = NumberSet.of(packed[8])
      this.#propertyBytes += property.events.bytes
    }
    this.through = through
  }

  get events(): Iterable<EventFacts> {
    return this.#events.values()
  }

  get properties(): Iterable<PropertyEntry> {
    return this.#properties.values()
  }

  /** Returns a function that tells whether a property has occurred in events with one of these names. */
  isSeenOn(eventNames: readonly string[]): (property: PropertyEntry) => boolean {
    const numbers = eventNames.flatMap((name) => this.#events.get(name)?.number ?? [])
    return ({ events }) => numbers.some((number) => events.has(number))
  }

  /**
   * Adds the names of those events of a segment that come after `through`. If it throws `DamagedRecordError`, nothing
   * was added. It takes as long as `namesOf`, and about 0.2 us more for each name.
   */
  add(view: SegmentView): void {
    const { firstSequence, rows } = view.summary
    const firstRow = Math.max(0, this.through + 1 - firstSequence)
    const isTyped = (name: string): boolean => (this.#properties.get(name)?.type ?? null) !== null
    const { events, properties } = namesOf(view, firstRow, isTyped, this.#textOf)
    const numbers = events.map((share) => this.#addEvent(share, firstSequence))
    for (const share of properties) this.#addProperty(share, events, numbers, firstSequence)
    this.through = firstSequence + rows - 1
    this.#makeRoom()
  }

  /** Adds the events with one name. Returns the number of the name, or -1 if all these events were erased. */
  #addEvent(share: EventShare, firstSequence: number): number {
    if (share.count === 0) return -1
    const event = this.#event(share.name)
    add(event, share)
    const { firstArrivalMs, lastArrivalMs, lastRow } = share
    event.noteArrivals(firstArrivalMs, lastArrivalMs, firstSequence + lastRow)
    return event.number
  }

  /** Adds a property. The arrival times of the property are those of the event names with which it occurs. */
  #addProperty(
    share: PropertyShare,
    events: readonly EventShare[],
    numbers: readonly number[],
    firstSequence: number,
  ): void {
    const property = this.#property(share.name)
    add(property, share)
    property.type ??= share.type
    this.#propertyBytes -= property.events.bytes
    visitNumbers(share.events, (place) => {
      const [number, event] = [numbers[place] ?? -1, events[place]]
      if (number < 0 || event === undefined) return
      property.events.add(number)
      const { firstArrivalMs, lastArrivalMs, lastRow } = event
      property.noteArrivals(firstArrivalMs, lastArrivalMs, firstSequence + lastRow)
    })
    this.#propertyBytes += property.events.bytes
  }

  #event(name: string): EventEntry {
    let event = this.#events.get(name)
    if (event === undefined) {
      event = new EventEntry(this.#projectId, name, this.#events.size)
      this.#events.set(name, event)
      this.#eventBytes += event.bytes
    }
    return event
  }

  #property(name: string): PropertyEntry {
    let property = this.#properties.get(name)
    if (property === undefined) {
      property = new PropertyEntry(name)
      this.#properties.set(name, property)
      this.#propertyBytes += property.bytes
    }
    return property
  }

  #makeRoom(): void {
    const hasEvents = this.#eventBytes > PROJECT_EVENT_NAMES_BYTES_MAX
    const hasProperties = this.#propertyBytes > PROJECT_PROPERTY_NAMES_BYTES_MAX
    if (!hasEvents && !hasProperties) return
    this.isCut = true
    const referred = this.#referred()
    if (hasEvents) {
      this.#events = choose(this.#events, referred, PROJECT_EVENT_NAMES_BYTES_MAX)
      this.#renumber()
    }
    if (this.#propertyBytes > PROJECT_PROPERTY_NAMES_BYTES_MAX) {
      this.#properties = choose(this.#properties, referred, PROJECT_PROPERTY_NAMES_BYTES_MAX)
    }
    this.#eventBytes = bytesOf(this.#events)
    this.#propertyBytes = bytesOf(this.#properties)
  }

  /** Gives the remaining event names new numbers, from 0 on. */
  #renumber(): void {
    const numbers = new Map<number, number>()
    for (const event of this.#events.values()) {
      numbers.set(event.number, numbers.size)
      event.number = numbers.size - 1
    }
    for (const property of this.#properties.values()) {
      const events = new NumberSet()
      visitNumbers(property.events.pack(), (before) => {
        const number = numbers.get(before)
        if (number !== undefined) events.add(number)
      })
      property.events = events
    }
    this.#propertyBytes = bytesOf(this.#properties)
  }
}

/**
 * Returns the names that stay, in their previous order. Names that saved objects use are chosen first, until they fill
 * half of the room. Then names that occurred on several days are chosen, until three quarters of the room are full. All
 * other names may take the rest. Of each kind, the names that occurred last are preferred.
 */
function choose<Each extends Entry>(
  all: ReadonlyMap<string, Each>,
  referred: ReadonlySet<string>,
  bytesMax: number,
): Map<string, Each> {
  const room = bytesMax * FILLED_SHARE
  const newestFirst = [...all.values()].sort((a, b) => b.lastSequence - a.lastSequence)
  const chosen = new Set<Each>()
  let bytes = 0
  const take = (share: number, isWorthy: (entry: Each) => boolean): void => {
    for (const entry of newestFirst) {
      if (chosen.has(entry) || !isWorthy(entry) || bytes + entry.bytes > room * share) continue
      chosen.add(entry)
      bytes += entry.bytes
    }
  }
  take(REFERRED_SHARE, ({ name }) => referred.has(name))
  take(LASTING_SHARE, ({ isLasting }) => isLasting)
  take(1, () => true)
  return new Map([...all].filter(([, entry]) => chosen.has(entry)))
}

function bytesOf(entries: ReadonlyMap<string, Entry>): number {
  let bytes = 0
  for (const entry of entries.values()) bytes += entry.bytes
  return bytes
}

function packEntry(entry: Entry): PackedEntry {
  const { name, count, firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs, lastSequence } =
    entry
  return [name, count, firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs, lastSequence]
}

function restoreEntry(entry: Entry, packed: readonly [...PackedEntry, ...unknown[]]): void {
  const [, count, firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs, lastSequence] = packed
  Object.assign(entry, { count, firstSeenMs, lastSeenMs })
  entry.noteArrivals(firstArrivalMs, lastArrivalMs, lastSequence)
}

/** The facts that are counted in the same way for event names and property names. */
type Counted = Growing<Required<Pick<PropertyFacts, 'count' | 'firstSeenMs' | 'lastSeenMs'>>>

function add(facts: Counted, { count, firstSeenMs, lastSeenMs }: Readonly<Counted>): void {
  facts.count += count
  facts.firstSeenMs = Math.min(facts.firstSeenMs, firstSeenMs)
  facts.lastSeenMs = Math.max(facts.lastSeenMs, lastSeenMs)
}
