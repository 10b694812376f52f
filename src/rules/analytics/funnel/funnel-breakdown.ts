/**
 * Breakdowns of a funnel by property values: finds the value of an actor or an event, and the actors and events that
 * remain if one value is requested. Cohorts are filters and are not handled here. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */

import { propertyText } from '../../filters/property-text.ts'
import { type ActorRows, splitActors } from '../actor-rows.ts'
import type { EventColumns, ValueColumn } from '../event-columns.ts'
import { FUNNEL_VALUES_MAX } from '../limits.ts'
import { labelsOf, type ValueLabels } from '../value-labels.ts'

const OTHER = 'Other'

/** The rule that selects the value of an actor or event. */
export type Attribution = 'first_touch' | 'last_touch' | 'all_events' | 'step'

/** The way in which property values split a funnel. */
export interface FunnelBreakdown {
  readonly attribution: Attribution
  /** For the attribution `step`: the step whose events have the value. */
  readonly step: number
  readonly stepCount: number
  /** The texts of the requested value, one for each property. Null means any value. */
  readonly wanted: readonly string[] | null
}

/**
 * Splits the rows of actors by the values of a breakdown and removes rows with a value other than the wanted one. With
 * the attribution `all_events`, an actor occurs once for each of its values. `values` are columns of the scan, one for
 * each property. The cost is linear in the rows.
 */
export function splitByBreakdown(
  breakdown: FunnelBreakdown,
  columns: EventColumns,
  values: readonly ValueColumn[],
  actors: ActorRows,
): ActorRows {
  const labels = labelsOf(values, columns.count, propertyText)
  const wanted = wantedLabels(labels, breakdown, columns)
  if (breakdown.attribution === 'all_events') {
    return splitByValue(labels, wanted, columns, actors)
  }
  return keptActors(actors, (start, end) => {
    return hasWantedValue(breakdown, columns, labels, wanted, actors.rows.subarray(start, end))
  })
}

/**
 * A label is the number of a breakdown value. Both lists are indexed by label: `isWanted` contains 1 if the request
 * asks for the value, and `folded` contains the label under which the value is counted.
 */
interface WantedLabels {
  readonly isWanted: Uint8Array
  /** Frequent labels count as themselves. All others (see `frequentLabels`) count as the first rare label. */
  readonly folded: Uint32Array
}

function wantedLabels(
  labels: ValueLabels,
  breakdown: FunnelBreakdown,
  columns: EventColumns,
): WantedLabels {
  const { texts } = labels
  const { wanted } = breakdown
  const folded = Uint32Array.from(texts, (_text, id) => id)
  const isWanted = new Uint8Array(texts.length)
  const kept = frequentLabels(labels, breakdown, columns)
  const asksForOther = wanted?.every((text) => text === OTHER) ?? false
  const firstRare = texts.findIndex((_text, id) => !kept.has(id))
  for (let id = 0; id < texts.length; id++) {
    const text = texts[id] ?? []
    const isOther = text.every((part) => part === OTHER)
    const isRare = !kept.has(id)
    // A frequent value may have the same text as the label for rare values. It then counts as rare.
    if (isRare || (isOther && firstRare >= 0)) folded[id] = firstRare
    if (wanted === null) isWanted[id] = 1
    else if (isRare || isOther) isWanted[id] = asksForOther ? 1 : 0
    else isWanted[id] = isSameList(text, wanted) ? 1 : 0
  }
  return { isWanted, folded }
}

/**
 * Returns the labels that are shown one by one, which are those with the largest numbers of events. Only the events of
 * one step are counted: the attributed step or, for `all_events`, the first one. For `first_touch` and `last_touch`,
 * the events of all steps are counted.
 */
function frequentLabels(
  { ids, texts }: ValueLabels,
  { attribution, step, stepCount }: FunnelBreakdown,
  { count, seriesMasks }: EventColumns,
): ReadonlySet<number> {
  const all = [...texts.keys()]
  if (texts.length <= FUNNEL_VALUES_MAX) return new Set(all)
  const isByTouch = attribution === 'first_touch' || attribution === 'last_touch'
  const mask = isByTouch ? 2 ** stepCount - 1 : 1 << (attribution === 'step' ? step : 0)
  const counts = new Uint32Array(texts.length)
  for (let row = 0; row < count; row++) {
    if (((seriesMasks[row] ?? 0) & mask) === 0) continue
    const id = ids[row] ?? 0
    counts[id] = (counts[id] ?? 0) + 1
  }
  const order = (id: number): string => JSON.stringify(texts[id])
  all.sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || (order(a) < order(b) ? -1 : 1))
  return new Set(all.slice(0, FUNNEL_VALUES_MAX))
}

function splitByValue(
  { ids }: ValueLabels,
  { isWanted, folded }: WantedLabels,
  columns: EventColumns,
  actors: ActorRows,
): ActorRows {
  const keyOfRow = new Uint32Array(columns.count)
  const labelKeys = new Uint32Array(columns.count)
  for (let actor = 0; actor < actors.keys.length; actor++) {
    const end = actors.starts[actor + 1] ?? 0
    for (let place = actors.starts[actor] ?? 0; place < end; place++) {
      const row = actors.rows[place] ?? 0
      const id = ids[row] ?? 0
      if (isWanted[id] !== 1) continue
      keyOfRow[row] = actors.keys[actor] ?? 0
      labelKeys[row] = (folded[id] ?? 0) + 1
    }
  }
  return splitActors(actors.rows, keyOfRow, labelKeys, columns.count)
}

/** Returns the actors whose range of rows passes a test, with all their rows. */
function keptActors(actors: ActorRows, isKept: (start: number, end: number) => boolean): ActorRows {
  const keys = new Uint32Array(actors.keys.length)
  const starts = new Uint32Array(actors.keys.length + 1)
  const rows = new Uint32Array(actors.rows.length)
  let count = 0
  let next = 0
  for (let actor = 0; actor < actors.keys.length; actor++) {
    const start = actors.starts[actor] ?? 0
    const end = actors.starts[actor + 1] ?? 0
    if (!isKept(start, end)) continue
    keys[count] = actors.keys[actor] ?? 0
    starts[count++] = next
    rows.set(actors.rows.subarray(start, end), next)
    next += end - start
  }
  starts[count] = next
  return {
    keys: keys.subarray(0, count),
    starts: starts.subarray(0, count + 1),
    rows: rows.subarray(0, next),
  }
}

function hasWantedValue(
  { attribution, step, stepCount, wanted }: FunnelBreakdown,
  { seriesMasks }: EventColumns,
  { ids, texts }: ValueLabels,
  { isWanted }: WantedLabels,
  rows: Uint32Array,
): boolean {
  if (attribution === 'step') {
    return rows.some(
      (row) => ((seriesMasks[row] ?? 0) & (1 << step)) !== 0 && isWanted[ids[row] ?? 0] === 1,
    )
  }
  const stepsMask = 2 ** stepCount - 1
  const isTouch = (row: number): boolean => {
    const isStep = ((seriesMasks[row] ?? 0) & stepsMask) !== 0
    return isStep && (texts[ids[row] ?? 0] ?? []).some((text) => text !== '')
  }
  const touch = attribution === 'first_touch' ? rows.find(isTouch) : rows.findLast(isTouch)
  if (touch !== undefined) return isWanted[ids[touch] ?? 0] === 1
  // An actor without any value counts as one with the empty value.
  return wanted === null || wanted.every((text) => text === '')
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index])
}
