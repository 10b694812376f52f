/**
 * Returns the order of numbers, computed with a radix sort. It takes a few ns for each number, whatever their initial
 * order.
 */

const DIGIT_BITS = 11
const DIGITS = 2 ** DIGIT_BITS

/**
 * Returns the positions of numbers, with the position of the smallest number first. Equal numbers stay in their order.
 */
export function ascendingOrder(numbers: Uint32Array): Uint32Array {
  let from = new Uint32Array(numbers.length)
  let to = new Uint32Array(numbers.length)
  let largest = 0
  for (let position = 0; position < numbers.length; position++) {
    from[position] = position
    largest = Math.max(largest, numbers[position] ?? 0)
  }
  const starts = new Uint32Array(DIGITS + 1)
  for (let shift = 0; shift < 32 && largest >>> shift !== 0; shift += DIGIT_BITS) {
    starts.fill(0)
    for (let index = 0; index < from.length; index++) {
      const next = (((numbers[index] ?? 0) >>> shift) & (DIGITS - 1)) + 1
      starts[next] = (starts[next] ?? 0) + 1
    }
    for (let digit = 1; digit < DIGITS; digit++) {
      starts[digit] = (starts[digit] ?? 0) + (starts[digit - 1] ?? 0)
    }
    for (let index = 0; index < from.length; index++) {
      const position = from[index] ?? 0
      const digit = ((numbers[position] ?? 0) >>> shift) & (DIGITS - 1)
      const place = starts[digit] ?? 0
      starts[digit] = place + 1
      to[place] = position
    }
    const swap = from
    from = to
    to = swap
  }
  return from
}
