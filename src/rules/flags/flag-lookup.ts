/**
 * An immutable map. A copy in which a few entries are changed is cheap to create, because it shares the other entries
 * with the original.
 */
import { LOOKUP_CHANGES_MAX } from './limits.ts'

/**
 * A version of the map. `#common` is shared with other versions, and `#changes` contains the entries that are different
 * in this version. In `#changes`, null means that the key was removed.
 */
export class FlagLookup<Key, Value> {
  readonly #common: ReadonlyMap<Key, Value>
  readonly #changes: ReadonlyMap<Key, Value | null>

  constructor(
    common: ReadonlyMap<Key, Value>,
    changes: ReadonlyMap<Key, Value | null> = new Map<Key, Value | null>(),
  ) {
    this.#common = common
    this.#changes = changes
  }

  /** Returns the value of a key, or undefined. */
  get(key: Key): Value | undefined {
    const changed = this.#changes.size === 0 ? undefined : this.#changes.get(key)
    return changed === undefined ? this.#common.get(key) : (changed ?? undefined)
  }

  /**
   * Returns a version of the map in which some keys have other values. A null value removes the key. The cost is linear
   * in the number of entries that differ from `#common`. If there are too many, all entries are copied.
   */
  with(changes: ReadonlyMap<Key, Value | null>): FlagLookup<Key, Value> {
    const all = new Map([...this.#changes, ...changes])
    if (all.size <= LOOKUP_CHANGES_MAX) return new FlagLookup(this.#common, all)
    const common = new Map(this.#common)
    for (const [key, value] of all) {
      if (value === null) common.delete(key)
      else common.set(key, value)
    }
    return new FlagLookup(common)
  }
}
