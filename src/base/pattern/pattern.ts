/**
 * Regular expressions of clients, in linear time. Only this folder imports the RE2 engine. A search costs at most
 * (number of characters) x (size of the program) for any pattern; there is no look-around and no back reference. The
 * sizes of patterns, programs, texts and the engine's memory are limited. A `PatternBudget` limits the total cost of
 * patterns in one request.
 */
import { RE2JSException, RE2JSSyntaxException, RE2Set } from 're2js'
import {
  CACHED_PATTERNS_MAX,
  PATTERN_ENGINE_BYTES_MAX,
  PATTERN_ENGINE_STATES_MAX,
  PATTERN_PROGRAM_MAX,
  PATTERN_REQUEST_UNITS_MAX,
  PATTERN_TEXT_UNITS_MAX,
  PATTERN_UNITS_MAX,
} from '../limits.ts'
import { dialectNeeds, withUnicodeClasses } from './pattern-dialect.ts'
import { refusalReason } from './pattern-refusals.ts'
import type { WordShape } from './word-shape.ts'

/** The units that each search costs in addition to the characters of its text. */
const SEARCH_UNITS = 20
/**
 * The units that the engine needs to build a new state, for each instruction of the program. A step that uses no state
 * costs one unit for each instruction.
 */
const STATE_UNITS = 4

/** Which characters `\d`, `\w`, `\s` and `\b` mean: ASCII characters as in RE2, or characters of all scripts. */
export type PatternDialect = 'ascii' | 'unicode'

/**
 * The cost that one request may spend on patterns, in units. A unit is one step of the engine or one character, and
 * takes tens of nanoseconds.
 */
export class PatternBudget {
  #unitsLeft: number

  /** The default number of units is meant for one request on the main thread. */
  constructor(unitsMax = PATTERN_REQUEST_UNITS_MAX) {
    this.#unitsLeft = unitsMax
  }

  /** Returns true if this many units are left. */
  covers(units: number): boolean {
    return units <= this.#unitsLeft
  }

  /** Subtracts units from the budget. */
  spend(units: number): void {
    this.#unitsLeft -= units
  }
}

/** A compiled pattern. It caches the states of the engine that were built for earlier texts, but not the texts. */
export class Pattern {
  readonly #engine: RE2Set
  /** The form that texts must have for a search. Null if they are searched as they are. */
  readonly #shape: WordShape | null

  constructor(engine: RE2Set, shape: WordShape | null) {
    this.#engine = engine
    this.#shape = shape
  }

  /**
   * Tests whether the pattern matches anywhere in the text. Returns null if the budget does not cover the worst case.
   * Cost: linear in the text. In the worst case, each character costs a step for each instruction of the program.
   */
  isFoundIn(text: string, budget: PatternBudget): boolean | null {
    let searched =
      text.length > PATTERN_TEXT_UNITS_MAX ? text.slice(0, PATTERN_TEXT_UNITS_MAX) : text
    if (this.#shape !== null) searched = this.#shape.shaped(searched)
    const worstUnits = this.#worstUnits(searched.length)
    if (!budget.covers(worstUnits)) return null
    const { dfa } = this.#engine
    const statesBefore = dfa.stateCount
    const isFound = this.#engine.match(searched).length > 0
    const newStates = dfa.stateCount - statesBefore
    // When the memory of the engine is full, it drops all states, including the start states. The number of states that
    // it built for this text is then unknown.
    const isCounted = dfa.startStates.size > 0 && newStates >= 0
    const stateUnits = STATE_UNITS * newStates * this.#engine.prog.numInst()
    budget.spend(isCounted ? searched.length + SEARCH_UNITS + stateUnits : worstUnits)
    return isFound
  }

  /**
   * Returns the units that a search can cost at most. In the worst case, the engine fills its memory once. Then it
   * builds a new state for every tenth character, or continues without states.
   */
  #worstUnits(length: number): number {
    const states = Math.min(length + 2, PATTERN_ENGINE_STATES_MAX + length / 10)
    return this.#engine.prog.numInst() * (length + 1 + STATE_UNITS * states) + SEARCH_UNITS
  }
}

const ESCAPES_AND_CLASSES = /\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]/g
const COUNTED_REPEAT = /\{(\d{1,6})(?:,(\d{0,6}))?\}/g

/** The compiled patterns by their source. A string is the reason why a pattern was refused. */
const cache = new Map<string, Pattern | string>()
const TOO_LARGE = `is too large: it compiles to more than ${PATTERN_PROGRAM_MAX} steps`

/**
 * Returns the compiled form of a pattern, or null if it is invalid or too large. Cost: up to 0.1 s for the worst
 * pattern of the allowed length, microseconds for a cached one.
 */
export function compilePattern(source: string, dialect: PatternDialect): Pattern | null {
  const compiled = compiledOrReason(source, dialect)
  return typeof compiled === 'string' ? null : compiled
}

/**
 * Returns the reason why a pattern cannot be used, worded to follow "has a pattern that". Returns null if it can be
 * used. It costs as much as `compilePattern`.
 */
export function patternRefusal(source: string, dialect: PatternDialect): string | null {
  const compiled = compiledOrReason(source, dialect)
  return typeof compiled === 'string' ? compiled : null
}

function compiledOrReason(source: string, dialect: PatternDialect): Pattern | string {
  if (source.length > PATTERN_UNITS_MAX) {
    return `has ${source.length} characters, but at most ${PATTERN_UNITS_MAX} are allowed`
  }
  const key = dialect + source
  const known = cache.get(key)
  if (known !== undefined) return known
  const pattern = compileIn(dialect, source)
  const [oldest] = cache.size < CACHED_PATTERNS_MAX ? [] : cache.keys()
  if (oldest !== undefined) cache.delete(oldest)
  cache.set(key, pattern)
  return pattern
}

function compileIn(dialect: PatternDialect, source: string): Pattern | string {
  if (dialect === 'ascii') return compileUncached(source, null)
  const { refusal, shape } = dialectNeeds(source)
  return refusal ?? compileUncached(withUnicodeClasses(source, shape), shape)
}

function compileUncached(source: string | null, shape: WordShape | null): Pattern | string {
  if (source === null) return 'has \\Q or \\C. Write a backslash before each character instead'
  if (repeatsOf(source) > PATTERN_PROGRAM_MAX) return TOO_LARGE
  const engine = new RE2Set(RE2Set.UNANCHORED, 0, PATTERN_ENGINE_BYTES_MAX)
  try {
    engine.add(source)
    engine.compile()
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) {
      return refusalReason(error.getDescription(), error.getPattern(), source)
    }
    if (error instanceof RE2JSException) return TOO_LARGE
    throw error
  }
  return engine.prog.numInst() > PATTERN_PROGRAM_MAX ? TOO_LARGE : new Pattern(engine, shape)
}

/**
 * Returns the number of copies that the counted repeats of a pattern (`x{3}`, `x{2,5}`) make of what they repeat, added
 * up. If there are more copies than a program may have instructions, the pattern is refused before the expensive
 * compilation.
 */
function repeatsOf(source: string): number {
  let sum = 0
  for (const [, least, most] of source.replace(ESCAPES_AND_CLASSES, '').matchAll(COUNTED_REPEAT)) {
    sum += Math.max(Number(least), Number(most ?? 0))
  }
  return sum
}
