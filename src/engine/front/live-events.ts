/**
 * Streams of stored events for users who watch them live. Before each processing run, the processing thread gets the
 * filters of the streams. After the run, it returns a sample of the matching events that it has stored. A reader thread
 * looks up their persons and writes the events as JSON, so that streams do not slow down capture and processing. If
 * there are more events than a user can read, a stream shows only some of them, and reports how many it has left out.
 */
import type { Clock } from '../../base/clock.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { Gauge } from '../../base/metrics.ts'
import type { TextChunks } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { LiveEvent, LiveFilter, LiveFound, LiveWatch } from '../../rules/events/live-events.ts'
import type { LiveQueries } from '../threads/call-table.ts'
import {
  LIVE_EVENTS_AT_ONCE_MAX,
  LIVE_EVENTS_PER_SECOND_MAX,
  LIVE_QUEUE_BYTES_MAX,
  LIVE_STREAMS_MAX,
} from './limits.ts'

/**
 * The interval at which each stream is checked, in milliseconds: whether it is still allowed, whether it has left out
 * events, and whether it needs a ping.
 */
const LOOK_MS = 1000
/**
 * If a stream was quiet for this time, in milliseconds, it sends a ping. Pings keep the connection open in proxies, and
 * let the client notice a dead connection.
 */
const PING_MS = 15_000

/** A clock that counts monotonic milliseconds. */
type MonotonicClock = Pick<Clock, 'monotonic'>

/** A request for a new stream. */
export interface LiveRequest {
  /** The owner of the stream. The number of streams of one owner is limited. */
  readonly owner: string
  /** The largest number of streams of the owner. A further stream ends the oldest one. */
  readonly ownedMax: number
  readonly filter: LiveFilter
  /** Called every second. If it returns false, the stream is ended. */
  readonly isAllowed: () => boolean
}

/** Events that a processing run has stored, for one stream. */
interface Shown {
  readonly stream: LiveStream
  /** The events. Several streams that show the same event share one object. */
  readonly events: readonly LiveEvent[]
}

/** All streams of a daemon. */
export class LiveEvents {
  readonly #queries: LiveQueries
  readonly #clock: MonotonicClock
  readonly #gauge: Gauge
  readonly #streams = new Map<number, LiveStream>()
  #lastId = 0
  #isClosed = false
  /**
   * Functions that continue the callers whose stream was opened during a processing run. That run does not know their
   * filters, so they wait until it has ended.
   */
  #waiting: (() => void)[] = []
  #isRunning = false
  #timer: NodeJS.Timeout | undefined

  /** `gauge` shows the number of open streams. */
  constructor(queries: LiveQueries, clock: MonotonicClock, gauge: Gauge) {
    this.#queries = queries
    this.#clock = clock
    this.#gauge = gauge
  }

  /**
   * Opens a stream that shows the events that are accepted from now on. Rejects with 503 if there are too many streams.
   * The caller must read the stream or cancel it.
   */
  async open(request: LiveRequest): Promise<TextChunks> {
    this.#makeRoom(request)
    if (this.#streams.size >= LIVE_STREAMS_MAX) {
      throw refusal('streams_full', { limit: LIVE_STREAMS_MAX })
    }
    const id = ++this.#lastId
    const stream = new LiveStream(request, this.#clock, () => this.#remove(id))
    this.#streams.set(id, stream)
    this.#gauge.value = this.#streams.size
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS)
    if (this.#isClosed) stream.end('')
    if (this.#isRunning) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return stream
  }

  /** Call it when a processing run begins. Returns for each stream which events it wants. */
  begin(): readonly LiveWatch[] {
    this.#isRunning = true
    // Callers of `open` that still wait can continue now, because this run gets the filters of their streams. They
    // still wait if the previous run failed, because `stored` was not called then.
    for (const resolve of this.#waiting.splice(0)) resolve()
    return [...this.#streams].map(([id, stream]) => {
      return { ...stream.request.filter, id, eventsMax: stream.room() }
    })
  }

  /** Call it when a processing run has ended, with the events that it has stored for streams. */
  stored(found: readonly LiveFound[]): void {
    this.#isRunning = false
    for (const resolve of this.#waiting.splice(0)) resolve()
    const byProject = new Map<number, Shown[]>()
    for (const { id, events, missed } of found) {
      const stream = this.#streams.get(id)
      if (stream === undefined) continue
      stream.miss(missed)
      stream.spend(events.length)
      const { projectId } = stream.request.filter
      if (events.length > 0) getOrAdd(byProject, projectId, () => []).push({ stream, events })
    }
    for (const shown of byProject.values()) void this.#show(shown)
  }

  /** Ends all streams, and also any stream that is opened later. */
  close(): void {
    this.#isClosed = true
    for (const stream of this.#streams.values()) stream.end('')
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #makeRoom({ owner, ownedMax }: LiveRequest): void {
    const owned = [...this.#streams.values()].filter(({ request }) => request.owner === owner)
    const detail = `This stream was closed, because at most ${ownedMax} streams can be open at a time and a newer one was opened.`
    for (const stream of owned.slice(0, Math.max(0, owned.length - ownedMax + 1))) {
      stream.end(`event: replaced\ndata: ${JSON.stringify({ detail })}\n\n`)
    }
  }

  /**
   * Shows events of one project in the streams that want them. An event that several streams show is written as JSON
   * only once.
   */
  async #show(shown: readonly Shown[]): Promise<void> {
    const all = [...new Set(shown.flatMap(({ events }) => events))]
    try {
      const texts = await this.#queries.liveEvents(all)
      const textOf = new Map(all.map((event, place) => [event, texts[place] ?? '']))
      for (const { stream, events } of shown) {
        for (const event of events) stream.show(textOf.get(event) ?? '')
      }
    } catch {
      // The events could not be read, because too many reads wait or a record is damaged. The events then count as
      // missed. The cause is reported when somebody reads the events in the usual way.
      for (const { stream, events } of shown) stream.miss(events.length)
    }
  }

  #look(): void {
    for (const stream of this.#streams.values()) {
      if (stream.request.isAllowed()) stream.ping()
      else stream.end('')
    }
  }

  #remove(id: number): void {
    this.#streams.delete(id)
    this.#gauge.value = this.#streams.size
    if (this.#streams.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** One stream, with the text that the client has not read yet. */
class LiveStream implements TextChunks {
  readonly request: LiveRequest
  readonly #clock: MonotonicClock
  readonly #onEnd: () => void
  #texts: string[] = [': open\n\n']
  #bytes = 0
  #missed = 0
  #isEnded = false
  #wake: () => void = () => {}
  #saidAtMs: number
  /** The number of further events that the stream was allowed to show at the time `#roomAtMs`. */
  #room = LIVE_EVENTS_AT_ONCE_MAX
  #roomAtMs: number

  constructor(request: LiveRequest, clock: MonotonicClock, onEnd: () => void) {
    this.request = request
    this.#clock = clock
    this.#onEnd = onEnd
    this.#saidAtMs = clock.monotonic()
    this.#roomAtMs = this.#saidAtMs
  }

  /**
   * Returns the number of events that may be shown now. This number grows by `LIVE_EVENTS_PER_SECOND_MAX` in a second,
   * and 0 is returned while it is smaller than that. Otherwise, if events arrive fast, every processing run would show
   * a few events, each time with a read and a write.
   */
  room(): number {
    const nowMs = this.#clock.monotonic()
    const gained = ((nowMs - this.#roomAtMs) / 1000) * LIVE_EVENTS_PER_SECOND_MAX
    this.#room = Math.min(LIVE_EVENTS_AT_ONCE_MAX, this.#room + gained)
    this.#roomAtMs = nowMs
    return this.#room < LIVE_EVENTS_PER_SECOND_MAX ? 0 : Math.floor(this.#room)
  }

  /** Subtracts the number of events that were shown. */
  spend(count: number): void {
    this.#room -= count
  }

  /** Shows an event, which is given as JSON. If the client is too far behind, the event counts as missed. */
  show(event: string): void {
    const text = `event: event\ndata: ${event}\n\n`
    const bytes = Buffer.byteLength(text)
    if (this.#bytes > 0 && this.#bytes + bytes > LIVE_QUEUE_BYTES_MAX) this.miss(1)
    else this.#say(text, bytes)
  }

  /** Counts events that were not shown. The stream reports their number with the next event or ping. */
  miss(count: number): void {
    this.#missed += count
  }

  /** Reports the number of missed events. If there are none, sends a ping if nothing was sent for a while. */
  ping(): void {
    if (this.#missed > 0) this.#wake()
    else if (this.#clock.monotonic() - this.#saidAtMs >= PING_MS) this.#say(': ping\n\n', 0)
  }

  /** Sends a last text, which may be '', and ends the stream. */
  end(text: string): void {
    this.#say(text, 0)
    this.cancel()
  }

  async next(): Promise<Uint8Array | null> {
    while (this.#texts.length === 0 && this.#missed === 0) {
      if (this.#isEnded) return null
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const missed = this.#missed === 0 ? '' : `event: missed\ndata: {"count":${this.#missed}}\n\n`
    const text = this.#texts.join('') + missed
    this.#texts = []
    this.#bytes = 0
    this.#missed = 0
    return Buffer.from(text)
  }

  cancel(): void {
    this.#isEnded = true
    this.#onEnd()
    this.#wake()
  }

  #say(text: string, bytes: number): void {
    if (this.#isEnded || text === '') return
    this.#saidAtMs = this.#clock.monotonic()
    this.#texts.push(text)
    this.#bytes += bytes
    this.#wake()
  }
}
