/** Turns the fields of the form "Roll out safely" into the plan of a ramp. */

/** The fields as numbers. */
export interface RampFields {
  readonly percentages: readonly number[]
  /** The hours between two steps. */
  readonly hours: number
  /** The index of the rule. */
  readonly condition: number
  /** The tolerated difference of the shares of people with errors. Null: no guard. */
  readonly tolerance: number | null
}

const HOUR_SECONDS = 3600

/** Returns the percentages of a text such as `5, 25, 100`, or null if it has others or none. */
export function percentagesOf(text: string): readonly number[] | null {
  const words = text.split(/[\s,;%]+/).filter((word) => word !== '')
  const numbers = words.map(Number)
  const areFine = numbers.every((number) => number >= 0 && number <= 100)
  return numbers.length > 0 && areFine ? numbers : null
}

/** Returns the hours of a text, or null if it is no number above 0. */
export function hoursOf(text: string): number | null {
  const hours = Number(text)
  return text.trim() !== '' && hours > 0 && Number.isFinite(hours) ? hours : null
}

/** Returns the `value` of the operation `ramp`. */
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
