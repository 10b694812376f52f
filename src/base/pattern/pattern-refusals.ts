/**
 * Converts the errors of the RE2 engine about a pattern into our own words. Each text says what to change, and is
 * worded to follow "has a pattern that".
 */
import { PATTERN_QUOTED_UNITS_MAX } from '../limits.ts'

const LOOK_AROUND = /^\(\?<?[=!]/
const BACK_REFERENCE = /^\\[1-9k]/
const NAMED_REFERENCE = /\(\?P[=>]/

/**
 * For each error description of the engine, the reason and the remedy. `place` is the part of the pattern that is at
 * fault, in quotes.
 */
const REASONS = new Map<string, (place: string) => string>([
  ['missing closing )', () => 'lacks a closing parenthesis'],
  ['unexpected )', () => 'has an extra closing parenthesis. Write \\) for the character itself'],
  ['missing closing ]', () => 'lacks a closing bracket. Write \\[ for a bracket itself'],
  [
    'missing argument to repetition operator',
    (place) => `has nothing to repeat in front of ${place}`,
  ],
  ['invalid nested repetition operator', (place) => `repeats twice with ${place}. Use parentheses`],
  [
    'invalid repeat count',
    (place) => `repeats with ${place}. Counts may add up to at most 1000, the lower one first`,
  ],
  ['invalid character class range', (place) => `has an invalid character class: ${place}`],
  ['invalid escape sequence', (place) => `has an unknown escape: ${place}`],
  ['invalid named capture', (place) => `has a group with an invalid name: ${place}`],
  ['duplicate capture group name', (place) => `has two groups with the name ${place}`],
  ['trailing backslash at end of expression', () => 'ends with a single backslash. Write two'],
  [
    'invalid or unsupported Perl syntax',
    (place) => `has syntax that RE2 does not support: ${place}`,
  ],
])

/**
 * Returns the reason for an error of the engine, given its description and the part of the pattern at which it stopped.
 * `source` is the whole pattern.
 */
export function refusalReason(description: string, part: string | null, source: string): string {
  const place = part ?? ''
  if (LOOK_AROUND.test(place)) {
    return 'looks ahead or behind, which can take any amount of time. Use another filter instead'
  }
  // For the back reference `(?P=name)`, the engine reports only `(?P`, so the whole pattern is searched for it.
  const isNamed = place === '(?P' && NAMED_REFERENCE.test(source)
  if (isNamed || BACK_REFERENCE.test(place)) {
    return 'refers back to one of its groups, which can take any amount of time. Use another filter instead'
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
