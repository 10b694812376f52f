/**
 * Question: how soon does a change of one of 5,000 flags apply to decisions, and which requests wait for it?
 * Workload: a flag is toggled repeatedly through the API, and requested without pause until the change is visible.
 * Beside it run decisions, as an open loop at 200 requests/s with latency from the intended time of sending. Half of
 * them are about 10 of the 5,000 flags, half about the 50 flags of another project.
 * Baseline: the same decisions without changes.
 * Reconsider: compiling flags on the main thread, if a request takes more than 20 ms.
 */
import type { Daemon } from '../daemon.ts'
import { type BenchContext, expectOnlyOk, sleep } from '../harness.ts'
import { type LoadReport, openLoop, prepareLoad } from '../load.ts'
import { median } from '../samples.ts'
import {
  changeFlag,
  createProject,
  DECISION_PATH,
  decisionsOf,
  type FlagProject,
} from './decide-setup.ts'
import { decisionBody } from './decide-workload.ts'

const REQUESTS_PER_SECOND = 200
const CONNECTIONS = 64
const PAUSE_MS = 150
/** The pause after the previous measurements, in milliseconds. */
const SETTLE_MS = 1000
const POLL_MS = 1
const VISIBLE_MS_MAX = 10_000
const KEYS_ASKED = 10
/**
 * The time after which no more flags are created, so that the run stays short on a slow machine. The figure names the
 * number of flags.
 */
const CREATE_MS_MAX = 120_000
/** The index of the flag that is changed. It has no condition, so only its rollout decides. */
const CHANGED_FLAG = 0

interface Publication {
  /** The milliseconds from sending the change to the first answer that contains it. */
  readonly visibleMs: number
  /** The milliseconds from sending the change to the answer to this request. */
  readonly answeredMs: number
}

/** The project whose flags are changed. */
export interface PublishedProject {
  readonly project: FlagProject
  readonly createdPerSecond: number
}

/** Creates the project with 5,000 flags. It may take minutes. No measurement may run at the same time. */
export async function preparePublishing(
  context: BenchContext,
  daemon: Daemon,
): Promise<PublishedProject> {
  const startMs = performance.now()
  const project = await createProject(daemon, context.size(500, 5000), CREATE_MS_MAX)
  const createdPerSecond = (project.flags.length * 1000) / (performance.now() - startMs)
  return { project, createdPerSecond }
}

/** The project whose flags are changed, and the project for the decisions that are measured at the same time. */
export interface PublishingOptions {
  readonly published: PublishedProject
  readonly other: FlagProject
  readonly persons: number
}

/** Reports how long a change takes until it is published, and the latency of decisions meanwhile. */
export async function measurePublishing(
  context: BenchContext,
  daemon: Daemon,
  { published, other, persons }: PublishingOptions,
): Promise<void> {
  const { project, createdPerSecond } = published
  await sleep(SETTLE_MS)
  const publications: Publication[] = []
  const seconds = context.size(1, 6)
  const quiet = await loadBeside(daemon, [project, other], persons, seconds, () => sleep(0))
  const busy = await loadBeside(daemon, [project, other], persons, seconds, async (isOver) => {
    while (!isOver()) {
      publications.push(await publish(daemon, project, publications.length % 2 === 0))
      await sleep(PAUSE_MS)
    }
  })
  const visible = publications.map(({ visibleMs }) => visibleMs)
  const answered = publications.map(({ answeredMs }) => answeredMs)
  context.report({
    figure: `${project.flags.length} flags: from sending a change to a decision that shows it, worst`,
    value: Math.max(...visible),
    unit: 'ms',
    target: { of: 'value', bound: 'under', limit: 100 },
    note:
      `${visible.length} changes, median ${median(visible).toFixed(1)} ms; the change itself answered ` +
      `after ${median(answered).toFixed(1)} ms, worst ${Math.max(...answered).toFixed(1)}; flags were ` +
      `created at ${createdPerSecond.toFixed(0)}/s, while Unleash was started`,
  })
  context.report({
    figure: 'slowest decision meanwhile, against the same without changes',
    value: busy.latencyMs.max,
    unit: 'ms',
    baseline: quiet.latencyMs.max,
    target: { of: 'value', bound: 'at most', limit: 20 },
    note:
      `${busy.requests} requests, p50 ${busy.latencyMs.p50} ms, p99 ${busy.latencyMs.p99} ms (without ` +
      `changes ${quiet.latencyMs.p50} and ${quiet.latencyMs.p99}); the generator itself was late by at ` +
      `most ${busy.latenessMs.max} ms`,
  })
}

/** Sends decisions at a steady rate while `action` runs. `action` can ask whether the measured time is over. */
async function loadBeside(
  daemon: Daemon,
  projects: readonly [FlagProject, FlagProject],
  persons: number,
  seconds: number,
  action: (isOver: () => boolean) => Promise<void>,
): Promise<LoadReport> {
  const [changed, other] = projects
  const keys = changed.flags.slice(0, KEYS_ASKED).map(({ key }) => key)
  const bodies = Array.from({ length: persons }, (_, person) =>
    person % 2 === 0
      ? decisionBody(changed.apiKey, person, keys)
      : decisionBody(other.apiKey, person),
  )
  const load = await prepareLoad(
    openLoop({
      url: daemon.url,
      request: { kind: 'post', path: DECISION_PATH, bodies, headers: {} },
      connections: CONNECTIONS,
      requestsPerSecond: REQUESTS_PER_SECOND,
      warmupSeconds: 0.5,
      seconds,
    }),
  )
  let isOver = false
  const run = load.run().finally(() => {
    isOver = true
  })
  const [report] = await Promise.all([run, action(() => isOver)])
  expectOnlyOk(report)
  return report
}

async function publish(daemon: Daemon, project: FlagProject, isOn: boolean): Promise<Publication> {
  const key = project.flags[CHANGED_FLAG]?.key ?? ''
  const body = decisionBody(project.apiKey, 0, [key])
  const groups = [{ properties: [], rollout_percentage: isOn ? 100 : 0 }]
  const startMs = performance.now()
  const change = changeFlag(daemon, project, CHANGED_FLAG, { filters: { groups } })
  const answered = change.then(() => performance.now() - startMs)
  const [answeredMs, visibleMs] = await Promise.all([
    answered,
    untilSeen(daemon, { body, key, isOn }, startMs),
  ])
  return { visibleMs, answeredMs }
}

async function untilSeen(
  daemon: Daemon,
  { body, key, isOn }: { body: string; key: string; isOn: boolean },
  startMs: number,
): Promise<number> {
  for (;;) {
    const answered = await decisionsOf(daemon, body)
    const elapsedMs = performance.now() - startMs
    if (answered.get(key)?.enabled === isOn) return elapsedMs
    if (elapsedMs > VISIBLE_MS_MAX) throw new Error(`a change of ${key} was never seen`)
    await sleep(POLL_MS)
  }
}
