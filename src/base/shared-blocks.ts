/**
 * Memory in which several threads keep finished blocks of bytes together, each under a name: what one thread has
 * made, all others find. A thread works in spells. What it finds in a spell stays as it is until the spell ends;
 * between spells it keeps what it knows of a block, and asks whether that still holds (`use`). Blocks that no spell
 * has used make room for others, those that were used longest ago first. Nobody waits for anybody longer than a copy
 * takes, and a block that finds no room is simply not kept. Source: docs/decisions/040-shared-column-cache.md.
 */
import { BLOCK_CHUNK_BYTES_MAX, BLOCK_LOCK_WAITS_MAX } from './limits.ts'

/** Blocks begin at multiples of it. */
const UNIT_BYTES = 4096
const CHUNK_UNITS = BLOCK_CHUNK_BYTES_MAX / UNIT_BYTES
const WORD_BITS = 32
const WORD_SHIFT = 5
/** As much of the memory is given back at once, at least, so that looking for what is old is rare. */
const FREED_SHARE = 32
/** As much of all is for what each thread keeps for itself, all together. */
const OWN_SHARE = 8
/** For so long one look at the lock waits, milliseconds. */
const LOCK_WAIT_MS = 1
/** Numbers of a name: enough that no two names are alike (they come from a cryptographic hash). */
export const NAME_WORDS = 4

/** Numbers of the memory's own state. */
const LOCK = 0
/** A thread went away with the lock, or held it for too long: nobody trusts what is there. */
const IS_BROKEN = 1
/** Of spells: each has a number, and later ones have larger ones. */
const CLOCK = 2
/** Where the next search for room begins. */
const NEXT_UNIT = 3
const USED_UNITS = 4
/** The first entry of those that were given back; 0 is none. */
const FREE_ENTRY = 5
/** Entries from here on were never used. */
const FRESH_ENTRY = 6
/** The spell of each thread; 0: it is in none. */
const SPELLS = 7

/** Numbers of an entry: its name, and then these. */
const NEXT = NAME_WORDS
/** Another one: what was known of the entry does not hold any more. */
const GENERATION = NAME_WORDS + 1
/** The last spell that used it. */
const USED_IN = NAME_WORDS + 2
const UNIT = NAME_WORDS + 3
/** 0: the entry is free. */
const UNITS = NAME_WORDS + 4
const BYTES = NAME_WORDS + 5
const ENTRY_WORDS = NAME_WORDS + 6

/** Spells that lie between, as far as they count, and entries: together a whole number that a float64 holds. */
const OLDEST_AGE = 2 ** 27 - 1
const ENTRY_NUMBERS = 2 ** 25

/** The memory as it is handed to threads: plain data, all of it shared. */
export interface BlockMemory {
  readonly threads: number
  readonly unitCount: number
  /** Touched only where blocks lie; each at most `BLOCK_CHUNK_BYTES_MAX`. */
  readonly chunks: readonly SharedArrayBuffer[]
  readonly state: Int32Array
  /** A bit for each unit that is used. */
  readonly bits: Int32Array
  /** By the first number of the name: the first entry of those that share it; 0 is none. */
  readonly heads: Int32Array
  readonly entries: Int32Array
}

/** What a thread is told of the memory for what it keeps. */
export interface BlockShare {
  /** Of all threads. */
  readonly shared: BlockMemory
  /** The number of the thread. */
  readonly index: number
  /** Of what each thread keeps for itself, and of all that is kept; bytes. */
  readonly ownBytesMax: number
  readonly bytesMax: number
}

/** What a thread knows of a block. */
export interface Block {
  readonly entry: number
  readonly generation: number
  /** Its memory, and what was put there. */
  readonly bytes: Uint8Array
  /** The spell in which the thread has used it last. */
  spell: number
}

/** Memory of `bytesMax` bytes for so many threads. Throws RangeError where the machine has no such addresses. */
export function blockMemory(bytesMax: number, threads: number): BlockMemory {
  const unitCount = Math.floor(bytesMax / UNIT_BYTES)
  const headCount = 2 ** Math.ceil(Math.log2(unitCount + 1))
  const chunks: SharedArrayBuffer[] = []
  for (let unit = 0; unit < unitCount; unit += CHUNK_UNITS) {
    chunks.push(new SharedArrayBuffer(Math.min(CHUNK_UNITS, unitCount - unit) * UNIT_BYTES))
  }
  const memory = {
    ...{ threads, unitCount, chunks },
    state: sharedWords(SPELLS + threads),
    bits: sharedWords(Math.ceil(unitCount / WORD_BITS)),
    heads: sharedWords(headCount),
    // Entries are counted from 1.
    entries: sharedWords((unitCount + 1) * ENTRY_WORDS),
  }
  memory.state[FRESH_ENTRY] = 1
  return memory
}

/** The shares of so many threads, which are alike, of `bytesMax` bytes. Throws as `blockMemory`. */
export function blockShares(bytesMax: number, threads: number): readonly BlockShare[] {
  const ownBytesMax = Math.floor(bytesMax / OWN_SHARE / threads)
  const shared = blockMemory(bytesMax - ownBytesMax * threads, threads)
  return Array.from({ length: threads }, (_, index) => ({ shared, index, ownBytesMax, bytesMax }))
}

/** Bytes of all blocks of all threads. */
export function usedBlockBytes({ state }: BlockMemory): number {
  return Atomics.load(state, USED_UNITS) * UNIT_BYTES
}

/** One thread's way to the blocks. */
export class SharedBlocks {
  readonly #memory: BlockMemory
  readonly #index: number
  /** The number of the spell; that of the last one between spells. */
  #spell = 0
  /** The spell in which nothing could be given up. */
  #fullIn = 0
  #isUsable = false

  /** `index`: the number of the thread, which no other has now. One that ended before it may have had it. */
  constructor(memory: BlockMemory, index: number) {
    this.#memory = memory
    this.#index = index
    const { state } = memory
    Atomics.store(state, SPELLS + index, 0)
    if (Atomics.load(state, LOCK) === index + 1) Atomics.store(state, IS_BROKEN, 1)
  }

  /** Bytes of all blocks of all threads. */
  get usedBytes(): number {
    return usedBlockBytes(this.#memory)
  }

  /** A spell begins, and the last one ends. */
  begin(): void {
    const { state } = this.#memory
    const own = SPELLS + this.#index
    // Before it has a number of its own: whoever does not see it now has an earlier one. 0 would say that there is none.
    Atomics.store(state, own, Atomics.load(state, CLOCK) || -1)
    this.#spell = (Atomics.add(state, CLOCK, 1) + 1) | 0 || 1
    Atomics.store(state, own, this.#spell)
    this.#isUsable = Atomics.load(state, IS_BROKEN) === 0 || this.#repair()
  }

  /** Whatever the spell has found may go, now or later. */
  end(): void {
    Atomics.store(this.#memory.state, SPELLS + this.#index, 0)
    this.#isUsable = false
  }

  /** Whether a block is still what it was. Only within a spell. */
  use(block: Block): boolean {
    if (block.spell === this.#spell) return this.#isUsable
    if (!this.#isUsable) return false
    const { entries } = this.#memory
    const at = block.entry * ENTRY_WORDS
    // In this order: whoever gives it up says so first, and then looks whether anybody uses it (`#giveUp`).
    this.#markUsed(at)
    if (Atomics.load(entries, at + GENERATION) !== block.generation) return false
    block.spell = this.#spell
    return true
  }

  /** The block of a name, or null. Only within a spell. */
  find(name: Uint32Array): Block | null {
    if (!this.#isUsable || !this.#lock()) return null
    const entry = this.#find(name)
    const block = entry === 0 ? null : this.#blockOf(entry)
    this.#unlock()
    return block
  }

  /** Keeps a copy of parts, one behind the other, under a name; null: there is no room. Only within a spell. */
  put(name: Uint32Array, parts: readonly Uint8Array[]): Block | null {
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    if (!this.#isUsable || this.#fullIn === this.#spell || !this.#lock()) return null
    const known = this.#find(name)
    const entry = known === 0 ? this.#allocate(bytes) : known
    if (entry === 0) this.#fullIn = this.#spell
    const block = entry === 0 ? null : this.#blockOf(entry)
    if (known === 0 && block !== null) {
      let at = 0
      for (const part of parts) {
        block.bytes.set(part, at)
        at += part.length
      }
      this.#publish(entry, name)
    }
    this.#unlock()
    return block
  }

  /** Where nobody else is in a spell all begins anew: what others know of blocks does not hold any more. */
  #repair(): boolean {
    const { state, threads } = this.#memory
    for (let thread = 0; thread < threads; thread++) {
      if (thread !== this.#index && Atomics.load(state, SPELLS + thread) !== 0) return false
    }
    // Whoever begins now has said so before it looks whether anything is broken.
    clear(this.#memory)
    return true
  }

  #lock(): boolean {
    const { state } = this.#memory
    for (let waits = 0; waits < BLOCK_LOCK_WAITS_MAX; waits++) {
      const holder = Atomics.compareExchange(state, LOCK, 0, this.#index + 1)
      if (holder === 0) return true
      Atomics.wait(state, LOCK, holder, LOCK_WAIT_MS)
    }
    Atomics.store(state, IS_BROKEN, 1)
    this.#isUsable = false
    return false
  }

  #unlock(): void {
    const { state } = this.#memory
    Atomics.store(state, LOCK, 0)
    Atomics.notify(state, LOCK, 1)
  }

  #find(name: Uint32Array): number {
    const { heads, entries } = this.#memory
    let entry = heads[headOf(heads, name)] ?? 0
    while (entry !== 0 && !hasName(entries, entry, name)) {
      entry = entries[entry * ENTRY_WORDS + NEXT] ?? 0
    }
    return entry
  }

  #blockOf(entry: number): Block {
    const { entries, chunks } = this.#memory
    const at = entry * ENTRY_WORDS
    this.#markUsed(at)
    const unit = entries[at + UNIT] ?? 0
    const chunk = chunks[Math.floor(unit / CHUNK_UNITS)]
    if (chunk === undefined) throw new RangeError('a block lies in no memory')
    const bytes = new Uint8Array(chunk, (unit % CHUNK_UNITS) * UNIT_BYTES, entries[at + BYTES])
    return { entry, generation: entries[at + GENERATION] ?? 0, bytes, spell: this.#spell }
  }

  /** A later spell may use it as well, or what has taken its place. */
  #markUsed(at: number): void {
    const { entries } = this.#memory
    let used = Atomics.load(entries, at + USED_IN)
    while (isBefore(used, this.#spell)) {
      used = Atomics.compareExchange(entries, at + USED_IN, used, this.#spell)
    }
  }

  #publish(entry: number, name: Uint32Array): void {
    const { heads, entries } = this.#memory
    const at = entry * ENTRY_WORDS
    entries.set(name, at)
    const head = headOf(heads, name)
    entries[at + NEXT] = heads[head] ?? 0
    heads[head] = entry
  }

  /** An entry with room that nobody can find yet; 0: there is no room. */
  #allocate(bytes: number): number {
    const units = Math.max(1, Math.ceil(bytes / UNIT_BYTES))
    if (units > Math.min(this.#memory.unitCount, CHUNK_UNITS)) return 0
    let unit = this.#findRoom(units)
    while (unit < 0 && this.#giveUpOldest(units)) unit = this.#findRoom(units)
    if (unit < 0) return 0
    const { state, entries, bits } = this.#memory
    mark(bits, unit, units, true)
    state[USED_UNITS] = (state[USED_UNITS] ?? 0) + units
    state[NEXT_UNIT] = unit + units
    const free = state[FREE_ENTRY] ?? 0
    const entry = free === 0 ? (state[FRESH_ENTRY] ?? 0) : free
    const at = entry * ENTRY_WORDS
    if (free === 0) state[FRESH_ENTRY] = entry + 1
    else state[FREE_ENTRY] = entries[at + NEXT] ?? 0
    Atomics.store(entries, at + USED_IN, this.#spell)
    entries[at + UNIT] = unit
    entries[at + UNITS] = units
    entries[at + BYTES] = bytes
    return entry
  }

  /** Where so many units are free side by side; -1: nowhere. */
  #findRoom(units: number): number {
    const { state, bits, unitCount } = this.#memory
    const start = state[NEXT_UNIT] ?? 0
    const found = freeRun(bits, units, start, unitCount)
    return found >= 0 ? found : freeRun(bits, units, 0, Math.min(start + units, unitCount))
  }

  /** Gives up what no spell has used, the oldest first, until there may be room. False: there is nothing. */
  #giveUpOldest(units: number): boolean {
    const { state, entries, threads, unitCount } = this.#memory
    // The oldest spell that goes on.
    let oldest = this.#spell
    for (let thread = 0; thread < threads; thread++) {
      const spell = Atomics.load(state, SPELLS + thread)
      if (spell !== 0 && isBefore(spell, oldest)) oldest = spell
    }
    const fresh = state[FRESH_ENTRY] ?? 0
    // How long ago each was used, and below that which it is: numbers sort themselves, and that is all that others wait for.
    const unused = new Float64Array(fresh)
    let count = 0
    for (let entry = 1; entry < fresh; entry++) {
      const at = entry * ENTRY_WORDS
      const age = (oldest - Atomics.load(entries, at + USED_IN)) | 0
      if ((entries[at + UNITS] ?? 0) === 0 || age <= 0) continue
      unused[count++] = (OLDEST_AGE - Math.min(age, OLDEST_AGE)) * ENTRY_NUMBERS + entry
    }
    const oldestFirst = unused.subarray(0, count).sort()
    const wanted = Math.max(units, Math.floor(unitCount / FREED_SHARE))
    let freed = 0
    for (const number of oldestFirst) {
      if (freed >= wanted) break
      freed += this.#giveUp(number % ENTRY_NUMBERS, oldest)
    }
    return freed > 0
  }

  /** The units of an entry, which are free now; 0: a spell has just begun to use it. */
  #giveUp(entry: number, oldest: number): number {
    const { state, entries, heads, bits } = this.#memory
    const at = entry * ENTRY_WORDS
    Atomics.add(entries, at + GENERATION, 1)
    if (!isBefore(Atomics.load(entries, at + USED_IN), oldest)) return 0
    const head = headOf(heads, entries.subarray(at, at + NAME_WORDS))
    const next = entries[at + NEXT] ?? 0
    let before = heads[head] ?? 0
    if (before === entry) heads[head] = next
    else {
      while (before !== 0 && entries[before * ENTRY_WORDS + NEXT] !== entry) {
        before = entries[before * ENTRY_WORDS + NEXT] ?? 0
      }
      entries[before * ENTRY_WORDS + NEXT] = next
    }
    const units = entries[at + UNITS] ?? 0
    mark(bits, entries[at + UNIT] ?? 0, units, false)
    state[USED_UNITS] = (state[USED_UNITS] ?? 0) - units
    entries[at + UNITS] = 0
    entries[at + NEXT] = state[FREE_ENTRY] ?? 0
    state[FREE_ENTRY] = entry
    return units
  }
}

function sharedWords(count: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT))
}

/** Nothing is kept. Only while no other thread is in a spell. */
function clear({ state, bits, heads, entries }: BlockMemory): void {
  for (let at = ENTRY_WORDS; at < (state[FRESH_ENTRY] ?? 0) * ENTRY_WORDS; at += ENTRY_WORDS) {
    Atomics.add(entries, at + GENERATION, 1)
    entries[at + UNITS] = 0
  }
  bits.fill(0)
  heads.fill(0)
  for (const place of [NEXT_UNIT, USED_UNITS, FREE_ENTRY]) state[place] = 0
  // Of those that were used before what is known of them does not hold: they are free, one behind the other.
  const fresh = state[FRESH_ENTRY] ?? 0
  for (let entry = 1; entry < fresh; entry++) {
    entries[entry * ENTRY_WORDS + NEXT] = entry + 1 < fresh ? entry + 1 : 0
  }
  state[FREE_ENTRY] = fresh > 1 ? 1 : 0
  Atomics.store(state, LOCK, 0)
  Atomics.store(state, IS_BROKEN, 0)
}

/** Spells are numbered for so long that the numbers begin anew. */
function isBefore(spell: number, other: number): boolean {
  return ((spell - other) | 0) < 0
}

function headOf(heads: Int32Array, name: ArrayLike<number>): number {
  return (name[0] ?? 0) & (heads.length - 1)
}

function hasName(entries: Int32Array, entry: number, name: Uint32Array): boolean {
  for (let word = 0; word < NAME_WORDS; word++) {
    if (entries[entry * ENTRY_WORDS + word] !== ((name[word] ?? 0) | 0)) return false
  }
  return true
}

/** The first of so many free units within one chunk, from `start` up to, but not including, `end`; -1: nowhere. */
function freeRun(bits: Int32Array, units: number, start: number, end: number): number {
  let run = 0
  for (let unit = start; unit < end; unit++) {
    if (unit % CHUNK_UNITS === 0) run = 0
    const word = bits[unit >>> WORD_SHIFT] ?? 0
    if (word === -1) {
      run = 0
      unit |= WORD_BITS - 1
      continue
    }
    run = ((word >>> (unit & (WORD_BITS - 1))) & 1) === 0 ? run + 1 : 0
    if (run === units) return unit - units + 1
  }
  return -1
}

function mark(bits: Int32Array, unit: number, units: number, isUsed: boolean): void {
  for (let place = unit; place < unit + units; place++) {
    const at = place >>> WORD_SHIFT
    const bit = 1 << (place & (WORD_BITS - 1))
    bits[at] = isUsed ? (bits[at] ?? 0) | bit : (bits[at] ?? 0) & ~bit
  }
}
