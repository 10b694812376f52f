/** Provides the newest events of the stream to a component, at a limited pace, together with their rate. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, project } from '../../kit.ts'
import { type LiveEvent, type LiveFilter, type LiveState, watchEvents } from './event-stream.ts'

/** The most rows that are kept, so that memory does not grow. */
export const LIVE_ROWS_MAX = 200
/** The number of seconds that the rate covers. */
const RATE_SECONDS = 60
/** The shortest time between two updates of the page, in milliseconds. */
const SHOW_MS = 250

/** The displayed state. */
export interface Live {
  readonly state: LiveState
  readonly error: ApiError | null
  /** False until the newest stored events have been read. Until then it is not known whether there are any. */
  readonly isRead: boolean
  /** The events, newest first. */
  readonly rows: readonly LiveEvent[]
  /** The number of events that arrived since the display was paused. */
  readonly held: number
  /** The number of events that the stream left out. */
  readonly missed: number
  /** The number of events in each of the last seconds, latest last. */
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

/** Reads the stream while the component is shown. A change of `turn` starts it again. */
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

/** The events that arrived since the last update of the page. */
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
    // The first batch was stored before the page was opened, so it does not count as new.
    if (this.#isRead && fresh.length > 0) this.#count(fresh.length)
    this.#hasNews ||= !this.#isRead
    this.#isRead = true
  }

  miss(count: number): void {
    this.#missed += count
    this.#count(count)
  }

  /** Returns the changes to show now, or null. */
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

  /** Shifts the rates by the seconds that have passed. Returns true if there are any. */
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
