/**
 * Counts the properties of the persons of large projects (kept-properties.ts) while the thread is idle, some
 * milliseconds at a time. If persons of a project have changed, all its properties are counted again. After each count
 * there is a pause, two hundred times as long as the count took, but at least a minute.
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

/** The length of the pause after a count: a multiple of the time that the count took, but at least `REST_MS_MIN`. */
const REST_FACTOR = 200
const REST_MS_MIN = 60_000

/** A count of one project that is not finished. */
interface Begun extends KeptProperties {
  readonly projectId: number
  /** The person number with which the count continues. */
  from: number
  left: number
  spentMs: number
}

/** Updates the stored counts of properties. A data directory has one keeper, in the processing thread. */
export class PropertyKeeper {
  readonly #tables: EventTables
  readonly #onDamage: DamageListener
  /** The projects that must be counted again, because their persons may have changed. */
  readonly #waiting: Set<number>
  /**
   * The projects in `#waiting` in which no person has changed since the process started. Their stored count may still
   * be right.
   */
  readonly #unchanged: Set<number>
  #begun: Begun | null = null
  /** For a project with few persons, the time of the next check whether it now has many. */
  readonly #fewUntilMs = new Map<number, number>()
  #restUntilMs = Number.NEGATIVE_INFINITY

  constructor(tables: EventTables, projectIds: Iterable<number>, onDamage: DamageListener) {
    this.#tables = tables
    this.#onDamage = onDamage
    this.#waiting = new Set(projectIds)
    this.#unchanged = new Set(this.#waiting)
  }

  /** Records that persons of a project were added, changed or removed. */
  note(projectId: number): void {
    this.#waiting.add(projectId)
    this.#unchanged.delete(projectId)
  }

  /** True if a project must be counted, even if there is a pause now. */
  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /**
   * Counts the properties of further persons. `write` runs its argument in a transaction. Returns false if there is
   * nothing to count now.
   */
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
      // Either the project needs no further count now, or a damaged record has ended the count.
      this.#begun = null
      this.#waiting.delete(projectId)
    }
    return false
  }

  /**
   * Counts the properties of persons of one project, until the time `deadline`. Returns true if nothing is left to do
   * for this project. Returns false if persons are left, if there is a pause now, or if a person was deleted during the
   * count, which is then outdated.
   */
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

  /**
   * Returns what `areMany` returns for a project. If the project had few persons at the last check, it is not checked
   * again for a while.
   */
  #areMany(projectId: number, counters: PersonCounters): boolean {
    const nowMs = performance.now()
    if (nowMs < (this.#fewUntilMs.get(projectId) ?? 0)) return false
    if (areMany(this.#tables, projectId, counters)) return true
    this.#fewUntilMs.set(projectId, nowMs + REST_MS_MIN)
    return false
  }

  /**
   * Returns whether the count that an earlier process has stored can still be used: no person was added or deleted
   * since then, and none has changed since this process started.
   */
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
