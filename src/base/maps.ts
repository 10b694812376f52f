/** What is done with maps again and again, and one that keeps what was asked for lately. */

/** Fewer values than this say nothing about what is asked for again. */
const JUDGED_FROM = 256
/** Behind so many the count of what was kept, and of what was found, begins to be forgotten. */
const COUNTED_UP_TO = 1024
/** A value is worth keeping when at least one in so many is found again; else one in so many is kept. */
const SAMPLED = 8

/** What stands under a key; when nothing does, what `make` answers is put there. */
export function getOrAdd<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  make: (key: Key) => Value,
): Value {
  let value = map.get(key)
  if (value === undefined) {
    value = make(key)
    map.set(key, value)
  }
  return value
}

/** Puts an entry behind all others, and forgets the oldest beyond `entriesMax`. */
export function keepNewest<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  value: Value,
  entriesMax: number,
): void {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= entriesMax) break
    map.delete(oldest)
  }
}

/**
 * Values that were asked for lately, by name, up to a number of bytes. Two generations, of which the older
 * one goes as a whole. What lives that long costs the garbage collector more than most of it cost to make,
 * so where hardly any value is asked for again, only a sample is kept, which notices when that changes.
 *
 * `get` and `keep` take a lookup or two.
 */
export class RecentValues<Value> {
  readonly #bytesMax: number
  readonly #bytesOf: (value: Value) => number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  #youngBytes = 0
  #found = 0
  #kept = 0

  /** `bytesMax`: of all values with their names; `bytesOf` tells what a value takes. Both about. */
  constructor(bytesMax: number, bytesOf: (value: Value) => number) {
    this.#bytesMax = bytesMax
    this.#bytesOf = bytesOf
  }

  /** The value with this name, if it is there. */
  get(name: string): Value | undefined {
    let value = this.#young.get(name)
    if (value === undefined) {
      value = this.#old.get(name)
      if (value === undefined) return undefined
      this.#put(name, value)
    }
    this.#found++
    return value
  }

  /** Keeps a value, or lets it be where hardly any is found again. */
  keep(name: string, value: Value): void {
    const isJudged = this.#kept >= JUDGED_FROM && this.#found * SAMPLED < this.#kept
    if (isJudged && Math.random() * SAMPLED >= 1 && !this.#young.has(name)) return
    if (++this.#kept > COUNTED_UP_TO) {
      this.#kept >>= 1
      this.#found >>= 1
    }
    this.#put(name, value)
  }

  #put(name: string, value: Value): void {
    const bytes = name.length + this.#bytesOf(value)
    if (this.#youngBytes + bytes > this.#bytesMax / 2) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngBytes = 0
    }
    if (!this.#young.has(name)) this.#youngBytes += bytes
    this.#young.set(name, value)
  }
}
