/**
 * Fills a daemon for the bench `decide` through its public API, as a user would. Projects and flags are created through
 * the private routes, and persons through `/batch/`. Then it checks that decisions are correct.
 */
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import {
  type BenchFlag,
  benchFlags,
  decisionBody,
  distinctIdOf,
  flagBody,
  isHolding,
  propertiesOf,
} from './decide-workload.ts'

/** The path that current SDKs request. */
export const DECISION_PATH = '/flags/?v=2'
/** The path that older SDKs request. Its answer contains values and no reasons. */
export const OLD_DECISION_PATH = '/decide/?v=3'

const PERSONS_PER_BATCH = 100
const REQUESTS_AT_ONCE = 8
const CHECKED_PERSONS = 20

/** A project with flags. */
export interface FlagProject {
  readonly id: number
  readonly apiKey: string
  readonly flags: readonly BenchFlag[]
  /** The ids of the flags, in the order of the flags. */
  readonly flagIds: readonly number[]
}

/** The decision about one flag in an answer. */
interface AnsweredFlag {
  readonly enabled: boolean
  readonly variant: string | null
}

/**
 * Creates a project with this many flags. If `millisecondsMax` is over, it stops with fewer flags. A flag takes some
 * milliseconds.
 */
export async function createProject(
  daemon: Daemon,
  flagCount: number,
  millisecondsMax = Number.POSITIVE_INFINITY,
): Promise<FlagProject> {
  const startMs = performance.now()
  const made = await ask(daemon, 'POST', 'projects/', { name: `${flagCount} flags` })
  const id = Number(made['id'])
  const flags = benchFlags(flagCount)
  const flagIds: number[] = []
  await inParallel(flags.length, async (index) => {
    const flag = flags[index]
    if (flag === undefined || performance.now() - startMs > millisecondsMax) return
    const created = await ask(daemon, 'POST', `projects/${id}/feature_flags/`, flagBody(flag))
    flagIds[index] = Number(created['id'])
  })
  const apiKey = String(made['api_token'])
  return { id, apiKey, flags: flags.slice(0, flagIds.length), flagIds }
}

/** Creates persons in a project, and waits until they are stored. Returns the number of events that were sent. */
export async function sendPersons(
  daemon: Daemon,
  { apiKey }: FlagProject,
  persons: number,
): Promise<number> {
  const timestamp = new Date().toISOString()
  await inParallel(Math.ceil(persons / PERSONS_PER_BATCH), async (batch) => {
    const first = batch * PERSONS_PER_BATCH
    const count = Math.min(PERSONS_PER_BATCH, persons - first)
    const events = Array.from({ length: count }, (_, index) => ({
      event: '$set',
      distinct_id: distinctIdOf(first + index),
      timestamp,
      properties: { $set: propertiesOf(first + index) },
    }))
    const body = JSON.stringify({ api_key: apiKey, batch: events })
    const response = await fetch(`${daemon.url}/batch/`, { method: 'POST', body })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`/batch/ answered ${response.status}`)
  })
  await daemon.drain()
  return persons
}

/** Changes a flag. Resolves when the answer has arrived. */
export async function changeFlag(
  daemon: Daemon,
  project: FlagProject,
  index: number,
  changes: object,
): Promise<void> {
  const path = `projects/${project.id}/feature_flags/${project.flagIds[index]}/`
  await ask(daemon, 'PATCH', path, changes)
}

/**
 * Requests decisions for some persons. Throws unless every flag is decided without an error and as the stored
 * properties require.
 */
export async function checkDecisions(daemon: Daemon, project: FlagProject): Promise<void> {
  for (let person = 0; person < CHECKED_PERSONS; person++) {
    const answered = await decisionsOf(daemon, decisionBody(project.apiKey, person))
    if (answered.size !== project.flags.length) {
      throw new Error(`${answered.size} of ${project.flags.length} flags were answered`)
    }
    const properties = propertiesOf(person)
    for (const { key, condition } of project.flags) {
      if (condition === null) continue
      const isEnabled = isHolding(condition, properties)
      if (answered.get(key)?.enabled !== isEnabled) {
        throw new Error(`${key} was not ${isEnabled} for ${distinctIdOf(person)}`)
      }
    }
  }
}

/** Returns the decisions of one request, by the key of the flag. Throws if the answer is marked as incomplete. */
export async function decisionsOf(
  daemon: Daemon,
  body: string,
): Promise<ReadonlyMap<string, AnsweredFlag>> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${daemon.url}${DECISION_PATH}`, { method: 'POST', headers, body })
  // The callers check whether the answer contains the flags that they need.
  const answer = (await response.json()) as {
    readonly flags?: Readonly<Record<string, AnsweredFlag>>
    readonly errorsWhileComputingFlags?: boolean
  }
  if (response.status !== 200 || answer.errorsWhileComputingFlags !== false) {
    throw new Error(`a decision was answered ${response.status}, or with errors`)
  }
  return new Map(Object.entries(answer.flags ?? {}))
}

/** Runs `action` for the numbers from 0 to `count` - 1. Some calls run at the same time. */
export async function inParallel(
  count: number,
  action: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const work = async (): Promise<void> => {
    while (next < count) await action(next++)
  }
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, work))
}

/** Requests a private route of the administrator, below `/api/`. Throws unless the answer is a success. */
export async function ask(
  daemon: Daemon,
  method: 'POST' | 'PATCH',
  path: string,
  body: object,
): Promise<Record<string, unknown>> {
  const response = await fetch(`${daemon.url}/api/${path}`, {
    method,
    headers: { authorization: `Bearer ${PERSONAL_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
  return JSON.parse(text) as Record<string, unknown>
}
