/**
 * One kind of saved things, a record each. Lists read all of a project, so what may be large and no list asks
 * for lies aside, in a table of its own.
 *
 * | table           | key                      | value                                                    |
 * |-----------------|--------------------------|----------------------------------------------------------|
 * | insights        | project u32, insight u32 | `Insight` with a null in place of its query, JSON        |
 * | insight_queries | project u32, insight u32 | the query, JSON                                          |
 * | dashboards      | project u32, dashboard u32 | `Dashboard`, JSON                                      |
 * | annotations     | project u32, annotation u32 | `Annotation`, JSON; those of the organization under 0 |
 */
import type { Clock } from '../../base/clock.ts'
import type { Changes, Saved } from '../../rules/saved/saved.ts'
import type { Table } from '../lmdb/environment.ts'
import { type FlagsTable, keysOf, NUMBER_MAX, pairKey } from '../lmdb/keys.ts'
import { getJson, jsonOf, load, putJson } from '../lmdb/records.ts'
import { demand, demandRoom } from './checks.ts'
import type { SavedNumber } from './directory-environment.ts'

/** The environment, whoever has it open. */
export interface SavedEnvironment {
  readonly clock: Pick<Clock, 'now'>
  table(name: FlagsTable): Table
  /** A number that was never given before under this name. */
  nextNumber(name: SavedNumber): number
  /** Runs a change within a transaction of its own, or within that which there is. */
  save<T>(action: () => T): T
}

/** What kinds differ in. */
export interface SavedLayout<Fields> {
  readonly table: 'insights' | 'dashboards' | 'annotations'
  /** What is counted for their numbers. */
  readonly number: SavedNumber
  /** Things of a project, deleted ones too. */
  readonly countMax: number
  /** The member of the fields that lies aside, and its table. */
  readonly aside?: { readonly table: 'insight_queries'; readonly member: keyof Fields & string }
  /** Removes what leads to a thing that goes for good. */
  readonly onRemove?: (saved: Saved<Fields>) => void
}

/** The things of one kind; changed within a transaction of the environment only. */
export class SavedTable<Fields> {
  readonly #environment: SavedEnvironment
  readonly #layout: SavedLayout<Fields>

  constructor(environment: SavedEnvironment, layout: SavedLayout<Fields>) {
    this.#environment = environment
    this.#layout = layout
  }

  /** All of a project by number, deleted ones too, without what lies aside. */
  all(projectId: number): Saved<Fields>[] {
    const records = jsonOf<Saved<Fields>>(this.#table, keysOf(projectId))
    return [...records].map(({ value }) => value)
  }

  /** A thing, deleted or not, with what lies aside; null: there is none. */
  get(projectId: number, id: number): Saved<Fields> | null {
    if (!isNumber(id)) return null
    const saved = getJson<Saved<Fields>>(this.#table, pairKey(projectId, id))
    return saved && this.whole(saved)
  }

  /** The same; 400 `does_not_exist` about a field that names none, or a deleted one. */
  named(projectId: number, id: number, attr: string): Saved<Fields> {
    const saved = this.get(projectId, id)
    const detail = `${attr} must name ${this.#layout.table} of the project`
    demand(saved?.isDeleted === false, 'does_not_exist', detail, attr)
    return saved
  }

  /** A thing of `all` with what lies aside. */
  whole(saved: Saved<Fields>): Saved<Fields> {
    const { aside } = this.#layout
    if (aside === undefined) return saved
    const value = getJson(this.#environment.table(aside.table), keyOf(saved))
    return { ...saved, fields: { ...saved.fields, [aside.member]: value } }
  }

  /** Bytes of what lies aside of a thing. */
  bytesAside(saved: Saved<Fields>): number {
    const { aside } = this.#layout
    if (aside === undefined) return 0
    return load(this.#environment.table(aside.table), keyOf(saved))?.length ?? 0
  }

  /** Makes a thing; what was deleted first goes when there is no room. Throws 400 when nothing is deleted. */
  add(projectId: number, createdById: number | null, fields: Fields): Saved<Fields> {
    const { number, countMax } = this.#layout
    this.makeRoom(projectId, countMax)
    const createdAtMs = this.#environment.clock.now()
    const id = this.#environment.nextNumber(number)
    const times = { createdAtMs, updatedAtMs: createdAtMs }
    const made = { id, projectId, fields, isDeleted: false, createdById, ...times, sharing: null }
    return this.put(made)
  }

  /** Changes a thing. */
  change(before: Saved<Fields>, { fields, isDeleted }: Changes<Fields>): Saved<Fields> {
    return this.put({
      ...before,
      fields: { ...before.fields, ...fields },
      isDeleted: isDeleted ?? before.isDeleted,
      updatedAtMs: this.#environment.clock.now(),
    })
  }

  /** Writes a whole thing, and answers it. */
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

  /** Removes a thing for good. */
  remove(saved: Saved<Fields>): void {
    const { aside, onRemove } = this.#layout
    onRemove?.(saved)
    this.#table.removeSync(keyOf(saved))
    if (aside !== undefined) this.#environment.table(aside.table).removeSync(keyOf(saved))
  }

  /** Sees to it that a project has fewer than `countMax` things. Throws 400 `invalid_input`. */
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

/** Whether a number of a client can be that of a record. */
function isNumber(id: number): boolean {
  return Number.isInteger(id) && id > 0 && id <= NUMBER_MAX
}

function keyOf({ projectId, id }: { readonly projectId: number; readonly id: number }): Buffer {
  return pairKey(projectId, id)
}
