/**
 * Finds the first error in a JSON text, and its line. The parsers of browsers describe an error in different words, and
 * some do not say where it is.
 */

/** The first error in a text: the number of its line, from 1, and a description. */
interface JsonFault {
  readonly line: number
  readonly words: string
}

const SPACE = /[ \t\r\n]*/y
const TEXT = /"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const OTHER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y
/** Values that are nested deeper than this are not checked here. The daemon checks the text in any case. */
const DEPTH_MAX = 200

class Fault extends Error {
  readonly at: number

  constructor(at: number, words: string) {
    super(words)
    this.at = at
  }
}

/** Returns the first error in a text, or null if the text is valid JSON. */
export function jsonFault(text: string): JsonFault | null {
  try {
    const end = skipSpace(text, skipValue(text, skipSpace(text, 0), 0))
    if (end < text.length) throw new Fault(end, 'nothing may follow the value')
    return null
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    return { line: text.slice(0, error.at).split('\n').length, words: error.message }
  }
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : -1
}

function skipSpace(text: string, at: number): number {
  return skip(SPACE, text, at)
}

function skipText(text: string, at: number): number {
  const end = skip(TEXT, text, at)
  if (end === -1)
    throw new Fault(
      at,
      'the text in quotes does not end, or has a character that needs a backslash',
    )
  return end
}

/** Returns the offset after the value that begins at `at`. */
function skipValue(text: string, at: number, depth: number): number {
  const first = text[at]
  if (first === undefined) throw new Fault(at, 'a value is missing at the end')
  if (first === '"') return skipText(text, at)
  if ((first === '{' || first === '[') && depth < DEPTH_MAX) return skipItems(text, at, depth)
  const end = skip(OTHER, text, at)
  if (end > at) return end
  const words = first === "'" ? 'texts need double quotes' : `a value cannot begin with ${first}`
  throw new Fault(at, first === '}' || first === ']' ? `a value is missing before ${first}` : words)
}

/** Returns the offset after the object or the list that begins at `start`. */
function skipItems(text: string, start: number, depth: number): number {
  const isObject = text[start] === '{'
  const end = isObject ? '}' : ']'
  let at = skipSpace(text, start + 1)
  if (text[at] === end) return at + 1
  for (;;) {
    if (isObject) at = skipName(text, at)
    at = skipSpace(text, skipValue(text, at, depth + 1))
    if (text[at] === end) return at + 1
    if (text[at] !== ',') throw new Fault(at, `a comma or ${end} is missing`)
    at = skipSpace(text, at + 1)
    if (text[at] === end) throw new Fault(at, `there is an extra comma before ${end}`)
  }
}

/** Returns the offset of the value of a member whose name begins at `at`. */
function skipName(text: string, at: number): number {
  if (text[at] !== '"') throw new Fault(at, 'a name in double quotes is missing')
  const colon = skipSpace(text, skipText(text, at))
  if (text[colon] !== ':') throw new Fault(colon, 'a colon is missing after the name')
  return skipSpace(text, colon + 1)
}
