/**
 * Gives a component the newest events of the stream and their rate. However many events arrive, the component is
 * updated only a few times a second.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, project } from '../../kit.ts'
import { type LiveEvent, type LiveFilter, type LiveState, watchEvents } from './event-stream.ts'

/** At most this many events are kept, so that the memory of the page does not grow. */
export const LIVE_ROWS_MAX = 200
/** For how many seconds the rate is kept. */
const RATE_SECONDS = 60
/** The shortest time between two updates of the page, in milliseconds. */
const SHOW_MS = 250

/** The data that the stream of the page "Events" shows. */
export interface Live {
  readonly state: LiveState
  readonly error: ApiError | null
  /** False until the newest stored events have been read. Until then, it is unknown whether there are any events. */
  readonly isRead: boolean
  /** The events, newest first. */
  readonly rows: readonly LiveEvent[]
  /** How many events have arrived since the reader has paused the display. */
  readonly held: number
  /** How many events the daemon has left out of the stream. */
  readonly missed: number
  /** How many events arrived in each of the last seconds. The latest second comes last. */
  readonly rates: readonly number[]
}

const NOTHING: Live = {
  state: 'connecting',
  error: null,
  isRead: false,
  rows: [],
  held: 0,
  missed: 0,
  rates: Array.from({ length: RATE_SECONDS }, () => 0),
}

/** Reads the stream while the component is shown. To open the stream again, the caller passes another `turn`. */
export function useLive(filter: LiveFilter, isPaused: boolean, turn: number): Live {
  const [live, setLive] = useState(NOTHING)
  const paused = useRef(isPaused)
  paused.current = isPaused
  const key = JSON.stringify([project.value.id, filter, turn])
  useEffect(() => {
    const abort = new AbortController()
    const arrivals = new Arrivals()
    setLive(NOTHING)
    void watchEvents({
      filter,
      signal: abort.signal,
      take: (events) => arrivals.take(events),
      miss: (count) => arrivals.miss(count),
      change: (state, error) => setLive((before) => ({ ...before, state, error: error ?? null })),
    })
    const timer = setInterval(() => {
      const changes = arrivals.changes(paused.current)
      if (changes !== null) setLive((before) => ({ ...before, ...changes }))
    }, SHOW_MS)
    return () => {
      abort.abort()
      clearInterval(timer)
    }
  }, [key])
  return live
}

/** Collects the events that arrive between two updates of the page. */
class Arrivals {
  #rows: readonly LiveEvent[] = []
  #waiting: LiveEvent[] = []
  #held = 0
  #missed = 0
  #second = Math.floor(Date.now() / 1000)
  #rates = [...NOTHING.rates]
  #hasNews = false
  #isRead = false

  take(events: readonly LiveEvent[]): void {
    const seen = new Set([...this.#waiting, ...this.#rows].map(({ uuid }) => uuid))
    const fresh = events.filter(({ uuid }) => !seen.has(uuid))
    this.#waiting = [...this.#waiting, ...fresh].slice(-LIVE_ROWS_MAX)
    this.#held += fresh.length
    // The first batch contains events that were stored before the page was opened, so it does not count for the rate.
    if (this.#isRead && fresh.length > 0) this.#count(fresh.length)
    this.#hasNews ||= !this.#isRead
    this.#isRead = true
  }

  miss(count: number): void {
    this.#missed += count
    this.#count(count)
  }

  /** Returns what has changed since the last update of the page, or null if nothing has. */
  changes(isPaused: boolean): Partial<Live> | null {
    const isLater = this.#step()
    if (!this.#hasNews && !isLater && (isPaused || this.#waiting.length === 0)) return null
    this.#hasNews = false
    if (!isPaused) {
      this.#rows = [...this.#waiting.toReversed(), ...this.#rows].slice(0, LIVE_ROWS_MAX)
      this.#waiting = []
      this.#held = 0
    }
    return {
      isRead: this.#isRead,
      rows: this.#rows,
      held: this.#held,
      missed: this.#missed,
      rates: [...this.#rates],
    }
  }

  #count(count: number): void {
    this.#step()
    this.#rates.push((this.#rates.pop() ?? 0) + count)
    this.#hasNews = true
  }

  /**
   * Moves the rates on by the seconds that have passed since the last call. Returns true if at least one second has
   * passed.
   */
  #step(): boolean {
    const now = Math.floor(Date.now() / 1000)
    const passed = Math.min(RATE_SECONDS, now - this.#second)
    this.#second = now
    if (passed <= 0) return false
    this.#rates.push(...Array.from({ length: passed }, () => 0))
    this.#rates.splice(0, passed)
    return true
  }
}
