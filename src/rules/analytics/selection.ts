/** Finds the number at a place of a sorted list without sorting all of it. */

/** Rounds that nearly always suffice; behind them what is left is sorted, whatever the numbers are. */
const ROUNDS_USUAL = 64

/**
 * The number that would stand at a place if the list were sorted; those behind the place are not smaller
 * afterwards, those before it not larger. NaN: there is no such place. Changes the order of the list. Cost: linear,
 * some ns for each number.
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
