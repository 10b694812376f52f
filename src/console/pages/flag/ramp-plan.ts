/** Converts the fields of the form "Roll out safely" to the plan of a ramp. */

/** The values of the fields, converted to numbers. */
export interface RampFields {
  readonly percentages: readonly number[]
  /** How many hours lie between two steps. */
  readonly hours: number
  /** The index of the rule whose percentage is changed. */
  readonly condition: number
  /** How much larger the share of people with errors may become. Null if the errors are not watched. */
  readonly tolerance: number | null
}

const HOUR_SECONDS = 3600

/**
 * Returns the percentages in a text such as `5, 25, 100`. Returns null if it contains anything else or no percentage.
 */
export function percentagesOf(text: string): readonly number[] | null {
  const words = text.split(/[\s,;%]+/).filter((word) => word !== '')
  const numbers = words.map(Number)
  const areFine = numbers.every((number) => number >= 0 && number <= 100)
  return numbers.length > 0 && areFine ? numbers : null
}

/** Returns the number of hours in a text. Returns null if it is not a number above 0. */
export function hoursOf(text: string): number | null {
  const hours = Number(text)
  return text.trim() !== '' && hours > 0 && Number.isFinite(hours) ? hours : null
}

/** Returns the value of the scheduled operation `ramp`. */
export function rampValue({ percentages, hours, condition, tolerance }: RampFields) {
  return {
    steps: percentages.map((rollout_percentage, index) =>
      index === 0
        ? { rollout_percentage }
        : { rollout_percentage, after_seconds: hours * HOUR_SECONDS },
    ),
    condition,
    guards:
      tolerance === null ? [] : [{ event: '$exception', worse: 'higher' as const, tolerance }],
    on_breach: 'turn_back' as const,
  }
}
