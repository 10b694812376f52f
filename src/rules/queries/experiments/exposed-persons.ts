/**
 * Finds the persons who are exposed to an experiment: when each person was first exposed, to which variant, and whether
 * to several variants. Persons are numbered without gaps in the order in which they are found; this number is called
 * their row. Source: docs/EXPERIMENTS.md, "Who counts".
 */
import type { EventColumns, EventPart } from '../../analytics/event-columns.ts'
import { withRoom } from '../../analytics/growing-arrays.ts'
import { propertyText } from '../../filters/property-text.ts'
import { type QueryShard, scanShardChunks } from '../query-kind.ts'
import type { ExposurePlan } from './experiment-plan.ts'

/**
 * The bit that is set if a person saw several variants. The entry of a person in `variants` is the number of the
 * variant of the first exposure, counted from 1. This bit is added if a later exposure was to another variant.
 */
export const SEVERAL_VARIANTS = 0x80

const ROWS_START = 1024
const WHOLE_PART = { by: 'persons', index: 0, count: 1 } as const

/** The exposed persons of a part, in parallel lists by row. */
export class ExposedPersons {
  /** The number of persons. The lists have spare capacity after this index. */
  count = 0
  persons = new Uint32Array(ROWS_START)
  /** The time of the first exposure, in milliseconds. */
  firstMs = new Float64Array(ROWS_START)
  /** The variant of each person; see `SEVERAL_VARIANTS`. */
  variants = new Uint8Array(ROWS_START)
  readonly #part: { readonly index: number; readonly count: number }
  readonly #personEnd: number
  /** For each person of the part (see `EventPart`), the row plus one. 0 means that the person is not exposed. */
  readonly #rows: Uint32Array
  #sequences = new Uint32Array(ROWS_START)
  #rowsOfChunk = new Int32Array(ROWS_START)

  /** `personEnd` is one more than the largest person number. */
  constructor(personEnd: number, part: EventPart | null) {
    this.#part = part?.by === 'persons' ? part : WHOLE_PART
    this.#personEnd = personEnd
    this.#rows = new Uint32Array(Math.ceil(personEnd / this.#part.count) + 1)
  }

  /** Returns the row of each event's person, or -1 if the person is not exposed. The next call overwrites the list. */
  rowsOf({ count, persons }: Pick<EventColumns, 'count' | 'persons'>): Int32Array {
    if (this.#rowsOfChunk.length < count) this.#rowsOfChunk = new Int32Array(count)
    const [found, rows] = [this.#rowsOfChunk, this.#rows]
    const { index: first, count: parts } = this.#part
    for (let index = 0; index < count; index++) {
      const slot = ((persons[index] ?? 0) - first) / parts
      found[index] = (rows[slot] ?? 0) - 1
    }
    return found
  }

  /**
   * Returns a shard that contains only the events of those exposed persons whose rows `isTaken` accepts. The persons
   * are passed as `part.among`. If they were passed as the `persons` of a scan, its result would not be cached, because
   * such a set usually depends on properties of persons, which may change. This set depends only on events.
   */
  shardOf(shard: QueryShard, isTaken: (row: number) => boolean = () => true): QueryShard {
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
  add(
    { count, persons, timesMs, sequences, values: [column] }: EventColumns,
    variantOf: Uint8Array,
  ) {
    if (column === undefined) return
    this.#reserve(count)
    const rows = this.#rows
    const { index: first, count: parts } = this.#part
    for (let index = 0; index < count; index++) {
      const variant = variantOf[column.ids[index] ?? 0] ?? 0
      if (variant === 0) continue
      const person = persons[index] ?? 0
      // A part by persons contains every `parts`-th person.
      const slot = (person - first) / parts
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
  { match, variantKey, variants, filter, range }: ExposurePlan,
  shard: QueryShard,
): ExposedPersons {
  const { scanner, context, part } = shard
  const personEnd = scanner.extent(context.projectId).lastPerson + 1
  const exposed = new ExposedPersons(personEnd, part)
  const { fromMs, toMs } = range
  if (fromMs > toMs) return exposed
  const variantOf = (value: unknown): number => variants.indexOf(propertyText(value)) + 1
  const values = [{ kind: 'event_property', key: variantKey }] as const
  scanShardChunks(
    shard,
    { fromMs, toMs, filter, series: [match], values, areValuesLocal: true, order: 'unsorted' },
    (chunk) => exposed.add(chunk, Uint8Array.from(chunk.values[0]?.values ?? [], variantOf)),
  )
  scanner.releaseResults()
  return exposed
}
