/**
 * Replaces secrets in text that a client sent, so that the text can be stored and shown. The text may be JSON, a form,
 * headers or a broken mixture of them, and it may be cut off. So secrets are recognized by the words around them:
 *
 *   {"$set": {"db_password": "a b"}}    password=a%20b&event=x    Cookie: sid=a; b=c    Bearer abc.def
 *             name          value       name    value             name    value         value
 *
 * Names and values may contain the escapes of JSON: `pass\u0077ord` is `password`. So the text is searched as it was
 * sent and with its escapes replaced, and each secret that one of these searches finds is replaced. The rest stays as it
 * was sent.
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
/** A name that contains one of `SECRET_WORDS`, and the text after the name up to the beginning of its value. */
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
  /ph[xs]_\w+/g,
  /(?<=\bBearer(?:\s|%20|\+){1,16})[\w.~+/=-]{6,}/gi,
  /(?<=\bBasic(?:\s|%20|\+){1,16})[\w+/-]{16,}={0,2}/gi,
  /(?<=:\/\/)[^/\s@:"']{0,256}:[^/\s@"']{1,256}(?=@)/g,
]
/** The backslashes before an escaped character. There are several if the text is JSON within a JSON text. */
const BACKSLASHES = '(?<!\\\\)\\\\+|(?<!%5[Cc])(?:%5[Cc])+'
const CODE_ESCAPES = new RegExp(`(${BACKSLASHES})u([0-9a-fA-F]{4})`, 'g')
/**
 * Short escapes such as `\t` are replaced in a search of their own: `\token` may be a backslash followed by the name
 * `token`.
 */
const ALL_ESCAPES = new RegExp(`(${BACKSLASHES})(?:u([0-9a-fA-F]{4})|([bfnrt/]))`, 'g')
/**
 * How many times the escapes in a text are replaced. Once is not enough, because an escaped backslash can be the
 * beginning of another escape.
 */
const ESCAPE_LEVELS = 3
/**
 * White space, and characters that end a value without quotation marks. If such a character was escaped, it belongs to
 * the value, so it is read as a space.
 */
const SEPARATORS = /[\s,&}\]]/

/** A part of a text, as positions of its beginning and its end. */
interface TextRange {
  readonly start: number
  readonly end: number
}

/**
 * The text that was sent, or this text with its escapes replaced. `positions` contains the position in the sent text
 * for each UTF-16 unit of `text`, and for the end of `text`.
 */
interface Reading {
  readonly text: string
  readonly positions: readonly number[]
}

/** Returns the text with `[redacted]` in place of secrets. */
export function redactSecrets(text: string): string {
  const ranges = readingsOf(text).flatMap(({ text: read, positions }) =>
    secretsIn(read).map(({ start, end }) => ({
      start: positions[start] ?? text.length,
      end: positions[end] ?? text.length,
    })),
  )
  let redacted = ''
  let done = 0
  for (const { start, end } of ranges.sort((one, other) => one.start - other.start)) {
    if (end <= done) continue
    // If a secret overlaps with the previous one, both become one `[redacted]`.
    if (start >= done) redacted += text.slice(done, start) + REDACTED
    done = end
  }
  return redacted + text.slice(done)
}

/** Returns the text as it was sent, and the texts in which its escapes are replaced. */
function readingsOf(text: string): readonly Reading[] {
  const sent: Reading = { text, positions: Array.from({ length: text.length + 1 }, (_, at) => at) }
  const readings = [sent]
  for (const escapes of [CODE_ESCAPES, ALL_ESCAPES]) {
    let reading = sent
    for (let level = 0; level < ESCAPE_LEVELS; level++) {
      const next = unescaped(reading, escapes)
      if (next === null) break
      readings.push(next)
      reading = next
    }
  }
  return readings
}

/**
 * Returns the text with its escapes replaced, and the position in the sent text of each of its characters. Returns null
 * if the text has no escapes.
 */
function unescaped({ text, positions }: Reading, escapes: RegExp): Reading | null {
  const parts: string[] = []
  const kept: number[] = []
  let done = 0
  const keepUntil = (end: number) => {
    parts.push(text.slice(done, end))
    for (let at = done; at < end; at++) kept.push(positions[at] ?? 0)
  }
  for (const match of text.matchAll(escapes)) {
    const [found, backslashes = '', code, short] = match
    keepUntil(match.index)
    done = match.index + found.length
    const unit = code === undefined ? short : String.fromCharCode(Number.parseInt(code, 16))
    const meaning = meaningOf(unit ?? '', code === undefined, backslashes)
    parts.push(meaning)
    for (let count = 0; count < meaning.length; count++) kept.push(positions[match.index] ?? 0)
  }
  if (done === 0) return null
  keepUntil(text.length)
  kept.push(positions[text.length] ?? 0)
  return { text: parts.join(''), positions: kept }
}

/**
 * Returns the text that replaces an escape in a search. An escaped quotation mark or backslash stays escaped, at the
 * same depth, so that the end of a value can be distinguished from a quotation mark within the value. `"` needs this
 * many backslashes:
 *
 *   \u0022 -> \"    \\u0022 (JSON within JSON) -> \\\"    \\\u0022 (a backslash before it) -> \\\"
 */
function meaningOf(unit: string, isShort: boolean, backslashes: string): string {
  const [backslash, inForm] = backslashes.startsWith('%') ? ['%5C', true] : ['\\', false]
  const count = backslashes.length / backslash.length
  // JSON within JSON doubles each backslash, so the escape itself has 1, 2 or 4 of them: the largest power of two that
  // divides the count. The others are escaped backslashes before the escape. For example, 2 of 6 backslashes belong to
  // the escape.
  const own = count & -count
  if (unit === '\\') return backslash.repeat(count + own)
  if (unit === '"' || unit === "'") {
    const mark = inForm && unit === '"' ? '%22' : unit
    return `${backslash.repeat(count + own - 1)}${mark}`
  }
  const isSpace = isShort ? unit !== '/' : SEPARATORS.test(unit)
  // The backslashes before the escape may belong to another escape, as in `\\\u00750061`.
  return `${backslash.repeat(count - own)}${isSpace ? ' ' : unit}`
}

/** Returns the secrets in a text. They may overlap. */
function secretsIn(text: string): readonly TextRange[] {
  const found: TextRange[] = []
  NAME.lastIndex = 0
  while (NAME.exec(text) !== null) {
    const range = valueAt(text, NAME.lastIndex)
    NAME.lastIndex = range.end
    if (!PLAIN.test(text.slice(range.start, range.end))) found.push(range)
  }
  for (const pattern of VALUES) {
    for (const { 0: value, index } of text.matchAll(pattern)) {
      found.push({ start: index, end: index + value.length })
    }
  }
  return found
}

/** Returns the positions of the value that begins at `at`, without its quotation marks. */
function valueAt(text: string, at: number): TextRange {
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
 * Returns the position of the quotation mark that ends a value, or the end of the text. A quotation mark with more
 * backslashes (`%5C` in a form) before it than the opening mark belongs to the value.
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

/** Returns the position of the first quotation mark `quote` that has no backslash before it, or the end of the text. */
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
