/**
 * The kind `RetentionQuery`: how many of the actors of a period returned in later periods. Source:
 * docs/compatibility/queries.md, "RetentionQuery".
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import type { DistinctIdOwners } from '../../analytics/event-columns.ts'
import { ActorKeys } from '../actor-events.ts'
import { checkDatedNumbers } from '../answer-formats.ts'
import { QUERY_CELLS_MAX } from '../limits.ts'
import { ownerBits } from '../owner-bits.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { bitCount, eachBit, isPlain } from '../period-bits.ts'
import {
  areBitsSmall,
  flatBits,
  type IdBits,
  isOfBits,
  mergeBits,
  scanIdBits,
  wordsOfBits,
} from '../person-bits.ts'
import { PersonsUrls } from '../persons-urls.ts'
import { OTHER_LABEL } from '../query-breakdown.ts'
import { resolvedRange } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import type { QueryActors, QueryKind, QueryShard } from '../query-kind.ts'
import { type CellVisitor, compareRows, eachCell } from './retention-counts.ts'
import { type RetentionPlan, readRetention, rowPeriods } from './retention-plan.ts'
import { retentionSplits } from './retention-splits.ts'
import { retentionUrls } from './retention-urls.ts'

/**
 * A retention table for each breakdown value ('' without a breakdown): the number of actors in each cell, row after
 * row.
 */
type RetentionTables = ReadonlyMap<string, Float64Array>

/** For each period, the bits of the distinct ids with target events, and the bits of those with returning events. */
type RetentionBits = readonly [targets: IdBits, returns: IdBits]

/**
 * The result for a part of the events. The result is tables if the events are divided by persons, and bits if they are
 * divided by segments.
 */
type RetentionPart = RetentionTables | RetentionBits

/** The kind for retention. */
export const RETENTION_QUERY: QueryKind<RetentionPlan, RetentionPart> = {
  dividedBy(plan, lastDistinctId) {
    if (plan.groupTypeIndex !== null) return 'nothing'
    const { type, breakdown, test, rows } = plan
    const isByBits = type === 'retention_recurring' && breakdown === null && isPlain(test)
    return isByBits && rows > 0 && areBitsSmall(2 * rows, lastDistinctId) ? 'segments' : 'persons'
  },

  // `page` reads the owners of distinct ids. They can change, but `page` must see them as they were for the parts.
  isOfOneState: () => true,
  plan: readRetention,
  rangeOf: ({ type, fromMs, toMs }) => (type === 'retention_recurring' ? { fromMs, toMs } : null),

  partial: (plan, shard) => (isOfBits(shard.part) ? bitsOf(plan, shard) : countTables(plan, shard)),

  merge(_, parts, limits) {
    const bits = parts.filter(isBits)
    if (bits.length > 0) {
      const targets = mergeBits(bits.map(([own]) => own))
      const isShared = bits.every(([own, returns]) => own === returns)
      return [targets, isShared ? targets : mergeBits(bits.map(([, own]) => own))]
    }
    const whole = new Map<string, Float64Array>()
    const pace = new PacedLimits(limits)
    for (const part of parts) {
      if (isBits(part)) continue
      for (const [label, counts] of part) {
        pace.count(counts.length)
        addCounts(whole, label, counts)
      }
    }
    return whole
  },

  page(plan, found, { context, scanner }) {
    const { breakdown, rows, columns } = plan
    const whole = isBits(found)
      ? tablesOf(plan, found, scanner, scanner.owners(context.projectId))
      : found
    const tables =
      breakdown === null
        ? [{ label: null, counts: whole.get('') ?? new Float64Array(rows * columns) }]
        : shownTables(plan, whole)
    checkDatedNumbers(tables.length * rows * columns)
    const urls = plan.hasPersonsUrls ? new PersonsUrls(context) : null
    const results = tables.flatMap((table) => {
      const urlOf = urls === null ? null : retentionUrls(urls, plan, table.label, whole.has('null'))
      return rowsOf(plan, table, urlOf)
    })
    return { results, members: resolvedRange(plan) }
  },

  actors(plan, pick, shard) {
    const row = pick.whole('interval', 0) ?? 0
    if (row >= plan.rows)
      throw pick.fault('interval', `must be less than ${plan.rows}, the number of rows`)
    return rowActors(plan, row, pickedLabel(plan, pick), shard)
  },
}

function countTables(plan: RetentionPlan, shard: QueryShard): RetentionTables {
  const found = new Map<string, Float64Array>()
  const periods = rowPeriods(plan)
  const keys = new ActorKeys(plan.groupTypeIndex)
  for (const { label, events } of retentionSplits(plan, shard, keys)) {
    const counts = new Float64Array(plan.rows * plan.columns)
    eachCell(plan, events, periods, shard.scanner, cellCounter(plan, counts))
    if (counts.some((count) => count > 0)) addCounts(found, label, counts)
  }
  return found
}

function isBits(part: RetentionPart): part is RetentionBits {
  return Array.isArray(part)
}

function bitsOf(plan: RetentionPlan, shard: QueryShard): RetentionBits {
  const { target, returning, filter, fromMs, toMs } = plan
  const series = returning === null ? [target] : [target, returning]
  const scan = { fromMs, toMs, filter, series }
  const [targets = [], returns = targets] = scanIdBits(shard, scan, rowPeriods(plan))
  shard.scanner.releaseResults()
  return [targets, returns]
}

function tablesOf(
  plan: RetentionPlan,
  [targetIds, returnIds]: RetentionBits,
  limits: QueryLimits,
  owners: DistinctIdOwners,
): RetentionTables {
  const targets = ownerBits(targetIds, owners, limits)
  const returns = targetIds === returnIds ? targets : ownerBits(returnIds, owners, limits)
  const words = wordsOfBits(targets, returns)
  const counts = new Float64Array(plan.rows * plan.columns)
  const flat = [flatBits(targets, words), flatBits(returns, words)] as const
  compareRows(plan, ...flat, { first: 0, words }, limits, cellCounter(plan, counts))
  return new Map([['', counts]])
}

function cellCounter({ columns }: RetentionPlan, counts: Float64Array): CellVisitor {
  return (row, column, bits) => {
    const cell = row * columns + column
    counts[cell] = (counts[cell] ?? 0) + bitCount(bits)
  }
}

function addCounts(into: Map<string, Float64Array>, label: string, counts: Float64Array): void {
  const sums = into.get(label) ?? new Float64Array(counts.length)
  for (const [cell, count] of counts.entries()) sums[cell] = (sums[cell] ?? 0) + count
  into.set(label, sums)
  if (into.size * counts.length <= QUERY_CELLS_MAX) return
  const detail = `The breakdown has too many values: the result would have more than ${QUERY_CELLS_MAX} numbers. Choose another breakdown or fewer intervals.`
  throw new ServiceError('query_too_large', detail)
}

interface RetentionTable {
  readonly label: string | null
  readonly counts: Float64Array
}

/**
 * Returns the tables to show. Cohorts keep the order of the request. Values are ordered by the sum of their first
 * column, and the values beyond the limit are added up in one table.
 */
function shownTables(plan: RetentionPlan, whole: RetentionTables): readonly RetentionTable[] {
  const [shown, others] = rankedLabels(plan, whole)
  const tables = shown.map((label) => ({ label, counts: whole.get(label) ?? new Float64Array() }))
  if (others.length === 0) return tables
  const sums = new Map<string, Float64Array>()
  for (const label of others) {
    addCounts(sums, OTHER_LABEL, whole.get(label) ?? new Float64Array())
  }
  return [...tables, ...Array.from(sums, ([label, counts]) => ({ label, counts }))]
}

/** Returns the values that are shown one by one, in order, and the values beyond the limit. */
function rankedLabels(
  { breakdown, columns }: RetentionPlan,
  whole: RetentionTables,
): readonly [readonly string[], readonly string[]] {
  const labels = [...whole.keys()]
  if (breakdown === null) return [labels, []]
  if (breakdown.property === null) {
    const asked = breakdown.cohorts.map((cohort) => (cohort === 'all' ? '0' : String(cohort)))
    return [asked.filter((label) => whole.has(label)), []]
  }
  const totals = new Map(
    Array.from(whole, ([label, counts]) => {
      return [label, counts.reduce((sum, one, cell) => (cell % columns === 0 ? sum + one : sum), 0)]
    }),
  )
  labels.sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0) || (a < b ? -1 : 1))
  return [labels.slice(0, breakdown.limit), labels.slice(breakdown.limit)]
}

function rowsOf(
  plan: RetentionPlan,
  { label: breakdown_value, counts }: RetentionTable,
  urlOf: ReturnType<typeof retentionUrls> | null,
) {
  const { rows, columns, periodName } = plan
  const periods = rowPeriods(plan)
  return Array.from({ length: rows }, (_, row) => ({
    label: `${periodName} ${row}`,
    date: timeText(periods.startMs(row)),
    breakdown_value,
    values: Array.from({ length: columns }, (__, column) => ({
      count: counts[row * columns + column] ?? 0,
      label: `${periodName} ${column}`,
      ...(urlOf === null ? {} : { persons_url: urlOf(row, column) }),
    })),
  }))
}

/** Returns the breakdown value of a request for actors, or null if it names none. */
function pickedLabel({ breakdown }: RetentionPlan, pick: QueryFields): string | null {
  const given = pick.value('breakdown')
  const list: readonly unknown[] = Array.isArray(given) ? given : [given]
  const [value] = list
  if (breakdown === null || value === undefined || value === null) return null
  if (list.length === 1 && (typeof value === 'string' || typeof value === 'number')) {
    return value === 'all' && breakdown.property === null ? '0' : String(value)
  }
  throw pick.fault('breakdown', 'must be a list with one breakdown value')
}

/** Returns the actors of a row, each with the columns in which it counts. */
function rowActors(
  plan: RetentionPlan,
  wantedRow: number,
  label: string | null,
  shard: QueryShard,
): QueryActors {
  const chosen = label === null ? { ...plan, breakdown: null } : plan
  const others =
    label === OTHER_LABEL ? rankedLabels(plan, countTables(plan, shard))[1] : [label ?? '']
  const keys = new ActorKeys(plan.groupTypeIndex)
  const periods = rowPeriods(plan)
  const columnsOf = new Map<number, Set<number>>()
  for (const { label: one, events, numbers } of retentionSplits(chosen, shard, keys)) {
    if (!others.includes(one)) continue
    eachCell(chosen, events, periods, shard.scanner, (row, column, bits, first) => {
      if (row !== wantedRow) return
      eachBit(bits, first, (number) => {
        const key = numbers.keyOf(number)
        const known = columnsOf.get(key)
        if (known === undefined) columnsOf.set(key, new Set([column]))
        else known.add(column)
      })
    })
  }
  return {
    ...keys.actors([...columnsOf.keys()]),
    appearances: Array.from(columnsOf.values(), (columns) => [...columns].sort((a, b) => a - b)),
  }
}
