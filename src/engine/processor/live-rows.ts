/**
 * Collects stored events for live streams during processing. For each stream it collects a sample of the matching
 * events, and counts the others. It subscribes to the outbox only while there are streams.
 */
import type { Outbox, OutboxRow, Subscription } from '../../ports/outbox.ts'
import type { LiveEvent, LiveFound, LiveWatch } from '../../rules/events/live-events.ts'
import { LIVE_RUN_UNITS_MAX } from './limits.ts'

interface Watch {
  readonly watch: LiveWatch
  readonly names: ReadonlySet<string>
  readonly events: LiveEvent[]
  /** The number of events that the outbox may still deliver for this stream. */
  room: number
  missed: number
}

/** The fields by which events are selected. */
type Named = Pick<OutboxRow['event'], 'name' | 'distinctId'>

/** Subscribes to the outbox for all streams, in the thread that processes. */
export class LiveRows {
  readonly #outbox: Outbox
  #watches: readonly Watch[] = []
  #subscription: Subscription | null = null

  constructor(outbox: Outbox) {
    this.#outbox = outbox
  }

  /** Replaces the streams, and the events that they want, from the next commit on. */
  watch(watches: readonly LiveWatch[]): void {
    this.#subscription?.close()
    this.#watches = watches.map((watch) => {
      return { watch, names: new Set(watch.events), events: [], room: watch.eventsMax, missed: 0 }
    })
    const eventsMax = watches.reduce((sum, watch) => sum + watch.eventsMax, 0)
    this.#subscription =
      watches.length === 0
        ? null
        : this.#outbox.subscribe(eventsMax, (projectId, event) => this.#wants(projectId, event))
  }

  /** Returns the events that were stored since `watch`, for each stream. */
  take(): readonly LiveFound[] {
    let units = 0
    // If the outbox has dropped events, it reports a gap, which is ignored here. The outbox has space for all wanted
    // events. It drops some only if very many commits are made before this call.
    for (let next = this.#subscription?.take(); next != null; next = this.#subscription?.take()) {
      if (next.kind === 'gap') continue
      for (const row of next.rows) {
        const event = liveEvent(row)
        units += event.properties.length
        for (const each of this.#watches) {
          if (!isMeant(each, row.projectId, row.event)) continue
          if (each.events.length === each.watch.eventsMax) continue
          if (units <= LIVE_RUN_UNITS_MAX) each.events.push(event)
          else each.missed++
        }
      }
    }
    return this.#watches.map(({ watch, events, missed }) => ({ id: watch.id, events, missed }))
  }

  #wants(projectId: number, event: Named): boolean {
    let isWanted = false
    for (const each of this.#watches) {
      if (!isMeant(each, projectId, event)) continue
      if (each.room === 0) each.missed++
      else {
        each.room--
        isWanted = true
      }
    }
    return isWanted
  }
}

function isMeant({ watch, names }: Watch, projectId: number, event: Named): boolean {
  if (watch.projectId !== projectId) return false
  if (watch.distinctId !== null && watch.distinctId !== event.distinctId) return false
  return names.size === 0 || names.has(event.name)
}

function liveEvent({ event, ...row }: OutboxRow): LiveEvent {
  const { name, distinctId, timestampMs, elementsChain } = event
  const properties = JSON.stringify(event.properties)
  return { ...row, name, distinctId, timestampMs, elementsChain, properties }
}
