/**
 * Finds the persons who are exposed to an experiment: when each person was first exposed, to which variant, and whether
 * to several variants. Persons are numbered without gaps in the order in which they are found; this number is called
 * their row. If the flag of the experiment is decided for groups, groups take the place of persons. Source:
 * docs/EXPERIMENTS.md, "Who counts".
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { EventColumns, EventExtent, EventPart } from '../../analytics/event-columns.ts'
import { withRoom } from '../../analytics/growing-arrays.ts'
import { propertyText } from '../../filters/property-text.ts'
import { type QueryScan, type QueryShard, scanShard, scanShardChunks } from '../query-kind.ts'
import type { ExposurePlan } from './experiment-plan.ts'

/**
 * The bit that is set if a person saw several variants. The entry of a person in `variants` is the number of the
 * variant of the first exposure, counted from 1. This bit is added if a later exposure was to another variant.
 */
export const SEVERAL_VARIANTS = 0x80

const ROWS_START = 1024
/** The lists have room for this number of persons from the start, if the part has as many persons. */
const ROWS_AT_ONCE = 256 * 1024
/**
 * If at least this share of the persons of a part is wanted, a scan of all its events is faster, because the set of
 * these persons is known already.
 */
const MOST = 0.5
const EVERY = Number.POSITIVE_INFINITY
const NO_GROUPS = { ids: new Uint32Array(0), values: [] }
const WHOLE_PART = { by: 'persons', index: 0, count: 1 } as const

/** The exposed persons of a part, or the exposed groups, in parallel lists by row. */
export class ExposedPersons {
  /** The number of persons. The lists have spare capacity after this index. */
  count = 0
  /** The number of exposures that were left out because they have no group. */
  ungrouped = 0
  persons: Uint32Array
  /** The time of the first exposure, in milliseconds. */
  firstMs: Float64Array
  /** The variant of each person; see `SEVERAL_VARIANTS`. */
  variants: Uint8Array
  readonly #part: { readonly index: number; readonly count: number }
  readonly #personEnd: number
  /** The largest number of persons that the part can have, if they are divided evenly. */
  readonly #personsMax: number
  readonly #groupTypeIndex: number | null
  /** The number of each group with an exposure, by its key. The numbers begin with 1. */
  readonly #groups = new Map<string, number>()
  /** For each person of the part (see `EventPart`), or for each group, the row plus one. 0 means not exposed. */
  #rows: Uint32Array
  #sequences: Uint32Array
  #rowsOfChunk = new Int32Array(ROWS_START)

  /** With a `groupTypeIndex`, groups take the place of persons. */
  constructor(
    { lastPerson, lastDistinctId }: Pick<EventExtent, 'lastPerson' | 'lastDistinctId'>,
    part: EventPart | null,
    groupTypeIndex: number | null,
  ) {
    const personEnd = lastPerson + 1
    this.#part = part?.by === 'persons' ? part : WHOLE_PART
    this.#personEnd = personEnd
    this.#groupTypeIndex = groupTypeIndex
    const count = groupTypeIndex === null ? Math.ceil(personEnd / this.#part.count) : ROWS_START
    this.#rows = new Uint32Array(count + 1)
    // Some person numbers are not used. But each person has at least one distinct_id.
    this.#personsMax = Math.min(personEnd, lastDistinctId) / this.#part.count
    const length = Math.min(Math.max(ROWS_START, Math.ceil(this.#personsMax)), ROWS_AT_ONCE)
    this.persons = new Uint32Array(length)
    this.firstMs = new Float64Array(length)
    this.variants = new Uint8Array(length)
    this.#sequences = new Uint32Array(length)
  }

  /**
   * Passes the events of those exposed persons whose rows `isTaken` accepts to `visit`, chunk by chunk. If these are
   * most persons of the part, the events of all its persons are passed, so `visit` must leave out the others. In an
   * experiment with groups, the column `persons` contains the numbers of groups, and 0 for an event to leave out.
   * Throws the same errors as `EventScanner.scan`.
   */
  scanChunks(
    shard: QueryShard,
    scan: QueryScan,
    visit: (chunk: EventColumns) => void,
    isTaken: (row: number) => boolean = () => true,
  ): void {
    const within = this.#shardOf(shard, isTaken, MOST)
    const grouped = this.#grouped(this.#groupOf(isTaken))
    scanShardChunks(within, this.#withGroups(scan), (chunk) => visit(grouped(chunk)))
  }

  /** Returns all events of those exposed persons whose rows `isTaken` accepts. */
  scan(shard: QueryShard, scan: QueryScan, isTaken: (row: number) => boolean): EventColumns {
    const columns = scanShard(this.#shardOf(shard, isTaken, EVERY), this.#withGroups(scan))
    return this.#grouped(this.#groupOf(isTaken))(columns)
  }

  /** Finds the exposures. `scan` must request the variant as its first value. For `variantOf`, see `#add`. */
  find(shard: QueryShard, scan: QueryScan, variantOf: (value: unknown) => number): void {
    const grouped = this.#grouped((key) => getOrAdd(this.#groups, key, () => this.#groups.size + 1))
    scanShardChunks(shard, this.#withGroups(scan), (chunk) => {
      this.#add(grouped(chunk), Uint8Array.from(chunk.values[0]?.values ?? [], variantOf))
    })
  }

  /**
   * Returns a function that maps the key of a group to the number of the group. The number is 0 if the group is not
   * exposed or `isTaken` does not accept its row.
   */
  #groupOf(isTaken: (row: number) => boolean): (key: string) => number {
    return (key) => {
      const group = this.#groups.get(key) ?? 0
      const row = (this.#rows[group] ?? 0) - 1
      return row >= 0 && isTaken(row) ? group : 0
    }
  }

  /** If groups are counted, adds the key of each event's group to a scan as its last value. */
  #withGroups(scan: QueryScan): QueryScan {
    if (this.#groupTypeIndex === null) return scan
    const group = { kind: 'group_key', typeIndex: this.#groupTypeIndex } as const
    // `#grouped` looks up the number of each group once and finds it again by the position of the key in the list of
    // values. So a value must have the same position in all chunks.
    return { ...scan, values: [...(scan.values ?? []), group], areValuesLocal: false }
  }

  /**
   * Returns a function that replaces the persons in the columns of one scan by the numbers of groups, if groups are
   * counted.
   */
  #grouped(groupOf: (key: string) => number): (columns: EventColumns) => EventColumns {
    if (this.#groupTypeIndex === null) return (columns) => columns
    /** The number of the group for each position in the values of the scan. */
    const groups: number[] = []
    return (columns) => {
      const { ids, values } = columns.values.at(-1) ?? NO_GROUPS
      for (let position = groups.length; position < values.length; position++) {
        const key = propertyText(values[position])
        groups.push(key === '' ? 0 : groupOf(key))
      }
      return { ...columns, persons: ids.map((position) => groups[position] ?? 0) }
    }
  }

  /** Returns the row of each event's person, or -1 if the person is not exposed. The next call overwrites the list. */
  rowsOf({ count, persons }: Pick<EventColumns, 'count' | 'persons'>): Int32Array {
    if (this.#rowsOfChunk.length < count) this.#rowsOfChunk = new Int32Array(count)
    const [found, rows] = [this.#rowsOfChunk, this.#rows]
    const { index: first, count: parts } = this.#part
    for (let index = 0; index < count; index++) {
      const slot = (((persons[index] ?? 0) - first) / parts) >>> 0
      found[index] = (rows[slot] ?? 0) - 1
    }
    return found
  }

  /**
   * Returns a shard that contains only the events of those exposed persons whose rows `isTaken` accepts. If groups are
   * counted, or if the share of these persons among all persons of the part is at least `share`, the shard contains
   * all events of the part. The persons are passed as `part.among` and not as the `persons` of a scan.
   * The result of a scan with `persons` is not cached, because such a set usually depends on properties of persons,
   * which may change. The set of exposed persons depends only on events.
   */
  #shardOf(shard: QueryShard, isTaken: (row: number) => boolean, share: number): QueryShard {
    if (this.#groupTypeIndex !== null) return shard
    let taken = 0
    for (let row = 0; row < this.count; row++) if (isTaken(row)) taken++
    if (taken >= this.#personsMax * share) return shard
    const among = new Uint8Array(this.#personEnd)
    for (let row = 0; row < this.count; row++) {
      if (isTaken(row)) among[this.persons[row] ?? 0] = 1
    }
    return { ...shard, part: { ...(shard.part ?? WHOLE_PART), among } }
  }

  /**
   * Adds the exposures among the events of one chunk of a scan. `variantOf` maps each value of the column to the number
   * of its variant, or to 0 if the value is no variant.
   */
  #add(
    { count, persons, timesMs, sequences, values: [column] }: EventColumns,
    variantOf: Uint8Array,
  ) {
    if (column === undefined) return
    this.#reserve(count)
    this.#rows = withRoom(this.#rows, this.#groups.size)
    const rows = this.#rows
    const { index: first, count: parts } = this.#part
    for (let index = 0; index < count; index++) {
      const variant = variantOf[column.ids[index] ?? 0] ?? 0
      if (variant === 0) continue
      const person = persons[index] ?? 0
      if (person === 0) {
        this.ungrouped++
        continue
      }
      // A part by persons contains every `parts`-th person.
      const slot = ((person - first) / parts) >>> 0
      const row = (rows[slot] ?? 0) - 1
      const timeMs = timesMs[index] ?? 0
      const sequence = sequences[index] ?? 0
      if (row < 0) {
        rows[slot] = this.#append(person, variant, timeMs, sequence)
        continue
      }
      const known = this.variants[row] ?? 0
      const several =
        (known & ~SEVERAL_VARIANTS) === variant ? known & SEVERAL_VARIANTS : SEVERAL_VARIANTS
      const firstMs = this.firstMs[row] ?? 0
      const isEarlier =
        timeMs < firstMs || (timeMs === firstMs && sequence < (this.#sequences[row] ?? 0))
      if (isEarlier) {
        this.firstMs[row] = timeMs
        this.#sequences[row] = sequence
      }
      this.variants[row] = (isEarlier ? variant : known & ~SEVERAL_VARIANTS) | several
    }
  }

  /** Allocates space for `added` more persons. */
  #reserve(added: number): void {
    const last = this.count + added - 1
    this.persons = withRoom(this.persons, last)
    this.firstMs = withRoom(this.firstMs, last)
    this.variants = withRoom(this.variants, last)
    this.#sequences = withRoom(this.#sequences, last)
  }

  /** Appends a person and returns the row plus one. `#reserve` must have allocated the space. */
  #append(person: number, variant: number, timeMs: number, sequence: number): number {
    const row = this.count++
    this.persons[row] = person
    this.firstMs[row] = timeMs
    this.variants[row] = variant
    this.#sequences[row] = sequence
    return row + 1
  }
}

/** Finds the exposed persons of a part of the events. Throws the same errors as `EventScanner.scan`. */
export function exposedPersons(
  { match, variantKey, variants, groupTypeIndex, filter, range }: ExposurePlan,
  shard: QueryShard,
): ExposedPersons {
  const { scanner, context, part } = shard
  const exposed = new ExposedPersons(scanner.extent(context.projectId), part, groupTypeIndex)
  const { fromMs, toMs } = range
  if (fromMs > toMs) return exposed
  const variantOf = (value: unknown): number => variants.indexOf(propertyText(value)) + 1
  const values = [{ kind: 'event_property', key: variantKey }] as const
  exposed.find(
    shard,
    { fromMs, toMs, filter, series: [match], values, areValuesLocal: true, order: 'unsorted' },
    variantOf,
  )
  scanner.releaseResults()
  return exposed
}
