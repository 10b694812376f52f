/**
 * What was refused of the events that clients sent: by reason how often, when last, and some samples, for people
 * who wonder where their events are. In memory and for a day; what was accepted is told by the store. Nothing
 * here is called for a request that is accepted.
 */
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { getOrAdd, keepNewest } from '../../base/maps.ts'
import type { ProjectDirectory } from '../../rules/access/project-directory.ts'
import {
  type FateSample,
  type IngestionFate,
  sentenceOf,
} from '../../rules/events/ingestion-fates.ts'
import { FATE_BODY_UNITS_MAX, FATE_SAMPLES_MAX } from '../../rules/events/limits.ts'
import { FATE_AGE_MS_MAX, FATE_LOOKED_AT_BYTES_MAX, FATE_PROJECTS_MAX } from './limits.ts'

/** Between two samples of a reason, once there are as many as are kept. */
const SAMPLE_EVERY_MS = 100
/** A project's key as the body or the query of a request names it. */
const PROJECT_KEY = /(?:api_key|token)["']?\s*[:=]\s*["']?(phc_\w{1,60})/
/** Keys that are nobody's business. */
const SECRETS = /ph[xs]_\w+/g
/** For requests that name no project, or one that there is not. */
const NO_PROJECT = 0

/** What is known of a refused request; null: its body was too large to be read. */
export type RefusedRequest = {
  readonly query: string
  readonly body: Uint8Array
  /** The headers of capture v1, whose bodies name no key. */
  readonly v1?: { readonly key: string } | null
} | null

interface Refused {
  count: number
  lastMs: number
  sampledMs: number
  samples: FateSample[]
}

/** The refusals of a daemon. */
export class RefusedCaptures {
  readonly #clock: Pick<Clock, 'now'>
  readonly #directory: Pick<ProjectDirectory, 'projectByKey'>
  /** By project, that which was refused something last at the end. */
  readonly #projects = new Map<number, Map<string, Refused>>()

  /** `directory` must answer from memory. */
  constructor(clock: Pick<Clock, 'now'>, directory: Pick<ProjectDirectory, 'projectByKey'>) {
    this.#clock = clock
    this.#directory = directory
  }

  /**
   * Counts a refusal that sending it again does not mend. Microseconds: the beginning of the body is looked at
   * for a key.
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

  /** Counts events that were answered 200 and dropped, because a daily limit of their project is reached. */
  noteLimited(projectId: number, eventCount: number): void {
    const refused = this.#refusedFor(projectId, 'daily_limit')
    refused.count += eventCount
    refused.lastMs = this.#clock.now()
  }

  #refusedFor(projectId: number, reason: string): Refused {
    const reasons = this.#projects.get(projectId) ?? new Map<string, Refused>()
    keepNewest(this.#projects, projectId, reasons, FATE_PROJECTS_MAX)
    return getOrAdd(reasons, reason, (): Refused => {
      return { count: 0, lastMs: 0, sampledMs: 0, samples: [] }
    })
  }

  /** What a project was refused in the last day; `isAll`: also what named no project that there is. */
  of(projectId: number, isAll: boolean): readonly IngestionFate[] {
    const oldestMs = this.#clock.now() - FATE_AGE_MS_MAX
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

/** The beginning of a body that is text, as it came. */
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
  return { ...known, body: text.slice(0, FATE_BODY_UNITS_MAX).replace(SECRETS, '[redacted]') }
}
