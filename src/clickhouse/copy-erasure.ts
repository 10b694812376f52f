/**
 * Deletes the events of an erasure job from ClickHouse, by the same criteria by which the store has erased them. It
 * counts the matching events and requests their deletion, again and again until none is left, because ClickHouse may
 * lose a deletion. Only then does the erasure get its receipt.
 */
import type { ErasedJob } from '../ports/warehouse.ts'
import type { ErasureRule } from '../rules/events/erasure.ts'
import type { ErasureTarget } from '../rules/events/erasure-job.ts'
import type { StoredSegments } from '../store/events/read/segment-texts.ts'
import type { ClickHouse } from './clickhouse.ts'
import {
  countQuery,
  deletion,
  dropOfMonth,
  literal,
  monthsQuery,
  unfinishedQuery,
} from './copy-schema.ts'
import { ERASURE_IDS_MAX, INSERT_MS_MAX } from './limits.ts'

const MONTH_BYTES = 20

/** What an erasure in ClickHouse needs. */
export interface CopyErasureOptions {
  readonly clickhouse: ClickHouse
  readonly database: string
  readonly store: Pick<StoredSegments, 'erasure'>
  /**
   * True if no other machine writes to the table. Only then may a whole month be dropped at once: another machine could
   * be adding events to that month.
   */
  readonly isAlone: boolean
}

/** Carries out erasure jobs in ClickHouse, one step at a time. */
export class CopyErasure {
  readonly #options: CopyErasureOptions

  constructor(options: CopyErasureOptions) {
    this.#options = options
  }

  /**
   * Counts the events in ClickHouse that a job has erased in the store, and requests their deletion. Returns true if
   * none is left. Throws `WarehouseError`.
   */
  async step({ projectId, number }: ErasedJob): Promise<boolean> {
    const { clickhouse, database, store } = this.#options
    const target = store.erasure(projectId, number)
    for (const condition of target === null ? [] : conditionsOf(projectId, target)) {
      if ((await this.#count(countQuery(condition))) === 0) continue
      // Only one deletion runs at a time, because each one rewrites whole parts of the table.
      if ((await this.#count(unfinishedQuery(database))) > 0) return false
      if (await this.#dropMonths(condition)) {
        await clickhouse.ask(deletion(condition), { msMax: INSERT_MS_MAX })
      }
      return false
    }
    return true
  }

  /**
   * Drops each month in which all events match `condition`. Returns true if other months contain matching events, which
   * must be deleted row by row.
   */
  async #dropMonths(condition: string): Promise<boolean> {
    const { clickhouse, isAlone } = this.#options
    if (!isAlone) return true
    const months = await clickhouse.ask(monthsQuery(condition))
    let isLeft = false
    for (let at = 0; at < months.length; at += MONTH_BYTES) {
      const isWhole = months.readBigUInt64LE(at + 4) === months.readBigUInt64LE(at + 12)
      if (isWhole) await clickhouse.ask(dropOfMonth(months.readUInt32LE(at)))
      else isLeft = true
    }
    return isLeft
  }

  async #count(query: string): Promise<number> {
    return Number((await this.#options.clickhouse.ask(query)).readBigUInt64LE())
  }
}

/**
 * Returns SQL conditions for the events that an erasure erases, by the rules of `isMeant` in
 * rules/events/erasure-match.ts. An event is erased if any of the conditions matches its row.
 */
export function conditionsOf(projectId: number, target: ErasureTarget): readonly string[] {
  const { ids, rules, oldestThrough, through } = target
  const byRule = `(sequence <= ${oldestThrough} OR ${ruleCondition(rules)})`
  const all = `project = ${projectId} AND sequence <= ${through} AND ${byRule}`
  if (ids === null) return [all]
  const bySpan = new Map<string, number[]>()
  for (const [id, after, last] of ids) {
    const span = `sequence > ${after} AND sequence <= ${last}`
    const known = bySpan.get(span)
    if (known === undefined) bySpan.set(span, [id])
    else known.push(id)
  }
  const conditions: string[] = []
  for (const [span, numbers] of bySpan) {
    for (let at = 0; at < numbers.length; at += ERASURE_IDS_MAX) {
      const some = numbers.slice(at, at + ERASURE_IDS_MAX).join(', ')
      conditions.push(`${all} AND distinct_number IN (${some}) AND ${span}`)
    }
  }
  return conditions
}

function ruleCondition(rules: readonly ErasureRule[]): string {
  const byName = new Map(rules.map((rule) => [rule.event, rule] as const))
  const names = [...byName.keys()].flatMap((name) => (name === null ? [] : [literal(name)]))
  const ways = [...byName].map(([name, { afterMs, beforeMs }]) => {
    const terms = ['1']
    if (name !== null) terms.push(`event = ${literal(name)}`)
    else if (names.length > 0) terms.push(`event NOT IN (${names.join(', ')})`)
    if (afterMs !== null) terms.push(`time_ms >= ${Math.ceil(afterMs)}`)
    if (beforeMs !== null) terms.push(`time_ms < ${Math.ceil(beforeMs)}`)
    return `(${terms.join(' AND ')})`
  })
  return ways.length === 0 ? '0' : `(${ways.join(' OR ')})`
}
