/**
 * `tenrec bench`: measures the capacity of a running daemon. It sends events at a given rate, or at rising rates until
 * the latency target is missed, and names the bottleneck. The events are stored like any others.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, parseJson } from '../../base/json.ts'
import { type CommandInput, type CommandIo, type Commands, JSON_OPTION } from '../lib/command.ts'
import { ask, BASE_URL_OPTION, daemonAddress } from '../lib/daemon-client.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { print, printable } from '../lib/output.ts'
import { projectOf } from '../lib/with-store.ts'
import {
  BENCH_BATCH_EVENTS_MAX,
  BENCH_CONNECTIONS_MAX,
  BENCH_RATE_MAX,
  BENCH_SECONDS_MAX,
} from '../limits.ts'
import { LoadGenerator, type LoadTarget, type StepResult } from './bench-load.ts'
import { type Readings, saturated } from './bench-verdict.ts'

const SECONDS_DEFAULT = 30
const CONNECTIONS_DEFAULT = 64
const TARGET_MS_DEFAULT = 50
/** The largest number of steps of a run with rising rates. */
const STEPS = 12
const FIRST_REQUESTS_PER_SECOND = 200
/**
 * A run ends when the lowest rate that missed the target is less than this factor times the highest rate that met it.
 */
const RATE_RESOLUTION = 1.1

/** The exit code if no rate met the target. */
const TARGET_MISSED = 3

/** `tenrec bench`. */
export const COMMANDS: Commands = [
  {
    name: 'bench',
    sentence:
      'Send events to a running daemon, and measure its throughput and latency. The events are stored. The exit code is 3 if the latency target is missed.',
    options: {
      ...BASE_URL_OPTION,
      '--project-key KEY':
        'Key of the project that receives the events. Create a project for this purpose.',
      '--yes': 'Without --project-key: send the events to project 1.',
      '--batch NUMBER': 'Events per request. Default: 1.',
      '--connections NUMBER': 'Number of keep-alive connections. Default: 64.',
      '--seconds NUMBER': 'Length of the run in seconds. Default: 30.',
      '--rate NUMBER': 'Events per second. Default: raise the rate until the target is missed.',
      '--p99-ms NUMBER':
        'Latency target in milliseconds, within which 99 of 100 requests must be answered. Default: 50.',
      '--allow-remote': 'Allow sending to another machine.',
      ...JSON_OPTION,
    },
    async run(input) {
      const plan = planOf(input)
      const target = await targetOf(input)
      await requireDaemon(target.baseUrl)
      input.io.err(
        `The events of this run are stored in the project. Their property $lib is tenrec-bench.\n`,
      )
      const generator = new LoadGenerator(target)
      await generator.open()
      try {
        const steps = await runPlan(plan, target, generator, (step) => announce(input.io, step))
        return report(input, plan, steps)
      } finally {
        generator.close()
      }
    },
  },
]

interface Plan {
  readonly seconds: number
  /** Events per second, or null for rising rates. */
  readonly rate: number | null
  readonly targetMs: number
}

interface MeasuredStep extends StepResult {
  readonly isWithinTarget: boolean
  readonly saturated: readonly string[]
}

function planOf(input: CommandInput): Plan {
  const rate = boundedOption(input, 'rate', 0, BENCH_RATE_MAX)
  return {
    seconds: boundedOption(input, 'seconds', SECONDS_DEFAULT, BENCH_SECONDS_MAX),
    rate: rate === 0 ? null : rate,
    targetMs: input.id('p99-ms', TARGET_MS_DEFAULT),
  }
}

function boundedOption(input: CommandInput, name: string, byDefault: number, max: number): number {
  const value = input.id(name, byDefault)
  if (value <= max) return value
  throw new UsageError(`--${name} must be at most ${max}, but it is ${value}.`)
}

async function targetOf(input: CommandInput): Promise<LoadTarget> {
  const baseUrl = daemonAddress(input)
  if (!input.has('allow-remote') && !isLoopbackHost(new URL(baseUrl).hostname)) {
    throw new UsageError(`${baseUrl} is another machine. Use --allow-remote to send events there.`)
  }
  return {
    baseUrl,
    projectKey: await projectKeyOf(input),
    connections: boundedOption(input, 'connections', CONNECTIONS_DEFAULT, BENCH_CONNECTIONS_MAX),
    eventsPerRequest: boundedOption(input, 'batch', 1, BENCH_BATCH_EVENTS_MAX),
  }
}

async function projectKeyOf(input: CommandInput): Promise<string> {
  const given = input.text('project-key')
  if (given !== undefined) return given
  if (!input.has('yes')) {
    throw new UsageError(
      'A benchmark stores its events in a project. Name the project with --project-key ' +
        "(create one with 'tenrec project create'), or use --yes for project 1.",
    )
  }
  return (await projectOf(input, 1, ' Give --project-key.')).apiKey
}

async function requireDaemon(baseUrl: string): Promise<void> {
  const { status, text } = await ask(baseUrl, '/_readyz')
  if (status === 200) return
  const answer = parseJson(text)
  // The answer may come from another server, so it is shown only in part.
  const reasons = isObject(answer) ? String(answer['reasons']) : text.slice(0, 200)
  throw new OperatorError(`The daemon is not ready (${status}): ${printable(reasons)}`)
}

/**
 * Runs one step at the given rate. Without a rate, it runs steps whose rate doubles as long as the target is met. After
 * the first miss, the next rate lies between the highest rate that met the target and the lowest rate that missed it.
 * If no rate has met the target yet, the next rate is a quarter of the last one.
 */
async function runPlan(
  plan: Plan,
  target: LoadTarget,
  generator: LoadGenerator,
  onStep: (step: MeasuredStep) => void,
): Promise<readonly MeasuredStep[]> {
  const isRising = plan.rate === null
  const stepSeconds = isRising ? plan.seconds / STEPS : plan.seconds
  const steps: MeasuredStep[] = []
  let rate = plan.rate ?? FIRST_REQUESTS_PER_SECOND * target.eventsPerRequest
  for (let count = 0; count < (isRising ? STEPS : 1); count++) {
    const step = await measure(plan, target, generator, rate, stepSeconds)
    steps.push(step)
    onStep(step)
    if ((step.failures.get(401) ?? 0) > 0) {
      throw new OperatorError('The daemon does not know the project key. Check --project-key.')
    }
    const next = nextRate(steps)
    if (next === null) break
    rate = next
  }
  return steps
}

async function measure(
  { targetMs }: Plan,
  { baseUrl }: LoadTarget,
  generator: LoadGenerator,
  rate: number,
  seconds: number,
): Promise<MeasuredStep> {
  const before = await readMetrics(baseUrl)
  const step = await generator.step(rate, seconds)
  const readings: Readings = { before, after: await readMetrics(baseUrl) }
  const isClean = step.failures.size === 0 && step.unanswered === 0 && step.requests > 0
  const isWithinTarget = isClean && step.p99Ms <= targetMs
  return { ...step, isWithinTarget, saturated: saturated(step, readings) }
}

/** Returns the rate of the next step, or null if no further step would be useful. */
export function nextRate(
  steps: readonly { readonly rate: number; readonly isWithinTarget: boolean }[],
): number | null {
  const good = Math.max(0, ...steps.filter((step) => step.isWithinTarget).map(({ rate }) => rate))
  const bad = Math.min(...steps.filter((step) => !step.isWithinTarget).map(({ rate }) => rate))
  if (bad === Number.POSITIVE_INFINITY) return Math.min(BENCH_RATE_MAX, good * 2)
  if (good === 0) return bad > 2 ? Math.floor(bad / 4) : null
  return bad / good < RATE_RESOLUTION ? null : Math.round(Math.sqrt(good * bad))
}

function announce(io: CommandIo, step: MeasuredStep): void {
  const verdict = step.isWithinTarget ? 'meets' : 'misses'
  const rate = Math.round(step.rate).toLocaleString('en')
  io.err(`${rate} events/s: p99 ${step.p99Ms.toFixed(1)} ms, ${verdict} the target\n`)
}

function report(input: CommandInput, plan: Plan, steps: readonly MeasuredStep[]): number {
  const { io, isJson } = input
  const rows = steps.map((step) => ({
    rate: Math.round(step.rate),
    requests: step.requests,
    events: step.events,
    p50_ms: rounded(step.p50Ms),
    p99_ms: rounded(step.p99Ms),
    max_ms: rounded(step.maxMs),
    failed: [...step.failures.values()].reduce((sum, count) => sum + count, step.unanswered),
    generator_late_ms: rounded(step.latenessMs),
    holds: step.isWithinTarget,
    ...(isJson ? { statuses: Object.fromEntries(step.failures), saturated: step.saturated } : {}),
  }))
  print(io, rows, isJson)
  const good = steps.filter((step) => step.isWithinTarget).sort((a, b) => b.rate - a.rate)[0]
  const exitCode = good === undefined ? TARGET_MISSED : 0
  if (isJson) return exitCode
  const bad = steps.filter((step) => !step.isWithinTarget).sort((a, b) => a.rate - b.rate)[0]
  const target = `p99 within ${plan.targetMs} ms`
  if (good === undefined) io.out(`\nNo rate of this run met the target of ${target}.\n`)
  else
    io.out(
      `\nThe daemon handled ${Math.round(good.rate).toLocaleString('en')} events/s with ${target}.\n`,
    )
  const told = bad ?? good
  for (const reason of told?.saturated ?? []) io.out(`Bottleneck: ${reason}\n`)
  if (told?.saturated.length === 0) io.out('Bottleneck: none was found\n')
  return exitCode
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
