/**
 * The table of one kind of saved object. Each object is one record. A list reads all objects of a project. So if
 * objects have a large member that no list needs, that member is stored in a separate table.
 *
 * | table           | key                         | value                                                   |
 * |-----------------|-----------------------------|---------------------------------------------------------|
 * | insights        | project u32, insight u32    | `Insight` with null instead of its query, JSON          |
 * | insight_queries | project u32, insight u32    | the query, JSON                                         |
 * | dashboards      | project u32, dashboard u32  | `Dashboard`, JSON                                       |
 * | annotations     | project u32, annotation u32 | `Annotation`, JSON; project 0: of the organization      |
 * | experiments     | project u32, experiment u32 | `Experiment`, JSON                                      |
 * | holdouts        | project u32, holdout u32    | `Holdout`, JSON                                         |
 * | saved_metrics   | project u32, metric u32     | `SavedMetric`, JSON                                     |
 */
import type { Clock } from '../../base/clock.ts'
import type { Changes, Saved } from '../../rules/saved/saved.ts'
import type { Table } from '../lmdb/environment.ts'
import { type FlagsTable, keysOf, NUMBER_MAX, pairKey } from '../lmdb/keys.ts'
import { getJson, jsonOf, load, putJson } from '../lmdb/records.ts'
import { demand, demandRoom } from './checks.ts'
import type { SavedNumber } from './directory-environment.ts'

/** What saved objects need from the environment in which they are stored. */
export interface SavedEnvironment {
  readonly clock: Pick<Clock, 'now'>
  table(name: FlagsTable): Table
  /** Raises the counter with this name by one. Returns the new count, which is the number of a new object. */
  nextNumber(name: SavedNumber): number
  /**
   * Runs a change in a transaction. If the caller is already in a transaction, the change becomes part of that
   * transaction.
   */
  save<T>(action: () => T): T
}

/** The ways in which the kinds of saved objects differ. */
export interface SavedLayout<Fields> {
  readonly table:
    | 'insights'
    | 'dashboards'
    | 'annotations'
    | 'experiments'
    | 'holdouts'
    | 'saved_metrics'
  /** The name of the counter that gives the objects their numbers. */
  readonly number: SavedNumber
  /** The maximum number of objects of a project, including deleted ones. */
  readonly countMax: number
  /**
   * The large member that is stored in a separate table, and the name of that table. Absent if the objects have no such
   * member.
   */
  readonly aside?: { readonly table: 'insight_queries'; readonly member: keyof Fields & string }
  /** Called before an object is removed permanently. Removes the records that refer to the object. */
  readonly onRemove?: (saved: Saved<Fields>) => void
}

/** The objects of one kind. Call the methods that change objects only within a transaction of the environment. */
export class SavedTable<Fields> {
  readonly #environment: SavedEnvironment
  readonly #layout: SavedLayout<Fields>

  constructor(environment: SavedEnvironment, layout: SavedLayout<Fields>) {
    this.#environment = environment
    this.#layout = layout
  }

  /**
   * Returns all objects of a project, in the order of their numbers, including deleted ones. The member that is stored
   * in a separate table is left out.
   */
  all(projectId: number): Saved<Fields>[] {
    const records = jsonOf<Saved<Fields>>(this.#table, keysOf(projectId))
    return [...records].map(({ value }) => value)
  }

  /**
   * Returns a whole object, including the member in the separate table. Deleted objects are returned too. Returns null
   * if there is no such object.
   */
  get(projectId: number, id: number): Saved<Fields> | null {
    if (!isNumber(id)) return null
    const saved = getJson<Saved<Fields>>(this.#table, pairKey(projectId, id))
    return saved && this.whole(saved)
  }

  /**
   * Returns the object with the number `id`, which a client has sent in the field `attr`. Throws 400 `does_not_exist`
   * if the object does not exist or is deleted.
   */
  named(projectId: number, id: number, attr: string): Saved<Fields> {
    const saved = this.get(projectId, id)
    const detail = `\`${attr}\` must refer to ${this.#layout.table} of the project.`
    demand(saved?.isDeleted === false, 'does_not_exist', detail, attr)
    return saved
  }

  /** Adds the separate member to an object from `all`. */
  whole(saved: Saved<Fields>): Saved<Fields> {
    const { aside } = this.#layout
    if (aside === undefined) return saved
    const value = getJson(this.#environment.table(aside.table), keyOf(saved))
    return { ...saved, fields: { ...saved.fields, [aside.member]: value } }
  }

  /** Returns the number of bytes of the separate member of an object. */
  bytesAside(saved: Saved<Fields>): number {
    const { aside } = this.#layout
    if (aside === undefined) return 0
    return load(this.#environment.table(aside.table), keyOf(saved))?.length ?? 0
  }

  /**
   * Creates an object. If the project already has the maximum number of objects, the object that was deleted first is
   * removed permanently. Throws 400 if none of them is deleted.
   */
  add(projectId: number, createdById: number | null, fields: Fields): Saved<Fields> {
    const { number, countMax } = this.#layout
    this.makeRoom(projectId, countMax)
    const createdAtMs = this.#environment.clock.now()
    const id = this.#environment.nextNumber(number)
    const times = { createdAtMs, updatedAtMs: createdAtMs }
    const made = { id, projectId, fields, isDeleted: false, createdById, ...times, sharing: null }
    return this.put(made)
  }

  change(before: Saved<Fields>, { fields, isDeleted }: Changes<Fields>): Saved<Fields> {
    return this.put({
      ...before,
      fields: { ...before.fields, ...fields },
      isDeleted: isDeleted ?? before.isDeleted,
      updatedAtMs: this.#environment.clock.now(),
    })
  }

  /** Writes a whole object and returns it. */
  put(saved: Saved<Fields>): Saved<Fields> {
    const { aside } = this.#layout
    if (aside === undefined) putJson(this.#table, keyOf(saved), saved)
    else {
      const { [aside.member]: value, ...fields } = saved.fields
      putJson(this.#table, keyOf(saved), { ...saved, fields: { ...fields, [aside.member]: null } })
      putJson(this.#environment.table(aside.table), keyOf(saved), value)
    }
    return saved
  }

  /** Removes an object permanently. */
  remove(saved: Saved<Fields>): void {
    const { aside, onRemove } = this.#layout
    onRemove?.(saved)
    this.#table.removeSync(keyOf(saved))
    if (aside !== undefined) this.#environment.table(aside.table).removeSync(keyOf(saved))
  }

  /**
   * Makes room for one more object. If a project already has `countMax` objects, permanently removes the object that
   * was deleted first. Throws 400 `invalid_input` if none of them is deleted.
   */
  makeRoom(projectId: number, countMax = this.#layout.countMax): void {
    const count = this.#table.getKeysCount(keysOf(projectId))
    if (count < countMax) return
    const [first] = this.all(projectId)
      .filter(({ isDeleted }) => isDeleted)
      .sort((a, b) => a.updatedAtMs - b.updatedAtMs)
    if (first === undefined) demandRoom(count, countMax, `${this.#layout.table} of a project`)
    else this.remove(first)
  }

  get #table() {
    return this.#environment.table(this.#layout.table)
  }
}

/** Returns whether a number from a client is in the range of record numbers. */
function isNumber(id: number): boolean {
  return Number.isInteger(id) && id > 0 && id <= NUMBER_MAX
}

function keyOf({ projectId, id }: { readonly projectId: number; readonly id: number }): Buffer {
  return pairKey(projectId, id)
}
