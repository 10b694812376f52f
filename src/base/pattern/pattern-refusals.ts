/**
 * The reasons why the RE2 engine refuses a pattern, in our own words. Each text says what to change, and follows "has a
 * pattern that".
 */
import { PATTERN_QUOTED_UNITS_MAX } from '../limits.ts'

const LOOK_AROUND = /^\(\?<?[=!]/
const BACK_REFERENCE = /^\\[1-9k]/
const NAMED_REFERENCE = /\(\?P[=>]/

/** For each error description of the engine: the reason and the remedy. `place` is the quoted part that is at fault. */
const REASONS = new Map<string, (place: string) => string>([
  ['missing closing )', () => 'lacks a closing parenthesis'],
  ['unexpected )', () => 'has a closing parenthesis too many: write \\)'],
  ['missing closing ]', () => 'lacks a closing bracket: write \\[ for a bracket itself'],
  [
    'missing argument to repetition operator',
    (place) => `has nothing to repeat in front of ${place}`,
  ],
  ['invalid nested repetition operator', (place) => `repeats twice with ${place}: use parentheses`],
  [
    'invalid repeat count',
    (place) => `repeats with ${place}: counts may be 1000 together at most, the lower one first`,
  ],
  ['invalid character class range', (place) => `has a class that is none: ${place}`],
  ['invalid escape sequence', (place) => `has an escape that is not known: ${place}`],
  ['invalid named capture', (place) => `has a group whose name cannot be read: ${place}`],
  ['duplicate capture group name', (place) => `has two groups with the name ${place}`],
  ['trailing backslash at end of expression', () => 'ends with a backslash: write two'],
  ['invalid or unsupported Perl syntax', (place) => `has syntax that RE2 does not know: ${place}`],
])

/**
 * Returns the reason for an error of the engine, given its description and the part of the pattern at which it stopped.
 * `source` is the whole pattern.
 */
export function refusalReason(description: string, part: string | null, source: string): string {
  const place = part ?? ''
  if (LOOK_AROUND.test(place)) {
    return 'looks ahead or behind, which has no limit in time: use another filter for that'
  }
  // The engine stops before the character that distinguishes a reference from a name.
  const isNamed = place === '(?P' && NAMED_REFERENCE.test(source)
  if (isNamed || BACK_REFERENCE.test(place)) {
    return 'refers back to one of its groups, which has no limit in time'
  }
  const reason = REASONS.get(description)
  if (reason !== undefined) return reason(quoted(place))
  return 'is too large or nested too deeply'
}

function quoted(text: string): string {
  const part =
    text.length > PATTERN_QUOTED_UNITS_MAX ? `${text.slice(0, PATTERN_QUOTED_UNITS_MAX)}...` : text
  return JSON.stringify(part)
}
