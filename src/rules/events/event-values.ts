/**
 * Collects the values of an event property. Clients suggest these values to a user who enters a filter. Source:
 * docs/compatibility/definitions.md, "Offered values".
 */
import { propertyText } from '../filters/property-text.ts'
import type { EventFacts } from './event-definitions.ts'
import {
  OFFERED_EVENTS_MAX,
  OFFERED_UNITS_MAX,
  OFFERED_VALUES_MAX,
  VALUES_COUNTED_MAX,
} from './limits.ts'

/** A query for the values of a property. */
export interface EventValueQuery {
  readonly projectId: number
  readonly key: string
  /** A text in lower case. Only values that contain it are offered. */
  readonly contains: string
  /** The names of the events whose values are counted. Null means all events. */
  readonly eventNames: readonly string[] | null
  /** The range of timestamps, both inclusive. */
  readonly fromMs: number
  readonly toMs: number
}

/** A value or a name that clients suggest to a user. */
export interface Offered {
  readonly name: string
}

/** Returns the names of events that do not begin with `$` and contain a text in lower case, the most frequent first. */
export function offeredEvents(
  events: Iterable<Pick<EventFacts, 'name' | 'count'>>,
  contains: string,
): readonly Offered[] {
  const counts: [string, number][] = []
  for (const { name, count } of events) {
    if (!name.startsWith('$') && name.toLowerCase().includes(contains)) counts.push([name, count])
  }
  return mostFrequent(counts, OFFERED_EVENTS_MAX)
}

/** Counts values as texts. */
export class ValueCounts {
  readonly #contains: string
  readonly #counts = new Map<string, number>()

  constructor(contains: string) {
    this.#contains = contains
  }

  /**
   * Counts a value that `count` events have. The value may be any JSON. Each member of a list is counted as a value of
   * its own.
   */
  add(value: unknown, count: number): void {
    if (Array.isArray(value)) {
      for (const member of value) this.add(member, count)
      return
    }
    if (value === null || value === undefined) return
    const text = propertyText(value)
    if (text === '' || text.length > OFFERED_UNITS_MAX) return
    if (!text.toLowerCase().includes(this.#contains)) return
    const known = this.#counts.get(text)
    if (known === undefined && this.#counts.size >= VALUES_COUNTED_MAX) return
    this.#counts.set(text, (known ?? 0) + count)
  }

  /** Returns the most frequent texts. */
  offered(): readonly Offered[] {
    return mostFrequent([...this.#counts], OFFERED_VALUES_MAX)
  }
}

/** Returns the most frequent names. Equally frequent names are in alphabetical order. */
function mostFrequent(counts: [string, number][], countMax: number): readonly Offered[] {
  return counts
    .sort(([a, countOfA], [b, countOfB]) => countOfB - countOfA || (a < b ? -1 : 1))
    .slice(0, countMax)
    .map(([name]) => ({ name }))
}
