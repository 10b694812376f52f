/**
 * Values of a property of events, to be offered in a list. Source: docs/compatibility/definitions.md, "Offered
 * values".
 */
import { propertyText } from '../filters/property-text.ts'
import type { EventFacts } from './definitions.ts'
import {
  OFFERED_EVENTS_MAX,
  OFFERED_UNITS_MAX,
  OFFERED_VALUES_MAX,
  VALUES_COUNTED_MAX,
} from './limits.ts'

/** The values of which property, and of which events. */
export interface EventValueQuery {
  readonly projectId: number
  readonly key: string
  /** In lower case: only values that contain it. */
  readonly contains: string
  /** Only of events with one of these names; null: of all. */
  readonly eventNames: readonly string[] | null
  /** Timestamps, both inclusive. */
  readonly fromMs: number
  readonly toMs: number
}

/** Something that is offered. */
export interface Offered {
  readonly name: string
}

/** Names of events that do not begin with `$` and contain a text in lower case, the most frequent first. */
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

  /** Notes a value, any JSON, of `count` events. The members of lists are values of their own. */
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

  /** The most frequent texts. */
  offered(): readonly Offered[] {
    return mostFrequent([...this.#counts], OFFERED_VALUES_MAX)
  }
}

/** Equally frequent ones in order. */
function mostFrequent(counts: [string, number][], countMax: number): readonly Offered[] {
  return counts
    .sort(([a, countOfA], [b, countOfB]) => countOfB - countOfA || (a < b ? -1 : 1))
    .slice(0, countMax)
    .map(([name]) => ({ name }))
}
