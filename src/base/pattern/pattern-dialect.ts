/**
 * Rewrites a regular expression for the RE2 engine so that `\d`, `\w` and `\s` mean the characters of all
 * scripts. Only the syntax is looked at; whether the pattern is valid, the engine says.
 */

const DIGIT = '\\p{Nd}'
const WORD = '\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}'
const SPACE =
  '\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}'
/** All but white space, as ranges, because a class cannot hold the opposite of ranges. */
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
/** Inside brackets `\W` keeps its ASCII meaning: its opposite has no short form. */
const INSIDE = new Map([
  ['d', DIGIT],
  ['D', '\\P{Nd}'],
  ['w', WORD],
  ['s', SPACE],
  ['S', NO_SPACE],
])
/** An escape with its operand, what opens a class, a named class, or one character. */
const TOKEN =
  /\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\[pPx]\{[^}]*\}|\\[\s\S]|\[:\^?\w+:\]|\[\^?|[\s\S]/gu

/** The pattern for the engine; null when it uses an escape that only the engine knows. */
export function withUnicodeClasses(source: string): string | null {
  let isInside = false
  // A closing bracket is meant literally where a class has only been opened.
  let isOpened = false
  let result = ''
  for (const [token] of source.matchAll(TOKEN)) {
    if (token === '\\Q' || token === '\\C') return null
    result += token.startsWith('\\') ? escapeFor(token, isInside) : token
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
  return (isInside ? INSIDE : OUTSIDE).get(letter) ?? token
}
