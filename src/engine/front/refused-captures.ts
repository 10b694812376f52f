/**
 * Records refused requests for a day, so that users can find out why events are missing: for each reason the count, the
 * time of the last refusal and some samples. Accepted requests are not recorded here.
 *
 * The records are in memory. They are written to a file every ten seconds and when the daemon stops, so that they
 * survive a restart. If the process is killed, the records of the last ten seconds are lost.
 */
import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { getOrAdd, keepNewest } from '../../base/maps.ts'
import type { ProjectDirectory } from '../../rules/access/project-directory.ts'
import {
  type FateSample,
  type IngestionFate,
  sentenceOf,
} from '../../rules/events/ingestion-fates.ts'
import { FATE_BODY_UNITS_MAX, FATE_SAMPLES_MAX } from '../../rules/events/limits.ts'
import { redactSecrets } from '../../rules/events/redact-secrets.ts'
import {
  FATE_AGE_MS_MAX,
  FATE_FILE_BYTES_MAX,
  FATE_LOOKED_AT_BYTES_MAX,
  FATE_PROJECTS_MAX,
} from './limits.ts'

const FILE = 'refused-requests.json'
const KEEP_MS = 10_000
/** After the first few samples of a reason, further samples are taken at most once in this time, in milliseconds. */
const SAMPLE_EVERY_MS = 100
/** Matches a project key in the body or the query of a request. */
const PROJECT_KEY = /(?:api_key|token)["']?\s*[:=]\s*["']?(phc_\w{1,60})/
/** The project id for requests that name no project, or an unknown one. */
const NO_PROJECT = 0

/** The parts of a refused request that were read. The body is null if it was too large to be read. */
export type RefusedRequest = {
  readonly query: string
  readonly body: Uint8Array
  /** The headers of capture v1. The body of such a request contains no key. */
  readonly v1?: { readonly key: string } | null
} | null

interface Refused {
  count: number
  lastMs: number
  sampledMs: number
  samples: FateSample[]
}

/** The dependencies of this object. `directory` must answer from memory. */
export interface RefusedCapturesOptions {
  readonly dataDir: string
  readonly clock: Pick<Clock, 'now'>
  readonly directory: Pick<ProjectDirectory, 'projectByKey'>
  readonly log: { warn(fields: object, message: string): void }
}

/** The refused requests of a daemon. */
export class RefusedCaptures {
  readonly #clock: Pick<Clock, 'now'>
  readonly #directory: Pick<ProjectDirectory, 'projectByKey'>
  readonly #log: RefusedCapturesOptions['log']
  readonly #path: string
  /** The refusals of each project by their reason. The project with the latest refusal is last. */
  readonly #projects = new Map<number, Map<string, Refused>>()
  #isChanged = false
  #timer: NodeJS.Timeout | undefined

  constructor({ dataDir, clock, directory, log }: RefusedCapturesOptions) {
    this.#clock = clock
    this.#directory = directory
    this.#log = log
    this.#path = join(dataDir, FILE)
  }

  /** Restores the refusals that the previous process has stored. Then stores them every ten seconds until `stop`. */
  start(): void {
    this.#restore()
    this.#timer = setInterval(() => void this.#keep(), KEEP_MS)
  }

  /** Stops the timer and stores the refusals. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#keep()
  }

  /**
   * Counts a refusal, unless its status says that a retry may succeed (500 or higher). Costs some microseconds, because
   * the beginning of the body is searched for a key.
   */
  note(error: ServiceError, request: RefusedRequest): void {
    if (error.status >= 500) return
    const nowMs = this.#clock.now()
    const text = textOf(request)
    const key = request?.v1?.key ?? PROJECT_KEY.exec(`${request?.query ?? ''}&${text ?? ''}`)?.[1]
    const project = key === undefined ? null : this.#directory.projectByKey(key)
    const refused = this.#refusedFor(project?.id ?? NO_PROJECT, error.code)
    refused.count++
    refused.lastMs = nowMs
    const isFull = refused.samples.length === FATE_SAMPLES_MAX
    if (isFull && nowMs - refused.sampledMs < SAMPLE_EVERY_MS) return
    refused.sampledMs = nowMs
    refused.samples = [sampleOf(error, text, nowMs), ...refused.samples].slice(0, FATE_SAMPLES_MAX)
  }

  /** Counts events that were answered 200 but dropped, because their project has reached a daily limit. */
  noteLimited(projectId: number, eventCount: number): void {
    const refused = this.#refusedFor(projectId, 'daily_limit')
    refused.count += eventCount
    refused.lastMs = this.#clock.now()
  }

  #refusedFor(projectId: number, reason: string): Refused {
    this.#isChanged = true
    const reasons = this.#projects.get(projectId) ?? new Map<string, Refused>()
    keepNewest(this.#projects, projectId, reasons, FATE_PROJECTS_MAX)
    return getOrAdd(reasons, reason, (): Refused => {
      return { count: 0, lastMs: 0, sampledMs: 0, samples: [] }
    })
  }

  #restore(): void {
    for (const [projectId, reasons] of readKept(this.#path, this.#oldestMs()))
      keepNewest(this.#projects, projectId, reasons, FATE_PROJECTS_MAX)
    // The file is written again, because some of its refusals may be too old now.
    this.#isChanged = true
  }

  async #keep(): Promise<void> {
    const draft = `${this.#path}.new`
    try {
      this.#forget()
      if (!this.#isChanged) return
      this.#isChanged = false
      await writeFile(draft, this.#text(), { mode: 0o600 })
      await rename(draft, this.#path)
    } catch (err) {
      this.#isChanged = true
      this.#log.warn({ err }, 'Could not save the refused requests for the next start.')
    }
  }

  /**
   * Returns the content of the file. If it would become too large, it contains only the projects with the latest
   * refusals. The project with the latest refusal is last.
   */
  #text(): string {
    const texts: string[] = []
    let bytes = 0
    for (const [projectId, reasons] of [...this.#projects].toReversed()) {
      const text = JSON.stringify([projectId, Object.fromEntries(reasons)])
      bytes += Buffer.byteLength(text)
      if (bytes > FATE_FILE_BYTES_MAX) break
      texts.push(text)
    }
    return `[${texts.toReversed().join(',\n')}]`
  }

  /** Removes refusals that are too old. They are then also removed from the file. */
  #forget(): void {
    const oldestMs = this.#oldestMs()
    for (const [projectId, reasons] of this.#projects) {
      for (const [reason, refused] of reasons) {
        const samples = refused.samples.filter(({ at }) => Date.parse(at) >= oldestMs)
        const isOld = refused.lastMs < oldestMs
        if (!isOld && samples.length === refused.samples.length) continue
        refused.samples = samples
        if (isOld) reasons.delete(reason)
        this.#isChanged = true
      }
      if (reasons.size === 0) this.#projects.delete(projectId)
    }
  }

  #oldestMs(): number {
    return this.#clock.now() - FATE_AGE_MS_MAX
  }

  /**
   * Returns the refusals of a project in the last day. If `isAll` is true, it includes requests that named no known
   * project.
   */
  of(projectId: number, isAll: boolean): readonly IngestionFate[] {
    const oldestMs = this.#oldestMs()
    const fates: IngestionFate[] = []
    for (const id of isAll ? [projectId, NO_PROJECT] : [projectId]) {
      for (const [reason, { count, lastMs, samples }] of this.#projects.get(id) ?? []) {
        if (lastMs < oldestMs) continue
        fates.push({
          reason,
          count,
          last_seen_at: new Date(lastMs).toISOString(),
          sentence: sentenceOf(reason),
          samples: samples.filter(({ at }) => Date.parse(at) >= oldestMs),
        })
      }
    }
    return fates
  }
}

/** Returns the refusals of the last day that a file contains. A file that is missing or damaged contains none. */
function readKept(
  path: string,
  oldestMs: number,
): readonly (readonly [number, Map<string, Refused>])[] {
  try {
    const kept: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (!Array.isArray(kept)) return []
    return kept.map(([projectId, reasons]) => [
      Number(projectId),
      new Map(refusedOf(reasons, oldestMs)),
    ])
  } catch {
    return []
  }
}

function refusedOf(reasons: unknown, oldestMs: number): readonly (readonly [string, Refused])[] {
  if (!isObject(reasons)) return []
  return Object.entries(reasons).flatMap(([reason, value]) => {
    if (!isObject(value)) return []
    const { count, lastMs, sampledMs, samples } = value
    const isWhole = [count, lastMs, sampledMs].every((one) => Number.isSafeInteger(one))
    if (!isWhole || !Array.isArray(samples) || Number(lastMs) < oldestMs) return []
    // The cast is safe, because `#keep` has written the samples.
    return [
      [
        reason,
        {
          ...(value as unknown as Refused),
          samples: samples.filter(isObject) as unknown as FateSample[],
        },
      ],
    ]
  })
}

/** Returns the start of a body as text. Returns null if the body is empty or not text. */
function textOf(request: RefusedRequest): string | null {
  const body = request?.body ?? new Uint8Array(0)
  if (body.length === 0) return null
  const start = body.subarray(0, FATE_LOOKED_AT_BYTES_MAX)
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true })
    return decoder.decode(start, { stream: start.length < body.length })
  } catch {
    return null
  }
}

function sampleOf(error: ServiceError, text: string | null, nowMs: number): FateSample {
  const at = new Date(nowMs).toISOString()
  const known = { at, distinct_id: null, event: null, uuid: null, detail: error.message }
  if (text === null) return known
  // The text is cut once more, because the words that replace secrets may be longer than the secrets.
  const body = redactSecrets(text.slice(0, FATE_BODY_UNITS_MAX)).slice(0, FATE_BODY_UNITS_MAX)
  return { ...known, body }
}
