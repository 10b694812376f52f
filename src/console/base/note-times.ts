/** The place of annotations on a time axis. All texts of times are by the clocks of the project. */
const DAY_MS = 86_400_000
/** The number of characters of a time that identify its period. */
const CHARACTERS: Readonly<Record<string, number>> = { minute: 16, hour: 13, day: 10, month: 7 }

/**
 * Returns the position of the period that contains a time such as `2026-01-31 14:05:09`, or -1. `starts` are the starts
 * of the periods, in ascending order, and `step` is their length.
 */
export function periodAt(starts: readonly string[], step: string, wall: string): number {
  const at = starts.findLastIndex((start) => start.replace('T', ' ') <= wall)
  if (at < starts.length - 1) return at
  // The last period has no next one that ends it.
  const start = starts[at]?.replace('T', ' ') ?? ''
  const isWithin =
    step === 'week'
      ? Date.parse(wall.slice(0, 10)) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
      : start.slice(0, CHARACTERS[step]) === wall.slice(0, CHARACTERS[step])
  return isWithin ? at : -1
}
