/**
 * JSON of values that are in the memory of the main thread and may be large, such as lists of users or of flags.
 * What is small is one text. The rest of what is not is made while it is read, a piece at a time, so that other
 * requests have their turn in between. Lists that a thread can write are bytes from there instead.
 */
import type { TextPieces } from '../../base/pages.ts'
import { ANSWER_TEXT_UNITS_MAX } from './limits.ts'

/** Lists and objects of fewer members are taken for small ones. */
const FEW_MEMBERS = 50

/** The JSON of a value, which is plain data. */
export function jsonBody(value: unknown): string | TextPieces {
  return hasMany(value) ? textBody(jsonTexts(value)) : JSON.stringify(value)
}

/** Texts as one, or in pieces when they are too long together. Each text is asked for when its turn comes. */
export function textBody(texts: Iterable<string>): string | TextPieces {
  const rest = texts[Symbol.iterator]()
  const first = takePiece(rest)
  return first.isLast ? first.text : new Pieces(first, rest)
}

/** Pieces of bytes of texts; others have their turn before each but the first. */
export async function* textPieces(texts: Iterable<string>): AsyncGenerator<Buffer> {
  const rest = texts[Symbol.iterator]()
  for (;;) {
    const { text, isLast } = takePiece(rest)
    yield Buffer.from(text)
    if (isLast) return
    await turn()
  }
}

interface Piece {
  readonly text: string
  readonly isLast: boolean
}

class Pieces implements TextPieces {
  readonly #rest: Iterator<string>
  #ready: Piece | null
  #isOver = false

  constructor(first: Piece, rest: Iterator<string>) {
    this.#ready = first
    this.#rest = rest
  }

  async next(): Promise<Uint8Array | null> {
    if (this.#isOver) return null
    const ready = this.#ready
    this.#ready = null
    if (ready !== null) return Buffer.from(ready.text)
    await turn()
    const { text, isLast } = takePiece(this.#rest)
    this.#isOver = isLast
    return Buffer.from(text)
  }

  cancel(): void {
    this.#isOver = true
  }
}

function takePiece(texts: Iterator<string>): Piece {
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

/** What JSON.stringify makes of a list or an object, by the members of it and of the lists in it. */
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

/** `JSON.stringify` also answers undefined. */
function textOf(value: unknown): string | undefined {
  return JSON.stringify(value) as string | undefined
}
