/**
 * Reads a `PathsQuery`: the events that are steps and their names, the limits of paths, and the edges that are shown.
 * Source: docs/compatibility/queries.md, "PathsQuery".
 */
import type { SeriesMatch } from '../../analytics/event-columns.ts'
import { PATH_STEP_LIMIT_MAX, PATH_TEXT_UNITS_MAX, PATH_TEXTS_MAX } from '../../analytics/limits.ts'
import { type ItemRules, PAGEVIEW, pageItem, SCREEN } from '../../analytics/path/path-items.ts'
import type { PathCut, PathKeys } from '../../analytics/path/path-sessions.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import type { QueryFields } from '../query-fields.ts'
import { readGlobalFilter } from '../query-filters.ts'
import type { QueryContext } from '../query-kind.ts'
import { eventsFromMs, type QueryRange, readRange } from '../query-range.ts'

const CUSTOM_EVENTS = 'custom_event'
const STEP_LIMIT = 5
const EDGE_LIMIT = 50

/** A paths query after it was read and checked. */
export interface PathsPlan {
  readonly range: QueryRange
  /**
   * The moment from which events belong to paths, in milliseconds. It may be earlier than the start of `range`; see
   * `eventsFromMs`.
   */
  readonly fromMs: number
  readonly filter: FilterGroup | null
  /** The types `$pageview`, `$screen` and `custom_event`. An empty list means all events. */
  readonly types: readonly string[]
  readonly excluded: readonly string[]
  readonly groupings: readonly string[]
  readonly cut: PathCut
  readonly keys: PathKeys
  readonly edgesMax: number
  /** Edges that occur less often than `weightMin` or more often than `weightMax` are not shown. */
  readonly weightMin: number
  readonly weightMax: number
  readonly hasPersonsUrls: boolean
}

/** Reads a `PathsQuery`. Throws 400 `invalid_query`. */
export function planPaths(query: QueryFields, context: QueryContext): PathsPlan {
  query.refuse('funnelPathsFilter', 'aggregation_group_type_index')
  const filter = query.within('pathsFilter')
  filter.refuse('localPathCleaningFilters', 'pathsHogQLExpression')
  const types = filter.texts('includeEventTypes')
  const known = [PAGEVIEW, SCREEN, CUSTOM_EVENTS]
  if (!types.every((type) => known.includes(type))) {
    throw filter.fault('includeEventTypes', `may contain only ${known.join(', ')}`)
  }
  const range = readRange(query, 'day', context)
  const endKey = keyText(filter, 'pathEndKey')
  return {
    range,
    types,
    fromMs: eventsFromMs(range),
    filter: readGlobalFilter(query, context),
    excluded: shortTexts(filter, 'excludeEvents'),
    groupings: shortTexts(filter, 'pathGroupings'),
    cut: {
      startPoint: pointOf(filter, 'startPoint'),
      endPoint: pointOf(filter, 'endPoint'),
      stepLimit: filter.whole('stepLimit', 1, PATH_STEP_LIMIT_MAX) ?? STEP_LIMIT,
    },
    keys: {
      startKey: keyText(filter, 'pathStartKey'),
      // No edge leads to a first step, whose key begins with `1_`. Such an end key is replaced by the empty key, which
      // no step has.
      endKey: endKey?.startsWith('1_') === true ? '' : endKey,
      dropOffKey: keyText(filter, 'pathDropoffKey'),
    },
    edgesMax: filter.whole('edgeLimit', 0) || EDGE_LIMIT,
    weightMin: filter.number('minEdgeWeight') || 0,
    weightMax: filter.number('maxEdgeWeight') || Number.POSITIVE_INFINITY,
    hasPersonsUrls: query.boolean('persons_urls'),
  }
}

/** Returns the series of the events that may be steps. */
export function seriesOf({ types }: PathsPlan): SeriesMatch {
  const isOpen = types.length === 0 || types.includes(CUSTOM_EVENTS)
  return { names: isOpen ? null : types, filter: null, steps: [] }
}

/** Returns the rules for the names of events. */
export function itemRules({ types, excluded, groupings }: PathsPlan): ItemRules {
  const hasCustomEvents = types.includes(CUSTOM_EVENTS)
  return {
    isTaken: (name) =>
      types.length === 0 || types.includes(name) || (hasCustomEvents && !name.startsWith('$')),
    hasPageAddresses: true,
    hasScreenNames: true,
    cleaning: [],
    groupings,
    excluded: new Set(excluded),
  }
}

function shortTexts(fields: QueryFields, name: string): readonly string[] {
  const texts = fields.texts(name)
  const isShort = texts.every(({ length }) => length <= PATH_TEXT_UNITS_MAX)
  if (isShort && texts.length <= PATH_TEXTS_MAX) return texts
  const what = `may have at most ${PATH_TEXTS_MAX} texts with at most ${PATH_TEXT_UNITS_MAX} characters each`
  throw fields.fault(name, what)
}

function pointOf(fields: QueryFields, name: string): string | null {
  const text = fields.text(name) ?? ''
  return text === '' ? null : pageItem(text)
}

function keyText(fields: QueryFields, name: string): string | null {
  return fields.text(name) || null
}
