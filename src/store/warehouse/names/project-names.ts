/**
 * The names of the events and properties of one project, gathered segment by segment in order of S, with what
 * is known about each. Bounded in bytes, events and properties apart. When there are more, the least worthy give
 * way, so that a new name is always listed (`choose`). A name that comes back is counted from then on.
 */
import {
  definitionId,
  type EventFacts,
  type PropertyFacts,
} from '../../../rules/events/definitions.ts'
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
/** What a name costs besides its characters: an estimate. */
const NAME_BYTES = 300
/** Of the room for names: what is filled when some had to give way. */
const FILLED_SHARE = 3 / 4
/** Of what is filled: as much at most is for names that something saved refers to. */
const REFERRED_SHARE = 1 / 2
/** Of what is filled: as much at most is for those and for names that were seen on several days. */
const LASTING_SHARE = 3 / 4

/** As the definitions have it, while it is gathered. */
type Growing<Facts> = { -readonly [Name in keyof Facts]: Facts[Name] }

/** What is known of every name. */
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

  /** Memory: an estimate. */
  get bytes(): number {
    return NAME_BYTES + this.name.length * 2
  }

  /** Whether it has arrived on more than one day, in UTC. */
  get isLasting(): boolean {
    return Math.floor(this.firstArrivalMs / DAY_MS) !== Math.floor(this.lastArrivalMs / DAY_MS)
  }

  noteArrivals(firstMs: number, lastMs: number, lastSequence: number): void {
    this.firstArrivalMs = Math.min(this.firstArrivalMs, firstMs)
    this.lastArrivalMs = Math.max(this.lastArrivalMs, lastMs)
    this.lastSequence = Math.max(this.lastSequence, lastSequence)
  }
}

/** A name of events; `number` counts them from 0. */
class EventEntry extends Entry implements EventFacts {
  readonly #projectId: number
  #id: string | null = null
  number: number

  constructor(projectId: number, name: string, number: number) {
    super(name)
    this.#projectId = projectId
    this.number = number
  }

  /** Made when it is asked for, which of most names nobody does. */
  get id(): string {
    this.#id ??= definitionId(this.#projectId, 'event', this.name)
    return this.#id
  }
}

/** A name of properties. */
export class PropertyEntry extends Entry implements Required<PropertyFacts> {
  type: PropertyFacts['type'] = null
  /** Numbers of the events that have it. */
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

/** Names as they are kept: MessagePack of it. Events in the order of their numbers. */
export type PackedProjectNames = readonly [
  events: readonly PackedEntry[],
  properties: readonly (readonly [...PackedEntry, type: number, events: PackedNumbers])[],
]

/** Names of one project. */
export class ProjectNames {
  readonly #projectId: number
  #events = new Map<string, EventEntry>()
  #properties = new Map<string, PropertyEntry>()
  readonly #textOf: (distinctId: number) => string
  readonly #referred: () => ReadonlySet<string>
  #eventBytes = 0
  #propertyBytes = 0
  /** S of the newest event that is gathered. */
  through = 0
  /** Whether names have given way since it was made or restored. */
  isCut = false

  /**
   * `textOf` gives the text of a distinct_id, which some properties have. `referred` tells the names that saved
   * things refer to; it is asked when some have to give way.
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

  /** Memory, about. */
  get bytes(): number {
    return this.#eventBytes + this.#propertyBytes
  }

  /** What `restore` takes. */
  pack(): PackedProjectNames {
    return [
      [...this.#events.values()].map(packEntry),
      [...this.#properties.values()].map((property) => {
        const type = STORED_TYPES.indexOf(property.type)
        return [...packEntry(property), type, property.events.pack()] as const
      }),
    ]
  }

  /** Becomes what was packed, of all events up to S `through`. Only while it is new. Some microseconds a name. */
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

  /** Tells of a property whether one of these events has it. */
  isSeenOn(eventNames: readonly string[]): (property: PropertyEntry) => boolean {
    const numbers = eventNames.flatMap((name) => this.#events.get(name)?.number ?? [])
    return ({ events }) => numbers.some((number) => events.has(number))
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
    for (const share of properties) this.#addProperty(share, events, numbers, firstSequence)
    this.through = firstSequence + rows - 1
    this.#makeRoom()
  }

  /** The number of the name; -1 when no event of it is left. */
  #addEvent(share: EventShare, firstSequence: number): number {
    if (share.count === 0) return -1
    const event = this.#event(share.name)
    add(event, share)
    const { firstArrivalMs, lastArrivalMs, lastRow } = share
    event.noteArrivals(firstArrivalMs, lastArrivalMs, firstSequence + lastRow)
    return event.number
  }

  /** A property has arrived when the events that have it have. */
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

  /** The events that are left are counted from 0 again. */
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
 * The names that stay, in the order that they had. Names that something saved refers to come first, for up to a half
 * of the room, then those that were seen on several days, for up to three quarters, then all others; of each the ones
 * that were seen last.
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

/** What is counted of events and properties alike. */
type Counted = Growing<Required<Pick<PropertyFacts, 'count' | 'firstSeenMs' | 'lastSeenMs'>>>

function add(facts: Counted, { count, firstSeenMs, lastSeenMs }: Readonly<Counted>): void {
  facts.count += count
  facts.firstSeenMs = Math.min(facts.firstSeenMs, firstSeenMs)
  facts.lastSeenMs = Math.max(facts.lastSeenMs, lastSeenMs)
}
