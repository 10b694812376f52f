/**
 * Counts the properties of the persons of large projects when there is nothing else to do (kept-properties.ts),
 * some milliseconds at a time, and again when persons have changed; then it rests two hundred times as long as it
 * took.
 */
import { attempt, type DamageListener } from '../../faults.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { FOLD_MS_MAX, NAMED_ACTORS_MAX } from '../limits.ts'
import { loadPersonCounters, type PersonCounters } from '../person-records.ts'
import {
  areMany,
  countPersons,
  type KeptProperties,
  loadKeptProperties,
  storeKeptProperties,
} from './kept-properties.ts'
import { PropertyCounts } from './property-counts.ts'

/** How long it rests for each millisecond of work, and at least. */
const REST_FACTOR = 200
const REST_MS_MIN = 60_000

/** A count that has begun. */
interface Begun extends KeptProperties {
  readonly projectId: number
  /** P from which it goes on. */
  from: number
  left: number
  spentMs: number
}

/** Keeps the properties of persons. One per data directory, in the processing thread. */
export class PropertyKeeper {
  readonly #tables: EventTables
  readonly #onDamage: DamageListener
  /** Projects whose persons may have changed since they were counted. */
  readonly #waiting: Set<number>
  /** Those of them of which nothing has come since the start. */
  readonly #unchanged: Set<number>
  #begun: Begun | null = null
  /** When it is looked again whether a project has many persons. */
  readonly #fewUntilMs = new Map<number, number>()
  #restUntilMs = Number.NEGATIVE_INFINITY

  constructor(tables: EventTables, projectIds: Iterable<number>, onDamage: DamageListener) {
    this.#tables = tables
    this.#onDamage = onDamage
    this.#waiting = new Set(projectIds)
    this.#unchanged = new Set(this.#waiting)
  }

  /** Persons of a project have come, changed or gone. */
  note(projectId: number): void {
    this.#waiting.add(projectId)
    this.#unchanged.delete(projectId)
  }

  /** Whether persons wait to be counted, perhaps until it has rested. */
  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /** Counts some persons; `write` runs what it is given in a transaction. False: nobody is to be counted now. */
  step(write: (store: () => void) => void): boolean {
    const deadline = performance.now() + FOLD_MS_MAX
    for (const projectId of this.#waiting) {
      if (performance.now() >= deadline) return true
      if (this.#begun !== null && this.#begun.projectId !== projectId) continue
      const isDone = attempt(() => this.#count(projectId, deadline, write), this.#onDamage)
      if (isDone === false) {
        if (this.#begun !== null) return true
        continue
      }
      // Of damaged persons those who ask are told.
      this.#begun = null
      this.#waiting.delete(projectId)
    }
    return false
  }

  /** False: there is more to count. */
  #count(projectId: number, deadline: number, write: (store: () => void) => void): boolean {
    const counters = loadPersonCounters(this.#tables.person_projects, projectId)
    if (this.#isCounted(projectId, counters)) return true
    if (this.#begun?.projectId !== projectId) {
      if (performance.now() < this.#restUntilMs) return false
      if (!this.#areMany(projectId, counters)) return true
      this.#begun = beginCount(projectId, counters)
    }
    const begun = this.#begun
    const startedAtMs = performance.now()
    const isOver = (): boolean => performance.now() >= deadline
    const { counts, from, left } = begun
    const found = countPersons(this.#tables, projectId, counts, from, left, isOver)
    const nowMs = performance.now()
    begun.spentMs += nowMs - startedAtMs
    begun.left -= found.counted
    this.#restUntilMs = nowMs + Math.max(REST_MS_MIN, begun.spentMs * REST_FACTOR)
    if (found.next !== null) {
      begun.from = found.next
      return false
    }
    write(() => storeKeptProperties(this.#tables, projectId, begun))
    this.#begun = null
    return counters.deletions === begun.deletions
  }

  /** As `areMany`; persons that were few a moment ago are not looked at again. */
  #areMany(projectId: number, counters: PersonCounters): boolean {
    const nowMs = performance.now()
    if (nowMs < (this.#fewUntilMs.get(projectId) ?? 0)) return false
    if (areMany(this.#tables, projectId, counters)) return true
    this.#fewUntilMs.set(projectId, nowMs + REST_MS_MIN)
    return false
  }

  /** Nothing has come since the last process counted them. */
  #isCounted(projectId: number, { lastPerson, deletions }: PersonCounters): boolean {
    if (!this.#unchanged.has(projectId) || this.#begun?.projectId === projectId) return false
    const kept = loadKeptProperties(this.#tables, projectId)
    return kept?.lastPerson === lastPerson && kept.deletions === deletions
  }
}

function beginCount(projectId: number, { lastPerson, deletions }: PersonCounters): Begun {
  const counts = new PropertyCounts(true)
  const progress = { from: lastPerson, left: NAMED_ACTORS_MAX, spentMs: 0 }
  return { projectId, lastPerson, deletions, counts, ...progress }
}
