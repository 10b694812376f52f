/**
 * Decides whether the guards of a ramp are violated. A guard compares the persons who got the flag since the last step
 * of the ramp with the persons who did not. The percentage is constant between two steps, so both groups can be
 * compared. However often the guard is checked, the computed bound of the difference stays valid
 * (rules/experiments/always-valid.ts).
 */
import { type GuardBound, guardBound } from '../../experiments/always-valid.ts'
import { differenceOf } from '../../experiments/contrast.ts'
import { lacksData, type MissingReason } from '../../experiments/not-enough-data.ts'
import { estimateProportion, type ProportionSample } from '../../experiments/variant-estimate.ts'
import type { RampGuard } from './scheduled-change.ts'

/**
 * The persons whose first exposure showed one value of the flag, and how many of them had the event of the guard
 * afterward.
 */
export interface ExposedPersons {
  /** The value of the flag as text: `false`, `true` or the key of a variant. */
  readonly value: string
  readonly persons: number
  readonly converted: number
}

/** The result of one check of a guard, for one value of the flag. */
export interface GuardLook extends Pick<RampGuard, 'event' | 'worse' | 'tolerance'> {
  readonly value: string
  readonly control: ProportionSample
  readonly treatment: ProportionSample
  /** The bound of the difference. Null if there is not enough data; `missing` then says why. */
  readonly bound: GuardBound | null
  readonly missing: MissingReason | null
}

/** The probability that the guards ever stop the ramp of a harmless flag. */
const ALPHA = 0.05
/**
 * The bounds of guards are tuned to be narrowest at this number of persons in both groups together. With more or fewer
 * persons they are still valid, but wider than necessary.
 */
const HORIZON_PERSONS = 5000
/** With fewer persons in a group, the normal approximation does not hold, so nothing is decided. */
const PERSONS_MIN = 100
const NOBODY: ProportionSample = { persons: 0, converted: 0 }

/** The values of the flag that a guard compares. */
export interface Comparisons {
  /** The values of the flag except `false`. Exposures that report another value, or no value, are ignored. */
  readonly values: readonly string[]
  /**
   * The number of all comparisons that the ramp makes, over all its steps, guards and values. The probability of a
   * false alarm is divided among them.
   */
  readonly count: number
}

/**
 * Compares the persons who got each value of the flag with the persons who got `false`. A value without exposures is
 * left out.
 */
export function lookAtGuard(
  { event, worse, tolerance }: RampGuard,
  exposed: readonly ExposedPersons[],
  { values, count }: Comparisons,
): readonly GuardLook[] {
  const control = exposed.find(({ value }) => value === 'false') ?? NOBODY
  const options = { alpha: ALPHA / Math.max(1, count), horizonPersons: HORIZON_PERSONS }
  return exposed
    .filter(({ value }) => values.includes(value))
    .map((treatment) => {
      const { value } = treatment
      const look = {
        event,
        worse,
        tolerance,
        value,
        control: sampleOf(control),
        treatment: sampleOf(treatment),
      }
      if (Math.min(control.persons, treatment.persons) < PERSONS_MIN) {
        return { ...look, bound: null, missing: 'too_few_persons' }
      }
      const contrast = differenceOf(
        estimateProportion(smoothed(control)),
        estimateProportion(smoothed(treatment)),
      )
      const bound = guardBound(contrast, options, { worse, tolerance })
      return lacksData(bound)
        ? { ...look, bound: null, missing: bound.notEnoughData }
        : { ...look, bound, missing: null }
    })
}

/**
 * Adds one person with the event and one without it to a group. Otherwise, a group in which nobody has the event would
 * have no variance. The two additional persons make the groups more alike, so a violation is found a little later.
 * Source: A. Agresti and B. Caffo, 2000, Simple and Effective Confidence Intervals for Proportions and Differences of
 * Proportions Result from Adding Two Successes and Two Failures, The American Statistician 54.
 */
function smoothed({ persons, converted }: ProportionSample): ProportionSample {
  return { persons: persons + 2, converted: converted + 1 }
}

function sampleOf({ persons, converted }: ProportionSample): ProportionSample {
  return { persons, converted }
}

/** Returns whether the result shows that the guard is violated. */
export function isBreach({ bound }: GuardLook): boolean {
  return bound?.isWorse === true
}

/** Describes the violation of a guard in sentences with its numbers. */
export function breachText({
  event,
  value,
  worse,
  control,
  treatment,
  tolerance,
  bound,
}: GuardLook): string {
  const [on, off] = [shareText(treatment), shareText(control)]
  const least = pointsText(Math.abs(bound?.bound ?? 0))
  const groups = `${on} of ${countText(treatment)} persons with the value ${value} had ${event}, and ${off} of ${countText(control)} persons without the flag.`
  const direction = worse === 'higher' ? 'more' : 'less'
  return `${groups} That is at least ${least} percentage points ${direction}, and ${pointsText(tolerance)} are tolerated.`
}

function shareText({ persons, converted }: ProportionSample): string {
  return `${pointsText(persons === 0 ? 0 : converted / persons)} %`
}

/** Returns a share from 0 to 1 as a number of percent or percentage points. */
function pointsText(share: number): string {
  return String(Number((share * 100).toFixed(2)))
}

function countText({ persons }: ProportionSample): string {
  return persons.toLocaleString('en-US')
}
