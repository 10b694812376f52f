/** The "Did you mean ...?" of messages: finds the known word that is closest to a typed word. */

const DISTANCE_MAX = 3

/**
 * Returns the one of `words` that is closest to `typed`, or undefined if none is close. Cost: for each word, its length
 * times the length of `typed`.
 */
export function closestWord(typed: string, words: Iterable<string>): string | undefined {
  let closest: string | undefined
  let least = Math.min(DISTANCE_MAX, Math.ceil(typed.length / 3)) + 1
  for (const word of words) {
    const distance = editDistance(typed.slice(0, 64), word)
    if (distance >= least) continue
    least = distance
    closest = word
  }
  return closest
}

/** Returns the end of a sentence: `. Did you mean X?`, or only a full stop if no word is close. */
export function didYouMean(typed: string, words: Iterable<string>): string {
  const word = closestWord(typed, words)
  return word === undefined ? '.' : `. Did you mean ${word}?`
}

/** Returns how many insertions, deletions and replacements of characters turn one word into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let line = 1; line <= from.length; line++) {
    const next = [line]
    for (let column = 1; column <= to.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (from[line - 1] === to[column - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
