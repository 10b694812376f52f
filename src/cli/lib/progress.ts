/**
 * Shows the progress of a long command on standard error, with the rate and the remaining time. On a terminal it is a
 * bar that is redrawn in place, and elsewhere a plain line every ten seconds.
 */
import type { CommandIo } from './command.ts'

const REDRAW_MS = 100
const LINE_MS = 10_000
const BAR_CELLS = 24
const MEBIBYTE = 1024 ** 2

/** What the progress is counted in. */
export type ProgressUnit = 'bytes' | 'events'

/** Runs `work`, which reports its progress, and clears the bar afterward. Rejects if the work rejects. */
export async function withProgress<T>(
  io: CommandIo,
  label: string,
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  const progress = new Progress(io, label, 'bytes')
  try {
    return await work(progress)
  } finally {
    progress.finish()
  }
}

/** The progress of one command. Call `finish` at the end, also after a failure. */
export class Progress {
  readonly #io: CommandIo
  readonly #label: string
  readonly #unit: ProgressUnit
  readonly #startedAtMs: number
  #shownAtMs: number
  #isLineOpen = false

  /** `label` names the work in the output, such as `backup`. */
  constructor(io: CommandIo, label: string, unit: ProgressUnit) {
    this.#io = io
    this.#label = label
    this.#unit = unit
    this.#startedAtMs = io.clock.monotonic()
    this.#shownAtMs = this.#startedAtMs
  }

  /**
   * Sets how much is done. `total` is null if it is unknown. Most calls return at once, because the output changes only
   * from time to time.
   */
  update(done: number, total: number | null = null): void {
    const nowMs = this.#io.clock.monotonic()
    const isTerminal = this.#io.isErrorTerminal === true
    if (nowMs - this.#shownAtMs < (isTerminal ? REDRAW_MS : LINE_MS)) return
    this.#shownAtMs = nowMs
    const text = describe(done, total, this.#unit, nowMs - this.#startedAtMs)
    if (isTerminal) {
      this.#isLineOpen = true
      this.#io.err(`\r${this.#label} ${bar(done, total)}${text}\u001b[K`)
    } else {
      this.#io.err(`${this.#label}: ${text}\n`)
    }
  }

  /** Clears the bar. */
  finish(): void {
    if (this.#isLineOpen) this.#io.err('\r\u001b[K')
    this.#isLineOpen = false
  }
}

/** Formats an amount for people, such as `12.3 MiB` or `1,234 events`. */
function amount(value: number, unit: ProgressUnit): string {
  if (unit === 'events') return `${Math.round(value).toLocaleString('en')} events`
  return `${(value / MEBIBYTE).toLocaleString('en', { maximumFractionDigits: 1 })} MiB`
}

function describe(
  done: number,
  total: number | null,
  unit: ProgressUnit,
  elapsedMs: number,
): string {
  const perSecond = elapsedMs > 0 ? (done / elapsedMs) * 1000 : 0
  const rate = `${amount(perSecond, unit)}/s`
  if (total === null || total === 0) return `${amount(done, unit)}, ${rate}`
  const percent = Math.min(100, Math.floor((done / total) * 100))
  const leftSeconds = perSecond > 0 ? Math.ceil(Math.max(0, total - done) / perSecond) : 0
  return `${percent} % of ${amount(total, unit)}, ${rate}, ${duration(leftSeconds)} left`
}

function bar(done: number, total: number | null): string {
  if (total === null || total === 0) return ''
  const cells = Math.min(BAR_CELLS, Math.floor((done / total) * BAR_CELLS))
  return `[${'#'.repeat(cells)}${'.'.repeat(BAR_CELLS - cells)}] `
}

function duration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
