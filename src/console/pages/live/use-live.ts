/** The newest events of the stream for a component, however fast they come, and how fast that is. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, project } from '../../kit.ts'
import { type LiveEvent, type LiveFilter, type LiveState, watchEvents } from './event-stream.ts'

/** Rows that are kept; whatever comes, memory does not grow. */
export const LIVE_ROWS_MAX = 200
/** Seconds that the rate looks back. */
const RATE_SECONDS = 60
/** How often the page changes, at most. */
const SHOW_MS = 250

/** What is shown. */
export interface Live {
  readonly state: LiveState
  readonly error: ApiError | null
  /** The newest first. */
  readonly rows: readonly LiveEvent[]
  /** Events that came since it was paused. */
  readonly held: number
  /** Events that the stream left out. */
  readonly missed: number
  /** Events of each of the last seconds, the latest last. */
  readonly rates: readonly number[]
}

const NOTHING: Live = {
  state: 'connecting',
  error: null,
  rows: [],
  held: 0,
  missed: 0,
  rates: Array.from({ length: RATE_SECONDS }, () => 0),
}

/** Watches while the component is there. `turn` begins anew when it changes. */
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

/** What came since the page was changed last. */
class Arrivals {
  #rows: readonly LiveEvent[] = []
  #waiting: LiveEvent[] = []
  #held = 0
  #missed = 0
  #second = Math.floor(Date.now() / 1000)
  #rates = [...NOTHING.rates]
  #hasNews = false
  #isFirst = true

  take(events: readonly LiveEvent[]): void {
    const seen = new Set([...this.#waiting, ...this.#rows].map(({ uuid }) => uuid))
    const fresh = events.filter(({ uuid }) => !seen.has(uuid))
    if (fresh.length === 0) return
    this.#waiting = [...this.#waiting, ...fresh].slice(-LIVE_ROWS_MAX)
    this.#held += fresh.length
    // What was there before the page was opened did not come now.
    if (!this.#isFirst) this.#count(fresh.length)
    this.#isFirst = false
  }

  miss(count: number): void {
    this.#missed += count
    this.#count(count)
  }

  /** What is to be shown now, or null. */
  changes(isPaused: boolean): Partial<Live> | null {
    const isLater = this.#step()
    if (!this.#hasNews && !isLater && (isPaused || this.#waiting.length === 0)) return null
    this.#hasNews = false
    if (!isPaused) {
      this.#rows = [...this.#waiting.toReversed(), ...this.#rows].slice(0, LIVE_ROWS_MAX)
      this.#waiting = []
      this.#held = 0
    }
    return { rows: this.#rows, held: this.#held, missed: this.#missed, rates: [...this.#rates] }
  }

  #count(count: number): void {
    this.#step()
    this.#rates.push((this.#rates.pop() ?? 0) + count)
    this.#hasNews = true
  }

  /** Moves the rates on by the seconds that have passed; true if there are any. */
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
