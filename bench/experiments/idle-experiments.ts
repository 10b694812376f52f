/**
 * Question: what do experiments, scheduled changes and listeners cost captures and decisions while nothing happens?
 * Workload: two daemons with the same 100 flags. In one of them, 20 flags have a running experiment that nobody looks
 * at, 20 flags have a scheduled change in the distant future, and 100 clients listen for changes. Batches of 100 events
 * until all are processed; decisions about all flags, repeated and new.
 * Baseline: the daemon without experiments, scheduled changes and listeners, in turns.
 * Reconsider: reading experiments or schedules on the paths of captures or decisions, if a ratio differs from 1 by more
 * than the runs of one daemon differ from each other.
 */
import { connect } from 'node:net'
import type { Daemon } from '../daemon.ts'
import {
  ask,
  createProject,
  DECISION_PATH,
  type FlagProject,
  inParallel,
  sendPersons,
} from '../decide/decide-setup.ts'
import { decisionBody, freshBodies } from '../decide/decide-workload.ts'
import { type Bench, type BenchContext, expectOnlyOk, interleaved } from '../harness.ts'
import { closedLoop, runLoad } from '../load.ts'
import { median } from '../samples.ts'

export const IDLE_EXPERIMENTS: Bench = {
  name: 'idle-experiments',
  group: 'experiments',
  question: 'What do experiments, schedules and listeners cost while nothing happens?',
  workload: '100 flags, 20 experiments, 20 scheduled changes, 100 listeners; events and decisions',
  needsDaemon: true,
  run: measure,
}

const FLAGS = 100
const LISTENERS = 100
const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
const WARMUP_SECONDS = 1
const MICROSECONDS = 1e6
const DISTANT = '2999-01-01T00:00:00Z'

/** A daemon, and the project that is measured. */
interface Side {
  readonly daemon: Daemon
  readonly project: FlagProject
}

/** What is measured: returns microseconds of processor time for an event or a decision. */
interface Work {
  readonly figure: string
  readonly run: (side: Side) => Promise<number>
}

async function measure(context: BenchContext): Promise<void> {
  const persons = context.size(200, 1000)
  const plain = await start(context, persons)
  const busy = await start(context, persons)
  const counts = await addFeatures(context, busy)
  const bodiesOf = ({ apiKey }: FlagProject): string[] =>
    Array.from({ length: persons }, (_, person) => decisionBody(apiKey, person))
  const works: readonly Work[] = [
    {
      figure: 'CPU per event accepted and processed',
      run: (side) => capture(context, side),
    },
    {
      figure: `CPU per decision about ${FLAGS} flags, repeated`,
      run: (side) => decide(context, side, bodiesOf(side.project)),
    },
    {
      figure: `CPU per decision about ${FLAGS} flags, new`,
      run: (side) => decide(context, side, freshBodies(side.project.apiKey, persons)),
    },
  ]
  for (const { figure, run } of works) {
    // The first run compiles code.
    for (const side of [plain, busy]) await run(side)
    const sides = [() => run(plain), () => run(busy)]
    const [without = [], active = []] = await interleaved(context.rounds(9, 2), sides)
    context.report({
      figure: `${figure}, with ${counts}, against none of them`,
      value: median(active),
      unit: 'us',
      baseline: median(without),
      note: `medians of ${active.length}; with ${range(active)}, without ${range(without)}`,
    })
  }
}

async function start(context: BenchContext, persons: number): Promise<Side> {
  const daemon = await context.startDaemon()
  const project = await createProject(daemon, FLAGS)
  await sendPersons(daemon, project, persons)
  return { daemon, project }
}

/** Adds what one of the daemons has and the other does not, and returns a description of it. */
async function addFeatures(context: BenchContext, { daemon, project }: Side): Promise<string> {
  const path = `projects/${project.id}`
  const tested = project.flags.filter(({ variants }) => variants.length > 0)
  await inParallel(tested.length, async (index) => {
    const key = tested[index]?.key ?? ''
    const body = { name: `Experiment ${index}`, feature_flag_key: key }
    const { id } = await ask(daemon, 'POST', `${path}/experiments/`, body)
    await ask(daemon, 'POST', `${path}/experiments/${Number(id)}/launch/`, {})
  })
  await inParallel(tested.length, async (index) => {
    await ask(daemon, 'POST', `${path}/scheduled_changes/`, {
      record_id: project.flagIds[index],
      model_name: 'FeatureFlag',
      payload: { operation: 'update_status', value: true },
      scheduled_at: DISTANT,
    })
  })
  await inParallel(LISTENERS, () => listen(context, daemon, project))
  return `${tested.length} experiments, ${tested.length} scheduled changes and ${LISTENERS} listeners`
}

/** Opens a stream of flag changes, which lasts until the end of the bench. */
function listen(context: BenchContext, daemon: Daemon, { apiKey }: FlagProject): Promise<void> {
  const { hostname, port } = new URL(daemon.url)
  const socket = connect({ host: hostname, port: Number(port) })
  context.cleanUpWith(async () => {
    socket.destroy()
  })
  socket.write(`GET /ofrep/v1/event_stream?token=${apiKey} HTTP/1.1\r\nHost: bench\r\n\r\n`)
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.once('data', (bytes: Buffer) => {
      if (bytes.toString('latin1').startsWith('HTTP/1.1 200 ')) resolve()
      else reject(new Error(`a listener was refused: ${bytes.toString('latin1')}`))
    })
    socket.on('data', () => {})
  })
}

async function capture(context: BenchContext, { daemon, project }: Side): Promise<number> {
  const events = context.events(2000, 50_000)
  const before = daemon.cpuSeconds()
  const report = await runLoad(
    closedLoop({
      url: daemon.url,
      request: context.requests(EVENTS_PER_REQUEST, { projectKey: project.apiKey }),
      connections: CONNECTIONS,
      seconds: 600,
      requestsMax: Math.ceil(events / EVENTS_PER_REQUEST),
    }),
  )
  expectOnlyOk(report)
  await daemon.drain()
  return ((daemon.cpuSeconds() - before) * MICROSECONDS) / report.eventsAcknowledged
}

async function decide(
  context: BenchContext,
  { daemon }: Side,
  bodies: readonly string[],
): Promise<number> {
  const report = await runLoad(
    closedLoop({
      url: daemon.url,
      request: { kind: 'post', path: DECISION_PATH, bodies, headers: {} },
      connections: CONNECTIONS,
      warmupSeconds: context.size(0.2, WARMUP_SECONDS),
      seconds: context.size(0.3, 2),
      serverPid: daemon.pid,
    }),
  )
  expectOnlyOk(report)
  return ((report.serverCpuSeconds ?? 0) * MICROSECONDS) / report.requests
}

function range(values: readonly number[]): string {
  return `${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)} us`
}
