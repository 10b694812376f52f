/** Splits regular expressions into tokens, without checking whether they are valid. */

/** A part of a pattern that cannot be divided, and whether it is within the brackets of a class. */
export interface Token {
  readonly text: string
  readonly isInside: boolean
}

/** An escape with its operand, a count without a lower bound, the start of a class, a named class, or one character. */
const TOKEN =
  /\{,\d{0,6}\}|\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\[pPx]\{[^}]*\}|\\[pP][A-Za-z]|\\[\s\S]|\[:\^?\w+:\]|\[\^?|[\s\S]/gu
const CLASS_START = /^\[\^?$/

/**
 * Returns the tokens of a pattern. The brackets around a class are outside of it. A closing bracket directly after the
 * start of a class is a literal bracket.
 */
export function tokensOf(source: string): readonly Token[] {
  const tokens: Token[] = []
  let isInside = false
  let isOpened = false
  for (const [text] of source.matchAll(TOKEN)) {
    if (isInside && text === ']' && !isOpened) isInside = false
    tokens.push({ text, isInside })
    isOpened = !isInside && CLASS_START.test(text)
    if (isOpened) isInside = true
  }
  return tokens
}
