/**
 * Groups events by the reason why they were not stored. Each group has the number of events, the time of the last one,
 * the remedy, and some samples.
 */
import { getOrAdd } from '../../base/maps.ts'
import type { DropReason } from '../capture/drop-reasons.ts'
import type { DroppedCount, DroppedEventView } from './dropped-events.ts'
import { FATE_SAMPLES_MAX } from './limits.ts'

/** A sample of what was not stored: one event, or one request that was refused. */
export interface FateSample {
  /** The arrival time in ISO 8601, UTC. */
  readonly at: string
  readonly distinct_id: string | null
  readonly event: string | null
  readonly uuid: string | null
  /** The description of the problem. */
  readonly detail: string
  /** The beginning of the data that was sent, if it may be shown. */
  readonly body?: string
}

/** A reason for which events were not stored, and the events that it concerns. */
export interface IngestionFate {
  /** One of `DROP_REASONS`, or the code of a refusal. */
  readonly reason: string
  readonly count: number
  readonly last_seen_at: string
  /** A sentence that says what the user can do about the reason. */
  readonly sentence: string
  /** The samples, newest first. */
  readonly samples: readonly FateSample[]
}

/** For each reason, a sentence that says what the user can do about it. */
const CURES: Readonly<Record<DropReason, string>> & Readonly<Record<string, string | undefined>> = {
  no_event_name: 'Give the event a name. Send a text as "event".',
  no_distinct_id: 'Send the ID of the user as "distinct_id" beside "event", or in its properties.',
  ignored_event:
    'Nothing to do. Session recordings and heatmaps are not stored. Switch them off in the SDK.',
  client_ingestion_warning:
    'The SDK reports a problem with how it is used. Read the sample and follow its advice.',
  personless_person_event:
    'Send this event without "$process_person_profile": false, or do not send it. The event changes a person, and the property forbids that.',
  cookieless_person_event:
    'A visitor without cookies cannot be identified. Do not call identify or alias in cookieless mode.',
  duplicate: 'Nothing to do. The same event was already stored, and this was a copy of it.',
  properties_too_large:
    'Send smaller properties, or raise the setting event_properties_limit, or ai_event_properties_limit for $ai_ events.',
  daily_limit:
    'The project has reached its daily limit of events. Raise the limit in the settings of the project, or wait until midnight UTC.',
  dead_letter:
    'This is a fault of the server, and nothing is lost. After an upgrade, replay the dead letters with `tenrec dead-letter replay`.',
  invalid_payload: 'The body is not valid JSON. Compare the sample with the API description.',
  no_data: 'The request has no events. Send them in the body, as JSON.',
  missing_api_key: 'Send the project key as "api_key" beside the events.',
  invalid_api_key: 'No project has this key. Copy the key from the settings of the project.',
  invalid_personal_api_key: 'Send events with the project key (phc_...), not with a personal key.',
  invalid_project: 'The key may not send to this project. Use the key of the project itself.',
  request_too_large: 'Send fewer events in one request.',
  throttled: 'Send requests less often, or raise the request and event limits of the project.',
}

/** Returns the sentence that says what the user can do about a reason. */
export function sentenceOf(reason: string): string {
  return CURES[reason] ?? 'See the detail of the sample.'
}

/**
 * Returns the reasons for which accepted events were not stored. `dropped` are dropped events, newest first, and
 * `letters` are samples of dead letters.
 */
export function droppedFates(
  counts: readonly DroppedCount[],
  dropped: readonly DroppedEventView[],
  letters: readonly FateSample[],
): readonly IngestionFate[] {
  const samples = new Map<string, FateSample[]>([['dead_letter', [...letters]]])
  for (const { uuid, timestamp: at, reason, event, distinct_id, data } of dropped) {
    const some = getOrAdd(samples, reason, (): FateSample[] => [])
    if (some.length === FATE_SAMPLES_MAX) continue
    const body = data === '' ? {} : { body: data }
    some.push({ at, distinct_id, event, uuid, detail: sentenceOf(reason), ...body })
  }
  const totals = new Map<string, { count: number; last_seen_at: string }>()
  for (const { reason, count, last_seen_at } of counts) {
    const total = getOrAdd(totals, reason, () => ({ count: 0, last_seen_at }))
    total.count += count
    if (last_seen_at > total.last_seen_at) total.last_seen_at = last_seen_at
  }
  return [...totals].map(([reason, { count, ...last }]) => {
    const some = samples.get(reason) ?? []
    // A count from an earlier version contains only the hour of the last event. The time of the newest sample is then
    // later and more exact.
    const sampleAt = some[0]?.at ?? ''
    const last_seen_at = sampleAt > last.last_seen_at ? sampleAt : last.last_seen_at
    return { reason, count, last_seen_at, sentence: sentenceOf(reason), samples: some }
  })
}
