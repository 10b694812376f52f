/**
 * The part of a machine that asks other machines about partitions that this machine does not store. It asks for three
 * things: the results of calls, the persons and groups that flag decisions need, and the outcomes of commands.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { RecentValues } from '../base/maps.ts'
import {
  type DistantSources,
  type Facts,
  type StoredSources,
  sourcesOf,
  type WantedFacts,
} from '../engine/front/decisions.ts'
import type { DefinitionSource } from '../engine/front/flag-snapshots.ts'
import { type Calls, FLAG_CHANGES, projectOf, STORE_CALLS } from '../engine/threads/call-table.ts'
import { type Queries, queriesOf, type WorkerPool } from '../engine/threads/pool.ts'
import type { CallOptions, TaskRunner } from '../ports/task-runner.ts'
import { EdgeDefinitions, type ProjectDefinitions } from './edge-definitions.ts'
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
import type { Messages } from './shared-stream.ts'

const NOTHING_WRITTEN = { position: 0, atMs: Number.NEGATIVE_INFINITY }
const AGAIN_MS = 100
const LOOK_MS = 5
const READ_ATTEMPTS = 2
/** If no replica answers for this long, in milliseconds, the machine reports it as a trouble. */
const NOBODY_TOLD_MS = 3000

/** What an edge needs from its node. */
export interface EdgeOptions {
  readonly messages: Messages
  /** The folder in which definitions are saved. */
  readonly folder: string
  /**
   * The thread pool of this machine. It carries out calls that need no stored events, or only events of this machine.
   */
  readonly pool: Pick<WorkerPool, 'run' | 'queries'>
  /** The partition that this machine stores, or null. */
  readonly held: number | null
  /** Returns the partition of a project. For null, returns the partition that handles requests without a project. */
  readonly partitionOf: (projectId: number | null) => number
  /** Returns the number of the newest change of the catalogue on this machine. */
  readonly control: () => number
  /** Called with the projects whose cohorts or group types have changed. */
  readonly onDefinitions: (projects: readonly number[]) => void
}

interface KeptFacts {
  readonly sources: StoredSources
  readonly atMs: number
  readonly bytes: number
}

/** Answers calls and finds persons, groups and definitions, by asking other machines where necessary. */
export class Edge implements TaskRunner<Calls>, DistantSources {
  /**
   * 1, so that the caller does not divide a query. The machine that carries out the query divides it among its own
   * threads.
   */
  readonly analyticsThreads = 1
  readonly definitions: EdgeDefinitions
  /** Carries out queries, here or on the machine that has the events. */
  readonly queries: Queries
  readonly link: HolderLink
  readonly #options: EdgeOptions
  readonly #facts = new RecentValues<KeptFacts>(FACTS_KEPT_BYTES_MAX, ({ bytes }) => bytes)
  readonly #fetching = new Map<string, Promise<StoredSources>>()
  /**
   * For each partition, the newest block that this machine has written and whose outcome it knows: the number of the
   * block, and the time of the write. Later reads need a replica that has processed this block.
   */
  readonly #written = new Map<number, { readonly position: number; readonly atMs: number }>()
  readonly #stopListening: () => void
  #isClosed = false

  constructor(options: EdgeOptions) {
    this.#options = options
    this.link = new HolderLink(options.messages)
    this.definitions = new EdgeDefinitions({
      folder: options.folder,
      fetch: async (partition, projects) => {
        const asked = { ask: 'definitions', projects } as const
        const asking = { attempts: READ_ATTEMPTS, nobodyMs: 0, msMax: DEFINITIONS_MS_MAX }
        const after = this.#after(partition)
        const { result } = await this.link.ask(partition, { asked, after }, asking)
        return result as ProjectDefinitions
      },
      partitionOf: options.partitionOf,
      isDoubtful: () => this.link.nobodySinceMs.size > 0,
      onChange: options.onDefinitions,
    })
    this.#stopListening = options.messages.listen(DEFINITIONS.ofAll, (data, { subject }) => {
      const partition = Number(subject.split('.').at(-1))
      if (data === null || partition === options.held) return
      // The cast is right: `HolderService` sends this message.
      void this.definitions.fetch(partition, JSON.parse(data.toString()) as number[])
    })
    const queries = queriesOf(this)
    this.queries = {
      ...queries,
      answer: (task, onLeave) => {
        const { answer } = this.isElsewhere(task.projectId) ? queries : options.pool.queries
        return answer(task, onLeave)
      },
    }
  }

  isElsewhere(projectId: number): boolean {
    return this.#options.partitionOf(projectId) !== this.#options.held
  }

  definitionsWith(stored: DefinitionSource): DefinitionSource {
    const of = (projectId: number) => (this.isElsewhere(projectId) ? this.definitions : stored)
    return {
      refresh: () => stored.refresh(),
      cohorts: (projectId) => of(projectId).cohorts(projectId),
      groupTypes: (projectId) => of(projectId).groupTypes(projectId),
    }
  }

  async run<Name extends keyof Calls & string>(
    name: Name,
    values: Calls[Name]['values'],
    options: CallOptions = {},
  ): Promise<Calls[Name]['result']> {
    const { pool, control, held, partitionOf } = this.#options
    const partition = STORE_CALLS.has(name) ? partitionOf(projectOf(name, values)) : held
    if (partition === held || partition === null) return await pool.run(name, values, options)
    const { format, weight, onLeave } = options
    const isChange = FLAG_CHANGES.has(name)
    const given = {
      ...(format === undefined ? {} : { format }),
      ...(weight === undefined ? {} : { weight }),
    }
    const asked = { ask: 'call', name, values, options: given } as const
    const answer = await this.link.ask(
      partition,
      { asked, after: this.#after(partition), control: control() },
      { attempts: isChange ? 1 : READ_ATTEMPTS, onLeave },
    )
    if (isChange) await this.#until(() => control() >= answer.control)
    // The cast is right: both machines use the same table of calls.
    return answer.result as Calls[Name]['result']
  }

  async fetch(wanted: WantedFacts): Promise<StoredSources> {
    const { position = 0 } = this.#written.get(this.#options.partitionOf(wanted.projectId)) ?? {}
    // Facts that were read before a write of this machine must not be used after it. The position of the write is
    // therefore part of the cache key.
    const name = `${position} ${JSON.stringify(wanted)}`
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

  /**
   * Resolves with the outcome of a command that this machine has written to a log. Resolves with null if the client
   * stops waiting first.
   */
  async outcome(
    partition: number,
    uuid: string,
    isAwaited: () => boolean,
  ): Promise<KnownOutcome | null> {
    while (isAwaited() && !this.#isClosed) {
      try {
        const { result } = await this.link.ask(partition, { asked: { ask: 'outcome', uuid } }, {})
        const known = result as KnownOutcome | null
        if (known === null) continue
        const before = this.#written.get(partition)?.position ?? 0
        const position = Math.max(before, known.position)
        this.#written.set(partition, { position, atMs: performance.now() })
        if (known.changedDefinitions.length > 0) {
          await this.definitions.fetch(partition, known.changedDefinitions)
        }
        return known
      } catch {
        await sleep(AGAIN_MS)
      }
    }
    return null
  }

  /** The current problems as sentences for `/_health`: which requests this machine cannot answer now. */
  get troubles(): readonly string[] {
    const toldMs = performance.now() - NOBODY_TOLD_MS
    return [...this.link.nobodySinceMs]
      .filter(([, sinceMs]) => sinceMs <= toldMs)
      .map(
        ([partition]) =>
          `No replica of partition ${partition} answers. Check the machines that store it.`,
      )
  }

  close(): void {
    this.#isClosed = true
    this.#stopListening()
    this.definitions.close()
    this.link.close()
  }

  #after(partition: number): number {
    const { position, atMs } = this.#written.get(partition) ?? NOTHING_WRITTEN
    return performance.now() - atMs < WRITTEN_MS_MAX ? position : 0
  }

  async #fetchNow(wanted: WantedFacts, name: string, atMs: number): Promise<StoredSources> {
    const partition = this.#options.partitionOf(wanted.projectId)
    const asking = { asked: { ask: 'facts', wanted }, after: this.#after(partition) } as const
    const { result, bytes } = await this.link.ask(partition, asking, {
      attempts: READ_ATTEMPTS,
      nobodyMs: 0,
      silenceMs: FACTS_SILENCE_MS_MAX,
      msMax: FACTS_MS_MAX,
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
