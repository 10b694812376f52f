/**
 * Patterns are checked on the main thread, where the worst of them takes tens of milliseconds: one in each
 * turn, so that other requests go on in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type PatternDialect, patternRefusal } from '../../../base/pattern/pattern.ts'

/**
 * Compiles patterns, so that they are known when they are looked at next. `patterns` are no more than one
 * flag, cohort or action may have.
 */
export async function compileInTurns(
  patterns: readonly string[],
  dialects: readonly PatternDialect[],
): Promise<void> {
  for (const pattern of patterns) {
    for (const dialect of dialects) {
      patternRefusal(pattern, dialect)
      await nextTurn()
    }
  }
}
