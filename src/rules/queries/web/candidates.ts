/**
 * The events that a table of web analytics counts, with their sessions, and which of its two ranges each
 * counts in.
 */

import { isObject, type JsonObject } from '../../../base/json.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { SeriesMatch, ValueColumn, ValueRequest } from '../../analytics/event-columns.ts'
import { allOf, type PropertyFilter } from '../../filters/filter-group.ts'
import { propertyTest } from '../../filters/property-filter.ts'
import { type CandidateTest, treeTest } from '../../filters/tree-test.ts'
import { QUERY_FILTER_DEPTH_MAX } from '../limits.ts'
import { breakdownText } from '../query-breakdown.ts'
import { type QueryShard, scanShard } from '../query-kind.ts'
import { type CleanPath, pathCleaner } from './path-cleaning.ts'
import { SessionProperties } from './session-properties.ts'
import { sessionsWithin } from './sessions.ts'
import type { WebFilter, WebPlan } from './web-plan.ts'

/** The bit of the range that is asked for. */
export const CURRENT = 1
/** The bit of the one that it is compared with. */
export const PREVIOUS = 2
/** Whether these operators pass what is missing; that of any other is never passed by it. */
const PASSES_MISSING: Readonly<Record<string, boolean>> = {
  ...{ exact: false, icontains: false, regex: false },
  ...{ is_not: true, not_icontains: true, not_regex: true },
}

/** Which events to take. */
export interface CandidateWish {
  readonly series: readonly SeriesMatch[]
  readonly filters: readonly WebFilter[]
  readonly values: readonly ValueRequest[]
  /** An event counts where its session begins, those without one nowhere; else all in the current range. */
  readonly isByStart: boolean
}

/** Events, one row each. */
export interface Candidates {
  readonly count: number
  readonly timesMs: Float64Array
  readonly sequences: Uint32Array
  readonly persons: Uint32Array
  /** Bit i: the event belongs to series i of the wish. */
  readonly seriesMasks: Uint32Array
  /** Number of the session, 0 for none. */
  readonly sessions: Uint32Array
  /** In the order of the wish. */
  readonly values: readonly ValueColumn[]
  /** Bits of the ranges in which the event counts; 0: it does not count. */
  readonly ranges: Uint8Array
}

/** What an item of an answer takes in memory: an estimate. */
const ITEM_BYTES = 500

/**
 * What `make` answers for a plan, so many items, remembered by the scanner as long as events and the rules
 * of the project stay. Throws as `EventScanner.scan`.
 */
export function rememberedPart<Part>(
  plan: WebPlan,
  shard: QueryShard,
  make: () => Part,
  itemsOf: (part: Part) => number,
): Part {
  const { projectId, pathCleaningFilters, channelTypeRules } = shard.context
  const name = JSON.stringify(['web', plan, pathCleaningFilters, channelTypeRules])
  return shard.scanner.remembered(projectId, name, () => {
    const part = make()
    return { part, bytes: name.length + itemsOf(part) * ITEM_BYTES }
  }).part
}

/** One query at work. All methods throw as `EventScanner.scan`. */
export class WebEvents {
  readonly shard: QueryShard
  readonly #plan: WebPlan
  readonly #fromMs: number
  readonly #toMs: number
  #properties: SessionProperties | null = null
  #clean: CleanPath | null = null

  constructor(plan: WebPlan, shard: QueryShard) {
    const { current, previous } = plan
    this.shard = shard
    this.#plan = plan
    this.#fromMs = Math.min(current.fromMs, previous?.fromMs ?? current.fromMs)
    this.#toMs = Math.max(current.toMs, previous?.toMs ?? current.toMs)
  }

  /** The sessions of all events of both ranges. */
  get properties(): SessionProperties {
    if (this.#properties === null) {
      const table = sessionsWithin(this.shard, this.#fromMs, this.#toMs)
      this.#properties = new SessionProperties(this.shard, table)
    }
    return this.#properties
  }

  /** By the rules of the project; each path is cleaned once. */
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

  /** The events of a wish. */
  candidates({ series, filters, values, isByStart }: CandidateWish): Candidates {
    const trees = filters.map((filter) => (filter.kind === 'events' ? filter.tree : null))
    const paths = filters.flatMap((filter) => {
      if (filter.kind !== 'paths' || filter.of === 'session') return []
      const value: ValueRequest = { kind: `${filter.of}_property`, key: filter.key }
      return [{ value, wanted: this.#wantedPaths(filter.paths) }]
    })
    const columns = scanShard(this.shard, {
      ...{ fromMs: this.#fromMs, toMs: this.#toMs, series, filter: allOf(trees) },
      values: [{ kind: 'session' }, ...values, ...paths.map(({ value }) => value)],
      order: 'unsorted',
    })
    const [sessions, ...others] = columns.values
    const ids = sessions?.ids ?? new Uint32Array(0)
    const ranges = this.#rangesOfRows(
      columns.timesMs,
      ids,
      this.#rangesOfSessions(filters, isByStart),
    )
    for (const [index, { wanted }] of paths.entries()) {
      const column = others[values.length + index]
      if (column !== undefined) dropOthers(ranges, column, wanted)
    }
    return { ...columns, sessions: ids, values: others.slice(0, values.length), ranges }
  }

  /** What `make` answers of the events of both ranges, remembered by the scanner for all tables of them. */
  remembered<Value extends { readonly bytes: number }>(what: unknown, make: () => Value): Value {
    const { current, previous } = this.#plan
    const { projectId, pathCleaningFilters, channelTypeRules } = this.shard.context
    const name = JSON.stringify([what, current, previous, pathCleaningFilters, channelTypeRules])
    return this.shard.scanner.remembered(projectId, name, make)
  }

  /** Bits of the ranges by number of the session; null: everything counts in the current range. */
  #rangesOfSessions(filters: readonly WebFilter[], isByStart: boolean): Uint8Array | null {
    const tests = filters.flatMap((filter) => this.#sessionTest(filter) ?? [])
    if (tests.length === 0 && !isByStart) return null
    const { size, first } = this.properties.table
    const { current, previous } = this.#plan
    const ranges = new Uint8Array(size)
    for (let session = 0; session < size; session++) {
      if (!tests.every((test) => test(session))) continue
      // Not a number where there is no session.
      const startMs = first.timesMs[session] ?? 0
      const inPrevious = previous !== null && startMs >= previous.fromMs && startMs <= previous.toMs
      const inCurrent = startMs >= current.fromMs && startMs <= current.toMs
      const byStart = (inCurrent ? CURRENT : 0) | (inPrevious ? PREVIOUS : 0)
      ranges[session] = isByStart ? byStart : CURRENT
    }
    return ranges
  }

  #rangesOfRows(
    timesMs: Float64Array,
    sessions: Uint32Array,
    ofSessions: Uint8Array | null,
  ): Uint8Array {
    const { current, previous } = this.#plan
    const ranges = new Uint8Array(timesMs.length)
    for (let row = 0; row < ranges.length; row++) {
      const timeMs = timesMs[row] ?? 0
      // Between the two ranges may be others.
      const isWithin =
        (timeMs >= current.fromMs && timeMs <= current.toMs) ||
        (previous !== null && timeMs >= previous.fromMs && timeMs <= previous.toMs)
      if (!isWithin) continue
      ranges[row] = ofSessions === null ? CURRENT : (ofSessions[sessions[row] ?? 0] ?? 0)
    }
    return ranges
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
    // What `readFilter` has made.
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

/** `1` and `0`, as they are listed, mean true and false. */
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
  ranges: Uint8Array,
  { ids, values }: ValueColumn,
  wanted: (value: unknown) => boolean,
): void {
  const passed = Uint8Array.from(values, (value) => (wanted(value) ? 1 : 0))
  for (let row = 0; row < ranges.length; row++) {
    if (passed[ids[row] ?? 0] !== 1) ranges[row] = 0
  }
}
