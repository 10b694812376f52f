/** What is done with maps again and again. */

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
