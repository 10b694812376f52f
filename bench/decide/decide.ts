/**
 * Question: what does a decision cost, compared with a server that does nothing and with Unleash?
 * Workload: persons with 30 stored properties, 64 persistent connections, closed loop. There are 10, 50 and 500 flags,
 * half of them with a property condition, requested as current SDKs do (`/flags/?v=2`): the same persons repeatedly,
 * and once with requests that are all different.
 * Baselines: (a) a bare uWebSockets.js server that collects the same bodies and answers a constant; Unleash on
 * PostgreSQL with 50 flags of the same meaning. All in the same run, interleaved.
 * Reconsider: deciding on the main thread, if it reaches less than 0.7 of the rate of (a) for 10 flags, or if the p99
 * under ingestion is more than 4 times the p99 alone. See decide-under-load.ts and decide-publish.ts.
 */
import { startUnleash, UNLEASH_PATH, type Unleash } from '../baselines/unleash.ts'
import { type Daemon, USUAL_LAG_LIMIT } from '../daemon.ts'
import { type Bench, type BenchContext, expectOnlyOk, interleaved } from '../harness.ts'
import { closedLoop, type LoadReport, runLoad } from '../load.ts'
import { median } from '../samples.ts'
import { measurePublishing, type PublishedProject, preparePublishing } from './decide-publish.ts'
import {
  checkDecisions,
  createProject,
  DECISION_PATH,
  type FlagProject,
  OLD_DECISION_PATH,
  sendPersons,
} from './decide-setup.ts'
import { measureUnderLoad } from './decide-under-load.ts'
import { benchFlags, decisionBody, freshBodies, unleashBody } from './decide-workload.ts'

export const DECIDE: Bench = {
  name: 'decide',
  group: 'flags',
  question: 'What does a decision cost, compared with an idle server and with Unleash?',
  workload: '10, 50, 500 flags, persons of 30 stored properties, 64 connections, closed loop',
  needsDaemon: true,
  run: measure,
}

const CONNECTIONS = 64
/**
 * The length of the warm-up for requests that repeat. Requests that never repeat have evicted them from the cache, and
 * at first the cache takes only a sample. Each request is sent several times within the warm-up.
 */
const ASKED_AGAIN_SECONDS = 1
/** The length of the warm-up if a decision that is not cached takes milliseconds. */
const MANY_AGAIN_SECONDS = 12
const FEW = 10
const USUAL = 50
const MANY = 500

/** A server, and the requests that are sent to it. */
interface Side {
  readonly name: string
  readonly server: { readonly url: string; readonly pid: number }
  readonly path: string
  readonly bodies: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Each body is repeated for this long before the measurement, because other requests have evicted it from the cache.
   */
  readonly askedAgainSeconds?: number
}

async function measure(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon({ environment: USUAL_LAG_LIMIT })
  // The first waits for a package registry and a database, and the second for a disk. Both must have ended before the
  // bench ends.
  const both = [startUnleash(context, benchFlags(USUAL)), fill(context, daemon)] as const
  await Promise.allSettled(both)
  const [unleash, filled] = await Promise.all(both)
  const { usual, published, acknowledged, knownPersons } = filled
  await measureCost(context, daemon, { ...filled, unleash })
  if (typeof unleash !== 'string') await unleash.stop()
  await measureUnderLoad(context, daemon, usual, { acknowledged, persons: knownPersons })
  await measurePublishing(context, daemon, { published, other: usual, persons: knownPersons })
}

async function fill(context: BenchContext, daemon: Daemon): Promise<Filled> {
  const few = await createProject(daemon, FEW)
  const usual = await createProject(daemon, USUAL)
  const many = await createProject(daemon, MANY)
  const knownPersons = context.size(200, 1000)
  const rarePersons = context.size(1000, 20_000)
  const published = await preparePublishing(context, daemon)
  let acknowledged = await sendPersons(daemon, few, knownPersons)
  acknowledged += await sendPersons(daemon, usual, rarePersons)
  acknowledged += await sendPersons(daemon, many, knownPersons)
  acknowledged += await sendPersons(daemon, published.project, knownPersons)
  for (const project of [few, usual, many]) await checkDecisions(daemon, project)
  return { few, usual, many, published, knownPersons, rarePersons, acknowledged }
}

/** What the daemon contains before the measurement. */
interface Filled {
  readonly few: FlagProject
  readonly usual: FlagProject
  readonly many: FlagProject
  readonly published: PublishedProject
  /** The number of persons whose decisions are requested again and again. */
  readonly knownPersons: number
  /**
   * The number of persons whose decisions are requested in turn. There are so many that none is still in the cache when
   * its turn comes again.
   */
  readonly rarePersons: number
  /** The number of events that the setup has sent. */
  readonly acknowledged: number
}

interface Subjects extends Filled {
  /** The running Unleash server, or the reason why it is missing. */
  readonly unleash: Unleash | string
}

async function measureCost(
  context: BenchContext,
  daemon: Daemon,
  subjects: Subjects,
): Promise<void> {
  const { few, usual, many, knownPersons, rarePersons, unleash } = subjects
  const bare = await context.startBaseline('bare-server')
  const bodies = (project: FlagProject, persons = knownPersons): string[] =>
    Array.from({ length: persons }, (_, person) => decisionBody(project.apiKey, person))
  const ours = (name: string, project: FlagProject, path = DECISION_PATH): Side => ({
    name,
    server: daemon,
    path,
    bodies: bodies(project),
  })
  const askedAgainSeconds = context.size(0.1, ASKED_AGAIN_SECONDS)
  const sides: Side[] = [
    { name: 'bare', server: bare, path: DECISION_PATH, bodies: bodies(usual) },
    { ...ours('few', few), askedAgainSeconds },
    { ...ours('usual', usual), askedAgainSeconds },
    { ...ours('many', many), askedAgainSeconds: context.size(0.1, MANY_AGAIN_SECONDS) },
    { ...ours('old', usual, OLD_DECISION_PATH), askedAgainSeconds },
    { ...ours('fresh', usual), bodies: freshBodies(usual.apiKey, knownPersons) },
    { ...ours('rare', usual), bodies: bodies(usual, rarePersons) },
  ]
  if (typeof unleash !== 'string') {
    const asked = Array.from({ length: knownPersons }, (_, person) =>
      unleashBody(person, usual.flags),
    )
    const { headers } = unleash
    sides.push({ name: 'unleash', server: unleash, path: UNLEASH_PATH, bodies: asked, headers })
  }
  // In the first seconds, V8 compiles code. Without this warm-up, the side that is measured first would have a
  // disadvantage.
  for (const side of sides) await load(side, context.size(0.3, 1), 0)
  const measured = await interleaved(
    context.rounds(3),
    sides.map(
      (side) => () =>
        load(side, context.size(0.5, 1.5), side.askedAgainSeconds ?? context.size(0.1, 0.5)),
    ),
  )
  const byName = new Map(sides.map(({ name }, index) => [name, measured[index] ?? []]))
  reportCost(context, (name) => byName.get(name) ?? [])
  reportUnleash(context, (name) => byName.get(name) ?? [], unleash)
}

async function load(side: Side, seconds: number, warmupSeconds: number): Promise<LoadReport> {
  const { server, path, bodies, headers = {} } = side
  const report = await runLoad(
    closedLoop({
      url: server.url,
      request: { kind: 'post', path, bodies, headers },
      connections: CONNECTIONS,
      warmupSeconds,
      seconds,
      serverPid: server.pid,
    }),
  )
  expectOnlyOk(report)
  return report
}

type Reports = (name: string) => readonly LoadReport[]

function reportCost(context: BenchContext, reports: Reports): void {
  const rate = (name: string): number =>
    median(reports(name).map((report) => report.requestsPerSecond))
  const cpu = (name: string): number => median(reports(name).map(cpuUsPerRequest))
  const unit = 'us'
  context.report({
    figure: `${FEW} flags: requests/s, against a bare server (a)`,
    value: rate('few'),
    unit: 'requests/s',
    baseline: rate('bare'),
    target: { of: 'ratio', bound: 'at least', limit: 0.7 },
    note: `median of ${reports('few').length}; ${busy('daemon', reports('few'))}; ${busy('bare server', reports('bare'))}`,
  })
  context.report({
    figure: `${FEW} flags: CPU per request, against (a)`,
    value: cpu('few'),
    unit,
    baseline: cpu('bare'),
  })
  context.report({
    figure: `${USUAL} flags: CPU per request, against (a)`,
    value: cpu('usual'),
    unit,
    baseline: cpu('bare'),
    target: { of: 'ratio', bound: 'at most', limit: 4.5 },
    note: 'user and system time of all threads',
  })
  context.report({
    figure: `${MANY} flags: CPU per request, against ${USUAL} flags`,
    value: cpu('many'),
    unit,
    baseline: cpu('usual'),
    target: { of: 'ratio', bound: 'at most', limit: 8 },
  })
  context.report({
    figure: `${USUAL} flags, ${OLD_DECISION_PATH}: CPU per request, against (a)`,
    value: cpu('old'),
    unit,
    baseline: cpu('bare'),
    note: 'the shorter answer that earlier SDKs ask for',
  })
  context.report({
    figure: `${USUAL} flags, no request like one before: CPU per request, against (a)`,
    value: cpu('fresh'),
    unit,
    baseline: cpu('bare'),
    target: { of: 'ratio', bound: 'at most', limit: 4.5 },
    note: 'all others ask again what was answered a moment ago, as pages do',
  })
  context.report({
    figure: `${USUAL} flags, persons who are not in memory: CPU per request, against (a)`,
    value: cpu('rare'),
    unit,
    baseline: cpu('bare'),
    target: { of: 'ratio', bound: 'at most', limit: 6 },
    note: 'so many persons in turn that each is read from the store',
  })
}

function reportUnleash(context: BenchContext, reports: Reports, unleash: Unleash | string): void {
  if (typeof unleash === 'string') {
    console.log(`# Unleash is not compared: ${unleash}`)
    return
  }
  const [ours, theirs] = [reports('usual'), reports('unleash')]
  context.report({
    figure: `${USUAL} flags: requests/s, against Unleash`,
    value: median(ours.map((report) => report.requestsPerSecond)),
    unit: 'requests/s',
    baseline: median(theirs.map((report) => report.requestsPerSecond)),
    target: { of: 'ratio', bound: 'at least', limit: 25 },
    note: `${unleash.version}, POST ${UNLEASH_PATH}, properties in the request; ${busy('Unleash', theirs)}`,
  })
  context.report({
    figure: `${USUAL} flags: CPU per request, against Unleash`,
    value: median(ours.map(cpuUsPerRequest)),
    unit: 'us',
    baseline: median(theirs.map(cpuUsPerRequest)),
    note: 'of Unleash without PostgreSQL, which evaluation does not ask',
  })
}

function cpuUsPerRequest(report: LoadReport): number {
  return ((report.serverCpuSeconds ?? 0) * 1e6) / report.requests
}

function busy(name: string, reports: readonly LoadReport[]): string {
  const server = median(reports.map((report) => (report.serverCpuSeconds ?? 0) / report.seconds))
  const generator = median(reports.map((report) => report.generatorCores))
  return `${name} ${server.toFixed(2)} cores busy with the generator at ${generator.toFixed(2)}`
}
