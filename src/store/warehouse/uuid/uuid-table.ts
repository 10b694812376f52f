/**
 * The newest entries of the uuid index, in memory: an open-addressing table of (fingerprint, S) that
 * holds the same fingerprint as often as it is added. Entries are never removed one by one.
 */

const SLOTS_FIRST = 4096

/** A table of fingerprints. It grows as needed: 12 bytes a slot, at most half of the slots in use. */
export class UuidTable {
  count = 0
  #highs = new Int32Array(SLOTS_FIRST)
  #lows = new Int32Array(SLOTS_FIRST)
  /** S; 0 marks a free slot. */
  #sequences = new Uint32Array(SLOTS_FIRST)
  #mask = SLOTS_FIRST - 1

  add(high: number, low: number, sequence: number): void {
    if ((this.count + 1) * 2 > this.#sequences.length) this.#grow()
    this.count++
    const sequences = this.#sequences
    let slot = low & this.#mask
    while (sequences[slot] !== 0) slot = (slot + 1) & this.#mask
    this.#highs[slot] = high
    this.#lows[slot] = low
    sequences[slot] = sequence
  }

  /** Appends the S of every entry with that fingerprint to `found`. */
  find(high: number, low: number, found: number[]): void {
    const sequences = this.#sequences
    let slot = low & this.#mask
    for (;;) {
      const sequence = sequences[slot] ?? 0
      if (sequence === 0) return
      if (this.#lows[slot] === low && this.#highs[slot] === high) found.push(sequence)
      slot = (slot + 1) & this.#mask
    }
  }

  /** Forgets everything. */
  clear(): void {
    this.count = 0
    this.#sequences.fill(0)
  }

  /** Calls `visit` for every entry, in order of the fingerprint as unsigned number. */
  visitSorted(visit: (high: number, low: number, sequence: number) => void): void {
    const highs = new Uint32Array(this.count)
    const lows = new Uint32Array(this.count)
    const taken = new Uint32Array(this.count)
    let index = 0
    for (let slot = 0; slot < this.#sequences.length; slot++) {
      const sequence = this.#sequences[slot] ?? 0
      if (sequence === 0) continue
      highs[index] = this.#highs[slot] ?? 0
      lows[index] = this.#lows[slot] ?? 0
      taken[index++] = sequence
    }
    const order = sortedOrder(highs, lows)
    for (const position of order) {
      visit(highs[position] ?? 0, lows[position] ?? 0, taken[position] ?? 0)
    }
  }

  #grow(): void {
    const highs = this.#highs
    const lows = this.#lows
    const sequences = this.#sequences
    const slots = sequences.length * 2
    this.#highs = new Int32Array(slots)
    this.#lows = new Int32Array(slots)
    this.#sequences = new Uint32Array(slots)
    this.#mask = slots - 1
    this.count = 0
    for (let slot = 0; slot < sequences.length; slot++) {
      const sequence = sequences[slot] ?? 0
      if (sequence !== 0) this.add(highs[slot] ?? 0, lows[slot] ?? 0, sequence)
    }
  }
}

/** Positions in ascending order of (high, low): two counting passes over the high half, then ties. */
function sortedOrder(highs: Uint32Array, lows: Uint32Array): Uint32Array {
  const count = highs.length
  let order = Uint32Array.from({ length: count }, (_, position) => position)
  let next = new Uint32Array(count)
  for (const shift of [0, 16]) {
    const starts = new Uint32Array(65_537)
    for (let index = 0; index < count; index++) {
      const digit = ((highs[index] ?? 0) >>> shift) & 0xffff
      starts[digit + 1] = (starts[digit + 1] ?? 0) + 1
    }
    for (let digit = 0; digit < 65_536; digit++) {
      starts[digit + 1] = (starts[digit + 1] ?? 0) + (starts[digit] ?? 0)
    }
    for (let index = 0; index < count; index++) {
      const position = order[index] ?? 0
      const digit = ((highs[position] ?? 0) >>> shift) & 0xffff
      const target = starts[digit] ?? 0
      next[target] = position
      starts[digit] = target + 1
    }
    ;[order, next] = [next, order]
  }
  sortTies(order, highs, lows)
  return order
}

function sortTies(order: Uint32Array, highs: Uint32Array, lows: Uint32Array): void {
  const byLow = (a: number, b: number): number => (lows[a] ?? 0) - (lows[b] ?? 0)
  let start = 0
  for (let index = 1; index <= order.length; index++) {
    const isSame = index < order.length && highs[order[index] ?? 0] === highs[order[start] ?? 0]
    if (isSame) continue
    if (index - start > 1) order.subarray(start, index).sort(byLow)
    start = index
  }
}
