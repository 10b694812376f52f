/**
 * Runs benches: `npm run bench -- [NAME or group ...] [--quick] [--write] [--events N] [--persons N] [--rounds N]
 * [--minutes N] [--faults N] [--seed N]`. Prints one JSON line for each figure, then a table. The exit code is 1 if a
 * bench could not answer its question (including lost events), 2 if the arguments are wrong, and otherwise 0, even if
 * targets are missed.
 * .ci/list-benches.mjs implements `--list` without a build.
 */
import { parseArgs } from 'node:util'
import { BENCHES } from './benches.ts'
import { isDaemonBuilt } from './daemon.ts'
import { type Bench, BenchContext, benchFolder } from './harness.ts'
import { workloadHash } from './ingest/events.ts'
import { describeMachine, type Machine } from './machine.ts'
import { type BenchResult, figureTable, writeDocument } from './report.ts'

interface RunOptions {
  readonly isQuick: boolean
  readonly isWriting: boolean
  readonly seed: number
  readonly events: number | null
  readonly persons: number | null
  readonly rounds: number | null
  readonly minutes: number | null
  readonly faults: number | null
  readonly command: string
}

const USAGE = `npm run bench -- [NAME or group ...] [--quick] [--write]
npm run bench -- --list

  --quick      a short run, whose figures say little
  --write      writes the figures to docs/benchmarks/, not together with --quick
  --events N   --persons N   --rounds N   --minutes N   --faults N
               sizes; each bench has its own defaults
  --seed N     other data; default 1
`

/** Thrown for wrong arguments. The message says what is wrong with them. */
class UsageError extends Error {}

const words = process.argv.slice(2)
if (words[0] === '--role') await serveRole(words[1] ?? '')
else process.exitCode = await main(words)

/** Runs a helper process; see roles.ts. */
async function serveRole(name: string): Promise<void> {
  switch (name) {
    case 'load':
      return (await import('./load-process.ts')).serveLoad()
    case 'ticker':
      return (await import('./ticker.ts')).serveTicker()
    case 'bare-server':
      return (await import('./baselines/server.ts')).serveBaseline(false)
    case 'parse-server':
      return (await import('./baselines/server.ts')).serveBaseline(true)
    case 'parse-loop':
      return (await import('./baselines/parse-loop.ts')).serveParseLoop()
    case 'peer-load':
      return (await import('./peers/peer-load-process.ts')).servePeerLoad()
    case 'fastify-server':
      return (await import('./baselines/fastify-server.ts')).serveFastify()
    case 'duckdb':
      return (await import('./baselines/duckdb.ts')).serveDuckDb()
    case 'uuid-index':
      return (await import('./uuid-index/process.ts')).serveUuidIndex()
    default:
      throw new Error(`no helper process is called ${name}`)
  }
}

async function main(args: string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(USAGE)
    return 0
  }
  let benches: readonly Bench[]
  let options: RunOptions
  try {
    ;({ benches, options } = readArguments(args))
  } catch (error) {
    if (!isUsageError(error)) throw error
    process.stderr.write(`${error.message}\n\n${USAGE}`)
    return 2
  }
  // `process.exit` runs the handlers of the event 'exit', which end daemons and remove folders.
  process.once('SIGINT', () => process.exit(1))
  process.once('SIGTERM', () => process.exit(1))
  const machine = describeMachine(benchFolder())
  printHeader(options, machine)
  const order = BENCHES.map((bench) => bench.name)
  let failures = 0
  for (const bench of benches) {
    const result = await runBench(bench, options, machine)
    if (result === null) failures++
    // The document is written after each bench, so that an interrupted run keeps its results.
    else if (options.isWriting) writeDocument([result], order)
  }
  return failures === 0 ? 0 : 1
}

/** Throws a UsageError, or the TypeError of `parseArgs` for an unknown option. */
function readArguments(args: string[]): { benches: readonly Bench[]; options: RunOptions } {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      events: { type: 'string' },
      persons: { type: 'string' },
      rounds: { type: 'string' },
      minutes: { type: 'string' },
      faults: { type: 'string' },
      seed: { type: 'string', default: '1' },
    },
  })
  const size = (name: 'events' | 'persons' | 'rounds' | 'minutes' | 'faults') => {
    const text = values[name]
    return text === undefined ? null : readNumber(name, text)
  }
  const options: RunOptions = {
    isQuick: values.quick,
    isWriting: values.write && !values.quick,
    seed: readSeed(values.seed),
    events: size('events'),
    persons: size('persons'),
    rounds: size('rounds'),
    minutes: size('minutes'),
    faults: size('faults'),
    command: ['npm run bench --', ...args].join(' '),
  }
  return { benches: select(positionals), options }
}

function readNumber(name: string, text: string): number {
  const number = Number(text)
  if (!(number > 0 && number < Infinity))
    throw new UsageError(`--${name} needs a number above 0, not "${text}".`)
  return number
}

function readSeed(text: string): number {
  const seed = Number(text)
  if (!Number.isInteger(seed)) throw new UsageError(`--seed needs an integer, not "${text}".`)
  return seed
}

function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true
  const code = error instanceof TypeError && 'code' in error ? String(error.code) : ''
  return code.startsWith('ERR_PARSE_ARGS_')
}

/**
 * Returns benches by name or group, in the order of the table. Without names, returns all benches that do not have to
 * be named.
 */
function select(names: readonly string[]): readonly Bench[] {
  for (const name of names) {
    if (!BENCHES.some((bench) => bench.name === name || bench.group === name)) {
      throw new UsageError(`No bench or group is called ${name}. --list shows them.`)
    }
  }
  return BENCHES.filter(({ name, group, isOnlyByName = false }) => {
    if (names.includes(name)) return true
    return !isOnlyByName && (names.length === 0 || names.includes(group))
  })
}

/** Runs a bench. Returns null if the bench could not answer its question. The reason is on stderr. */
async function runBench(
  bench: Bench,
  options: RunOptions,
  machine: Machine,
): Promise<BenchResult | null> {
  console.log(`\n# ${bench.name}: ${bench.question}\n# ${bench.workload}`)
  if (bench.needsDaemon && !isDaemonBuilt()) {
    console.error(`${bench.name}: dist/main.js is missing; run npm run build first`)
    return null
  }
  const { isQuick, seed, events, persons, rounds, minutes, faults } = options
  const sizes = { events, persons, rounds, minutes, faults }
  const context = new BenchContext({ bench: bench.name, isQuick, seed, ...sizes })
  const startedAtMs = performance.now()
  let isAnswered = false
  try {
    await bench.run(context)
    isAnswered = true
  } catch (error) {
    console.error(`${bench.name} failed: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    await context.close()
  }
  if (context.figures.length > 0) console.log(`\n${figureTable(context.figures)}`)
  if (!isAnswered) return null
  return {
    bench: bench.name,
    question: bench.question,
    workload: bench.workload,
    measuredAt: new Date().toISOString(),
    seconds: (performance.now() - startedAtMs) / 1000,
    command: options.command,
    seed,
    workloadHash: workloadHash(seed),
    machine,
    figures: context.figures,
  }
}

function printHeader(options: RunOptions, machine: Machine): void {
  const { cpu, cores, memoryGiB, fsyncMsP50, fsyncMsP99, node, commit, loadAtStart } = machine
  console.log(`# machine: ${cpu}, ${cores} cores, ${memoryGiB} GiB; load average ${loadAtStart}`)
  console.log(`# disk: 4 KiB written and flushed p50 ${fsyncMsP50} ms, p99 ${fsyncMsP99} ms`)
  console.log(
    `# Node ${node}, commit ${commit}, seed ${options.seed}${options.isQuick ? ', quick' : ''}`,
  )
  console.log(`# events: sha256 of the first 1000 ${workloadHash(options.seed)}`)
}
