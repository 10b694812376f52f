/**
 * Makes word boundaries work in all scripts. The RE2 engine finds `\b` only between ASCII characters, so both the text
 * and the classes of the pattern are rewritten before the search. In the text, each character beyond ASCII becomes an
 * ASCII character of the same kind, its *stand-in*:
 *
 *     the pattern    \b[a-z_]+\b        becomes    \b[a-pr-z_]+\b       without the stand-in q
 *     the text       une café           becomes    une cafq             q stands for é
 *     the text       a quiz             becomes    a ruiz               r, the twin, stands for q
 *
 * The classes of the pattern lose the stand-in, because `[a-z]` does not contain é. A real q of the text becomes its
 * *twin*, a character that the pattern treats in the same way as q. No twin is needed if the pattern does not mention
 * the stand-in. For letters, the stand-in is nearly always the underscore, because few patterns mention it.
 */
import type { Token } from './pattern-tokens.ts'

/** The characters that `\w` matches. */
export const WORD_CHARACTER = /[\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u24b6-\u24e9]|\u200c|\u200d/u
const DIGIT = /\p{Nd}/u
const BLANK = /[\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/

/** The first and the last code point of a range. */
type Range = readonly [first: number, last: number]

/** For each named class such as `[:alpha:]`, its characters. */
const NAMED_CLASSES: Readonly<Record<string, string>> = {
  alnum: '09AZaz',
  alpha: 'AZaz',
  ascii: '\0\x7f',
  blank: '\t\t  ',
  cntrl: '\0\x1f\x7f\x7f',
  digit: '09',
  graph: '!~',
  lower: 'az',
  print: ' ~',
  punct: '!/:@[`{~',
  space: '\t\r  ',
  upper: 'AZ',
  word: '09AZ__az',
  xdigit: '09AFaf',
}
const LAST_CODE_POINT = 0x10ffff
const NAMED = /^\[:(\^?)(\w+):\]$/
const CONTROLS = new Map([
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['f', '\f'],
  ['v', '\v'],
  ['a', '\x07'],
])

const LETTERS = [...'qzxjkvwybfghmpdculnoirtase']
const DIGITS = [...'0123456789']
/** Blanks that texts contain rarely. The plain space is not among them, because patterns contain it often. */
const BLANKS = ['\f', '\v']
const SIGNS = ['\x01', '\x02']
/** The characters beyond ASCII that equal an ASCII letter if case is ignored: the Kelvin sign and the long s. */
const FOLDED = new Map([
  ['\u212a', 'k'],
  ['\u017f', 's'],
])
/** A group such as `(?i)`, which makes the rest of the pattern ignore case. */
const IGNORES_CASE = /\(\?[a-zA-Z]*i[a-zA-Z]*(?:-[a-zA-Z]*)?\)/

/**
 * A stand-in: `sign` stands for all characters of a kind in rewritten texts. A real `sign` in a text becomes its
 * `twin`.
 */
interface StandIn {
  readonly sign: string
  readonly twin: string | null
}

/**
 * Returns the shape for a pattern that uses word boundaries and contains only ASCII. Returns null if there is no
 * stand-in for one of the kinds of characters, usually because the pattern distinguishes nearly all letters or all
 * digits.
 */
export function wordShape(tokens: readonly Token[]): WordShape | null {
  const mentioned = mentionedIn(tokens)
  const isMentioned = (sign: string) => /1/.test(signature(sign, mentioned))
  const letter = isMentioned('_') ? pick(LETTERS, mentioned) : { sign: '_', twin: null }
  const blank = pick(BLANKS, mentioned)
  const sign = pick(SIGNS, mentioned)
  const digit = pick(DIGITS, mentioned)
  if (letter === null || digit === null || blank === null || sign === null) return null
  return new WordShape(letter, digit, blank, sign, ignoresCase(tokens))
}

function ignoresCase(tokens: readonly Token[]): boolean {
  const outside = tokens.filter(({ isInside }) => !isInside)
  // An escaped bracket begins no group.
  return IGNORES_CASE.test(outside.map(({ text }) => (text.length === 1 ? text : ' ')).join(''))
}

/** The form of texts, and of the classes of one pattern, in which the engine finds word boundaries of all scripts. */
export class WordShape {
  readonly #letter: StandIn
  readonly #digit: StandIn
  readonly #blank: StandIn
  readonly #sign: StandIn
  readonly #ignoresCase: boolean
  readonly #twins = new Map<string, string>()
  readonly #standIns: readonly number[]
  /** Matches the characters that are replaced in texts. */
  readonly #replaced: RegExp

  constructor(
    letter: StandIn,
    digit: StandIn,
    blank: StandIn,
    sign: StandIn,
    isCaseIgnored: boolean,
  ) {
    this.#letter = letter
    this.#digit = digit
    this.#blank = blank
    this.#sign = sign
    this.#ignoresCase = isCaseIgnored
    const codes = new Set<number>()
    for (const { sign: standIn, twin } of [letter, digit, blank, sign]) {
      for (const [from, to] of [
        [standIn, twin],
        [standIn.toUpperCase(), twin?.toUpperCase()],
      ] as const) {
        codes.add(from.charCodeAt(0))
        if (to !== null && to !== undefined) this.#twins.set(from, to)
      }
    }
    this.#standIns = [...codes].sort((a, b) => a - b)
    this.#replaced = new RegExp(`[^\\0-\\x7f]|[${[...this.#twins.keys()].join('')}]`, 'gu')
  }

  /** Returns a text with the stand-ins (see the top of this file). It has as many characters as the text. */
  shaped(text: string): string {
    return text.replace(this.#replaced, (character) => {
      const folded = this.#ignoresCase ? FOLDED.get(character) : undefined
      const twin = this.#twins.get(folded ?? character) ?? folded
      if (twin !== undefined) return twin
      if (!WORD_CHARACTER.test(character)) {
        return BLANK.test(character) ? this.#blank.sign : this.#sign.sign
      }
      return DIGIT.test(character) ? this.#digit.sign : this.#letter.sign
    })
  }

  /** Returns the tokens of the pattern with classes that do not contain the stand-ins (see the top of this file). */
  fitted(tokens: readonly Token[]): readonly Token[] {
    return partsOf(tokens).map(({ token, ranges }) => {
      if (ranges === null || !token.isInside) return token
      const isNegated = token.text.startsWith('[:^')
      const own = isNegated ? this.#outside(ranges) : this.#without(ranges)
      return { text: own.map(rangeText).join(''), isInside: true }
    })
  }

  #without(ranges: readonly Range[]): readonly Range[] {
    return ranges.flatMap(([first, last]) => {
      const bounds = this.#standIns.filter((code) => code >= first && code <= last)
      const starts = [first, ...bounds.map((code) => code + 1)]
      const ends = [...bounds.map((code) => code - 1), last]
      return starts.flatMap((start, index): readonly Range[] => {
        const end = ends[index] ?? last
        return start <= end ? [[start, end]] : []
      })
    })
  }

  /**
   * Returns the ranges of all characters outside of `ranges`, and the stand-ins as further ranges. `ranges` are in
   * ascending order.
   */
  #outside(ranges: readonly Range[]): readonly Range[] {
    const starts = [0, ...ranges.map(([, last]) => last + 1)]
    const ends = [...ranges.map(([first]) => first - 1), LAST_CODE_POINT]
    const outside = starts.map((start, index): Range => [start, ends[index] ?? LAST_CODE_POINT])
    const standIns = this.#standIns.map((code): Range => [code, code])
    return [...outside.filter(([first, last]) => first <= last), ...standIns]
  }
}

/**
 * Returns the first candidate that the pattern does not mention, without a twin. If the pattern mentions all
 * candidates, returns two that it always treats in the same way, as stand-in and twin. Returns null if there are no
 * such two.
 */
function pick(candidates: readonly string[], mentioned: readonly Range[]): StandIn | null {
  const bySignature = new Map<string, string>()
  const unmentioned = candidates.find((sign) => !/1/.test(signature(sign, mentioned)))
  if (unmentioned !== undefined) return { sign: unmentioned, twin: null }
  for (const sign of candidates) {
    const own = signature(sign, mentioned)
    const twin = bySignature.get(own)
    if (twin !== undefined) return { sign, twin }
    bySignature.set(own, sign)
  }
  return null
}

/**
 * Returns a text that tells which ranges contain a letter and its capital letter. If the texts of two letters are the
 * same, the pattern treats both letters in the same way.
 */
function signature(sign: string, mentioned: readonly Range[]): string {
  const codes = [sign, sign.toUpperCase()].map((one) => one.charCodeAt(0))
  return mentioned
    .map(([first, last]) =>
      codes.map((code) => (code >= first && code <= last ? '1' : '0')).join(''),
    )
    .join(' ')
}

/**
 * Returns the ranges that a pattern mentions. A single character is a range, too: its first and last character are the
 * same.
 */
function mentionedIn(tokens: readonly Token[]): readonly Range[] {
  return partsOf(tokens).flatMap(({ token: { text }, ranges }) => {
    if (ranges !== null) return ranges
    const code = codeOf(text)
    if (code !== null) return [[code, code] as const]
    // Outside of brackets, `[:alpha:]` is not a named class, but stands for each of its characters.
    return NAMED.test(text)
      ? [...text].map((sign): Range => [sign.charCodeAt(0), sign.charCodeAt(0)])
      : []
  })
}

/** A token, or a range of a class as one token. */
interface Part {
  readonly token: Token
  /** The characters of a range or named class within brackets. Null for every other token. */
  readonly ranges: readonly Range[] | null
}

function partsOf(tokens: readonly Token[]): readonly Part[] {
  const parts: Part[] = []
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token
    const named = token.isInside ? NAMED.exec(token.text) : null
    const range = token.isInside ? rangeAt(tokens, at) : null
    if (range === null) {
      parts.push({ token, ranges: named === null ? null : namedRanges(named[2] ?? '') })
      continue
    }
    parts.push({ token: { text: rangeText(range), isInside: true }, ranges: [range] })
    at += 2
  }
  return parts
}

/** Returns the range of a class that begins at a token, such as `a-z`. Returns null if none begins there. */
function rangeAt(tokens: readonly Token[], at: number): Range | null {
  const end = tokens[at + 2]
  if (tokens[at + 1]?.text !== '-' || end?.isInside !== true) return null
  const first = codeOf(tokens[at]?.text ?? '')
  const last = codeOf(end.text)
  return first === null || last === null || first > last ? null : [first, last]
}

function namedRanges(name: string): readonly Range[] | null {
  const bounds = NAMED_CLASSES[name]
  if (bounds === undefined) return null
  return Array.from(
    { length: bounds.length / 2 },
    (_, index): Range => [bounds.charCodeAt(2 * index), bounds.charCodeAt(2 * index + 1)],
  )
}

/** Returns the code of a token that stands for one character. Returns null for every other token. */
function codeOf(text: string): number | null {
  if (text.length === 1) return text.charCodeAt(0)
  if (text.length !== 2 || !text.startsWith('\\')) return null
  const sign = text.slice(1)
  if (/[A-Za-z0-9]/.test(sign)) return CONTROLS.get(sign)?.charCodeAt(0) ?? null
  return sign.charCodeAt(0)
}

function rangeText([first, last]: Range): string {
  return `\\x{${first.toString(16)}}-\\x{${last.toString(16)}}`
}
