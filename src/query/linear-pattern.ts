/**
 * Regular expressions in linear time, for patterns that clients write: a search costs at most
 * (characters of the text) x (size of the pattern), whatever the pattern. The syntax is the common core of
 * RE2 and JavaScript: literals, `.`, classes, `\d\w\s\b` and their opposites, `\p{..}`, anchors, groups,
 * alternatives, repetitions (also lazy and counted), and the flags `(?i)`, `(?s)`, `(?m)` at the start.
 * Back references and look-around do not exist, as in RE2.
 *
 * A pattern is parsed into a non-deterministic automaton, whose states are advanced together, character
 * by character. The JavaScript engine is asked about single characters only.
 */

/** States of an automaton; a pattern that needs more is refused. */
const STATES_MAX = 2000
const REPEAT_MAX = 1000
/** Parts that are built at most: repetitions of nothing make no states. */
const STEPS_MAX = 20_000
const GROUP_DEPTH_MAX = 50

/** Takes one character, splits, demands something of the place, or is the end. */
type State =
  | { readonly kind: 'take'; readonly takes: CharacterTest; next: number }
  | { readonly kind: 'split'; next: number; other: number }
  | { readonly kind: 'place'; readonly place: Place; next: number }
  | { readonly kind: 'end' }

type Place = 'start' | 'end' | 'line start' | 'line end' | 'border' | 'no border'
type CharacterTest = (character: number) => boolean

/** A parsed pattern: what to build, before it becomes states. */
type Node =
  | { readonly kind: 'empty' }
  | { readonly kind: 'take'; readonly takes: CharacterTest }
  | { readonly kind: 'place'; readonly place: Place }
  | { readonly kind: 'all'; readonly parts: readonly Node[] }
  | { readonly kind: 'any'; readonly options: readonly Node[] }
  | { readonly kind: 'repeat'; readonly part: Node; readonly least: number; readonly most: number }

interface Automaton {
  readonly states: State[]
  steps: number
}

const END: State = { kind: 'end' }

/** Raised and caught in this file: the pattern is not one of ours. */
class PatternError extends Error {}

/** A compiled pattern. */
export class LinearPattern {
  readonly #states: readonly State[]
  readonly #start: number

  private constructor(states: readonly State[], start: number) {
    this.#states = states
    this.#start = start
  }

  /** The compiled form of a pattern, or null when it is invalid or too large. */
  static compile(source: string): LinearPattern | null {
    try {
      const node = new PatternParser(source).parse()
      const automaton = { states: [END], steps: 0 }
      return new LinearPattern(automaton.states, build(node, 0, automaton))
    } catch (error) {
      if (error instanceof PatternError) return null
      throw error
    }
  }

  /** Whether the pattern fits anywhere in the text. */
  test(text: string): boolean {
    const states = this.#states
    // For each state the step at which it was entered last, so that none is entered twice.
    const entered = new Int32Array(states.length).fill(-1)
    const active: number[] = []
    const next: number[] = []
    let previous = -1
    let step = 0
    for (let offset = 0; ; step++) {
      const character = offset < text.length ? (text.codePointAt(offset) ?? -1) : -1
      if (this.#enter(this.#start, active, entered, step, previous, character)) return true
      for (const index of active) {
        const state = states[index]
        if (state?.kind === 'take' && character >= 0 && state.takes(character))
          next.push(state.next)
      }
      if (character < 0) return false
      offset += character > 0xffff ? 2 : 1
      const following = offset < text.length ? (text.codePointAt(offset) ?? -1) : -1
      active.length = 0
      for (const index of next) {
        if (this.#enter(index, active, entered, step + 1, character, following)) return true
      }
      next.length = 0
      previous = character
    }
  }

  /** Adds a state, and all that are reached from it without taking a character; true at the end state. */
  #enter(
    first: number,
    active: number[],
    entered: Int32Array,
    step: number,
    previous: number,
    following: number,
  ): boolean {
    const waiting = [first]
    for (;;) {
      const index = waiting.pop()
      if (index === undefined) return false
      if (entered[index] === step) continue
      entered[index] = step
      const state = this.#states[index]
      if (state === undefined || state.kind === 'end') return true
      if (state.kind === 'take') active.push(index)
      else if (state.kind === 'split') waiting.push(state.other, state.next)
      else if (isAtPlace(state.place, previous, following)) waiting.push(state.next)
    }
  }
}

function isAtPlace(place: Place, previous: number, following: number): boolean {
  switch (place) {
    case 'start':
      return previous < 0
    case 'end':
      return following < 0
    case 'line start':
      return previous < 0 || previous === 10
    case 'line end':
      return following < 0 || following === 10
    case 'border':
      return isWord(previous) !== isWord(following)
    case 'no border':
      return isWord(previous) === isWord(following)
  }
}

function isWord(character: number): boolean {
  return (
    (character >= 0x61 && character <= 0x7a) ||
    (character >= 0x41 && character <= 0x5a) ||
    (character >= 0x30 && character <= 0x39) ||
    character === 0x5f
  )
}

/** Adds the states of a node that go on at `next`; answers the state at which it begins. */
function build(node: Node, next: number, automaton: Automaton): number {
  const { states } = automaton
  if (states.length > STATES_MAX || ++automaton.steps > STEPS_MAX) throw new PatternError()
  switch (node.kind) {
    case 'empty':
      return next
    case 'take':
      return states.push({ kind: 'take', takes: node.takes, next }) - 1
    case 'place':
      return states.push({ kind: 'place', place: node.place, next }) - 1
    case 'all':
      return node.parts.reduceRight((after, part) => build(part, after, automaton), next)
    case 'any':
      return node.options
        .map((option) => build(option, next, automaton))
        .reduceRight((other, start) => states.push({ kind: 'split', next: start, other }) - 1)
    case 'repeat':
      return buildRepeat(node, next, automaton)
  }
}

function buildRepeat(
  { part, least, most }: Extract<Node, { kind: 'repeat' }>,
  next: number,
  automaton: Automaton,
): number {
  const { states } = automaton
  let start = next
  if (most === Number.POSITIVE_INFINITY) {
    const split: State = { kind: 'split', next, other: next }
    start = states.push(split) - 1
    split.next = build(part, start, automaton)
  } else {
    for (let count = least; count < most; count++) {
      const inner = build(part, start, automaton)
      start = states.push({ kind: 'split', next: inner, other: next }) - 1
    }
  }
  for (let count = 0; count < least; count++) start = build(part, start, automaton)
  return start
}

/** Reads a pattern. Every method begins at `#offset` and leaves it behind what it read. */
class PatternParser {
  readonly #source: string
  readonly #isCaseless: boolean
  readonly #isDotAll: boolean
  readonly #isMultiline: boolean
  #offset: number
  #depth = 0

  constructor(source: string) {
    const flags = /^\(\?([ims]+)\)/.exec(source)
    this.#source = source
    this.#offset = flags?.[0].length ?? 0
    this.#isCaseless = flags?.[1]?.includes('i') ?? false
    this.#isDotAll = flags?.[1]?.includes('s') ?? false
    this.#isMultiline = flags?.[1]?.includes('m') ?? false
  }

  parse(): Node {
    const node = this.#options()
    if (this.#offset < this.#source.length) throw new PatternError()
    return node
  }

  #options(): Node {
    const options = [this.#sequence()]
    while (this.#accept('|')) options.push(this.#sequence())
    const [only] = options
    return options.length === 1 && only !== undefined ? only : { kind: 'any', options }
  }

  #sequence(): Node {
    const parts: Node[] = []
    while (this.#offset < this.#source.length && !/^[|)]/.test(this.#rest(1))) {
      parts.push(this.#repeated(this.#single()))
    }
    return { kind: 'all', parts }
  }

  #repeated(part: Node): Node {
    const match = /^(?:[*+?]|\{(\d{1,4})(,?)(\d{0,4})\})/.exec(this.#rest(12))
    if (match === null) return part
    if (part.kind === 'empty') throw new PatternError()
    this.#offset += match[0].length
    // Lazy or not makes no difference to whether a text matches.
    this.#accept('?')
    if (/^[*+?]/.test(this.#rest(1))) throw new PatternError()
    const least = match[0] === '+' ? 1 : Number(match[1] ?? '0')
    let most = Number.POSITIVE_INFINITY
    if (match[0] === '?') most = 1
    else if (match[1] !== undefined && match[2] === '') most = least
    else if (match[3] !== undefined && match[3] !== '') most = Number(match[3])
    const isRefused = most < least || least > REPEAT_MAX || (most > REPEAT_MAX && most < Infinity)
    if (isRefused) throw new PatternError()
    return { kind: 'repeat', part, least, most }
  }

  #single(): Node {
    const character = String.fromCodePoint(this.#source.codePointAt(this.#offset) ?? 0)
    switch (character) {
      case '(':
        return this.#group()
      case '[':
        return this.#class()
      case '\\':
        return this.#escape()
      case '*':
      case '+':
      case '?':
        throw new PatternError()
      case '.':
        this.#offset++
        return { kind: 'take', takes: this.#isDotAll ? () => true : (unit) => unit !== 10 }
      case '^':
        this.#offset++
        return { kind: 'place', place: this.#isMultiline ? 'line start' : 'start' }
      case '$':
        this.#offset++
        return { kind: 'place', place: this.#isMultiline ? 'line end' : 'end' }
      default:
        this.#offset += character.length
        return { kind: 'take', takes: this.#literal(character) }
    }
  }

  #group(): Node {
    if (++this.#depth > GROUP_DEPTH_MAX) throw new PatternError()
    const open = /^\((?:\?(?::|P?<[A-Za-z_]\w*>))?/.exec(this.#source.slice(this.#offset))
    this.#offset += open?.[0].length ?? 1
    const node = this.#options()
    if (!this.#accept(')')) throw new PatternError()
    this.#depth--
    return node
  }

  #class(): Node {
    const match = /^\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]/.exec(this.#source.slice(this.#offset))
    if (match === null || match[0].includes('[:')) throw new PatternError()
    this.#offset += match[0].length
    // A bracket that comes first is meant literally; JavaScript wants it escaped.
    const source = match[0].replace(/^(\[\^?)\]/, '$1\\]')
    return { kind: 'take', takes: this.#asked(source) }
  }

  #escape(): Node {
    const rest = this.#rest(60)
    const match =
      /^\\(?:[pP](?:\{\w+(?:=\w+)?\}|[A-Z])|x[0-9a-fA-F]{2}|[dDwWsSbBAztnrfv]|[^\w\s])/.exec(rest)
    if (match === null) throw new PatternError()
    const source = match[0]
    this.#offset += source.length
    const letter = source[1] ?? ''
    if (letter === 'b') return { kind: 'place', place: 'border' }
    if (letter === 'B') return { kind: 'place', place: 'no border' }
    if (letter === 'A') return { kind: 'place', place: 'start' }
    if (letter === 'z') return { kind: 'place', place: 'end' }
    if (/[pP]/.test(letter)) {
      const name = source.slice(2).replace(/^([A-Z])$/, '{$1}')
      return { kind: 'take', takes: this.#asked(`\\${letter}${name}`) }
    }
    if (/[xdDwWsStnrfv]/.test(letter)) return { kind: 'take', takes: this.#asked(source) }
    return { kind: 'take', takes: this.#literal(source.slice(1)) }
  }

  #literal(character: string): CharacterTest {
    const code = character.codePointAt(0) ?? 0
    const isLetter = this.#isCaseless && character.toLowerCase() !== character.toUpperCase()
    if (!isLetter) return (unit) => unit === code
    return this.#asked(`\\u{${code.toString(16)}}`)
  }

  /** A test of single characters by the JavaScript engine, remembered for ASCII. */
  #asked(source: string): CharacterTest {
    let expression: RegExp
    try {
      expression = new RegExp(`^${source}$`, this.#isCaseless ? 'iu' : 'u')
    } catch {
      throw new PatternError()
    }
    const known = new Uint8Array(128)
    return (unit) => {
      if (unit >= 128) return expression.test(String.fromCodePoint(unit))
      if (known[unit] === 0) known[unit] = expression.test(String.fromCodePoint(unit)) ? 2 : 1
      return known[unit] === 2
    }
  }

  #accept(character: string): boolean {
    if (this.#source[this.#offset] !== character) return false
    this.#offset++
    return true
  }

  #rest(length: number): string {
    return this.#source.slice(this.#offset, this.#offset + length)
  }
}
