/** Whether two JSON values are the same, at any depth. */

/**
 * True when two JSON values are equal: objects whatever the order of their keys, arrays in order, no
 * conversion between types. An equivalence on everything that JSON can express. Linear in the smaller
 * value, safe at any depth.
 */
export function isSameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (!isContainer(left) || !isContainer(right)) return false
  // Pairs that are still to be compared, one behind the other: no recursion, so depth cannot hurt.
  const pending: object[] = [left, right]
  while (pending.length > 0) {
    const second = pending.pop()
    const first = pending.pop()
    if (first === undefined || second === undefined) break
    if (!areLevelsSame(first, second, pending)) return false
  }
  return true
}

/** Compares one level; pairs of containers are left to the caller. */
function areLevelsSame(first: object, second: object, pending: object[]): boolean {
  if (Array.isArray(first) !== Array.isArray(second)) return false
  const keys = Object.keys(first)
  if (keys.length !== Object.keys(second).length) return false
  for (const key of keys) {
    if (!Object.hasOwn(second, key)) return false
    const left = memberOf(first, key)
    const right = memberOf(second, key)
    if (left === right) continue
    if (!isContainer(left) || !isContainer(right)) return false
    pending.push(left, right)
  }
  return true
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function memberOf(container: object, key: string): unknown {
  return Reflect.get(container, key)
}
