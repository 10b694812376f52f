/**
 * Numbers for the sessions of a project, given in the order in which scans meet them and kept for as long
 * as their thread keeps anything: a session is looked up by its text once for each segment that holds it.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { isSessionId } from '../../../rules/analytics/session-id.ts'
import type { ScanSegment } from './event-scan-cache.ts'

/** The numbers of one project, from 1. */
export class SessionNumbers {
  /** The text of each number; 0 is undefined. */
  readonly texts: (string | undefined)[] = [undefined]
  readonly #numbers = new Map<string, number>()
  readonly #bySegment = new WeakMap<ScanSegment, Uint32Array>()

  /** The number of a session that has one; 0 for any other value. */
  find(value: unknown): number {
    return typeof value === 'string' ? (this.#numbers.get(value) ?? 0) : 0
  }

  /** The number of a session, a new one if need be; 0 for what makes none. */
  numberOf(value: unknown): number {
    if (!isSessionId(value)) return 0
    return getOrAdd(this.#numbers, value, (text) => this.texts.push(text) - 1)
  }

  /**
   * What is known of the values of a segment's column, `size` of them: their numbers plus one, 0 where
   * nobody has asked yet. Whoever finds out writes it there.
   */
  ofSegment(segment: ScanSegment, size: number): Uint32Array {
    let numbers = this.#bySegment.get(segment)
    if (numbers === undefined) {
      numbers = new Uint32Array(size)
      this.#bySegment.set(segment, numbers)
    }
    return numbers
  }
}
