/**
 * Counts the events and bytes that were accepted for each project since midnight UTC, and decides whether a daily limit
 * is reached. A request is accepted completely if the limit is not reached when it arrives.
 *
 * The counts are in memory. They are written to a file every ten seconds and when the daemon stops, so that they
 * survive a restart. If the process is killed, the counts of the last ten seconds are lost, and after a power cut
 * perhaps more. A project can then send more events than its limit, but it is never stopped before the limit.
 */
import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../../base/clock.ts'
import { isObject } from '../../../base/json.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { DailyMaxima } from '../../../rules/access/organization.ts'

const FILE = 'daily-usage.json'
const KEEP_MS = 10_000
const DAY_MS = 86_400_000

/** The events and bytes that were accepted for a project today. */
export interface DailyUsage {
  readonly events: number
  /** The size of the events in the log, in bytes. */
  readonly bytes: number
  /** True if a limit is reached, so that further events of today are not stored. */
  readonly isLimited: boolean
}

/** The dependencies of daily limits. */
export interface DailyLimitsOptions {
  readonly dataDir: string
  readonly clock: Pick<Clock, 'now'>
  readonly projects: { projectById(id: number): DailyMaxima | null }
  /** Called when a project reaches a limit for the first time on a day. */
  readonly onReached: (projectId: number, limit: 'events' | 'bytes') => void
  readonly log: { warn(fields: object, message: string): void }
}

interface Count {
  events: number
  bytes: number
  isTold: boolean
}

/** The daily counts of all projects, in the main thread. */
export class DailyLimits {
  readonly #options: DailyLimitsOptions
  readonly #path: string
  #counts = new Map<number, Count>()
  #dayMs = 0
  #isChanged = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: DailyLimitsOptions) {
    this.#options = options
    this.#path = join(options.dataDir, FILE)
  }

  /** Restores the counts that the previous process has stored. Then stores them every ten seconds until `stop`. */
  start(): void {
    this.#restore()
    this.#timer = setInterval(() => void this.#keep(), KEEP_MS)
  }

  /** Stops the timer and stores the counts. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#keep()
  }

  /** Returns whether a project has reached a limit, so that no more events are stored today. */
  isReached(projectId: number): boolean {
    const project = this.#options.projects.projectById(projectId)
    if (project === null || !hasLimit(project)) return false
    const count = this.#countOf(projectId)
    const limit = limitReached(project, count)
    if (limit === null) return false
    if (!count.isTold) {
      count.isTold = true
      this.#options.onReached(projectId, limit)
    }
    return true
  }

  /** Counts events that were accepted for a project. */
  accepted(projectId: number, events: number, bytes: number): void {
    const count = this.#countOf(projectId)
    count.events += events
    count.bytes += bytes
    this.#isChanged = true
  }

  /** Returns how much was accepted for a project today. */
  usageOf(projectId: number): DailyUsage {
    const { events, bytes } = this.#countOf(projectId)
    const project = this.#options.projects.projectById(projectId)
    const isLimited = project !== null && limitReached(project, { events, bytes }) !== null
    return { events, bytes, isLimited }
  }

  #countOf(projectId: number): Count {
    const nowMs = this.#options.clock.now()
    // A new day also begins if the clock was set back.
    if (nowMs < this.#dayMs || nowMs >= this.#dayMs + DAY_MS) {
      this.#dayMs = nowMs - (nowMs % DAY_MS)
      this.#counts = new Map()
    }
    return getOrAdd(this.#counts, projectId, () => ({ events: 0, bytes: 0, isTold: false }))
  }

  /** Restores the counts from the file. A file that is missing, damaged or from another day is ignored. */
  #restore(): void {
    let kept: unknown
    try {
      kept = JSON.parse(readFileSync(this.#path, 'utf8'))
    } catch {
      return
    }
    if (!isObject(kept) || typeof kept['dayMs'] !== 'number') return
    const nowMs = this.#options.clock.now()
    if (kept['dayMs'] !== nowMs - (nowMs % DAY_MS)) return
    this.#dayMs = kept['dayMs']
    for (const entry of Array.isArray(kept['projects']) ? kept['projects'] : []) {
      const [projectId, events, bytes] = Array.isArray(entry) ? entry.map(Number) : []
      if (!isCount(projectId) || !isCount(events) || !isCount(bytes)) continue
      this.#counts.set(projectId, { events, bytes, isTold: false })
    }
  }

  async #keep(): Promise<void> {
    if (!this.#isChanged) return
    this.#isChanged = false
    const projects = [...this.#counts].map(([id, { events, bytes }]) => [id, events, bytes])
    const draft = `${this.#path}.new`
    try {
      await writeFile(draft, JSON.stringify({ dayMs: this.#dayMs, projects }), { mode: 0o600 })
      await rename(draft, this.#path)
    } catch (err) {
      this.#isChanged = true
      this.#options.log.warn(
        { err },
        'Could not save the event counts of today for the next start.',
      )
    }
  }
}

function hasLimit({ dailyEventsMax, dailyBytesMax }: DailyMaxima): boolean {
  return dailyEventsMax != null || dailyBytesMax != null
}

/** Returns the limit that the counts of a project have reached, or null. */
function limitReached(
  { dailyEventsMax, dailyBytesMax }: DailyMaxima,
  { events, bytes }: Pick<Count, 'events' | 'bytes'>,
): 'events' | 'bytes' | null {
  if (dailyEventsMax != null && events >= dailyEventsMax) return 'events'
  return dailyBytesMax != null && bytes >= dailyBytesMax ? 'bytes' : null
}

function isCount(value: number | undefined): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}
