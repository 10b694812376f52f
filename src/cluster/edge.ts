/**
 * A machine that accepts and stores no events: calls that need them, what decisions need, and what becomes of
 * commands come from those that do.
 */
import { RecentValues } from '../base/maps.ts'
import type { DistantSources, StoredSources, WantedFacts } from '../engine/front/decisions.ts'
import { type Calls, STORE_CALLS } from '../engine/threads/call-table.ts'
import type { ProcessResult } from '../engine/threads/tasks.ts'
import type { CallOptions, TaskRunner } from '../ports/task-runner.ts'
import { EdgeDefinitions, type ProjectDefinitions } from './edge-definitions.ts'
import { type Facts, sourcesOf } from './facts.ts'
import { HolderLink } from './holder-link.ts'
import { DEFINITIONS } from './holder-message.ts'
import type { KnownOutcome } from './holder-service.ts'
import {
  DEFINITIONS_MS_MAX,
  FACTS_KEPT_BYTES_MAX,
  FACTS_KEPT_MS_MAX,
  FACTS_MS_MAX,
  FACTS_SILENCE_MS_MAX,
  QUESTION_WAIT_MS_MAX,
  WRITTEN_MS_MAX,
} from './limits.ts'
import type { Messages } from './shared-log.ts'

const AGAIN_MS = 100
const LOOK_MS = 5
const READ_ATTEMPTS = 2
/** After nobody has answered for that long it is told, milliseconds. */
const NOBODY_TOLD_MS = 3000

/** What it works with. */
export interface EdgeOptions {
  readonly messages: Messages
  /** Where definitions are kept. */
  readonly folder: string
  /** Carries out the calls that need no events. */
  readonly pool: TaskRunner<Calls>
  /** The newest change of the catalogue here. */
  readonly control: () => number
  /** Cohorts or group types of these projects have changed. */
  readonly onDefinitions: (projects: readonly number[]) => void
}

interface KeptFacts {
  readonly sources: StoredSources
  readonly atMs: number
  readonly bytes: number
}

/** Nothing is processed here. */
export const NO_PROCESSING = {
  run: async (): Promise<never> => IDLE as never,
}

const IDLE: ProcessResult = {
  ...{ processed: 0, last: 0, eventCount: 0, recognisedCount: 0, elapsedMs: 0, commitMs: 0 },
  ...{ fates: [], commands: [], changedDefinitions: [], erased: [], isIdle: true },
  deadLetters: { count: 0, bytes: 0, forgotten: 0 },
}

/** The part of this machine that asks others. */
export class Edge implements TaskRunner<Calls>, DistantSources {
  /** A query is divided where it is carried out. */
  readonly analyticsThreads = 1
  readonly definitions: EdgeDefinitions
  readonly link: HolderLink
  readonly #options: EdgeOptions
  readonly #facts = new RecentValues<KeptFacts>(FACTS_KEPT_BYTES_MAX, ({ bytes }) => bytes)
  readonly #fetching = new Map<string, Promise<StoredSources>>()
  /** The newest write of this machine whose outcome is known, as a block of the shared log. */
  #written = { position: 0, atMs: 0 }
  readonly #stopListening: () => void
  #isClosed = false

  constructor(options: EdgeOptions) {
    this.#options = options
    this.link = new HolderLink(options.messages)
    const fetch = async (projects: readonly number[]): Promise<ProjectDefinitions> => {
      const asking = { attempts: READ_ATTEMPTS, nobodyMs: 0, msMax: DEFINITIONS_MS_MAX }
      const asked = { ask: 'definitions', projects } as const
      const { result } = await this.link.ask(asked, this.#after, 0, asking)
      return result as ProjectDefinitions
    }
    const isDoubtful = (): boolean => this.link.nobodySinceMs !== null
    this.definitions = new EdgeDefinitions(options.folder, fetch, isDoubtful)
    this.definitions.onChange = options.onDefinitions
    this.#stopListening = options.messages.listen(DEFINITIONS, (data) => {
      // Written by `HolderService`.
      if (data !== null) void this.definitions.fetch(JSON.parse(data.toString()) as number[])
    })
  }

  async run<Name extends keyof Calls & string>(
    name: Name,
    values: Calls[Name]['values'],
    options: CallOptions = {},
  ): Promise<Calls[Name]['result']> {
    const { pool, control } = this.#options
    if (!STORE_CALLS.has(name)) return await pool.run(name, values, options)
    const { format, weight, onLeave } = options
    const isChange = name === 'changeFlag'
    const given = {
      ...(format === undefined ? {} : { format }),
      ...(weight === undefined ? {} : { weight }),
    }
    const answer = await this.link.ask(
      { ask: 'call', name, values, options: given },
      this.#after,
      control(),
      { attempts: isChange ? 1 : READ_ATTEMPTS, onLeave },
    )
    if (isChange) await this.#until(() => control() >= answer.control)
    // By the same table on both machines.
    return answer.result as Calls[Name]['result']
  }

  async fetch(wanted: WantedFacts): Promise<StoredSources> {
    // What was fetched before a write of this machine is not what comes behind it.
    const name = `${this.#written.position} ${JSON.stringify(wanted)}`
    const now = performance.now()
    const kept = this.#facts.get(name)
    if (kept !== undefined && now - kept.atMs < FACTS_KEPT_MS_MAX) return kept.sources
    const known = this.#fetching.get(name)
    if (known !== undefined) return await known
    const fetching = this.#fetchNow(wanted, name, now)
    this.#fetching.set(name, fetching)
    try {
      return await fetching
    } finally {
      this.#fetching.delete(name)
    }
  }

  /** What became of a command of this machine that is in the log; null: nobody has told while somebody waits. */
  async outcome(uuid: string, isAwaited: () => boolean): Promise<KnownOutcome | null> {
    while (isAwaited() && !this.#isClosed) {
      try {
        const { result } = await this.link.ask({ ask: 'outcome', uuid }, 0, 0, {})
        const known = result as KnownOutcome | null
        if (known === null) continue
        const position = Math.max(this.#written.position, known.position)
        this.#written = { position, atMs: performance.now() }
        if (known.changedDefinitions.length > 0) {
          await this.definitions.fetch(known.changedDefinitions)
        }
        return known
      } catch {
        await sleep(AGAIN_MS)
      }
    }
    return null
  }

  /** Why this machine answers little; null: it does. */
  get trouble(): string | null {
    const { nobodySinceMs } = this.link
    if (nobodySinceMs === null || performance.now() - nobodySinceMs < NOBODY_TOLD_MS) return null
    return 'No machine that holds the events answers.'
  }

  close(): void {
    this.#isClosed = true
    this.#stopListening()
    this.definitions.close()
    this.link.close()
  }

  get #after(): number {
    const { position, atMs } = this.#written
    return performance.now() - atMs < WRITTEN_MS_MAX ? position : 0
  }

  async #fetchNow(wanted: WantedFacts, name: string, atMs: number): Promise<StoredSources> {
    const { result, bytes } = await this.link.ask({ ask: 'facts', wanted }, this.#after, 0, {
      ...{ attempts: READ_ATTEMPTS, nobodyMs: 0 },
      ...{ silenceMs: FACTS_SILENCE_MS_MAX, msMax: FACTS_MS_MAX },
    })
    const sources = sourcesOf(result as Facts, wanted)
    this.#facts.keep(name, { sources, atMs, bytes })
    return sources
  }

  async #until(isTrue: () => boolean): Promise<void> {
    const deadline = performance.now() + QUESTION_WAIT_MS_MAX
    while (!isTrue() && performance.now() < deadline) await sleep(LOOK_MS)
  }
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
