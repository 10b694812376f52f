/**
 * The events that are counted in a table of web analytics, with their sessions, and the ranges in which each event
 * counts.
 */

import { isObject, type JsonObject } from '../../../base/json.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { DateRange } from '../../analytics/date-range.ts'
import type {
  EventColumns,
  SeriesMatch,
  ValueColumn,
  ValueRequest,
} from '../../analytics/event-columns.ts'
import { allOf, type PropertyFilter } from '../../filters/filter-group.ts'
import { propertyTest } from '../../filters/property-filter.ts'
import { type CandidateTest, treeTest } from '../../filters/tree-test.ts'
import { QUERY_FILTER_DEPTH_MAX } from '../limits.ts'
import { breakdownText } from '../query-breakdown.ts'
import { type QueryShard, scanShard } from '../query-kind.ts'
import { type CleanPath, pathCleaner } from './path-cleaning.ts'
import { rowsOf, type WebRows } from './rows.ts'
import { SessionProperties } from './session-property-columns.ts'
import { sessionsWithin } from './sessions.ts'
import { rangeOf, type WebFilter, type WebPlan } from './web-plan.ts'

/** The bit of the requested range. */
export const CURRENT = 1
/** The bit of the comparison range. */
export const PREVIOUS = 2
/**
 * For each operator listed here, whether a session without the property passes the filter. For any other operator, the
 * test of the filter decides.
 */
const PASSES_MISSING: Readonly<Record<string, boolean>> = {
  exact: false,
  icontains: false,
  regex: false,
  is_not: true,
  not_icontains: true,
  not_regex: true,
}

/** Which events a table counts, and in which range each of them counts. */
export interface RowWish {
  readonly series: readonly SeriesMatch[]
  readonly filters: readonly WebFilter[]
  /**
   * If true, an event counts in the range in which its session begins, and events without a session are left out.
   * Otherwise all events count in the current range.
   */
  readonly isByStart: boolean
}

/** The events that pass the filters, and the ranges in which each event counts. */
export interface Candidates {
  readonly rows: WebRows
  /**
   * For each row, the bits of the ranges in which its event counts (`CURRENT`, `PREVIOUS`). 0 means that the event is
   * left out.
   */
  readonly ranges: Uint8Array
}

/** The data that one query reads, loaded when needed. All methods throw the same errors as `EventScanner.scan`. */
export class WebEvents {
  readonly shard: QueryShard
  readonly #plan: WebPlan
  readonly #range: DateRange
  #properties: SessionProperties | null = null
  #clean: CleanPath | null = null

  constructor(plan: WebPlan, shard: QueryShard) {
    this.shard = shard
    this.#plan = plan
    this.#range = rangeOf(plan)
  }

  /** The properties of all sessions that have events in one of the ranges. */
  get properties(): SessionProperties {
    if (this.#properties === null) {
      const table = sessionsWithin(this.shard, this.#range)
      this.#properties = new SessionProperties(this.shard, table)
    }
    return this.#properties
  }

  /** The function that cleans paths by the rules of the project. It caches the result for each path. */
  get clean(): CleanPath {
    if (this.#clean === null) {
      const { context, scanner } = this.shard
      const rules = context.pathCleaningFilters ?? []
      const clean = pathCleaner(rules, () => scanner.checkLimits())
      const known = new Map<string, string>()
      this.#clean = (path) => getOrAdd(known, path, clean)
    }
    return this.#clean
  }

  /** Returns the events that a table counts. */
  candidates({ series, filters, isByStart }: RowWish): Candidates {
    // The sessions are read before the rows. Reading them also decodes columns that `#rows` needs, which is cheaper
    // while the segments are open.
    const ofSessions = this.#rangesOfSessions(filters, isByStart)
    const rows = this.#rows(series, filters)
    const ranges = new Uint8Array(rows.count)
    if (ofSessions === null) return { rows, ranges: ranges.fill(CURRENT) }
    for (let row = 0; row < rows.count; row++) {
      ranges[row] = ofSessions[rows.sessions[row] ?? 0] ?? 0
    }
    return { rows, ranges }
  }

  /**
   * Returns columns of values for the events of the rows. The entries of a column are in the order in which the events
   * arrived, not in the order of the rows.
   */
  valuesOf({ sequences }: WebRows, values: readonly ValueRequest[]): readonly ValueColumn[] {
    const { context, scanner } = this.shard
    return scanner.valuesAt(context.projectId, sequences, values)
  }

  /**
   * Returns all events of both ranges that pass the filters on events. The scanner caches them for other tables of the
   * same dashboard.
   */
  #rows(series: readonly SeriesMatch[], filters: readonly WebFilter[]): WebRows {
    const trees = filters.map((filter) => (filter.kind === 'events' ? filter.tree : null))
    const paths = filters.flatMap((filter) => {
      if (filter.kind !== 'paths' || filter.of === 'session') return []
      const value: ValueRequest = { kind: `${filter.of}_property`, key: filter.key }
      return [{ value, paths: filter.paths }]
    })
    const { current, previous } = this.#plan
    const { context, scanner } = this.shard
    const rules = paths.length === 0 ? null : context.pathCleaningFilters
    const { part } = this.shard
    const name = JSON.stringify(['rows', part, series, trees, paths, current, previous, rules])
    return scanner.remembered(context.projectId, name, () => {
      const columns = scanShard(this.shard, {
        ...this.#range,
        series,
        filter: allOf(trees),
        values: [{ kind: 'session' }, ...paths.map(({ value }) => value)],
        order: 'arrival',
      })
      const [sessions, ...others] = columns.values
      const isKept = this.#areWithin(columns)
      for (const [index, { paths: wanted }] of paths.entries()) {
        const column = others[index]
        if (column !== undefined) dropOthers(isKept, column, this.#wantedPaths(wanted))
      }
      return rowsOf(columns, sessions?.ids ?? new Uint32Array(0), isKept, scanner)
    })
  }

  /**
   * Returns for each session, by its number, the bits of the ranges in which its events count. Null means that all
   * events count in the current range.
   */
  #rangesOfSessions(filters: readonly WebFilter[], isByStart: boolean): Uint8Array | null {
    const tests = filters.flatMap((filter) => this.#sessionTest(filter) ?? [])
    if (tests.length === 0 && !isByStart) return null
    const { size, first } = this.properties.table
    const { current, previous } = this.#plan
    const ranges = new Uint8Array(size)
    const { timesMs } = first
    for (let session = 0; session < size; session++) {
      if (tests.length > 0 && !tests.every((test) => test(session))) continue
      // The time is NaN if there is no session with this number. Then all comparisons below are false.
      const startMs = timesMs[session] ?? 0
      const inPrevious = previous !== null && startMs >= previous.fromMs && startMs <= previous.toMs
      const inCurrent = startMs >= current.fromMs && startMs <= current.toMs
      const byStart = (inCurrent ? CURRENT : 0) | (inPrevious ? PREVIOUS : 0)
      ranges[session] = isByStart ? byStart : CURRENT
    }
    return ranges
  }

  /**
   * Returns, for each event, 1 if it is in one of the ranges, and otherwise 0. The scan also finds events between the
   * two ranges.
   */
  #areWithin({ timesMs, count }: EventColumns): Uint8Array {
    const { current, previous } = this.#plan
    const isKept = new Uint8Array(count)
    for (let event = 0; event < count; event++) {
      const timeMs = timesMs[event] ?? 0
      const isWithin =
        (timeMs >= current.fromMs && timeMs <= current.toMs) ||
        (previous !== null && timeMs >= previous.fromMs && timeMs <= previous.toMs)
      isKept[event] = isWithin ? 1 : 0
    }
    return isKept
  }

  #wantedPaths(paths: readonly string[]): (value: unknown) => boolean {
    const wanted = new Set(paths.map(this.clean))
    return (value) => {
      const path = breakdownText(value)
      return path !== null && wanted.has(this.clean(path))
    }
  }

  #sessionTest(filter: WebFilter): CandidateTest<number> | null {
    if (filter.kind === 'events') return null
    if (filter.kind === 'paths') {
      if (filter.of !== 'session') return null
      return columnTest(this.properties.column(filter.key), this.#wantedPaths(filter.paths))
    }
    return treeTest<number>(filter.tree, {
      isLenient: true,
      depthMax: QUERY_FILTER_DEPTH_MAX,
      leaf: (leaf) => this.#leafTest(leaf),
    })
  }

  #leafTest(leaf: JsonObject): CandidateTest<number> | null {
    // `readFilter` built the tree, so every leaf is a filter.
    const filter = leaf as unknown as PropertyFilter
    const column = this.properties.column(filter.key)
    const { operator = 'exact', negation = false } = filter
    const isBoolean = column.values.some((value) => typeof value === 'boolean')
    const test = propertyTest(isBoolean ? { ...filter, value: asBooleans(filter.value) } : filter)
    if (test === null) return null
    const isMissingPassed = PASSES_MISSING[operator]
    return columnTest(column, (value) => {
      if (value !== undefined || isMissingPassed === undefined) return test(value)
      return isMissingPassed !== negation
    })
  }
}

/**
 * Replaces `1` and `0` in the value of a filter by true and false, because clients offer booleans as `1` and `0` to
 * users who enter a filter.
 */
function asBooleans(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asBooleans)
  if (isObject(value)) return value
  return { 1: true, 0: false }[String(value)] ?? value
}

function columnTest(
  { ids, values }: ValueColumn,
  test: (value: unknown) => boolean,
): CandidateTest<number> {
  const passed = Uint8Array.from(values, (value) => (test(value) ? 1 : 0))
  return (session) => passed[ids[session] ?? 0] === 1
}

function dropOthers(
  isKept: Uint8Array,
  { ids, values }: ValueColumn,
  wanted: (value: unknown) => boolean,
): void {
  const passed = Uint8Array.from(values, (value) => (wanted(value) ? 1 : 0))
  for (let event = 0; event < isKept.length; event++) {
    if (passed[ids[event] ?? 0] !== 1) isKept[event] = 0
  }
}
