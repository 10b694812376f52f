/**
 * A cache of finished byte blocks in shared memory: a block that one thread has built can be read by all others. Each
 * block has a name. A thread reads blocks within a `spell`, the time between `begin` and `end`. A block that was found
 * within a spell stays unchanged until the spell ends. After the spell, the thread may keep its `Block` and ask later
 * whether it is still valid (`use`). When memory is short, blocks that no current spell has used are evicted, the least
 * recently used first. A thread waits for another thread only while that thread has the lock, for about as long as
 * copying a block takes. If a block finds no room, it is not cached. Source: docs/decisions/040-shared-column-cache.md.
 */
import { BLOCK_CHUNK_BYTES_MAX, BLOCK_LOCK_WAITS_MAX } from './limits.ts'

/** The unit of allocation: a block begins at a multiple of this size. */
const UNIT_BYTES = 4096
const CHUNK_UNITS = BLOCK_CHUNK_BYTES_MAX / UNIT_BYTES
const WORD_BITS = 32
const WORD_SHIFT = 5
/** An eviction frees at least 1 / FREED_SHARE of the memory, so that searches for old blocks are rare. */
const FREED_SHARE = 32
/** The private caches of all threads together get 1 / OWN_SHARE of the budget. */
const OWN_SHARE = 8
/** The longest single wait for the lock, in milliseconds. */
const LOCK_WAIT_MS = 1
/**
 * The number of 32-bit words in the name of a block. A name comes from a cryptographic hash, so no two blocks have the
 * same name.
 */
export const NAME_WORDS = 4

/**
 * The constants from here to SPELLS are indexes into `state`. LOCK is the index of the word with the number of the
 * thread that has the lock, plus 1. It is 0 if the lock is free.
 */
const LOCK = 0
/**
 * Not 0 if a thread ended while it had the lock, or held the lock for too long. No spell that begins later uses the
 * cache until it is cleared.
 */
const IS_BROKEN = 1
/** The number of the latest spell. Spells are numbered in the order in which they begin. */
const CLOCK = 2
/** The unit at which the next search for free units begins. */
const NEXT_UNIT = 3
const USED_UNITS = 4
/** The number of the first entry in the list of free entries, or 0 if the list is empty. */
const FREE_ENTRY = 5
/** The number of the first entry that was never used. All entries with larger numbers were never used either. */
const FRESH_ENTRY = 6
/**
 * The words from here on contain, for each thread, the number of its current spell, or 0 if the thread is in no spell.
 */
const SPELLS = 7

/**
 * The constants from here to BYTES are offsets within an entry, after the words of its name. The word at NEXT is the
 * number of the next entry with the same hash head, or of the next entry in the list of free entries.
 */
const NEXT = NAME_WORDS
/**
 * The generation of the entry. It changes when the entry is evicted, so that a `Block` with the old content is
 * recognized as invalid.
 */
const GENERATION = NAME_WORDS + 1
/** The number of the last spell that used the entry. */
const USED_IN = NAME_WORDS + 2
const UNIT = NAME_WORDS + 3
/** The number of units of the block, or 0 if the entry is free. */
const UNITS = NAME_WORDS + 4
const BYTES = NAME_WORDS + 5
const ENTRY_WORDS = NAME_WORDS + 6

/**
 * An entry that was last used more than OLDEST_AGE spells ago counts as OLDEST_AGE spells old when entries are sorted
 * by age. ENTRY_NUMBERS is an upper bound for the number of entries. A float64 holds the product of both exactly.
 */
const OLDEST_AGE = 2 ** 27 - 1
const ENTRY_NUMBERS = 2 ** 25

/** The memory of the cache as it is passed to threads: plain data, all of it shared. */
export interface BlockMemory {
  readonly threads: number
  readonly unitCount: number
  /**
   * The memory of the blocks. The system provides its pages only when they are first written. A chunk has at most
   * `BLOCK_CHUNK_BYTES_MAX` bytes.
   */
  readonly chunks: readonly SharedArrayBuffer[]
  readonly state: Int32Array
  /** One bit for each unit, set if the unit is in use. */
  readonly bits: Int32Array
  /**
   * A hash table by the first word of the name. Each head is the number of the first entry of a chain, or 0 if the
   * chain is empty.
   */
  readonly heads: Int32Array
  readonly entries: Int32Array
}

/** The part of the cache budget that one thread receives. */
export interface BlockShare {
  /** The memory shared by all threads. */
  readonly shared: BlockMemory
  /** The number of the thread, from 0. */
  readonly index: number
  /**
   * The largest number of bytes of the private cache of this thread (`ownBytesMax`), and of all caches of all threads
   * together (`bytesMax`).
   */
  readonly ownBytesMax: number
  readonly bytesMax: number
}

/** A block that one thread has found. The thread may keep it after its spell, the time from `begin` to `end`. */
export interface Block {
  readonly entry: number
  readonly generation: number
  /** The memory of the block, which holds its content. */
  readonly bytes: Uint8Array
  /** The last spell (see the top of this file) in which the thread used the block. */
  spell: number
}

/**
 * Creates `bytesMax` bytes of memory for this number of threads. Throws RangeError if the process does not have enough
 * address space.
 */
export function blockMemory(bytesMax: number, threads: number): BlockMemory {
  const unitCount = Math.floor(bytesMax / UNIT_BYTES)
  const headCount = 2 ** Math.ceil(Math.log2(unitCount + 1))
  const chunks: SharedArrayBuffer[] = []
  for (let unit = 0; unit < unitCount; unit += CHUNK_UNITS) {
    chunks.push(new SharedArrayBuffer(Math.min(CHUNK_UNITS, unitCount - unit) * UNIT_BYTES))
  }
  const memory = {
    threads,
    unitCount,
    chunks,
    state: sharedWords(SPELLS + threads),
    bits: sharedWords(Math.ceil(unitCount / WORD_BITS)),
    heads: sharedWords(headCount),
    // Entries are numbered from 1, because 0 means that there is none.
    entries: sharedWords((unitCount + 1) * ENTRY_WORDS),
  }
  memory.state[FRESH_ENTRY] = 1
  return memory
}

/** Divides `bytesMax` bytes into equal shares for this number of threads. Throws the errors of `blockMemory`. */
export function blockShares(bytesMax: number, threads: number): readonly BlockShare[] {
  const ownBytesMax = Math.floor(bytesMax / OWN_SHARE / threads)
  const shared = blockMemory(bytesMax - ownBytesMax * threads, threads)
  return Array.from({ length: threads }, (_, index) => ({ shared, index, ownBytesMax, bytesMax }))
}

/** Returns the bytes of all blocks of all threads. */
export function usedBlockBytes({ state }: BlockMemory): number {
  return Atomics.load(state, USED_UNITS) * UNIT_BYTES
}

/** The access of one thread to the blocks. */
export class SharedBlocks {
  readonly #memory: BlockMemory
  readonly #index: number
  /** The number of the current spell, that is, of the last call of `begin`. It stays the same after `end`. */
  #spell = 0
  /**
   * The number of the spell in which no block could be evicted. Until the next `begin`, the thread stores no more
   * blocks.
   */
  #fullIn = 0
  #isUsable = false

  /**
   * `index` is the number of the thread. No two running threads may have the same number. The number of a thread that
   * has ended can be used again.
   */
  constructor(memory: BlockMemory, index: number) {
    this.#memory = memory
    this.#index = index
    const { state } = memory
    Atomics.store(state, SPELLS + index, 0)
    if (Atomics.load(state, LOCK) === index + 1) Atomics.store(state, IS_BROKEN, 1)
  }

  /** The bytes of all blocks of all threads. */
  get usedBytes(): number {
    return usedBlockBytes(this.#memory)
  }

  /**
   * Begins a spell: until `end`, the blocks that this thread finds are not evicted. If the thread is in a spell
   * already, that one ends.
   */
  begin(): void {
    const { state } = this.#memory
    const own = SPELLS + this.#index
    // Until this thread has its own spell number, it announces the number of the latest spell. In the meantime, other
    // threads take this thread for one in an earlier spell, and evict no block that it may find. With 0, they would
    // take it for one in no spell.
    Atomics.store(state, own, Atomics.load(state, CLOCK) || -1)
    this.#spell = (Atomics.add(state, CLOCK, 1) + 1) | 0 || 1
    Atomics.store(state, own, this.#spell)
    this.#isUsable = Atomics.load(state, IS_BROKEN) === 0 || this.#repair()
  }

  /** Ends the spell. The blocks that the thread found in it may be evicted from now on. */
  end(): void {
    Atomics.store(this.#memory.state, SPELLS + this.#index, 0)
    this.#isUsable = false
  }

  /** Returns true if a block is still valid, and marks it as used. Call it only between `begin` and `end`. */
  use(block: Block): boolean {
    if (block.spell === this.#spell) return this.#isUsable
    if (!this.#isUsable) return false
    const { entries } = this.#memory
    const at = block.entry * ENTRY_WORDS
    // The order of these two steps matters. A thread that evicts the entry first changes the generation, and then
    // checks whether the entry is in use (`#giveUp`).
    this.#markUsed(at)
    if (Atomics.load(entries, at + GENERATION) !== block.generation) return false
    block.spell = this.#spell
    return true
  }

  /** Returns the block with this name, or null. Call it only between `begin` and `end`. */
  find(name: Uint32Array): Block | null {
    if (!this.#isUsable || !this.#lock()) return null
    const entry = this.#find(name)
    const block = entry === 0 ? null : this.#blockOf(entry)
    this.#unlock()
    return block
  }

  /**
   * Stores a copy of the concatenated parts under a name. Returns null if there is no room. Call it only between
   * `begin` and `end`.
   */
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

  /**
   * Clears the memory after a failure, unless another thread is between `begin` and `end`. All blocks that threads have
   * found become invalid.
   */
  #repair(): boolean {
    const { state, threads } = this.#memory
    for (let thread = 0; thread < threads; thread++) {
      if (thread !== this.#index && Atomics.load(state, SPELLS + thread) !== 0) return false
    }
    // Another thread that begins a spell now announces it before it checks whether the memory is broken, so it does not
    // use the memory before `clear` is done.
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
    if (chunk === undefined) throw new RangeError('a block lies outside of all chunks')
    const bytes = new Uint8Array(chunk, (unit % CHUNK_UNITS) * UNIT_BYTES, entries[at + BYTES])
    return { entry, generation: entries[at + GENERATION] ?? 0, bytes, spell: this.#spell }
  }

  /**
   * Records in an entry that the current spell has used it. Does not change the record of a later spell, even if that
   * spell has used another block in the same entry.
   */
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

  /**
   * Returns a new entry with room for these bytes, or 0 if there is no room. No other thread can find the entry yet.
   */
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

  /** Returns the first of this many adjacent free units, or -1 if there are not so many. */
  #findRoom(units: number): number {
    const { state, bits, unitCount } = this.#memory
    const start = state[NEXT_UNIT] ?? 0
    const found = freeRun(bits, units, start, unitCount)
    return found >= 0 ? found : freeRun(bits, units, 0, Math.min(start + units, unitCount))
  }

  /**
   * Evicts blocks, the least recently used first, until at least this many units were freed. The units may not be
   * adjacent. A block that a thread has used since its last `begin` stays until the thread calls `end`. Returns false
   * if no block can be evicted.
   */
  #giveUpOldest(units: number): boolean {
    const { state, entries, threads, unitCount } = this.#memory
    // The oldest spell (see the top of this file) that is still running. Blocks used in it or later are not evicted.
    let oldest = this.#spell
    for (let thread = 0; thread < threads; thread++) {
      const spell = Atomics.load(state, SPELLS + thread)
      if (spell !== 0 && isBefore(spell, oldest)) oldest = spell
    }
    const fresh = state[FRESH_ENTRY] ?? 0
    // Each number combines the age of an entry (high part) with its number (low part), so that a plain numeric sort
    // orders the entries by age. Other threads wait for the lock in the meantime.
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

  /** Evicts an entry and returns how many units it had. Returns 0 if a spell has just begun to use the entry. */
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

/** Removes all blocks. Call it only while no other thread is between `begin` and `end`. */
function clear({ state, bits, heads, entries }: BlockMemory): void {
  for (let at = ENTRY_WORDS; at < (state[FRESH_ENTRY] ?? 0) * ENTRY_WORDS; at += ENTRY_WORDS) {
    Atomics.add(entries, at + GENERATION, 1)
    entries[at + UNITS] = 0
  }
  bits.fill(0)
  heads.fill(0)
  for (const place of [NEXT_UNIT, USED_UNITS, FREE_ENTRY]) state[place] = 0
  // All entries that were ever used join the list of free entries. Their generations have changed, so a thread that
  // still has one of their blocks recognizes it as invalid.
  const fresh = state[FRESH_ENTRY] ?? 0
  for (let entry = 1; entry < fresh; entry++) {
    entries[entry * ENTRY_WORDS + NEXT] = entry + 1 < fresh ? entry + 1 : 0
  }
  state[FREE_ENTRY] = fresh > 1 ? 1 : 0
  Atomics.store(state, LOCK, 0)
  Atomics.store(state, IS_BROKEN, 0)
}

/**
 * Returns true if one spell (see the top of this file) began before another. The comparison is correct although spell
 * numbers wrap around.
 */
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

/**
 * Returns the first of this many adjacent free units within one chunk, or -1. Searches from `start` up to, but not
 * including, `end`.
 */
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
