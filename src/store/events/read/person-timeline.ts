/**
 * Builds the timeline of one person: the values that some of its properties, the *crucial* ones, had after each of its
 * events. The state of a person after an event is not stored, so it is computed again from the events of the person
 * (person-replay.ts). Source: docs/compatibility/persons.md, "Properties over time".
 */
import { PAGE_BYTES_MAX } from '../../../base/limits.ts'
import type { NormalizedEvent } from '../../../rules/capture/types.ts'
import { propertyText } from '../../../rules/filters/property-text.ts'
import { applyEvent } from '../../../rules/persons/apply-event.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../../rules/persons/limits.ts'
import type { TimelinePoint, TimelineQuery } from '../../../rules/persons/person-queries.ts'
import { timelineTooLarge } from '../../../rules/persons/person-views.ts'
import type { Separation } from '../../identity/person-separations.ts'
import { isHistoricalMode, personModeOf } from '../format/segment-builder.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { propertiesOf } from './event-views.ts'
import { ReplayedPersons } from './person-replay.ts'

/** What a timeline is built from. */
export interface TimelineSources {
  /**
   * The distinct ID numbers of the person. For each of them, the sequence number after which its events belong to the
   * person.
   */
  readonly ids: ReadonlyMap<number, number>
  readonly segments: SegmentReader
  readonly textOf: (distinctId: number) => string
  /**
   * Returns the separations (deletions and splits of persons) in which a distinct ID number took part, by the number of
   * the separation.
   */
  readonly separationsOf: (distinctId: number) => ReadonlyMap<number, Separation>
}

interface Visit {
  readonly sequence: number
  readonly timestampMs: number
  /**
   * The values of the crucial properties after the event, as JSON. If two texts are equal, nothing has changed between
   * the events.
   */
  readonly state: string
}

/**
 * Returns the points of a timeline. Reads one column of every segment, and all properties of the person's events twice.
 * Throws the error of `timelineTooLarge` if the properties of all points have more than `PAGE_BYTES_MAX` bytes.
 */
export function timelinePoints(
  query: TimelineQuery,
  sources: TimelineSources,
): readonly TimelinePoint[] {
  const visits: Visit[] = []
  const { involved, separations } = involvedIds(sources.ids.keys(), sources.separationsOf)
  const rows = rowsOf(query.projectId, involved, sources.segments)
  const story = { involved, separations, rows }
  replay(query, sources, story, (sequence, timestampMs, properties) => {
    const texts = query.crucialKeys.map((key) => propertyText(properties.get(key)))
    visits.push({ sequence, timestampMs, state: JSON.stringify(texts) })
  })
  visits.sort((a, b) => a.timestampMs - b.timestampMs || a.sequence - b.sequence)
  const openings: { readonly visit: Visit; count: number }[] = []
  for (const visit of visits) {
    const last = openings.at(-1)
    if (last === undefined || last.visit.state !== visit.state) openings.push({ visit, count: 1 })
    else last.count++
  }
  const wanted = new Set(openings.map(({ visit }) => visit.sequence))
  const snapshots = new Map<number, Readonly<Record<string, unknown>>>()
  let bytes = 0
  replay(query, sources, story, (sequence, _timestampMs, properties) => {
    if (!wanted.has(sequence)) return
    const snapshot = properties.toObject()
    bytes += Buffer.byteLength(JSON.stringify(snapshot))
    if (bytes > PAGE_BYTES_MAX) throw timelineTooLarge()
    snapshots.set(sequence, snapshot)
  })
  return openings.map(({ visit, count }) => ({
    timestamp: new Date(visit.timestampMs).toISOString(),
    properties: snapshots.get(visit.sequence) ?? {},
    relevant_event_count: count,
  }))
}

/**
 * What a replay needs: the distinct_ids and separations that influence the person, and the rows of the events of these
 * distinct_ids.
 */
interface Story {
  readonly involved: ReadonlySet<number>
  readonly separations: readonly Separation[]
  readonly rows: readonly SegmentRows[]
}

/** Some rows of a segment, in ascending order. */
interface SegmentRows {
  readonly firstSequence: number
  readonly rows: readonly number[]
}

/** Returns the rows of all events whose distinct ID number is in `wanted`. */
function rowsOf(
  projectId: number,
  wanted: ReadonlySet<number>,
  segments: SegmentReader,
): readonly SegmentRows[] {
  const found: SegmentRows[] = []
  for (const { firstSequence } of segments.allSummaries(projectId)) {
    const { distinctIds } = segments.segmentAt(projectId, firstSequence)
    const rows: number[] = []
    for (let row = 0; row < distinctIds.length; row++) {
      if (wanted.has(distinctIds[row] ?? 0)) rows.push(row)
    }
    if (rows.length > 0) found.push({ firstSequence, rows })
  }
  return found
}

/** What `visit` may read about a person. */
interface Snapshot {
  get(key: string): unknown
  toObject(): Record<string, unknown>
}

const EMPTY: Snapshot = { get: () => undefined, toObject: () => ({}) }

/**
 * Applies all events of the story to persons in memory, in order of arrival. After each event that the query requests,
 * calls `visit` with the properties that the person has at that point.
 */
function replay(
  query: TimelineQuery,
  { ids, segments, textOf }: TimelineSources,
  { involved, separations, rows: segmentRows }: Story,
  visit: (sequence: number, timestampMs: number, properties: Snapshot) => void,
): void {
  const persons = new ReplayedPersons()
  const texts = new Map([...involved].map((id) => [id, textOf(id)]))
  const textsOf = (distinctIds: readonly number[]): readonly string[] =>
    distinctIds.map((id) => texts.get(id) ?? '')
  let next = 0
  const separateUntil = (sequence: number): void => {
    for (; next < separations.length; next++) {
      const separation = separations[next]
      if (separation === undefined || separation.sequence >= sequence) return
      const { kind, keepsProperties, atMs } = separation
      const all = textsOf(separation.ids)
      if (kind === 'deleted') persons.free(all)
      else persons.split(all, texts.get(separation.keptId) ?? '', keepsProperties, atMs)
    }
  }
  const names = new Set(query.eventNames)
  for (const { firstSequence, rows } of segmentRows) {
    const view = segments.segmentAt(query.projectId, firstSequence)
    for (const row of rows) {
      const distinctId = view.distinctIds[row] ?? 0
      const sequence = firstSequence + row
      separateUntil(sequence)
      const event = eventOf(view, row, texts.get(distinctId) ?? '')
      const bytes = Buffer.byteLength(JSON.stringify(event.properties))
      applyEvent(event, bytes, persons, {
        projectId: query.projectId,
        arrivedAtMs: view.arrivals[row] ?? 0,
        propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX,
        isHistorical: isHistoricalMode(view.modeOf(row)),
      })
      const since = ids.get(distinctId)
      if (since === undefined || sequence <= since) continue
      const { timestampMs } = event
      if (timestampMs < query.fromMs || timestampMs > query.toMs) continue
      if (names.size > 0 && !names.has(event.name)) continue
      visit(sequence, timestampMs, persons.personOf(event.distinctId)?.properties ?? EMPTY)
    }
  }
}

/**
 * Returns the distinct ID numbers that influence a person: `ids`, and all numbers that took part in the same
 * separations, directly or through other numbers. For example, if 1 was separated from 2, and 2 from 3, then 2 and 3
 * influence the person of 1. Also returns these separations.
 */
function involvedIds(
  ids: Iterable<number>,
  separationsOf: (distinctId: number) => ReadonlyMap<number, Separation>,
): { readonly involved: ReadonlySet<number>; readonly separations: readonly Separation[] } {
  const involved = new Set(ids)
  const known = new Map<number, Separation>()
  // New elements are added to the set during the loop, and the loop visits them too.
  for (const id of involved) {
    for (const [number, separation] of separationsOf(id)) {
      if (known.has(number)) continue
      known.set(number, separation)
      for (const other of separation.ids) involved.add(other)
    }
  }
  const ordered = [...known].sort(([a], [b]) => a - b)
  return { involved, separations: ordered.map(([, separation]) => separation) }
}

function eventOf(view: SegmentView, row: number, distinctId: string): NormalizedEvent {
  return {
    name: view.nameOf(row),
    distinctId,
    timestampMs: view.timestamps[row] ?? 0,
    properties: propertiesOf(view, row, distinctId),
    elementsChain: '',
    isPersonless: personModeOf(view.modeOf(row)) !== 'full',
  }
}
