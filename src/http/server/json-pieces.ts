/**
 * Converts values that are in the memory of the main thread to JSON. Such values may be large, for example lists of
 * users or flags. A small value becomes one text. A large value is converted chunk by chunk while the client reads, so
 * that other requests get their turns. Lists that a worker thread has converted arrive as bytes and do not need this
 * file.
 */
import type { TextChunks } from '../../base/pages.ts'
import { ANSWER_TEXT_UNITS_MAX } from './limits.ts'

/** A list or an object with at most this many members counts as small. */
const FEW_MEMBERS = 50

/** Returns the JSON of a value, which must be plain data. A large value is returned as a source of chunks. */
export function jsonBody(value: unknown): string | TextChunks {
  return hasMany(value) ? textBody(jsonTexts(value)) : JSON.stringify(value)
}

/**
 * Joins texts into one text. If the result is longer than `ANSWER_TEXT_UNITS_MAX`, returns a source of chunks instead,
 * which takes each further text from `texts` only when it is needed.
 */
export function textBody(texts: Iterable<string>): string | TextChunks {
  const rest = texts[Symbol.iterator]()
  const first = takeChunk(rest)
  return first.isLast ? first.text : new Chunks(first, rest)
}

/** Yields the bytes of texts in chunks. Other requests get their turns before each chunk except the first. */
export async function* textChunks(texts: Iterable<string>): AsyncGenerator<Buffer> {
  const rest = texts[Symbol.iterator]()
  for (;;) {
    const { text, isLast } = takeChunk(rest)
    yield Buffer.from(text)
    if (isLast) return
    await turn()
  }
}

interface Chunk {
  readonly text: string
  readonly isLast: boolean
}

class Chunks implements TextChunks {
  readonly #rest: Iterator<string>
  #ready: Chunk | null
  #isOver = false

  constructor(first: Chunk, rest: Iterator<string>) {
    this.#ready = first
    this.#rest = rest
  }

  async next(): Promise<Uint8Array | null> {
    if (this.#isOver) return null
    const ready = this.#ready
    this.#ready = null
    if (ready !== null) return Buffer.from(ready.text)
    await turn()
    const { text, isLast } = takeChunk(this.#rest)
    this.#isOver = isLast
    return Buffer.from(text)
  }

  cancel(): void {
    this.#isOver = true
  }
}

function takeChunk(texts: Iterator<string>): Chunk {
  const taken: string[] = []
  let units = 0
  while (units <= ANSWER_TEXT_UNITS_MAX) {
    const next = texts.next()
    if (next.done === true) return { text: taken.join(''), isLast: true }
    taken.push(next.value)
    units += next.value.length
  }
  return { text: taken.join(''), isLast: false }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function hasMany(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  if (members.length > FEW_MEMBERS) return true
  return (
    !Array.isArray(value) && members.some((one) => Array.isArray(one) && one.length > FEW_MEMBERS)
  )
}

/**
 * Yields the JSON of a list or an object, one member at a time. Lists inside an object are split, too. Together, the
 * texts are the result of JSON.stringify.
 */
function* jsonTexts(value: unknown): Iterable<string> {
  if (Array.isArray(value)) {
    yield* listTexts(value)
    return
  }
  let sign = '{'
  for (const [name, member] of Object.entries(value as object)) {
    const opening = `${sign}${JSON.stringify(name)}:`
    if (Array.isArray(member)) {
      yield opening
      yield* listTexts(member)
    } else {
      const text = textOf(member)
      if (text === undefined) continue
      yield opening + text
    }
    sign = ','
  }
  yield sign === '{' ? '{}' : '}'
}

function* listTexts(list: readonly unknown[]): Iterable<string> {
  let sign = '['
  for (const item of list) {
    yield sign + (textOf(item) ?? 'null')
    sign = ','
  }
  yield sign === '[' ? '[]' : ']'
}

/** Returns the JSON of a value. The declared type of `JSON.stringify` does not say that it may return undefined. */
function textOf(value: unknown): string | undefined {
  return JSON.stringify(value) as string | undefined
}
