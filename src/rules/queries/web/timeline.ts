/**
 * The kind `SessionsTimelineQuery`: the latest events, grouped by session. Source: docs/compatibility/queries.md,
 * "SessionsTimelineQuery".
 */
import type { JsonObject } from '../../../base/json.ts'
import { listedPersons } from '../../analytics/event-columns.ts'
import { SESSION_ID } from '../../analytics/session-id.ts'
import { TIMELINE_EVENTS_MAX } from '../limits.ts'
import type { QueryFields } from '../query-fields.ts'
import { type QueryContext, type QueryKind, scanShard } from '../query-kind.ts'
import { readDate } from '../query-range.ts'
import { namedSeries } from './sessions.ts'

/** The longest time between two consecutive events without a session that are still shown as one entry. */
const GAP_MS = 30 * 60_000

interface TimelinePlan {
  /** The UUID of the person whose events are shown. Null means all persons. */
  readonly person: string | null
  /** The bounds of the time range, both exclusive. */
  readonly afterMs: number
  readonly beforeMs: number
}

/** An event, identified by its sequence number. */
interface TimelineEvent {
  readonly sequence: number
  readonly timeMs: number
  readonly person: number
  /** The session ID. Null if the event has none. */
  readonly session: string | null
}

interface TimelinePart {
  /** The events, newest first. */
  readonly events: readonly TimelineEvent[]
  readonly hasMore: boolean
}

/** The kind for timelines of sessions. */
export const SESSIONS_TIMELINE: QueryKind<TimelinePlan, TimelinePart> = {
  dividedBy: 'segments',
  plan(query, context) {
    const before = query.text('before') || null
    return {
      person: query.text('personId'),
      afterMs: readMoment(query, 'after', query.text('after') || '-24h', context),
      beforeMs: before === null ? context.nowMs : readMoment(query, 'before', before, context),
    }
  },
  rangeOf: ({ afterMs, beforeMs }) => ({ fromMs: afterMs, toMs: beforeMs }),
  partial({ person, afterMs, beforeMs }, shard) {
    const { count, timesMs, sequences, persons, values } = scanShard(shard, {
      fromMs: afterMs,
      toMs: beforeMs,
      series: [namedSeries(null)],
      order: 'time',
      persons: person === null ? null : listedPersons([shard.rows.personNumber(person) ?? 0]),
      values: [{ kind: 'event_property', key: SESSION_ID }],
    })
    const events: TimelineEvent[] = []
    const [sessions] = values
    for (let row = count - 1; row >= 0 && events.length <= TIMELINE_EVENTS_MAX; row--) {
      const timeMs = timesMs[row] ?? 0
      if (timeMs <= afterMs || timeMs >= beforeMs) continue
      const id = sessions?.values[sessions.ids[row] ?? 0]
      const session = typeof id === 'string' && id !== '' ? id : null
      events.push({ sequence: sequences[row] ?? 0, timeMs, person: persons[row] ?? 0, session })
    }
    return newest(events)
  },
  merge: (_plan, parts) => {
    const { events, hasMore } = newest(parts.flatMap((part) => part.events))
    return { events, hasMore: hasMore || parts.some((part) => part.hasMore) }
  },
  page(_plan, { events, hasMore }, { rows }) {
    const views = rows.events(events.map(({ sequence }) => sequence))
    const bySequence = new Map(views.map((view) => [view.id, view]))
    const results = entriesOf(events).map((entry) => ({
      sessionId: entry[0]?.session ?? null,
      recording_duration_s: null,
      events: entry.flatMap(({ sequence }): JsonObject[] => {
        const view = bySequence.get(sequence)
        if (view === undefined) return []
        const { uuid: id, distinct_id, event, timestamp, properties, elements_chain } = view
        return [{ id, distinct_id, event, timestamp, properties, elements: [], elements_chain }]
      }),
    }))
    return { results, members: { hasMore } }
  },
}

/** Returns the newest events, and whether there are more. */
function newest(events: readonly TimelineEvent[]): TimelinePart {
  const sorted = events.toSorted((a, b) => b.timeMs - a.timeMs || b.sequence - a.sequence)
  return {
    events: sorted.slice(0, TIMELINE_EVENTS_MAX),
    hasMore: sorted.length > TIMELINE_EVENTS_MAX,
  }
}

/**
 * Groups events into entries. An entry contains the events of one session, or consecutive events of a person without a
 * session. A gap of more than `GAP_MS` begins a new entry of events without a session. The newest entry comes first.
 */
function entriesOf(events: readonly TimelineEvent[]): readonly (readonly TimelineEvent[])[] {
  const entries: TimelineEvent[][] = []
  const ofSession = new Map<string, TimelineEvent[]>()
  /** For each person, the entry to which the next event without a session is added. */
  const open = new Map<number, TimelineEvent[]>()
  for (const event of events.toReversed()) {
    const { session, person, timeMs } = event
    const last = open.get(person)
    let entry = session === null ? last : ofSession.get(session)
    if (session === null && timeMs - (last?.at(-1)?.timeMs ?? timeMs) > GAP_MS) entry = undefined
    if (entry === undefined) {
      entry = []
      entries.push(entry)
    }
    entry.push(event)
    if (session === null) open.set(person, entry)
    else {
      ofSession.set(session, entry)
      open.delete(person)
    }
  }
  // Entries and their events are in the order of time here. The answer has the newest ones first.
  return entries.reverse().map((entry) => entry.reverse())
}

/** Reads a moment without rounding it to a day or another period. */
function readMoment(
  query: QueryFields,
  name: string,
  text: string,
  { timezone, nowMs }: QueryContext,
): number {
  const date = readDate(text, timezone, nowMs)
  if (date !== null) return date.exactMs
  throw query.fault(name, 'must be a date such as 2026-01-31, or a relative one such as -24h')
}
