/** Typed arrays that become longer: a longer one takes over what the shorter one holds. */

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** A copy of some numbers with room for `length`, at least as many. */
export function grown<T extends Numbers>(numbers: T, length: number): T {
  // The constructor of typed arrays makes its own kind.
  const larger = new (numbers.constructor as new (length: number) => T)(length)
  larger.set(numbers)
  return larger
}

/** The same numbers, or a copy that is at least twice as long, when there is none at `index`. */
export function withRoom<T extends Numbers>(numbers: T, index: number): T {
  if (index < numbers.length) return numbers
  return grown(numbers, Math.max(index + 1, numbers.length * 2))
}
