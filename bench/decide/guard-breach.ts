/**
 * Question: how soon does a ramp turn back when its flag causes errors?
 * Workload: ramps that have made their first step, each with a guard on `$exception`, and persons with and without each
 * flag. Some of the flags begin to cause errors, each at a random moment between two checks of the guards. The time is
 * from the acknowledgment of the last event that shows the errors to the API's answer that the ramp was turned back.
 * The other ramps go on.
 * Baseline: none. An operator who watches a dashboard would need minutes.
 * Reconsider: the interval between two checks of guards, if a ramp turns back after more than a minute.
 */
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { Random } from '../experiments/random.ts'
import { type Bench, type BenchContext, sleep } from '../harness.ts'
import { median } from '../samples.ts'
import { ask, createProject, type FlagProject, inParallel } from './decide-setup.ts'

export const GUARD_BREACH: Bench = {
  name: 'guard-breach',
  group: 'flags',
  question: 'How soon does a ramp turn back when its flag causes errors?',
  workload: '20 ramps with a guard, 4,000 persons each; 10 of the flags begin to cause errors',
  needsDaemon: true,
  run: measure,
}

const PERSONS_PER_BATCH = 1000
/** One of this many persons has an error without the flag, too. */
const USUAL_ERRORS = 50
/** The breaches begin at random moments within this time, which is the interval of the checks. */
const SPREAD_MS = 20_000
const POLL_MS = 100
const TURN_MS_MAX = 120_000
const TURN_SECONDS_MAX = 60
const MS = 1000

interface Ramp {
  readonly key: string
  readonly flag: number
  readonly path: string
}

async function measure(context: BenchContext): Promise<void> {
  const count = context.size(2, 20)
  const persons = context.persons(300, 2000)
  const random = new Random(context.seed)
  const daemon = await context.startDaemon()
  const project = await createProject(daemon, 0)
  const ramps: Ramp[] = []
  await inParallel(count, async (index) => {
    ramps.push(await startRamp(daemon, project, `ramp-${index}`))
  })
  const isWatched = async ({ path }: Ramp): Promise<boolean> =>
    (await rampOf(daemon, path))['watched_from'] !== null
  for (const ramp of ramps) await until(() => isWatched(ramp), 'the first step of a ramp')
  for (const { key } of ramps) {
    await sendExposures(daemon, project, key, persons)
    await sendErrors(daemon, project, key, 'false', persons, USUAL_ERRORS)
    await sendErrors(daemon, project, key, 'true', persons, USUAL_ERRORS)
  }
  await daemon.drain()
  const bad = ramps.filter((_, index) => index % 2 === 0)
  const seconds = await Promise.all(
    bad.map(async (ramp) => {
      await sleep(random.uniform() * context.size(1, SPREAD_MS))
      await sendErrors(daemon, project, ramp.key, 'true', persons, 2)
      const startMs = performance.now()
      await until(async () => (await rampOf(daemon, ramp.path))['state'] === 'turned_back', 'turn')
      return (performance.now() - startMs) / MS
    }),
  )
  for (const ramp of ramps) await expectEnd(daemon, project, ramp, bad.includes(ramp))
  context.report({
    figure: `a breach of a guard turns the ramp back, slowest of ${bad.length}`,
    value: Math.max(...seconds),
    unit: 's',
    target: { of: 'value', bound: 'at most', limit: TURN_SECONDS_MAX },
    note: `median ${median(seconds).toFixed(1)} s; ${count} ramps with ${2 * persons} persons each`,
  })
}

/** Starts a ramp with a guard on errors. Its first step gives the flag to 20 % of all persons. */
async function startRamp(daemon: Daemon, { id }: FlagProject, key: string): Promise<Ramp> {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  const flag = await ask(daemon, 'POST', `projects/${id}/feature_flags/`, { key, filters })
  const steps = [{ rollout_percentage: 20 }, { rollout_percentage: 100, after_seconds: 86_400 }]
  const change = await ask(daemon, 'POST', `projects/${id}/scheduled_changes/`, {
    record_id: flag['id'],
    model_name: 'FeatureFlag',
    payload: { operation: 'ramp', value: { steps, guards: [{ tolerance: 0.05 }] } },
  })
  const path = `projects/${id}/scheduled_changes/${Number(change['id'])}/`
  return { key, flag: Number(flag['id']), path }
}

/** Shows each flag to this many persons, and tells as many others that they do not have it. */
async function sendExposures(
  daemon: Daemon,
  project: FlagProject,
  key: string,
  persons: number,
): Promise<void> {
  for (const value of ['false', 'true'] as const) {
    const properties = { $feature_flag: key, $feature_flag_response: value === 'true' }
    await send(daemon, project, persons, (person) => {
      return { event: '$feature_flag_called', distinct_id: `${key} ${value} ${person}`, properties }
    })
  }
}

/** Sends an error of one in `every` persons. */
async function sendErrors(
  daemon: Daemon,
  project: FlagProject,
  key: string,
  value: 'true' | 'false',
  persons: number,
  every: number,
): Promise<void> {
  await send(daemon, project, Math.floor(persons / every), (index) => {
    const distinct_id = `${key} ${value} ${index * every}`
    return { event: '$exception', distinct_id, properties: {} }
  })
}

async function send(
  daemon: Daemon,
  { apiKey }: FlagProject,
  count: number,
  eventOf: (index: number) => object,
): Promise<void> {
  for (let start = 0; start < count; start += PERSONS_PER_BATCH) {
    const size = Math.min(PERSONS_PER_BATCH, count - start)
    const batch = Array.from({ length: size }, (_, index) => eventOf(start + index))
    const body = JSON.stringify({ api_key: apiKey, batch })
    const response = await fetch(`${daemon.url}/batch/`, { method: 'POST', body })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`/batch/ answered ${response.status}`)
  }
}

/** Throws unless a bad ramp has given the flag back, and a harmless one has not. */
async function expectEnd(
  daemon: Daemon,
  { id }: FlagProject,
  { flag, path }: Ramp,
  isBad: boolean,
): Promise<void> {
  const { state } = await rampOf(daemon, path)
  const { filters } = await read(daemon, `projects/${id}/feature_flags/${flag}/`)
  const { groups } = filters as { readonly groups: readonly { rollout_percentage: number }[] }
  const share = groups[0]?.rollout_percentage
  const isRight = isBad
    ? state === 'turned_back' && share === 0
    : state === 'running' && share === 20
  if (!isRight)
    throw new Error(`a ${isBad ? 'bad' : 'harmless'} ramp is ${String(state)} at ${share} %`)
}

async function rampOf(daemon: Daemon, path: string): Promise<Record<string, unknown>> {
  return (await read(daemon, path))['ramp'] as Record<string, unknown>
}

async function read(daemon: Daemon, path: string): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${PERSONAL_KEY}` }
  const response = await fetch(`${daemon.url}/api/${path}`, { headers })
  const text = await response.text()
  if (!response.ok) throw new Error(`GET ${path} answered ${response.status}: ${text}`)
  return JSON.parse(text) as Record<string, unknown>
}

async function until(isDone: () => Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + TURN_MS_MAX
  while (!(await isDone())) {
    if (performance.now() > deadlineMs) throw new Error(`${what}: waited for ${TURN_MS_MAX} ms`)
    await sleep(POLL_MS)
  }
}
