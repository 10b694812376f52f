/**
 * Rewrites a regular expression for the RE2 engine so that `\d`, `\w` and `\s` match the characters of all scripts.
 * Only the syntax is read here; the engine checks whether the pattern is valid.
 */

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
/**
 * A token of a pattern: an escape with its operand, a count without a lower bound, the start of a class, a named class,
 * or one character.
 */
const TOKEN =
  /\{,\d{1,6}\}|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\[pPx]\{[^}]*\}|\\[\s\S]|\[:\^?\w+:\]|\[\^?|[\s\S]/gu

const WORD_CHARACTER = /[\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u24b6-\u24e9]|\u200c|\u200d/u
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

const BEYOND_ASCII = /[^\0-\x7f]|\\(?:[pPxuU]|0)/

/** Whether the engine can search for a pattern in this dialect, and what such a search needs. */
export interface DialectNeeds {
  /**
   * The reason why the pattern cannot mean here what it means to PostHog, worded to follow "has a pattern that". Null
   * if it can.
   */
  readonly refusal: string | null
  /**
   * True if the pattern uses word boundaries. The engine only finds word boundaries between ASCII characters, so each
   * text must go through `asciiShape` before the search.
   */
  readonly hasWordEdges: boolean
}

/**
 * Checks a pattern for syntax that the engine of PostHog's flags reads differently from this one: word boundaries
 * beside letters of other scripts, and character classes that are combined from other classes. Patterns with such
 * syntax are refused, because a flag with such a pattern would match other people than at PostHog.
 */
export function dialectNeeds(source: string): DialectNeeds {
  let isInside = false
  let isOpened = false
  let hasWordEdges = false
  let before = ''
  for (const [token] of source.matchAll(TOKEN)) {
    if (isInside && !token.startsWith('[:')) {
      const isPair = token === before && (token === '&' || token === '-' || token === '~')
      if (isPair || token.startsWith('[')) {
        const part = isPair ? token + token : '['
        const refusal = `has ${JSON.stringify(part)} within brackets, which combines classes. Write one class, or a backslash before the character`
        return { refusal, hasWordEdges }
      }
    }
    if (!isInside && /^\\[bB]$/.test(token)) hasWordEdges = true
    const isOpening = !isInside && token.startsWith('[')
    if (isOpening) isInside = true
    else if (token === ']' && !isOpened) isInside = false
    isOpened = isOpening
    before = token
  }
  const isRefused = hasWordEdges && BEYOND_ASCII.test(source)
  const refusal = isRefused
    ? 'has \\b or \\B next to characters outside ASCII, where word boundaries cannot be found. Write (?:^|[^\\p{L}]) and (?:[^\\p{L}]|$) instead'
    : null
  return { refusal, hasWordEdges }
}

/**
 * Returns a text in which each character beyond ASCII is replaced by an ASCII character of the same kind, so that the
 * engine finds the word boundaries. Letters become a word character that the pattern does not contain, blanks become a
 * space, and other characters become a control character. The pattern itself contains no characters beyond ASCII, so
 * the search has the same result.
 */
export function asciiShape(text: string, source: string): string {
  const word = WORD_STAND_INS.find((sign) => !source.toLowerCase().includes(sign)) ?? '_'
  return text.replace(/[^\0-\x7f]/gu, (sign) => {
    if (WORD_CHARACTER.test(sign)) return word
    return /\s|\u0085/u.test(sign) ? ' ' : '\x01'
  })
}

/**
 * The word characters that can replace letters. The underscore comes first, because classes such as `[a-z]` do not
 * contain it.
 */
const WORD_STAND_INS = ['_', 'q', 'z', 'x', 'j', 'k']

/**
 * Returns the pattern in the syntax of the engine. Returns null if the pattern uses an escape that only this engine
 * supports.
 */
export function withUnicodeClasses(source: string): string | null {
  let isInside = false
  // A closing bracket directly after the start of a class is a literal bracket.
  let isOpened = false
  let result = ''
  for (const [token] of source.matchAll(TOKEN)) {
    if (token === '\\Q' || token === '\\C') return null
    if (token.startsWith('\\')) result += escapeFor(token, isInside)
    // PostHog's engine reads a missing lower bound as 0. This engine reads `{,3}` as text.
    else result += token.startsWith('{,') && !isInside ? `{0${token.slice(1)}` : token
    const isOpening = !isInside && token.startsWith('[')
    if (isOpening) isInside = true
    else if (token === ']' && !isOpened) isInside = false
    isOpened = isOpening
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
