/**
 * Computes the usual funnel, which has ordered steps of persons and nothing else, in one pass over the events in the
 * order of arrival. A few numbers for each person replace collecting, sorting and copying events. Persons whose events
 * did not arrive in the order of time, or were several steps at once, are left to `WalkCollector`, which implements all
 * rules.
 * Source: docs/compatibility/queries.md, "FunnelsQuery".
 */
import type { EventColumns } from '../../analytics/event-columns.ts'
import { inOwnMemory } from '../../analytics/growing-arrays.ts'
import { FUNNEL_SPARE_BYTES_MAX, FUNNEL_STREAM_BYTES_MAX } from '../limits.ts'
import type { PacedLimits } from '../paced-limits.ts'
import type { FunnelsPlan } from './funnel-request.ts'

/** One of `count` parts of the persons: every `count`-th person, starting at `index`. */
export interface PersonPart {
  readonly index: number
  readonly count: number
}

/**
 * The persons and the steps that they reached, as parallel lists by person number. `timesMs` contains the times of the
 * steps, one person after the other.
 */
export interface StreamFound {
  readonly persons: Uint32Array
  readonly reached: Uint8Array
  readonly timesMs: Float64Array
}

/** Whole milliseconds since the range began, plus one: 0 is none. Half the memory where it is shorter than 49 days. */
type Times = Uint32Array | Float64Array

/** In the numbers of a person, behind the time of its last event: the steps reached. */
const REACHED = 1
/** When it did each of them; behind that, for each number of steps, the times of the latest chain of as many. */
const FURTHEST = 2

/** In the place of a step. */
const SEVERAL_STEPS = 255
/** Where the step is in the number of an event; its person is below. */
const STEP_SHIFT = 24
const SLOT_BITS = 0xff_ffff

/** A time behind all others: that of a person whose events are in no order. */
const SHORT_DISORDER = 2 ** 32 - 1
const DISORDER = Number.POSITIVE_INFINITY

/** Returns whether a funnel can be computed in this way. `personEnd` is one more than the largest person number. */
export function isStreamed(
  { visual, rules, breakdown, groupTypeIndex }: FunnelsPlan,
  personEnd: number,
): boolean {
  const { order, stepCount, exclusions } = rules
  const isUsual = visual !== 'trends' && order === 'ordered' && exclusions.length === 0
  if (!isUsual || breakdown !== null || groupTypeIndex !== null) return false
  const bytes = personEnd * widthOf(stepCount) * Float64Array.BYTES_PER_ELEMENT
  return bytes <= FUNNEL_STREAM_BYTES_MAX && personEnd <= SLOT_BITS
}

/** Events that are brought into the order of their persons at a time, and blocks of the persons that these come in. */
const CHUNK_EVENTS = 2 ** 17
const BLOCK_BITS = 6
const BLOCKS = 2 ** BLOCK_BITS

/** Events of persons, in parallel lists: of whom and which step, and when. */
interface Events {
  readonly whats: Uint32Array
  readonly timesMs: Times
}

/**
 * The memory of one funnel, which the next one reuses. Otherwise, megabytes would stay allocated until V8 collects
 * them.
 */
interface StreamMemory {
  readonly arrived: Events
  readonly ordered: Events
  readonly numbers: Times
}

/** Of the last funnel of this thread over a short range; null: somebody has it. */
let spare: StreamMemory | null = null

/** `numbers` are zeros. */
function takeMemory(length: number, isShort: boolean): StreamMemory {
  const known = isShort ? spare : null
  if (isShort) spare = null
  const create = (count: number): Times =>
    isShort ? new Uint32Array(count) : new Float64Array(count)
  const events = (): Events => {
    return { whats: new Uint32Array(CHUNK_EVENTS), timesMs: create(CHUNK_EVENTS) }
  }
  const { arrived = events(), ordered = events() } = known ?? {}
  const isLargeEnough = known !== null && known.numbers.length >= length
  const numbers = isLargeEnough ? known.numbers.subarray(0, length).fill(0) : create(length)
  return { arrived, ordered, numbers }
}

/** One funnel while the events are read. */
export class FunnelStream {
  readonly #stepCount: number
  readonly #windowMs: number
  readonly #width: number
  readonly #part: PersonPart
  /** One millisecond before the range. */
  readonly #baseMs: number
  readonly #disorder: number
  readonly #numbers: Times
  /** Bits of the number of a person in its part, without those of its block. */
  readonly #slotBits: number
  readonly #arrived: Events
  readonly #ordered: Events
  /** Events that arrived in each block, one place further. */
  readonly #blocks = new Uint32Array(BLOCKS + 1)
  #count = 0
  readonly #order = new ArrivalOrder()
  #hasDisorder = false

  /** Allocates memory for all persons of a part whose number is below `personEnd`. */
  constructor(
    {
      rules: { stepCount, windowMs },
      range: { fromMs, toMs },
    }: Pick<FunnelsPlan, 'rules' | 'range'>,
    personEnd: number,
    part: PersonPart,
  ) {
    this.#stepCount = stepCount
    this.#windowMs = windowMs
    this.#width = widthOf(stepCount)
    this.#part = part
    this.#baseMs = fromMs - 1
    const isShort = toMs - this.#baseMs < SHORT_DISORDER
    this.#disorder = isShort ? SHORT_DISORDER : DISORDER
    const slots = Math.ceil(personEnd / part.count)
    this.#slotBits = Math.max(0, 32 - Math.clz32(slots) - BLOCK_BITS)
    const memory = takeMemory(slots * this.#width, isShort)
    this.#numbers = memory.numbers
    this.#arrived = memory.arrived
    this.#ordered = memory.ordered
  }

  /** Ends the funnel. The next funnel of this thread may reuse its memory, unless it is large. */
  giveBack(): void {
    const numbers = this.#numbers
    if (!(numbers instanceof Uint32Array) || numbers.byteLength > FUNNEL_SPARE_BYTES_MAX) return
    const [arrived, ordered] = [this.#arrived, this.#ordered]
    spare = { arrived, ordered, numbers: new Uint32Array(numbers.buffer) }
  }

  /** Processes a piece of a scan. Pieces must come in the order of arrival; the rows of a piece may be in any order. */
  add({ count, persons, timesMs, seriesMasks, sequences }: EventColumns): void {
    const { index: firstPerson, count: parts } = this.#part
    const { whats, timesMs: times } = this.#arrived
    const [blocks, slotBits, baseMs] = [this.#blocks, this.#slotBits, this.#baseMs]
    const rows = this.#order.of(sequences, count)
    for (let index = 0; index < count; index++) {
      const row = rows[index] ?? 0
      if (this.#count === CHUNK_EVENTS) this.#flush()
      const place = this.#count++
      const slot = Math.floor(((persons[row] ?? 0) - firstPerson) / parts)
      const timeMs = (timesMs[row] ?? 0) - baseMs
      const mask = seriesMasks[row] ?? 0
      // What lies between two milliseconds is not kept as it is.
      const isOne = (mask & (mask - 1)) === 0 && Number.isInteger(timeMs)
      const step = isOne ? 31 - Math.clz32(mask) : SEVERAL_STEPS
      whats[place] = (step << STEP_SHIFT) | slot
      times[place] = timeMs
      const block = (slot >>> slotBits) + 1
      blocks[block] = (blocks[block] ?? 0) + 1
    }
  }

  /**
   * Returns the persons whose events were not in order: 1 at each person number. Returns null if there are none. The
   * cost is linear in the persons.
   */
  disordered(): Uint8Array | null {
    this.#flush()
    if (!this.#hasDisorder) return null
    const [numbers, width] = [this.#numbers, this.#width]
    const { index, count } = this.#part
    const slots = numbers.length / width
    const marks = new Uint8Array(slots * count + index)
    for (let slot = 0; slot < slots; slot++) {
      if (numbers[slot * width] === this.#disorder) marks[slot * count + index] = 1
    }
    return marks
  }

  /**
   * Returns all persons that reached at least `needed` steps, except those whose events were not in order. Throws as
   * `limits`.
   */
  found(needed: number, limits: PacedLimits): StreamFound {
    this.#flush()
    const [numbers, width] = [this.#numbers, this.#width]
    const { index, count } = this.#part
    let [walks, steps] = [0, 0]
    for (let at = 0; at < numbers.length; at += width) {
      const reached = this.#reached(at, needed)
      walks += reached === 0 ? 0 : 1
      steps += reached
    }
    limits.count(numbers.length / width)
    const persons = inOwnMemory(new Uint32Array(walks))
    const allReached = inOwnMemory(new Uint8Array(walks))
    const timesMs = inOwnMemory(new Float64Array(steps))
    let [walk, time] = [0, 0]
    for (let at = 0, slot = 0; at < numbers.length; at += width, slot++) {
      const reached = this.#reached(at, needed)
      if (reached === 0) continue
      persons[walk] = slot * count + index
      allReached[walk++] = reached
      for (let step = 0; step < reached; step++) {
        timesMs[time++] = this.#baseMs + (numbers[at + FURTHEST + step] ?? 0)
      }
    }
    return { persons, reached: allReached, timesMs }
  }

  /** Steps that a person reached; 0 where these are too few, or its events are in no order. */
  #reached(at: number, needed: number): number {
    const reached = this.#numbers[at + REACHED] ?? 0
    return reached < needed || this.#numbers[at] === this.#disorder ? 0 : reached
  }

  /**
   * Takes the events so far, those of neighbouring persons together: numbers of persons lie all over the memory, and
   * waiting for them is most of the work when they are asked for as the events arrived.
   */
  #flush(): void {
    const count = this.#count
    this.#count = 0
    const [next, slotBits] = [this.#blocks, this.#slotBits]
    const { whats, timesMs } = this.#arrived
    const ordered = this.#ordered
    for (let block = 1; block < BLOCKS; block++)
      next[block] = (next[block] ?? 0) + (next[block - 1] ?? 0)
    for (let place = 0; place < count; place++) {
      const what = whats[place] ?? 0
      const block = (what & SLOT_BITS) >>> slotBits
      const to = next[block] ?? 0
      next[block] = to + 1
      ordered.whats[to] = what
      ordered.timesMs[to] = timesMs[place] ?? 0
    }
    next.fill(0)
    this.#takeAll(count)
  }

  #takeAll(count: number): void {
    const { whats, timesMs } = this.#ordered
    const [numbers, width] = [this.#numbers, this.#width]
    for (let place = 0; place < count; place++) {
      const what = whats[place] ?? 0
      const at = (what & SLOT_BITS) * width
      const timeMs = timesMs[place] ?? 0
      const step = what >>> STEP_SHIFT
      // Of several events at one time, and of one that is several steps, the rules need all.
      if (timeMs <= (numbers[at] ?? 0) || step === SEVERAL_STEPS) {
        numbers[at] = this.#disorder
        this.#hasDisorder = true
        continue
      }
      numbers[at] = timeMs
      if (numbers[at + REACHED] !== this.#stepCount) this.#take(at, timeMs, step)
    }
  }

  /** An event as a step from 0: it begins a chain, or goes on with the one of all steps before. */
  #take(at: number, timeMs: number, step: number): void {
    const numbers = this.#numbers
    const furthest = at + FURTHEST
    const chains = furthest + this.#stepCount
    const reached = numbers[at + REACHED] ?? 0
    // Most events are the first step.
    if (step === 0) {
      numbers[chains] = timeMs
      if (reached !== 0) return
      numbers[at + REACHED] = 1
      numbers[furthest] = timeMs
      return
    }
    // They lie behind each other: that of one step has one time, that of two has two.
    const from = chains + (step * (step - 1)) / 2
    const to = from + step
    const startMs = numbers[from] ?? 0
    if (startMs === 0 || timeMs - startMs > this.#windowMs) return
    // It went on with an earlier event.
    if (numbers[to] === startMs) return
    for (let done = 0; done < step; done++) numbers[to + done] = numbers[from + done] ?? 0
    numbers[to + step] = timeMs
    if (step < reached) return
    numbers[at + REACHED] = step + 1
    for (let done = 0; done <= step; done++) numbers[furthest + done] = numbers[to + done] ?? 0
  }
}

/** Numbers of a person. */
function widthOf(stepCount: number): number {
  return FURTHEST + stepCount + (stepCount * (stepCount + 1)) / 2
}

/** Rows of a piece, which lies in one range of the order of arrival, in that order. */
class ArrivalOrder {
  #rows = new Uint32Array(0)
  /** At each position of the range the row that is there, where there is one. */
  #rowAt = new Uint32Array(0)
  /** A bit for each place. */
  #bits = new Uint32Array(0)

  /** The list is used again. Linear in the rows, and some steps for 32 positions of the range. */
  of(sequences: Uint32Array, count: number): Uint32Array {
    let [first, last] = [Number.POSITIVE_INFINITY, 0]
    for (let row = 0; row < count; row++) {
      const sequence = sequences[row] ?? 0
      if (sequence > last) last = sequence
      if (sequence < first) first = sequence
    }
    const length = Math.max(0, last - first + 1)
    if (this.#rowAt.length < length) {
      this.#rowAt = new Uint32Array(length)
      this.#bits = new Uint32Array((length >>> 5) + 1)
    }
    if (this.#rows.length < count) this.#rows = new Uint32Array(count)
    const [rows, rowAt, bits] = [this.#rows, this.#rowAt, this.#bits]
    for (let row = 0; row < count; row++) {
      const place = (sequences[row] ?? 0) - first
      rowAt[place] = row
      bits[place >>> 5] = (bits[place >>> 5] ?? 0) | (1 << (place & 31))
    }
    let found = 0
    for (let word = 0; word << 5 < length; word++) {
      for (let left = bits[word] ?? 0; left !== 0; left &= left - 1) {
        rows[found++] = rowAt[(word << 5) + 31 - Math.clz32(left & -left)] ?? 0
      }
      bits[word] = 0
    }
    return rows
  }
}
