/**
 * Parses the columns of `select` and `orderBy`: property names in the quotes that clients of PostHog use, and labels
 * after `--`. Source: docs/compatibility/queries.md, "EventsQuery".
 */

/**
 * Matches a text in quotes from its start: `"a"`, `` `a` `` or `'a'`. A quote after a backslash, or a doubled quote, is
 * part of the text.
 */
const QUOTED = /(["'`])(?:\\[\s\S]|\1\1|(?!\1|\\)[\s\S])*\1/y
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\u0007',
  0: '\0',
}

/**
 * Returns the name after `properties`: `.name`, `."any name"`, `` .`any name` `` or `['any name']`. Returns null for
 * any other text, for example if a name begins with `"` or a backtick but does not end with the same character.
 */
export function propertyName(text: string): string | null {
  if (text.startsWith('[')) {
    return text.startsWith("['") && text.endsWith(']') ? unquoted(text.slice(1, -1)) : null
  }
  if (!text.startsWith('.')) return null
  const name = text.slice(1)
  return /^["`]/.test(name) ? unquoted(name) : name || null
}

/** Returns the text without its label and without leading and trailing blanks. */
export function withoutLabel(text: string): string {
  for (const at of placesOutside(text)) {
    if (
      text.startsWith('--', at) &&
      /\s/.test(text[at - 1] ?? '') &&
      /\s/.test(text[at + 2] ?? '')
    ) {
      return text.slice(0, at).trim()
    }
  }
  return text.trim()
}

/** Splits a text at its commas, except at commas within brackets or quotes. */
export function partsOf(list: string): readonly string[] {
  const parts: string[] = []
  let depth = 0
  let start = 0
  for (const at of placesOutside(list)) {
    const sign = list[at]
    if (sign === '(' || sign === '[') depth++
    else if (sign === ')' || sign === ']') depth--
    else if (sign === ',' && depth === 0) {
      parts.push(list.slice(start, at))
      start = at + 1
    }
  }
  return [...parts, list.slice(start)]
}

/**
 * Yields the positions of a text that are outside of quotes. Quotes only begin after `.` or `[`, because a name may
 * contain a quote.
 */
function* placesOutside(text: string): Generator<number> {
  for (let at = 0; at < text.length; at++) {
    const isStart = text[at - 1] === '.' || text[at - 1] === '['
    QUOTED.lastIndex = at
    if (isStart && QUOTED.test(text)) at = QUOTED.lastIndex - 1
    else yield at
  }
}

/**
 * Returns the text between quotes. Returns null if the quotes do not enclose the whole text, or if there is nothing
 * between them.
 */
function unquoted(text: string): string | null {
  QUOTED.lastIndex = 0
  if (!QUOTED.test(text) || QUOTED.lastIndex !== text.length) return null
  const quote = text[0] ?? ''
  const inner = text
    .slice(1, -1)
    .replace(/\\([\s\S])|(["'`])\2/g, (whole, escaped?: string, sign?: string) => {
      if (escaped !== undefined) return ESCAPES[escaped] ?? (isEscapable(escaped) ? escaped : whole)
      return sign === quote ? quote : whole
    })
  return inner === '' ? null : inner
}

function isEscapable(sign: string): boolean {
  return ['\\', '"', "'", '`'].includes(sign)
}
