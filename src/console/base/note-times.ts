/**
 * Finds the period of a chart to which an annotation belongs. All times here are texts in the time zone of the project.
 */
const DAY_MS = 86_400_000
/**
 * For each interval, how many characters at the start of a time identify its period. An hour, for example, is
 * identified by the 13 characters `2026-01-31 14`.
 */
const CHARACTERS: Readonly<Record<string, number>> = { minute: 16, hour: 13, day: 10, month: 7 }

/**
 * Returns the index of the period that contains a time such as `2026-01-31 14:05:09`, or -1 if none does. `starts` are
 * the starts of the periods in ascending order. `step` is the interval, which is the length of a period.
 */
export function periodAt(starts: readonly string[], step: string, wall: string): number {
  const at = starts.findLastIndex((start) => start.replace('T', ' ') <= wall)
  if (at < starts.length - 1) return at
  // No period follows the last one, so its end is computed from the interval.
  const start = starts[at]?.replace('T', ' ') ?? ''
  const isWithin =
    step === 'week'
      ? Date.parse(wall.slice(0, 10)) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
      : start.slice(0, CHARACTERS[step]) === wall.slice(0, CHARACTERS[step])
  return isWithin ? at : -1
}
