/**
 * Tests ordinary use of a small machine; run it by hand. The built daemon runs in its own memory cgroup with the
 * variables and flags of `npm start`. It receives events in order of time over 30 days, and then answers ten analytics
 * queries while three clients continue to send. The program prints the time and memory of each step. It exits with 1
 * if the daemon died, or if a query or a client was refused.
 *
 *   npm run trial:memory -- --limit 512 --events 1000000 --persons 100000
 *
 * | Option           | Meaning                                                             | Default |
 * | ---------------- | ------------------------------------------------------------------- | ------- |
 * | `--limit MIB`    | memory of the cgroup, or 0 for no limit                             | 512     |
 * | `--events N`     | number of events to send                                            | 1000000 |
 * | `--persons N`    | number of persons of the events                                     | 100000  |
 * | `--rounds N`     | how often the ten queries are run                                   | 2       |
 * | `--dir PATH`     | data directory to keep; it is not filled if it holds events         | -       |
 * | `--at-once`      | also runs all ten queries at once                                   | off     |
 * | `--export`       | also exports all events, and makes a backup                         | off     |
 * | `--restart`      | restarts the daemon between events and queries                      | off     |
 * | `--idle SECONDS` | idle time at the end                                                | 60      |
 * | `--serve="A B"`  | further arguments of `serve`                                        | -       |
 *
 * A cgroup needs root and a writable hierarchy of version 1 or 2. Without one, the memory that is not from files is
 * only compared with the limit.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'

const MIB = 1024 ** 2
const DAYS = 30
const DAY_MS = 86_400_000
const PATHS = 300
const PLANS = ['free', 'starter', 'team', 'business']
const BATCH_EVENTS = 1000
const FILLING_CONNECTIONS = 3
const CLIENTS = 3
const CLIENT_PAUSE_MS = 100
const SAMPLE_MS = 100
const DRAINED_MS_MAX = 3_600_000

const { values: options } = parseArgs({
  options: {
    limit: { type: 'string', default: '512' },
    events: { type: 'string', default: '1000000' },
    persons: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '2' },
    dir: { type: 'string' },
    'at-once': { type: 'boolean', default: false },
    export: { type: 'boolean', default: false },
    restart: { type: 'boolean', default: false },
    idle: { type: 'string', default: '60' },
    serve: { type: 'string', default: '' },
  },
})
const limitBytes = Number(options.limit) * MIB
const eventCount = Number(options.events)
const personCount = Number(options.persons)

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

interface Answer {
  readonly status: number
  readonly body: string
  readonly ms: number
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 })

function ask(url: string, method: string, body?: string): Promise<Answer> {
  const startMs = performance.now()
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${PERSONAL_KEY}`, 'content-type': 'application/json' }
    const sent = request(url, { method, agent, headers }, (response) => {
      const parts: Buffer[] = []
      let bytes = 0
      response.on('data', (part: Buffer) => {
        bytes += part.length
        if (bytes < MIB) parts.push(part)
      })
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(parts).toString(),
          ms: performance.now() - startMs,
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A memory cgroup below the one of this process, or null where none can be created. */
function makeCgroup(): {
  readonly path: string
  read(name: 'usage' | 'stat' | 'peak'): string
} | null {
  if (limitBytes === 0) return null
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
  const v1 = lines.find((line) => line.split(':')[1]?.split(',').includes('memory'))
  const own = (v1 ?? lines.find((line) => line.startsWith('0::')) ?? '').split(':')[2] ?? '/'
  const root = v1 === undefined ? '/sys/fs/cgroup' : '/sys/fs/cgroup/memory'
  for (const parent of [join(root, own), root]) {
    const path = join(parent, `tenrec-trial-${process.pid}`)
    try {
      mkdirSync(path)
      writeFileSync(
        join(path, v1 === undefined ? 'memory.max' : 'memory.limit_in_bytes'),
        String(limitBytes),
      )
    } catch {
      continue
    }
    const names =
      v1 === undefined
        ? { usage: 'memory.current', stat: 'memory.stat', peak: 'memory.peak' }
        : { usage: 'memory.usage_in_bytes', stat: 'memory.stat', peak: 'memory.max_usage_in_bytes' }
    return { path, read: (name) => readFileSync(join(path, names[name]), 'utf8') }
  }
  return null
}

const cgroup = makeCgroup()
if (cgroup === null && limitBytes > 0) print('no cgroup: the limit is only compared with')

/** Variables and flags of `npm start`, as in package.json. */
function startCommand(): {
  readonly variables: readonly string[]
  readonly flags: readonly string[]
} {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    scripts: { start: string }
  }
  const [variables = '', flags = ''] =
    /exec env (.*) node (.*) dist\/main\.js/.exec(scripts.start)?.slice(1) ?? []
  return { variables: variables.split(' '), flags: flags.split(' ') }
}

class Daemon {
  readonly #child: ChildProcess
  url = ''
  ending: string | null = null
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  readonly #lines: string[] = []

  constructor(dataDir: string) {
    const { variables, flags } = startCommand()
    const serve = ['serve', '--data-dir', dataDir, '--port', '0', '--log-format', 'json']
    const further = (options.serve as string).split(' ').filter((word) => word !== '')
    const enter = cgroup === null ? '' : `echo $$ > ${join(cgroup.path, 'cgroup.procs')}; `
    this.#child = spawn(
      '/bin/sh',
      [
        '-c',
        `${enter}exec env "$@"`,
        'sh',
        ...variables,
        'node',
        ...flags,
        'dist/main.js',
        ...serve,
        ...further,
      ],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          PATH: process.env['PATH'],
          TENREC_PROCESSING_LAG_LIMIT_MS: '3600000',
          TENREC_BOOTSTRAP_PROJECT_KEY: PROJECT_KEY,
          TENREC_BOOTSTRAP_PERSONAL_KEY: PERSONAL_KEY,
        },
      },
    )
    this.ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.ending = String(signal ?? code)
        resolve()
      })
    })
    this.ready = new Promise((resolve, reject) => {
      void this.ended.then(() =>
        reject(new Error(`the daemon ended with ${this.ending}\n${this.#lines.join('\n')}`)),
      )
      for (const stream of [this.#child.stdout, this.#child.stderr]) {
        if (stream === null) continue
        createInterface({ input: stream }).on('line', (line) => {
          this.#lines.push(line)
          if (this.#lines.length > 40) this.#lines.shift()
          const url = /"url":"([^"]+)"/.exec(line)?.[1]
          if (url === undefined || this.url !== '') return
          this.url = url
          resolve()
        })
      }
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get lastLines(): string {
    return this.#lines.join('\n')
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.ended
  }

  /** Memory in MiB: resident, the part that is not from files, and the count of the cgroup. */
  memory(): { readonly rss: number; readonly anonymous: number; readonly cgroup: number } {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8')
    const of = (name: string) =>
      Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024
    const used = cgroup === null ? 0 : Number(cgroup.read('usage')) / MIB
    return { rss: of('VmRSS'), anonymous: of('RssAnon'), cgroup: used }
  }
}

/** Samples the memory repeatedly. `take` returns the peak since the last call. */
class Peaks {
  #anonymous = 0
  #rss = 0
  readonly #timer: NodeJS.Timeout
  readonly #daemon: Daemon

  constructor(daemon: Daemon) {
    this.#daemon = daemon
    this.#timer = setInterval(() => this.#look(), SAMPLE_MS)
  }

  take(): string {
    this.#look()
    const text = `anonymous ${this.#anonymous.toFixed(0)}, resident ${this.#rss.toFixed(0)} MiB`
    highest = Math.max(highest, this.#anonymous)
    this.#anonymous = 0
    this.#rss = 0
    return text
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    if (this.#daemon.ending !== null) return
    try {
      const { anonymous, rss } = this.#daemon.memory()
      this.#anonymous = Math.max(this.#anonymous, anonymous)
      this.#rss = Math.max(this.#rss, rss)
    } catch {
      // The process has just ended.
    }
  }
}

let highest = 0
const started: Daemon[] = []

function start(dataDir: string): Daemon {
  const daemon = new Daemon(dataDir)
  started.push(daemon)
  return daemon
}

const faults: string[] = []
const startOfDays = Math.floor(Date.now() / DAY_MS - DAYS) * DAY_MS + DAY_MS / 2

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, '0').slice(-digits)
}

/** Returns the event at a position in the order of time. */
function eventAt(index: number): object {
  const atMs = Math.floor(startOfDays + (index / eventCount) * (DAYS * DAY_MS - DAY_MS / 2))
  const person = (Math.imul(index, 2_654_435_761) >>> 0) % personCount
  const day = Math.floor(atMs / DAY_MS)
  const session = `${hex(day * DAY_MS, 12).slice(0, 8)}-${hex(day * DAY_MS, 12).slice(8)}-7${hex(day, 3)}-8${hex(person >>> 20, 3)}-${hex(person, 12)}`
  const path = (Math.imul(index, 40_503) >>> 3) % PATHS
  const turn = index % 10
  const event = turn < 7 ? '$pageview' : turn < 9 ? 'added to basket' : 'bought'
  return {
    event,
    distinct_id: `person-${person}`,
    timestamp: new Date(atMs).toISOString(),
    properties: {
      $session_id: session,
      $current_url: `https://shop.example.com/path/${path}`,
      $pathname: `/path/${path}`,
      $host: 'shop.example.com',
      $browser: ['Chrome', 'Safari', 'Firefox'][person % 3],
      $os: ['Windows', 'Mac OS X', 'Android'][person % 3],
      $device_type: person % 3 === 2 ? 'Mobile' : 'Desktop',
      $referring_domain: person % 2 === 0 ? 'www.google.com' : '$direct',
      price: index % 100,
      ...(index % 20 === 0 ? { $set: { plan: PLANS[person % PLANS.length] } } : {}),
    },
  }
}

async function fill(daemon: Daemon): Promise<void> {
  let next = 0
  const connection = async (): Promise<void> => {
    while (next < eventCount) {
      const from = next
      next += BATCH_EVENTS
      const batch: object[] = []
      for (let index = from; index < Math.min(eventCount, from + BATCH_EVENTS); index++) {
        batch.push(eventAt(index))
      }
      const body = JSON.stringify({ api_key: PROJECT_KEY, historical_migration: true, batch })
      for (;;) {
        const { status, body: text } = await ask(`${daemon.url}/batch/`, 'POST', body)
        if (status === 200) break
        if (status !== 503) throw new Error(`/batch/ answered ${status}: ${text}`)
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
    }
  }
  const startMs = performance.now()
  await Promise.all(Array.from({ length: FILLING_CONNECTIONS }, connection))
  const sentMs = performance.now() - startMs
  await drained(daemon)
  const ms = performance.now() - startMs
  print(
    `filled: ${eventCount} events, accepted in ${(sentMs / 1000).toFixed(0)} s, ` +
      `processed after ${(ms / 1000).toFixed(0)} s`,
  )
}

async function drained(daemon: Daemon): Promise<void> {
  const deadline = performance.now() + DRAINED_MS_MAX
  while (performance.now() < deadline) {
    const { body } = await ask(`${daemon.url}/metrics`, 'GET')
    if (/^ingest_queue_depth 0$/m.test(body)) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('processing does not end')
}

/** Returns the metrics of each thread and cache, one line each. */
async function memoryByPurpose(daemon: Daemon): Promise<string> {
  const { body } = await ask(`${daemon.url}/metrics`, 'GET')
  const lines = new Map<string, string[]>()
  for (const [, name = '', of = '', bytes = ''] of body.matchAll(
    /^memory_(\w+)_bytes\{\w+="(\w+)"\} (\S+)$/gm,
  )) {
    const figures = lines.get(of) ?? []
    lines.set(of, [...figures, `${name} ${(Number(bytes) / MIB).toFixed(1)}`])
  }
  return [...lines].map(([of, figures]) => `  ${of}: ${figures.join(', ')}`).join('\n')
}

function questions(): readonly (readonly [string, object])[] {
  const dateOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  const dateRange = { date_from: dateOf(startOfDays), date_to: dateOf(startOfDays + DAYS * DAY_MS) }
  const view = (math: string) => [{ kind: 'EventsNode', event: '$pageview', math }]
  const steps = ['$pageview', 'added to basket', 'bought']
  return [
    ['trends', { kind: 'TrendsQuery', series: view('total'), dateRange }],
    ['dau', { kind: 'TrendsQuery', series: view('dau'), dateRange }],
    [
      'by path',
      {
        kind: 'TrendsQuery',
        series: view('total'),
        dateRange,
        breakdownFilter: { breakdown: '$pathname', breakdown_type: 'event' },
      },
    ],
    [
      'by a person property',
      {
        kind: 'TrendsQuery',
        series: view('dau'),
        dateRange,
        breakdownFilter: { breakdown: 'plan', breakdown_type: 'person' },
      },
    ],
    [
      'funnel of three',
      {
        kind: 'FunnelsQuery',
        dateRange,
        series: steps.map((event) => ({ kind: 'EventsNode', event })),
        funnelsFilter: { funnelWindowInterval: 14, funnelWindowIntervalUnit: 'day' },
      },
    ],
    [
      'retention',
      {
        kind: 'RetentionQuery',
        dateRange,
        retentionFilter: {
          targetEntity: { id: '$pageview', type: 'events' },
          returningEntity: { id: 'bought', type: 'events' },
          period: 'Day',
          totalIntervals: DAYS,
        },
      },
    ],
    [
      'paths',
      {
        kind: 'PathsQuery',
        dateRange,
        pathsFilter: { includeEventTypes: ['$pageview'], stepLimit: 5 },
      },
    ],
    [
      'lifecycle',
      { kind: 'LifecycleQuery', dateRange, series: [{ kind: 'EventsNode', event: '$pageview' }] },
    ],
    ['web overview', { kind: 'WebOverviewQuery', dateRange, properties: [] }],
    [
      'web pages',
      {
        kind: 'WebStatsTableQuery',
        breakdownBy: 'Page',
        dateRange,
        properties: [],
        limit: 10,
        includeBounceRate: true,
      },
    ],
  ]
}

async function askOne(daemon: Daemon, peaks: Peaks, name: string, query: object): Promise<void> {
  try {
    const { status, body, ms } = await ask(
      `${daemon.url}/api/projects/1/query/`,
      'POST',
      JSON.stringify({ query }),
    )
    const note = status === 200 ? `${body.length} bytes` : body.slice(0, 200)
    print(`  ${name}: ${status} in ${ms.toFixed(0)} ms, ${peaks.take()}, ${note}`)
    if (status !== 200) faults.push(`${name}: ${status} ${body.slice(0, 200)}`)
  } catch (error) {
    faults.push(`${name}: ${String(error)}`)
    print(`  ${name}: ${String(error)}`)
  }
}

/** Clients that send single events until they are stopped. */
class Clients {
  readonly #latencies: number[] = []
  readonly #refused: string[] = []
  readonly #running: Promise<void>[]
  #isStopping = false

  constructor(daemon: Daemon) {
    this.#running = Array.from({ length: CLIENTS }, (_, client) => this.#send(daemon, client))
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#running)
    const sorted = this.#latencies.toSorted((a, b) => a - b)
    const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0)
    print(
      `clients: ${sorted.length} captures, p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(0.99999)} ms; ` +
        `${this.#refused.length} refused ${this.#refused[0] ?? ''}`,
    )
    if (this.#refused.length > 0) faults.push(`${this.#refused.length} captures were refused`)
  }

  async #send(daemon: Daemon, client: number): Promise<void> {
    for (let sent = 0; !this.#isStopping && daemon.ending === null; sent++) {
      const body = JSON.stringify({
        api_key: PROJECT_KEY,
        event: '$pageview',
        distinct_id: `client-${client}-${sent % 50}`,
        properties: { $pathname: `/path/${sent % PATHS}`, $session_id: `s-${client}` },
      })
      try {
        const { status, body: text, ms } = await ask(`${daemon.url}/i/v0/e/`, 'POST', body)
        if (status === 200) this.#latencies.push(ms)
        else this.#refused.push(`${status} ${text}`)
      } catch (error) {
        if (daemon.ending === null) this.#refused.push(String(error))
      }
      await new Promise((resolve) => setTimeout(resolve, CLIENT_PAUSE_MS))
    }
  }
}

async function run(dataDir: string): Promise<void> {
  const isFilled = existsSync(join(dataDir, 'format'))
  let daemon = start(dataDir)
  await daemon.ready
  await new Promise((resolve) => setTimeout(resolve, 3000))
  let peaks = new Peaks(daemon)
  print(`started: ${peaks.take()}`)
  if (!isFilled) {
    await Promise.race([fill(daemon), daemon.ended])
    print(`  ${peaks.take()}`)
    if (daemon.ending === null) print(await memoryByPurpose(daemon))
  }
  if (options.restart === true && daemon.ending === null) {
    peaks.close()
    await daemon.stop()
    daemon = start(dataDir)
    await daemon.ready
    peaks = new Peaks(daemon)
  }
  // Queries are measured on stored events, not beside a backlog that an earlier run has left.
  if (daemon.ending === null) await Promise.race([drained(daemon), daemon.ended])
  const clients = new Clients(daemon)
  for (let round = 0; round < Number(options.rounds) && daemon.ending === null; round++) {
    print(`round ${round + 1}`)
    for (const [name, query] of questions()) {
      if (daemon.ending === null) await askOne(daemon, peaks, name, query)
    }
  }
  if (options['at-once'] === true && daemon.ending === null) {
    print('all at once')
    // Another time range, so that no cached result helps.
    const others = questions().map(([name, query]) => {
      const { dateRange } = query as { dateRange: { date_from: string } }
      return [name, { ...query, dateRange: { ...dateRange, date_from: '-29d' } }] as const
    })
    await Promise.all(others.map(([name, query]) => askOne(daemon, peaks, name, query)))
  }
  if (options.export === true && daemon.ending === null) {
    const { status, ms, body } = await ask(`${daemon.url}/api/projects/1/events/export/`, 'GET')
    print(`export: ${status} in ${ms.toFixed(0)} ms, ${peaks.take()}`)
    if (status !== 200) faults.push(`export: ${status} ${body.slice(0, 200)}`)
    const folder = join(dataDir, '..', `backup-${process.pid}`)
    const startMs = performance.now()
    execFileSync('node', ['dist/main.js', 'backup', folder, '--data-dir', dataDir])
    print(`backup: ${(performance.now() - startMs).toFixed(0)} ms, ${peaks.take()}`)
    rmSync(folder, { recursive: true, force: true })
  }
  await clients.stop()
  for (let second = 0; second < Number(options.idle) && daemon.ending === null; second += 10) {
    await new Promise((resolve) => setTimeout(resolve, 10_000))
    if (daemon.ending !== null) break
    const { anonymous, rss, cgroup: counted } = daemon.memory()
    const figures = `anonymous ${anonymous.toFixed(0)}, resident ${rss.toFixed(0)}, counted by the cgroup ${counted.toFixed(0)} MiB`
    print(`quiet for ${second + 10} s: ${figures}`)
  }
  peaks.close()
  if (daemon.ending !== null) {
    faults.push(`the daemon ended with ${daemon.ending}`)
    print(daemon.lastLines)
    return
  }
  print(await memoryByPurpose(daemon))
  if (cgroup !== null)
    print(`peak that the cgroup counted: ${(Number(cgroup.read('peak')) / MIB).toFixed(0)} MiB`)
  if (cgroup === null && limitBytes > 0 && highest * MIB > limitBytes) {
    faults.push(`${highest.toFixed(0)} MiB are more than the limit`)
  }
  await daemon.stop()
}

const folder = options.dir ?? mkdtempSync(join(tmpdir(), 'tenrec-trial-'))
try {
  await run(folder)
} finally {
  agent.destroy()
  for (const daemon of started) if (daemon.ending === null) await daemon.stop()
  if (options.dir === undefined) rmSync(folder, { recursive: true, force: true })
  if (cgroup !== null) {
    await new Promise((resolve) => setTimeout(resolve, 500))
    rmdirSync(cgroup.path)
  }
}
print(`highest: ${highest.toFixed(0)} MiB anonymous`)
for (const fault of faults) print(`FAULT ${fault}`)
process.exitCode = faults.length > 0 ? 1 : 0
