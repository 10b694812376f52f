/** Finds the number that would be at a position if the list were sorted, without sorting the whole list. */

/**
 * After this number of rounds, the rest of the list is sorted, so that no input can make the search slow. A search
 * usually needs far fewer rounds.
 */
const ROUNDS_USUAL = 64

/**
 * Returns the number that would be at `place` if the list were sorted, or NaN if there is no such position. It changes
 * the order of the list: afterward, no number before the position is larger, and no number after it is smaller. The
 * cost is linear, a few ns for each number.
 */
export function selectPlace(numbers: Float64Array, place: number): number {
  let [low, high] = [0, numbers.length - 1]
  for (let round = 0; low < high; round++) {
    if (round === ROUNDS_USUAL) {
      numbers.subarray(low, high + 1).sort()
      break
    }
    const pivot = numbers[(low + high) >>> 1] ?? 0
    let [left, right] = [low, high]
    while (left <= right) {
      while ((numbers[left] ?? 0) < pivot) left++
      while ((numbers[right] ?? 0) > pivot) right--
      if (left > right) break
      const moved = numbers[left] ?? 0
      numbers[left++] = numbers[right] ?? 0
      numbers[right--] = moved
    }
    if (place <= right) high = right
    else if (place >= left) low = left
    else break
  }
  return numbers[place] ?? Number.NaN
}
