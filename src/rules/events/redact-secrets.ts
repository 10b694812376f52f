/**
 * Replaces secrets in text that a client sent, so that the text can be stored and shown. The text may be JSON, a form,
 * headers or a broken mixture of them, and it may be cut off. So secrets are recognised by the words around them:
 *
 *   {"$set": {"db_password": "a b"}}    password=a%20b&event=x    Cookie: sid=a; b=c    Bearer abc.def
 *             name          value       name    value             name    value         value
 *
 * The cost is linear in the text. A public project key is no secret and stays readable.
 */

const REDACTED = '[redacted]'
const SECRET_WORDS = [
  'pass(?:word|wd|phrase|code)',
  'pwd',
  'secret',
  'token',
  '(?:api|access|private)[-_ ]?key',
  'authori[sz]ation',
  'cookie',
  'credential',
  'jwt',
].join('|')
/** A quotation mark, which is escaped if the text is JSON within a JSON text, or in a form. */
const QUOTE = `(?:\\\\{0,7}["']|(?:%5C){0,7}%22)`
const SPACES = '(?:\\s|%20|\\+){0,16}'
/** A name that contains one of the words, up to the beginning of its value. */
const NAME = new RegExp(
  `(?:${SECRET_WORDS})[\\w$.-]{0,32}${QUOTE}?${SPACES}(?::|=|%3A|%3D)${SPACES}`,
  'gi',
)
const OPENING = new RegExp(QUOTE, 'iy')
/** The end of a value without quotation marks. */
const BARE_END = /[\r\n,&"'}\]]|$/g
/** Values that cannot be secrets: a project key, which is public, and the constants of JSON. */
const PLAIN = /^(?:phc_\w{1,60}|true|false|null|)$/
/** Values that are secrets whatever their name is: keys of Tenrec, credentials of a request, passwords in URLs. */
const VALUES = [
  [/ph[xs]_\w+/g, REDACTED],
  [/\b(Bearer)(\s|%20|\+){1,16}[\w.~+/=-]{6,}/gi, `$1 ${REDACTED}`],
  [/\b(Basic)(\s|%20|\+){1,16}[\w+/-]{16,}={0,2}/gi, `$1 ${REDACTED}`],
  [/:\/\/[^/\s:@"']{0,256}:[^/\s@"']{1,256}@/g, `://${REDACTED}@`],
] as const

/** Returns the text with `[redacted]` in place of secrets. */
export function redactSecrets(text: string): string {
  let redacted = ''
  let done = 0
  NAME.lastIndex = 0
  while (NAME.exec(text) !== null) {
    const { start, end } = valueAt(text, NAME.lastIndex)
    NAME.lastIndex = end
    if (PLAIN.test(text.slice(start, end))) continue
    redacted += text.slice(done, start) + REDACTED
    done = end
  }
  redacted += text.slice(done)
  return VALUES.reduce((result, [pattern, words]) => result.replace(pattern, words), redacted)
}

/** Returns the positions of the value that begins at `at`, without its quotation marks. */
function valueAt(text: string, at: number): { readonly start: number; readonly end: number } {
  OPENING.lastIndex = at
  const quote = OPENING.exec(text)?.[0]
  if (quote !== undefined) {
    const start = at + quote.length
    return { start, end: closingQuote(text, start, quote) }
  }
  if (text[at] === '{' || text[at] === '[') return { start: at, end: closingBracket(text, at) }
  BARE_END.lastIndex = at
  return { start: at, end: BARE_END.exec(text)?.index ?? text.length }
}

/**
 * Returns the position of the quotation mark that ends a value, or the end of the text. A mark with more escapes before
 * it than the opening one belongs to the value.
 */
function closingQuote(text: string, start: number, quote: string): number {
  if (quote.length === 1) return endOfText(text, start, quote)
  const isForm = quote.endsWith('%22')
  const [mark, escaping] = isForm ? ['%22', '%5C'] : [quote.slice(-1), '\\']
  for (let end = text.indexOf(mark, start); end >= 0; end = text.indexOf(mark, end + 1)) {
    let first = end
    while (text.slice(first - escaping.length, first).toUpperCase() === escaping)
      first -= escaping.length
    if (end - first <= quote.length - mark.length) return Math.max(start, first)
  }
  return text.length
}

/** Returns the position of the first such quotation mark without a backslash before it, or the end of the text. */
function endOfText(text: string, start: number, quote: string): number {
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === quote) return at
  }
  return text.length
}

/** Returns the position after the bracket that closes the one at `start`, or the end of the text. */
function closingBracket(text: string, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const unit = text[at]
    if (unit === '"') at = endOfText(text, at + 1, unit)
    else if (unit === '{' || unit === '[') depth++
    else if ((unit === '}' || unit === ']') && --depth === 0) return at + 1
  }
  return text.length
}
