/** The edges of paths. An edge says that one step followed another; it has a number of occurrences and a total time. */
import { ServiceError } from '../../../base/errors.ts'
import { PATH_EDGES_MAX } from '../limits.ts'

/** The number of slots of an empty hash table, a power of two. */
const SLOTS_MIN = 1024
const HASH_FACTOR = 0x9e3779b1

/** Edges as plain data. Entry i of each list, except `texts`, belongs to edge i. */
export interface PathEdges {
  /** The items of all steps as texts. */
  readonly texts: readonly string[]
  /** The step that each edge leads from, counted from 0. */
  readonly steps: Uint32Array
  /** For each edge, the items at its start and at its end, as positions in `texts`. */
  readonly sources: Uint32Array
  readonly targets: Uint32Array
  /** The number of times that each edge occurred. */
  readonly counts: Float64Array
  /** The total time that all occurrences of each edge took, in microseconds. */
  readonly totalsUs: Float64Array
  /** The positions of those edges that at least one actor followed several times. Empty if that was not checked. */
  readonly repeated: ReadonlySet<number>
}

/** A set of edges with their sums, as a hash table with open addressing. */
export class EdgeTable {
  /** For each slot, the number of its edge plus one. 0 means that the slot is free. */
  #slots = new Uint32Array(SLOTS_MIN)
  #count = 0
  #steps = new Uint32Array(SLOTS_MIN / 2)
  #sources = new Uint32Array(SLOTS_MIN / 2)
  #targets = new Uint32Array(SLOTS_MIN / 2)
  #counts = new Float64Array(SLOTS_MIN / 2)
  #totalsUs = new Float64Array(SLOTS_MIN / 2)

  /**
   * Adds `count` occurrences of an edge and returns its position. Throws 400 `query_too_large` if there are too many
   * different edges.
   */
  add(step: number, source: number, target: number, count: number, totalUs: number): number {
    const edge = this.#edgeOf(step, source, target)
    this.#counts[edge] = (this.#counts[edge] ?? 0) + count
    this.#totalsUs[edge] = (this.#totalsUs[edge] ?? 0) + totalUs
    return edge
  }

  /** Returns the edges in the order of their first occurrence. `texts` and `repeated` become members of the result. */
  edges(texts: readonly string[], repeated: ReadonlySet<number>): PathEdges {
    const count = this.#count
    return {
      texts,
      steps: this.#steps.slice(0, count),
      sources: this.#sources.slice(0, count),
      targets: this.#targets.slice(0, count),
      counts: this.#counts.slice(0, count),
      totalsUs: this.#totalsUs.slice(0, count),
      repeated,
    }
  }

  #edgeOf(step: number, source: number, target: number): number {
    const slot = this.#slotOf(step, source, target)
    const known = this.#slots[slot] ?? 0
    if (known > 0) return known - 1
    if (this.#count === PATH_EDGES_MAX) {
      const detail = `The result has more than ${PATH_EDGES_MAX} different edges. Choose a shorter range, or use \`pathGroupings\`.`
      throw new ServiceError('query_too_large', detail)
    }
    const edge = this.#count++
    this.#steps[edge] = step
    this.#sources[edge] = source
    this.#targets[edge] = target
    this.#slots[slot] = edge + 1
    if (this.#count === this.#steps.length) this.#grow()
    return edge
  }

  /** Returns the slot of an edge, or the free slot in which it is to be stored. */
  #slotOf(step: number, source: number, target: number): number {
    const mask = this.#slots.length - 1
    let hash = Math.imul(source, HASH_FACTOR) ^ Math.imul(step, 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 15) ^ target, HASH_FACTOR)
    let slot = (hash ^ (hash >>> 16)) & mask
    for (;;) {
      const edge = (this.#slots[slot] ?? 0) - 1
      if (edge < 0) return slot
      const isPair = this.#sources[edge] === source && this.#targets[edge] === target
      if (isPair && this.#steps[edge] === step) return slot
      slot = (slot + 1) & mask
    }
  }

  /** Doubles the arrays. There are twice as many slots as edges, so at most half of the slots are taken. */
  #grow(): void {
    const length = this.#steps.length * 2
    this.#steps = longer(this.#steps, new Uint32Array(length))
    this.#sources = longer(this.#sources, new Uint32Array(length))
    this.#targets = longer(this.#targets, new Uint32Array(length))
    this.#counts = longer(this.#counts, new Float64Array(length))
    this.#totalsUs = longer(this.#totalsUs, new Float64Array(length))
    this.#slots = new Uint32Array(length * 2)
    for (let edge = 0; edge < this.#count; edge++) {
      const [step = 0, source = 0] = [this.#steps[edge], this.#sources[edge]]
      this.#slots[this.#slotOf(step, source, this.#targets[edge] ?? 0)] = edge + 1
    }
  }
}

function longer<List extends { set(from: List): void }>(list: List, into: List): List {
  into.set(list)
  return into
}
