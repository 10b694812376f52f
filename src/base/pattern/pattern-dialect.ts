/**
 * Rewrites a regular expression for the RE2 engine so that it matches the same texts as in PostHog's flags, whose
 * engine is fancy-regex. In that engine, `\d`, `\w`, `\s` and `\b` apply to the characters of all scripts. Syntax that
 * the two engines read differently is refused. Only the syntax is read here; the engine checks whether the pattern is
 * valid.
 */
import { type Token, tokensOf } from './pattern-tokens.ts'
import { WORD_CHARACTER, type WordShape, wordShape } from './word-shape.ts'

const DIGIT = '\\p{Nd}'
const WORD = '\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}'
const SPACE =
  '\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}'
/** All characters except white space, as ranges. They are listed because a class cannot contain negated ranges. */
const NO_SPACE =
  '\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}' +
  '\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}'

const OUTSIDE = new Map([
  ['d', DIGIT],
  ['D', '\\P{Nd}'],
  ['w', `[${WORD}]`],
  ['W', `[^${WORD}]`],
  ['s', `[${SPACE}]`],
  ['S', `[^${SPACE}]`],
])
const INSIDE = new Map([
  ['d', DIGIT],
  ['D', '\\P{Nd}'],
  ['w', WORD],
  ['s', SPACE],
  ['S', NO_SPACE],
])
/** An escape that stands for many characters. */
const CLASS_ESCAPE = /^\\[dDwWsSpP]/

const LAST_CODE_POINT = 0x10ffff
let noWord: string | undefined

/**
 * Returns all characters that are not word characters, as ranges. Computed at the first use, because it tests every
 * character.
 */
function noWordRanges(): string {
  if (noWord !== undefined) return noWord
  let ranges = ''
  let start = -1
  for (let code = 0; code <= LAST_CODE_POINT + 1; code++) {
    // Halves of a surrogate pair are not characters, so they are not listed.
    const isHalf = code >= 0xd800 && code <= 0xdfff
    const isOutside =
      code <= LAST_CODE_POINT && !isHalf && !WORD_CHARACTER.test(String.fromCodePoint(code))
    if (isOutside && start === -1) start = code
    if (isOutside || start === -1) continue
    ranges += `\\x{${start.toString(16)}}-\\x{${(code - 1).toString(16)}}`
    start = -1
  }
  noWord = ranges
  return ranges
}

const BEYOND_ASCII = /[^\0-\x7f]|\\[pPxuU]/

/** Whether the engine can search for a pattern in this dialect, and what such a search needs. */
export interface DialectNeeds {
  /**
   * The reason why the pattern would match other texts than at PostHog, worded to follow "has a pattern that". Null if
   * it matches the same texts.
   */
  readonly refusal: string | null
  /**
   * The form to which texts must be converted before the search. It is needed because the engine finds word boundaries
   * only between ASCII characters. Null if the pattern uses no word boundaries.
   */
  readonly shape: WordShape | null
}

/**
 * Checks a pattern for syntax that the engine of PostHog's flags reads differently from RE2: word boundaries beside
 * letters of other scripts, escapes, and character classes that are combined from other classes. Patterns with such
 * syntax are refused, because a flag with such a pattern would match other people than at PostHog.
 */
export function dialectNeeds(source: string): DialectNeeds {
  const tokens = tokensOf(source)
  const refusal = tokens.map(refusalAt).find((reason) => reason !== null) ?? leakRefusal(tokens)
  if (refusal !== null) return { refusal, shape: null }
  const hasWordEdges = tokens.some(({ text, isInside }) => !isInside && /^\\[bB]$/.test(text))
  if (!hasWordEdges) return { refusal: null, shape: null }
  if (BEYOND_ASCII.test(source)) return { refusal: EDGES_BEYOND_ASCII, shape: null }
  const shape = wordShape(tokens)
  return { refusal: shape === null ? EDGES_OF_ALL_LETTERS : null, shape }
}

const EDGES_BEYOND_ASCII =
  'has \\b or \\B next to characters outside ASCII, where word boundaries cannot be found. Write (?:^|[^\\p{L}]) and (?:[^\\p{L}]|$) instead'
const EDGES_OF_ALL_LETTERS =
  'has \\b or \\B next to nearly all letters or all digits, where word boundaries cannot be found. Use several filters with shorter patterns'

/** Returns the reason why a token is refused, or null. */
function refusalAt({ text, isInside }: Token, at: number, tokens: readonly Token[]): string | null {
  const next = tokens[at + 1]?.text ?? ''
  const afterNext = tokens[at + 2]?.text ?? ''
  if (text === '\\0') return 'has \\0, which refers back to a group. Write \\x00 for the character'
  if (/^\\[1-9]$/.test(text))
    return 'refers back to one of its groups, which can take any amount of time. Use another filter instead'
  if (!isInside) {
    if (text === '\\<' || text === '\\>') {
      return `has ${text}, which finds the edge of a word. Write ${text.slice(1)} for the character, or \\b`
    }
    const isNamedEdge = /^\\[bB]$/.test(text) && next === '{' && !/^\d/.test(afterNext)
    return isNamedEdge ? `has ${text}{, which finds one edge of a word. Write \\b instead` : null
  }
  if (text.startsWith('[:')) return null
  if (text.startsWith('[')) return combining('[')
  if (text === next && /^[&~-]$/.test(text) && tokens[at + 1]?.isInside === true) {
    return combining(text + next)
  }
  const isRange = next === '-' && afterNext !== '-' && tokens[at + 2]?.isInside === true
  if (!isRange || !CLASS_ESCAPE.test(text)) return null
  const part = JSON.stringify(text + next + afterNext)
  return `has ${part} within brackets, which is not a range. Write the hyphen last, or a backslash before it`
}

/**
 * Refuses a pattern with a flag such as `(?i)` inside a capture group, as in `(a(?i)b)c`. In PostHog's engine, the flag
 * also applies to the `c` after the group. In RE2, it ends with the group.
 */
function leakRefusal(tokens: readonly Token[]): string | null {
  const areCaptures: boolean[] = []
  for (const [at, { text, isInside }] of tokens.entries()) {
    if (isInside) continue
    if (text === ')') areCaptures.pop()
    if (text !== '(') continue
    const rest = tokens.slice(at + 1, at + 1 + FLAGS_SHOWN).map((token) => token.text)
    const [, flags] = /^\?([a-zA-Z-]+)\)/.exec(rest.join('')) ?? []
    if (flags !== undefined && areCaptures.at(-1) === true) {
      return `has (?${flags}) within a group. Write (?${flags}:...) around the part that it is for`
    }
    areCaptures.push(rest[0] !== '?' || /^\?P?<[^=!]/.test(rest.join('')))
  }
  return null
}

/** A group of flags has at most this many tokens. */
const FLAGS_SHOWN = 10

function combining(part: string): string {
  return `has ${JSON.stringify(part)} within brackets, which combines classes. Write one class, or a backslash before the character`
}

/**
 * Returns the pattern in the syntax of RE2. With a shape (word-shape.ts), the character classes are changed to match
 * the texts that the shape has rewritten. Returns null if the pattern uses an escape that only RE2 supports.
 */
export function withUnicodeClasses(source: string, shape: WordShape | null): string | null {
  let result = ''
  const tokens = tokensOf(source)
  for (const { text, isInside } of shape === null ? tokens : shape.fitted(tokens)) {
    if (text === '\\Q' || text === '\\C') return null
    if (text.startsWith('\\')) result += escapeFor(text, isInside)
    // PostHog's engine reads a missing lower bound as 0. RE2 reads `{,3}` as text.
    else result += text.startsWith('{,') && !isInside ? `{0${text.slice(1)}` : text
  }
  return result
}

function escapeFor(token: string, isInside: boolean): string {
  const letter = token.slice(1)
  if (letter.startsWith('u') && letter.length > 1) {
    return `\\x{${letter.replace(/[u{}]/g, '')}}`
  }
  if (isInside && letter === 'W') return noWordRanges()
  return (isInside ? INSIDE : OUTSIDE).get(letter) ?? token
}
