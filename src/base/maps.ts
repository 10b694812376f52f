/** Helpers for maps, and a map that caches recently used values. */

/**
 * The usefulness of the cache is judged only after this many values were cached, because the numbers of hits and misses
 * say nothing before.
 */
const JUDGED_FROM = 256
/**
 * When this number of values was cached, the counts of cached values and of hits are halved, so that recent values
 * count more.
 */
const COUNTED_UP_TO = 1024
/**
 * If at least 1 in SAMPLED cached values is found again, caching is worth its cost. Otherwise only 1 in SAMPLED values
 * is cached.
 */
const SAMPLED = 8

/** Returns the value of a key. If there is none, stores the result of `make` and returns it. */
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

/** Adds an entry as the newest one, and removes the oldest entries beyond `entriesMax`. */
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
 * A cache of recently used values by name, up to a number of bytes. It has two generations. When the young generation
 * is full, the cache drops the old one, and the young one becomes the old one. A value that stays in memory for long is
 * expensive for the garbage collector, often more so than making the value again. If hardly any value is found again,
 * the cache therefore stores only a sample of the values. The hits in the sample show when caching pays again.
 *
 * `get` and `keep` cost one or two map lookups.
 */
export class RecentValues<Value> {
  readonly #bytesMax: number
  readonly #bytesOf: (value: Value) => number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  #youngBytes = 0
  #found = 0
  #kept = 0

  /**
   * `bytesMax` limits the bytes of all values and their names. `bytesOf` returns the size of a value. Both are
   * estimates.
   */
  constructor(bytesMax: number, bytesOf: (value: Value) => number) {
    this.#bytesMax = bytesMax
    this.#bytesOf = bytesOf
  }

  /** Returns the value with this name, or undefined. */
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

  /** Caches a value. If hardly any cached value is found again, most calls do nothing. */
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
