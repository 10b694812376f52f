/**
 * Replaces the matches of clients' patterns with the RE2 engine in linear time. It uses the part of the engine that
 * returns where a match begins and ends. `Pattern` only tests whether there is a match.
 */
import { RE2JS, RE2JSException } from 're2js'
import {
  PATTERN_UNITS_MAX,
  REPLACEMENT_PROGRAM_MAX,
  REPLACEMENT_RESULT_UNITS_MAX,
  REPLACEMENT_TEXT_UNITS_MAX,
} from '../limits.ts'

/** A compiled pattern and the replacement for its matches. */
export class PatternReplacement {
  readonly #pattern: RE2JS
  readonly #parts: readonly (string | number)[]
  /** The number of instructions of the pattern. A replacement costs at most this many steps for each character. */
  readonly programSize: number

  private constructor(pattern: RE2JS, parts: readonly (string | number)[]) {
    this.#pattern = pattern
    this.#parts = parts
    this.programSize = pattern.programSize()
  }

  /**
   * Compiles a replacement in which `\0` stands for the match and `\1` to `\9` for its groups. Returns null if the
   * pattern is invalid or too large.
   */
  static compile(source: string, replacement: string): PatternReplacement | null {
    if (source.length > PATTERN_UNITS_MAX) return null
    let pattern: RE2JS
    try {
      pattern = RE2JS.compile(source)
    } catch (error) {
      if (error instanceof RE2JSException) return null
      throw error
    }
    return pattern.programSize() > REPLACEMENT_PROGRAM_MAX
      ? null
      : new PatternReplacement(pattern, partsOf(replacement))
  }

  /** Returns the text with every match replaced, from left to right. */
  replaceAll(text: string): string {
    const matcher = this.#pattern.matcher(text.slice(0, REPLACEMENT_TEXT_UNITS_MAX))
    let result = ''
    let from = 0
    while (result.length <= REPLACEMENT_RESULT_UNITS_MAX && matcher.find()) {
      result += text.slice(from, matcher.start())
      for (const part of this.#parts) {
        if (typeof part === 'string') result += part
        else if (part <= matcher.groupCount()) result += matcher.group(part) ?? ''
      }
      from = matcher.end()
    }
    return from === 0 && result === '' ? text : result + text.slice(from)
  }
}

/** Splits a replacement into texts, and the numbers of the groups that are inserted between them. */
function partsOf(replacement: string): readonly (string | number)[] {
  return replacement
    .split(/(\\[0-9\\])/)
    .filter((part) => part !== '')
    .map((part) => {
      if (!/^\\[0-9\\]$/.test(part)) return part
      return part === '\\\\' ? '\\' : Number(part[1])
    })
}
