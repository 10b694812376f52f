/**
 * Streams of events as they are stored, for those who watch. Each run of processing is told what is wanted and
 * answers some of what it has stored; a thread for reads looks up the persons and writes the rows, so that what
 * a stream costs lies beside capture and processing. A stream is a sample when there is more than anybody reads: it says how much it left out.
 */
import type { Clock } from '../../base/clock.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { Gauge } from '../../base/metrics.ts'
import type { TextPieces } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { LiveEvent, LiveFilter, LiveFound, LiveWatch } from '../../rules/events/live-events.ts'
import type { LiveQueries } from '../threads/call-table.ts'
import {
  LIVE_EVENTS_AT_ONCE_MAX,
  LIVE_EVENTS_PER_SECOND_MAX,
  LIVE_QUEUE_BYTES_MAX,
  LIVE_STREAMS_MAX,
} from './limits.ts'

/** How often streams are looked at: whether they are still allowed, what they left out, when they said something last. */
const LOOK_MS = 1000
/** So that proxies keep a quiet connection, and a reader notices one that is dead. */
const PING_MS = 15_000

/** Milliseconds that never go back. */
type MonotonicClock = Pick<Clock, 'monotonic'>

/** Who opens a stream, and for what. */
export interface LiveRequest {
  /** Whose streams are counted together. */
  readonly owner: string
  /** Streams of the owner: a further one ends the oldest. */
  readonly ownedMax: number
  readonly filter: LiveFilter
  /** Asked every second: false ends the stream. */
  readonly isAllowed: () => boolean
}

/** What a run of processing has stored for a stream. */
interface Shown {
  readonly stream: LiveStream
  /** The very same objects where other streams show them, too. */
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
  /** Those who wait for the end of the run that does not know their stream. */
  #waiting: (() => void)[] = []
  #isRunning = false
  #timer: NodeJS.Timeout | undefined

  /** `gauge` tells how many streams are open. */
  constructor(queries: LiveQueries, clock: MonotonicClock, gauge: Gauge) {
    this.#queries = queries
    this.#clock = clock
    this.#gauge = gauge
  }

  /**
   * Opens a stream that has every event accepted from now on. Rejects with 503 when there are too many. It must
   * be read or cancelled.
   */
  async open(request: LiveRequest): Promise<TextPieces> {
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

  /** A run of processing begins: what to look for. */
  begin(): readonly LiveWatch[] {
    this.#isRunning = true
    // The run before may have ended without a word; this one knows all streams.
    for (const resolve of this.#waiting.splice(0)) resolve()
    return [...this.#streams].map(([id, stream]) => {
      return { ...stream.request.filter, id, eventsMax: stream.room() }
    })
  }

  /** The run has ended, and has stored that. */
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

  /** Ends all streams, and those that come. */
  close(): void {
    this.#isClosed = true
    for (const stream of this.#streams.values()) stream.end('')
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #makeRoom({ owner, ownedMax }: LiveRequest): void {
    const owned = [...this.#streams.values()].filter(({ request }) => request.owner === owner)
    const detail = `This stream is closed: there may be ${ownedMax} at a time, and a newer one was opened.`
    for (const stream of owned.slice(0, Math.max(0, owned.length - ownedMax + 1))) {
      stream.end(`event: replaced\ndata: ${JSON.stringify({ detail })}\n\n`)
    }
  }

  /** Shows events of a project; one that several streams show is written once. */
  async #show(shown: readonly Shown[]): Promise<void> {
    const all = [...new Set(shown.flatMap(({ events }) => events))]
    try {
      const texts = await this.#queries.liveEvents(all)
      const textOf = new Map(all.map((event, place) => [event, texts[place] ?? '']))
      for (const { stream, events } of shown) {
        for (const event of events) stream.show(textOf.get(event) ?? '')
      }
    } catch {
      // Too many reads, or a damaged record: whoever reads it elsewhere is told why.
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

/** One stream: what was not yet read of it. */
class LiveStream implements TextPieces {
  readonly request: LiveRequest
  readonly #clock: MonotonicClock
  readonly #onEnd: () => void
  #texts: string[] = [': open\n\n']
  #bytes = 0
  #missed = 0
  #isEnded = false
  #wake: () => void = () => {}
  #saidAtMs: number
  /** Events that may be shown now, as of `#roomAtMs`. */
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
   * Events that it may be shown now. What comes faster is shown a second's worth at a time: a few in each run
   * would be as many reads and writes again.
   */
  room(): number {
    const nowMs = this.#clock.monotonic()
    const gained = ((nowMs - this.#roomAtMs) / 1000) * LIVE_EVENTS_PER_SECOND_MAX
    this.#room = Math.min(LIVE_EVENTS_AT_ONCE_MAX, this.#room + gained)
    this.#roomAtMs = nowMs
    return this.#room < LIVE_EVENTS_PER_SECOND_MAX ? 0 : Math.floor(this.#room)
  }

  /** It is shown so many. */
  spend(count: number): void {
    this.#room -= count
  }

  /** JSON of an event, which is missed when its reader is behind. */
  show(event: string): void {
    const text = `event: event\ndata: ${event}\n\n`
    const bytes = Buffer.byteLength(text)
    if (this.#bytes > 0 && this.#bytes + bytes > LIVE_QUEUE_BYTES_MAX) this.miss(1)
    else this.#say(text, bytes)
  }

  /** So many were not shown; the reader is told how many with the next events, or with `ping`. */
  miss(count: number): void {
    this.#missed += count
  }

  /** Says how many it left out, and that it is there, unless it has said something lately. */
  ping(): void {
    if (this.#missed > 0) this.#wake()
    else if (this.#clock.monotonic() - this.#saidAtMs >= PING_MS) this.#say(': ping\n\n', 0)
  }

  /** Nothing comes behind this text, which may be ''. */
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
