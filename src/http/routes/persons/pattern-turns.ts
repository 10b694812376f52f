/**
 * Compiles regular expressions on the main thread. The worst ones take tens of milliseconds. Each one is therefore
 * compiled in its own turn of the event loop, so that other requests continue in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type PatternDialect, patternRefusal } from '../../../base/pattern/pattern.ts'

/**
 * Compiles patterns, so that the check after it finds them in the cache. The caller passes at most as many as one flag,
 * cohort or action may have.
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
