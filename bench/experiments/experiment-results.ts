/**
 * Question: how long does the result of an experiment take, the first time and again?
 * Workload: 1 million exposed persons (a tenth of `--events`) over 28 days, each with one exposure and ten further
 * events, which arrive nearly in the order of time. Three metrics are asked over HTTP, one after the other: a funnel of
 * three steps, the sum of a property with extreme values cut off, and the number of all events. (a) For the first time:
 * each request has another text, so that cached results do not help. (b) Again, without new events. The counts of every
 * answer are compared with those of the generator.
 * Baseline: none. The targets are those of the page of an experiment, which people look at.
 */

import { AnalyticStore } from '../analytics/analytics-store.ts'
import { Asker } from '../analytics/query-asker.ts'
import type { Daemon } from '../daemon.ts'
import type { Bench, BenchContext } from '../harness.ts'
import { cpuSeconds } from '../proc.ts'
import { median } from '../samples.ts'
import { Random } from './random.ts'

export const EXPERIMENT_RESULTS: Bench = {
  name: 'experiment-results',
  group: 'experiments',
  question: 'How long does the result of an experiment take, the first time and again?',
  workload:
    '1 million exposed persons with ten further events each over 28 days, a tenth of --events if given; ' +
    'a funnel, a sum with extreme values cut off, and a count of all events, for the first time and again',
  isOnlyByName: true,
  needsDaemon: true,
  run: measure,
}

const START_SECONDS = Date.UTC(2024, 4, 2) / 1000
const DAYS = 28
const DAY_SECONDS = 86_400
const EVENTS_PER_PERSON = 11
/** The events of this many persons are mixed, and committed together. */
const BLOCK_PERSONS = 2000
const FIRST_MS_MAX = 500
const AGAIN_MS_MAX = 20
const WARM_UPS = 2
const FLAG = 'new-checkout'

interface Drawn {
  readonly name: string
  readonly person: number
  readonly timeSeconds: number
  readonly properties: object
}

/** The counts that an answer must have, for each variant. */
interface Expected {
  readonly persons: [number, number]
  readonly events: [number, number]
}

async function measure(context: BenchContext): Promise<void> {
  const persons = Math.ceil(context.events(11_000, 11_000_000) / EVENTS_PER_PERSON)
  const rounds = context.rounds(7, 2)
  const dataDir = context.newFolder()
  // A daemon is started once, to create the project of the events.
  const first = await context.startDaemon({ dataDir })
  await first.stop()
  const expected = await fill(dataDir, persons, context)
  const daemon = await context.startDaemon({ dataDir })
  const asker = new Asker(daemon)
  for (const [name, metric] of Object.entries(METRICS)) {
    await measureMetric(context, daemon, asker, name, metric, expected, rounds)
  }
  asker.close()
  await daemon.stop()
}

const source = (event: string | null, more: object = {}) => ({ kind: 'EventsNode', event, ...more })
const METRICS: Readonly<Record<string, object>> = {
  'funnel of three steps': {
    metric_type: 'funnel',
    series: [source('view'), source('add'), source('buy')],
  },
  'sum, extreme values cut off': {
    metric_type: 'mean',
    source: source('buy', { math: 'sum', math_property: 'amount' }),
    upper_bound_percentile: 0.99,
  },
  'count of all events': { metric_type: 'mean', source: source(null) },
}

async function measureMetric(
  context: BenchContext,
  daemon: Daemon,
  asker: Asker,
  name: string,
  metric: object,
  expected: Expected,
  rounds: number,
): Promise<void> {
  const firstMs: number[] = []
  const againMs: number[] = []
  const cpuMs = [0, 0] as [number, number]
  for (let round = -WARM_UPS; round < rounds; round++) {
    // The experiment starts earlier than all events, at a different time in each round. That changes the text and the
    // plan of the query, but not its answer.
    const query = queryOf(metric, round)
    const cpuBefore = cpuSeconds(daemon.pid)
    const ms = await timed(async () => expectCounts(await asker.ask(query), name, expected))
    const cpuBetween = cpuSeconds(daemon.pid)
    const again = await timed(() => asker.ask(query))
    const cpuAfter = cpuSeconds(daemon.pid)
    if (round < 0) continue
    firstMs.push(ms)
    againMs.push(again)
    cpuMs[0] += ((cpuBetween - cpuBefore) * 1000) / rounds
    cpuMs[1] += ((cpuAfter - cpuBetween) * 1000) / rounds
  }
  const exposed = expected.persons[0] + expected.persons[1]
  const sizes = `${exposed} exposed persons, ${expected.events[0] + expected.events[1]} events`
  const noteOf = (ms: number): string => `${sizes}; CPU of the daemon ${Math.round(ms)} ms`
  const isFull = !context.isQuick && exposed >= 1_000_000
  context.report({
    figure: `${name}, first`,
    value: median(firstMs),
    unit: 'ms',
    note: noteOf(cpuMs[0]),
    ...(isFull ? { target: { of: 'value', bound: 'at most', limit: FIRST_MS_MAX } } : {}),
  })
  context.report({
    figure: `${name}, again`,
    value: median(againMs),
    unit: 'ms',
    note: noteOf(cpuMs[1]),
    ...(isFull ? { target: { of: 'value', bound: 'at most', limit: AGAIN_MS_MAX } } : {}),
  })
}

function queryOf(metric: object, round: number): object {
  const startMs = (START_SECONDS - 1000 + round) * 1000
  return {
    kind: 'ExperimentQuery',
    metric,
    experiment: {
      feature_flag_key: FLAG,
      parameters: {
        feature_flag_variants: [
          { key: 'control', rollout_percentage: 50 },
          { key: 'test', rollout_percentage: 50 },
        ],
      },
      start_date: new Date(startMs).toISOString(),
      end_date: new Date((START_SECONDS + (DAYS + 2) * DAY_SECONDS) * 1000).toISOString(),
    },
  }
}

async function timed(action: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await action()
  return performance.now() - start
}

interface Sums {
  readonly number_of_samples: number
  readonly sum: number
}

/**
 * Throws unless an answer has the persons of the generator and, for the count of all events, the events of the
 * generator.
 */
function expectCounts(text: string, name: string, { persons, events }: Expected): void {
  const { baseline, variant_results } = JSON.parse(text) as {
    readonly baseline: Sums
    readonly variant_results: readonly Sums[]
  }
  const found = [baseline, ...variant_results]
  const isRight = found.every(
    (one, variant) =>
      one.number_of_samples === persons[variant] &&
      (name !== 'count of all events' || one.sum === events[variant]),
  )
  if (!isRight) throw new Error(`${name}: ${JSON.stringify(found)} for ${JSON.stringify(persons)}`)
}

/** Stores all events. Every second person gets the variant. */
async function fill(dataDir: string, persons: number, context: BenchContext): Promise<Expected> {
  const random = new Random(context.seed)
  const store = new AnalyticStore(dataDir)
  const expected: Expected = { persons: [0, 0], events: [0, 0] }
  const uuidBytes = new Uint8Array(16)
  const uuid = new DataView(uuidBytes.buffer)
  let stored = 0
  for (let start = 0; start < persons; start += BLOCK_PERSONS) {
    const drawn: Drawn[] = []
    for (let person = start; person < Math.min(persons, start + BLOCK_PERSONS); person++) {
      const variant = person % 2 === 0 ? 0 : 1
      const at = START_SECONDS + Math.floor((person / persons) * DAYS * DAY_SECONDS)
      drawn.push(...eventsOf(person, variant, at, random))
      expected.persons[variant]++
      expected.events[variant] += EVENTS_PER_PERSON
    }
    drawn.sort((left, right) => left.timeSeconds - right.timeSeconds)
    for (const event of drawn) {
      // A UUID of version 7, as clients send it.
      uuid.setUint32(0, Math.floor((event.timeSeconds * 1000) / 0x1_0000))
      uuid.setUint32(4, 0x7000)
      uuid.setUint32(8, 0x8000_0000)
      uuid.setUint32(12, stored++)
      store.add({ ...event, uuidBytes }, `person-${event.person}`)
    }
    store.commit()
  }
  await store.close()
  return expected
}

function eventsOf(person: number, variant: 0 | 1, at: number, random: Random): readonly Drawn[] {
  const key = variant === 0 ? 'control' : 'test'
  const exposure = { $feature_flag: FLAG, $feature_flag_response: key, $lib: 'web' }
  const events: Drawn[] = [
    { name: '$feature_flag_called', person, timeSeconds: at, properties: exposure },
  ]
  for (let index = 1; index < EVENTS_PER_PERSON; index++) {
    const kind = random.uniform()
    const name = kind < 0.6 ? 'view' : kind < 0.85 ? 'add' : 'buy'
    const timeSeconds = at + Math.floor(random.uniform() * DAY_SECONDS)
    const amount = Math.floor(random.uniform() * 20_000 + variant * 500) / 100
    const own = name === 'buy' ? { amount } : {}
    events.push({
      name,
      person,
      timeSeconds,
      properties: { $lib: 'web', $browser: 'Chrome', ...own },
    })
  }
  return events
}
