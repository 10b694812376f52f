/**
 * Computes the usual funnel, which has ordered steps of persons and nothing else, in one pass over the events in the
 * order of arrival. A few numbers for each person replace collecting, sorting and copying events. If the events of a
 * person did not arrive in the order of time, or an event was several steps at once, the person is left to
 * `WalkCollector`, which implements all rules. Source: docs/compatibility/queries.md, "FunnelsQuery".
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
 * The persons and the steps that they reached. Entry i of `persons` and `reached` belongs to walk i. `timesMs` contains
 * the times of the reached steps, walk after walk.
 */
export interface StreamFound {
  readonly persons: Uint32Array
  readonly reached: Uint8Array
  readonly timesMs: Float64Array
}

/**
 * Times in milliseconds since one millisecond before the range began, so that 0 means no time. Ranges of up to 49 days
 * fit into 32 bits, which halves the memory.
 */
type Times = Uint32Array | Float64Array

/**
 * The state of a person consists of `widthOf` numbers, in this order: the time of the last event, the number of steps
 * reached, the times of the furthest chain (one for each step), the time of the latest chain of one step, the two times
 * of the latest chain of two steps, and so on.
 */
const REACHED = 1
/** The index of the furthest chain's times in the state of a person. */
const FURTHEST = 2

/** The step number that is stored for an event that matches several steps at once. */
const SEVERAL_STEPS = 255
/**
 * An event is one 32-bit number: the step in the upper 8 bits, and the index of the person's state (the slot) in the
 * lower 24.
 */
const STEP_SHIFT = 24
const SLOT_BITS = 0xff_ffff

/**
 * Replaces the time of the last event in the state of a person whose events did not arrive in order. It is later than
 * every time, so all further events of this person count as out of order too.
 */
const SHORT_DISORDER = 2 ** 32 - 1
const DISORDER = Number.POSITIVE_INFINITY

/** Returns whether `FunnelStream` can compute a funnel. `personEnd` is one more than the largest person number. */
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

/** Events are processed in chunks of this size. The events of a chunk are first grouped into 64 blocks of persons. */
const CHUNK_EVENTS = 2 ** 17
const BLOCK_BITS = 6
const BLOCKS = 2 ** BLOCK_BITS

/** Events in parallel lists. An entry of `whats` contains the step and the slot of the person. */
interface Events {
  readonly whats: Uint32Array
  readonly timesMs: Times
}

/**
 * The memory of one funnel, which the next funnel reuses. Otherwise, megabytes would stay allocated until V8 collects
 * them.
 */
interface StreamMemory {
  readonly arrived: Events
  readonly ordered: Events
  readonly numbers: Times
}

/**
 * The memory of the last funnel on this thread whose range was short enough for 32-bit `Times`. Null while a funnel
 * uses it.
 */
let spare: StreamMemory | null = null

/** Returns memory for a funnel. Its `numbers` are all 0. */
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

/** The state of one funnel while its events are read. */
export class FunnelStream {
  readonly #stepCount: number
  readonly #windowMs: number
  readonly #width: number
  readonly #part: PersonPart
  /** The moment from which `Times` count: one millisecond before the range. */
  readonly #baseMs: number
  readonly #disorder: number
  readonly #numbers: Times
  /** The number of low bits to drop from a person's slot to get the number of the person's block. */
  readonly #slotBits: number
  readonly #arrived: Events
  readonly #ordered: Events
  /**
   * First, entry i + 1 contains the number of events of block i. `#flush` then adds the entries up, so that entry i is
   * the position of the first event of block i.
   */
  readonly #blocks = new Uint32Array(BLOCKS + 1)
  #count = 0
  readonly #order = new ArrivalOrder()
  #hasDisorder = false

  /** Allocates the memory for all persons of a part. Their numbers must be below `personEnd`. */
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

  /**
   * Call it when the funnel is finished. The next funnel on this thread can then reuse the memory, unless it is large.
   */
  release(): void {
    const numbers = this.#numbers
    if (!(numbers instanceof Uint32Array) || numbers.byteLength > FUNNEL_SPARE_BYTES_MAX) return
    const [arrived, ordered] = [this.#arrived, this.#ordered]
    spare = { arrived, ordered, numbers: new Uint32Array(numbers.buffer) }
  }

  /**
   * Processes a chunk of a scan, which may have any number of rows. The chunks of a scan must come in the order of
   * arrival. The rows within a chunk may be in any order.
   */
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
      // This class only handles whole milliseconds. An event whose time has a fraction is treated as if it matched
      // several steps, so its person is left to `WalkCollector`.
      const isOne = (mask & (mask - 1)) === 0 && Number.isInteger(timeMs)
      const step = isOne ? 31 - Math.clz32(mask) : SEVERAL_STEPS
      whats[place] = (step << STEP_SHIFT) | slot
      times[place] = timeMs
      const block = (slot >>> slotBits) + 1
      blocks[block] = (blocks[block] ?? 0) + 1
    }
  }

  /**
   * Returns a list that contains 1 at the person number of each person whose events did not arrive in order. Returns
   * null if there is no such person. The cost is linear in the number of persons.
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
   * Returns all persons that reached at least `needed` steps, except those whose events did not arrive in order. Throws
   * the same errors as `PacedLimits.count`.
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

  /**
   * Returns the number of steps that a person reached. It is 0 if there are fewer than `needed`, or if the person's
   * events did not arrive in order.
   */
  #reached(at: number, needed: number): number {
    const reached = this.#numbers[at + REACHED] ?? 0
    return reached < needed || this.#numbers[at] === this.#disorder ? 0 : reached
  }

  /**
   * Processes the events that were added since the last call, grouped by blocks of persons. The states of all persons
   * do not fit into the CPU cache, and without the grouping most of the time would be spent waiting for memory.
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
      // Events at the same time, and an event that is several steps, need the full rules of `WalkCollector`.
      if (timeMs <= (numbers[at] ?? 0) || step === SEVERAL_STEPS) {
        numbers[at] = this.#disorder
        this.#hasDisorder = true
        continue
      }
      numbers[at] = timeMs
      if (numbers[at + REACHED] !== this.#stepCount) this.#take(at, timeMs, step)
    }
  }

  /**
   * Processes an event as a step, counted from 0. It begins a chain, or continues the chain that has all steps before
   * it.
   */
  #take(at: number, timeMs: number, step: number): void {
    const numbers = this.#numbers
    const furthest = at + FURTHEST
    const chains = furthest + this.#stepCount
    const reached = numbers[at + REACHED] ?? 0
    // The first step is the most frequent one, and needs no search for a chain.
    if (step === 0) {
      numbers[chains] = timeMs
      if (reached !== 0) return
      numbers[at + REACHED] = 1
      numbers[furthest] = timeMs
      return
    }
    // The chains are stored one after the other. A chain of one step has one time, a chain of two steps has two, and so
    // on.
    const from = chains + (step * (step - 1)) / 2
    const to = from + step
    const startMs = numbers[from] ?? 0
    if (startMs === 0 || timeMs - startMs > this.#windowMs) return
    // The chain already continued with an earlier event of this step.
    if (numbers[to] === startMs) return
    for (let done = 0; done < step; done++) numbers[to + done] = numbers[from + done] ?? 0
    numbers[to + step] = timeMs
    if (step < reached) return
    numbers[at + REACHED] = step + 1
    for (let done = 0; done <= step; done++) numbers[furthest + done] = numbers[to + done] ?? 0
  }
}

/** Returns how many numbers the state of a person consists of. */
function widthOf(stepCount: number): number {
  return FURTHEST + stepCount + (stepCount * (stepCount + 1)) / 2
}

/**
 * Sorts the rows of a chunk of a scan by their sequence numbers. The sequence numbers of one chunk are close together.
 */
class ArrivalOrder {
  #rows = new Uint32Array(0)
  /** For each sequence number of the range, the row of the event. Only entries with a bit in `#bits` are valid. */
  #rowAt = new Uint32Array(0)
  /** A bit for each sequence number of the range that occurs. */
  #bits = new Uint32Array(0)

  /**
   * Returns the rows in the order of arrival. The next call overwrites the list. The cost is linear in the rows, plus a
   * few steps for every 32 sequence numbers in the range.
   */
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
