/**
 * What the process counts about itself, in Prometheus text format 0.0.4. A number is a plain field:
 * whoever counts keeps a reference and writes `counter.value++`; names, labels and formatting cost
 * something only when `/metrics` is read. Every family has a fixed set of label names and a bounded
 * number of label values, so that clients cannot make it grow.
 */
import type { Clock } from './clock.ts'

/** A total since the start of the process. `value` only grows. */
export class Counter {
  value = 0
}

/** A quantity as it is now. */
export class Gauge {
  value = 0
}

/** How often values fell below each of a few bounds. One observation costs a scan of the bounds. */
export class Histogram {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  /** @param bounds upper limits, ascending, in the unit of the values; `+Inf` is added. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    let index = 0
    while (index < this.#bounds.length && value > (this.#bounds[index] ?? Infinity)) index++
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  /** The lines of this histogram; `labels` is the text between the braces, or ''. */
  render(name: string, labels: string): string {
    const prefix = labels === '' ? '' : `${labels},`
    let text = ''
    let total = 0
    for (const [index, count] of this.#counts.entries()) {
      total += count
      const bound = this.#bounds[index] ?? Infinity
      text += `${name}_bucket{${prefix}le="${formatNumber(bound)}"} ${total}\n`
    }
    const suffix = labels === '' ? '' : `{${labels}}`
    return `${text}${name}_sum${suffix} ${formatNumber(this.#sum)}\n${name}_count${suffix} ${total}\n`
  }
}

type Metric = Counter | Gauge | Histogram

/** Label sets that one family may have. Further ones share the set whose values are all `other`. */
const LABEL_SETS_MAX = 1000
const OVERFLOW_LABEL = 'other'

/** All metrics of one name, one per set of label values. */
export class MetricFamily<T extends Metric> {
  readonly #labelNames: readonly string[]
  readonly #create: () => T
  readonly #labelSetsMax: number
  readonly #children = new Map<string, T>()

  constructor(labelNames: readonly string[], create: () => T, labelSetsMax = LABEL_SETS_MAX) {
    this.#labelNames = labelNames
    this.#create = create
    this.#labelSetsMax = labelSetsMax
  }

  /**
   * The metric for these label values, in the order of the label names. It makes one text per call:
   * keep the result where counting is frequent.
   */
  with(...labelValues: readonly string[]): T {
    const labels = this.#format(labelValues)
    const known = this.#children.get(labels)
    if (known !== undefined) return known
    const isFull = this.#children.size >= this.#labelSetsMax
    const key = isFull ? this.#format(this.#labelNames.map(() => OVERFLOW_LABEL)) : labels
    const child = this.#children.get(key) ?? this.#create()
    this.#children.set(key, child)
    return child
  }

  /** The lines of all children, in the order in which they were first used. */
  render(name: string): string {
    let text = ''
    for (const [labels, child] of this.#children) {
      if (child instanceof Histogram) text += child.render(name, labels)
      else text += `${name}${labels === '' ? '' : `{${labels}}`} ${formatNumber(child.value)}\n`
    }
    return text
  }

  #format(labelValues: readonly string[]): string {
    return this.#labelNames
      .map((name, index) => `${name}="${escapeLabel(labelValues[index] ?? '')}"`)
      .join(',')
  }
}

interface Registered {
  readonly name: string
  readonly head: string
  readonly family: MetricFamily<Metric>
}

/** The list of families that `/metrics` shows. */
export class MetricPage {
  readonly #families: Registered[] = []
  readonly #collectors: (() => void)[] = []

  /** Counters of one name. By convention the name ends in `_total`. */
  counters(name: string, help: string, labelNames: readonly string[]): MetricFamily<Counter> {
    return this.#add(name, 'counter', help, new MetricFamily(labelNames, () => new Counter()))
  }

  /** Gauges of one name. */
  gauges(name: string, help: string, labelNames: readonly string[]): MetricFamily<Gauge> {
    return this.#add(name, 'gauge', help, new MetricFamily(labelNames, () => new Gauge()))
  }

  /** Histograms of one name; `bounds` as in `Histogram`. */
  histograms(
    name: string,
    help: string,
    labelNames: readonly string[],
    bounds: readonly number[],
  ): MetricFamily<Histogram> {
    const family = new MetricFamily(labelNames, () => new Histogram(bounds))
    return this.#add(name, 'histogram', help, family)
  }

  /** Has `collect` called before each rendering, to fill gauges that are cheaper to read than to keep. */
  onCollect(collect: () => void): void {
    this.#collectors.push(collect)
  }

  /** The whole page: content type `text/plain; version=0.0.4; charset=utf-8`. */
  render(): string {
    for (const collect of this.#collectors) collect()
    let text = ''
    for (const { name, head, family } of this.#families) text += head + family.render(name)
    return text
  }

  #add<T extends Metric>(name: string, type: string, help: string, family: MetricFamily<T>) {
    if (this.#families.some((other) => other.name === name)) {
      throw new TypeError(`the metric ${name} is registered twice`)
    }
    const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    this.#families.push({ name, head, family })
    return family
  }
}

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
const COMMIT_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const DECISION_SECONDS = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.05]
const QUERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const BATCH_BYTES = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 20_971_520]
/** Kinds of threads, as labels. */
const THREADS = ['writer', 'processor', 'checkers', 'readers', 'long_readers', 'analytics']

/** Every metric of the service, under its public name. docs/OPERATIONS.md, "Metrics". */
export class ServiceMetrics {
  readonly page = new MetricPage()
  /** Labels `route` (a path pattern), `code` (an HTTP status). */
  readonly httpRequests = this.page.counters('http_requests_total', 'Requests answered.', [
    'route',
    'code',
  ])
  /** Label `route`. */
  readonly httpRequestSeconds = this.page.histograms(
    'http_request_duration_seconds',
    'From the headers to the answer. Public routes: one request in 16 is timed.',
    ['route'],
    REQUEST_SECONDS,
  )
  readonly httpRequestsAborted = this.page
    .counters('http_requests_aborted_total', 'Requests whose client left before the answer.', [])
    .with()
  readonly httpRequestsInProgress = this.page
    .gauges('http_requests_in_progress', 'Requests not yet answered.', [])
    .with()
  readonly httpConnections = this.page
    .gauges('http_connections', 'Open client connections.', [])
    .with()
  readonly httpConnectionsRefused = this.page
    .counters('http_connections_refused_total', 'Connections closed because of too many.', [])
    .with()
  readonly httpBodyBytesInFlight = this.page
    .gauges('http_body_bytes_in_flight', 'Bytes reserved for bodies of open requests.', [])
    .with()
  readonly httpAnswerBytesWaiting = this.page
    .gauges('http_answer_bytes_waiting', 'Bytes of large answers that wait for their readers.', [])
    .with()
  /** Label `reason` (`stalled`, `slow`, `room`). */
  readonly httpReadersCut = this.page.counters(
    'http_readers_cut_total',
    'Connections closed because the client did not read a large answer, by reason.',
    ['reason'],
  )
  /** Label `limit` (`address_connections`, `address_requests`, `project_requests`, `project_events`). */
  readonly httpRateLimited = this.page.counters(
    'http_rate_limited_total',
    'Requests refused with 429 and connections closed, by the limit that was reached.',
    ['limit'],
  )
  readonly auditFailures = this.page
    .counters('audit_failures_total', 'Entries of the audit log that could not be stored.', [])
    .with()
  /** Labels `project` (its number), `fate` (`accepted`, `stored`, or a drop reason). */
  readonly ingestEvents = this.page.counters(
    'ingest_events_total',
    'Events by what became of them.',
    ['project', 'fate'],
  )
  readonly deadLetters = this.page
    .gauges('dead_letters', 'Events and blocks that could not be processed and are kept.', [])
    .with()
  readonly deadLetterBytes = this.page
    .gauges('dead_letter_bytes', 'Bytes of the dead letters that are kept.', [])
    .with()
  readonly deadLettersForgotten = this.page
    .counters(
      'dead_letters_forgotten_total',
      'Dead letters given up because too many were kept.',
      [],
    )
    .with()
  readonly ingestBatchBytes = this.page
    .histograms('ingest_batch_bytes', 'Bytes of one block written to the log.', [], BATCH_BYTES)
    .with()
  /** Label `lane` (`express`, `bulk`, `slow`). */
  readonly ingestChecksWaiting = this.page.gauges(
    'ingest_checks_waiting',
    'Uploads that wait for a thread to check them.',
    ['lane'],
  )
  readonly ingestQueueDepth = this.page
    .gauges('ingest_queue_depth', 'Accepted events that are not processed yet.', [])
    .with()
  readonly ingestOldestUnprocessedSeconds = this.page
    .gauges(
      'ingest_oldest_unprocessed_age_seconds',
      'Age of the oldest event not processed yet.',
      [],
    )
    .with()
  /** Label `store` (`log`, `events`, `flags`). */
  readonly storeCommitSeconds = this.page.histograms(
    'store_commit_duration_seconds',
    'One write transaction with its flush to disk.',
    ['store'],
    COMMIT_SECONDS,
  )
  /** Label `store`. */
  readonly storeMapUsedBytes = this.page.gauges(
    'store_map_used_bytes',
    'Bytes of the memory map that hold data.',
    ['store'],
  )
  readonly storeFreeBytes = this.page.gauges(
    'store_free_bytes',
    'Bytes of the data file that hold nothing: what is written takes them first.',
    ['store'],
  )
  readonly storeDamage = this.page
    .counters('store_damage_total', 'Times that something met a damaged record of the store.', [])
    .with()
  readonly diskFreeBytes = this.page
    .gauges('disk_free_bytes', 'Free bytes of the file system of the data directory.', [])
    .with()
  readonly diskReserveBytes = this.page
    .gauges('disk_reserve_bytes', 'Free bytes below which nothing more is accepted.', [])
    .with()
  readonly ingestBacklogBytes = this.page
    .gauges('ingest_backlog_bytes', 'Bytes of accepted events that are not processed yet.', [])
    .with()
  readonly ingestBacklogBytesMax = this.page
    .gauges('ingest_backlog_limit_bytes', 'Backlog beyond which events are refused.', [])
    .with()
  readonly serviceReady = this.page
    .gauges('service_ready', '1 while events are accepted, else 0; as /_readyz.', [])
    .with()
  /** Label `outcome`: `ok`, `repeated` when known from before, `partial` when some flag could not be decided. */
  readonly flagDecisions = this.page.counters(
    'flag_decisions_total',
    'Requests for flags that were decided.',
    ['outcome'],
  )
  readonly #decisionsRepeated = this.flagDecisions.with('repeated')
  readonly flagDecisionSeconds = this.page
    .histograms(
      'flag_decision_duration_seconds',
      'Deciding all flags of one request.',
      [],
      DECISION_SECONDS,
    )
    .with()
  readonly flagSnapshotVersion = this.page
    .gauges('flag_snapshot_version', 'Number of the last change of flags that decisions use.', [])
    .with()
  /** Labels `kind` (`trends`, `funnel`, ...), `outcome` (`ok`, `refused`, `failed`). */
  readonly queries = this.page.counters('queries_total', 'Analytic queries answered.', [
    'kind',
    'outcome',
  ])
  /** Label `kind`. */
  readonly querySeconds = this.page.histograms(
    'query_duration_seconds',
    'Analytic queries, with the time in which they waited for a thread.',
    ['kind'],
    QUERY_SECONDS,
  )
  /** Label `threads` (`writer`, `processor`, `checkers`, `readers`, `long_readers`, `analytics`). */
  readonly workerBusySeconds = this.page.counters(
    'worker_busy_seconds_total',
    'Time in which threads of a kind worked, all together.',
    ['threads'],
  )
  /** Label `threads`. */
  readonly workerQueueDepth = this.page.gauges(
    'worker_queue_depth',
    'Tasks that wait for a thread of a kind.',
    ['threads'],
  )
  /** Label `threads`. */
  readonly workerThreads = this.page.gauges('worker_threads', 'Threads of a kind.', ['threads'])
  /** Label `threads`. */
  readonly workerThreadDeaths = this.page.counters(
    'worker_thread_deaths_total',
    'Threads of a kind that ended unexpectedly; another took their place, or the process ended.',
    ['threads'],
  )
  readonly eventLoopLagSeconds = this.page
    .gauges('event_loop_lag_seconds', 'Worst delay of a timer in the last 15 to 30 seconds.', [])
    .with()

  constructor(options: { readonly version: string; readonly clock: Clock }) {
    this.page
      .gauges('build_info', 'Always 1; the labels say what runs.', ['version', 'node_version'])
      .with(options.version, process.versions.node).value = 1
    // A counter that appears with its first death would hide it from `increase`.
    for (const threads of THREADS) this.workerThreadDeaths.with(threads)
    this.#addProcess(options.clock)
  }

  /** Counts a decision that was known from before. */
  decidedBefore(): void {
    this.#decisionsRepeated.value++
  }

  /** Takes over what the processing thread has counted. */
  keptDeadLetters(counts: {
    readonly count: number
    readonly bytes: number
    readonly forgotten: number
  }): void {
    this.deadLetters.value = counts.count
    this.deadLetterBytes.value = counts.bytes
    this.deadLettersForgotten.value += counts.forgotten
  }

  /** Counts a decision; `hasErrors` when some flag could not be decided. */
  decided(elapsedMs: number, hasErrors: boolean): void {
    this.flagDecisions.with(hasErrors ? 'partial' : 'ok').value++
    this.flagDecisionSeconds.observe(elapsedMs / 1000)
  }

  #addProcess(clock: Clock): void {
    const { page } = this
    const resident = page.gauges('process_resident_memory_bytes', 'Resident memory.', []).with()
    const heap = page.gauges('nodejs_heap_used_bytes', 'Used JavaScript heap.', []).with()
    const external = page
      .gauges('nodejs_external_memory_bytes', 'Memory of buffers outside the JavaScript heap.', [])
      .with()
    const cpu = page
      .counters('process_cpu_seconds_total', 'Processor time, user and system, all threads.', [])
      .with()
    const start = page
      .gauges('process_start_time_seconds', 'Start of the process, seconds since 1970.', [])
      .with()
    const loop = page
      .counters('event_loop_busy_seconds_total', 'Time in which the main thread worked.', [])
      .with()
    start.value = Math.round(clock.now() / 1000 - process.uptime())
    page.onCollect(() => {
      const memory = process.memoryUsage()
      const usage = process.cpuUsage()
      resident.value = memory.rss
      heap.value = memory.heapUsed
      external.value = memory.external
      cpu.value = (usage.user + usage.system) / 1e6
      loop.value = performance.eventLoopUtilization().active / 1000
    })
  }
}

const LAG_PROBE_MS = 100
const LAG_WINDOW_MS = 15_000

/** Measures how late a timer fires, which is how long something held the event loop. */
export class EventLoopLag {
  readonly #clock: Clock
  readonly #gauge: Gauge
  #timer: NodeJS.Timeout | undefined
  #dueMs = 0
  #windowEndMs = 0
  #worstSeconds = 0
  #worstBeforeSeconds = 0

  constructor(gauge: Gauge, clock: Clock) {
    this.#gauge = gauge
    this.#clock = clock
  }

  /** Starts the probe, ten times a second. It does not keep the process alive. */
  start(): void {
    const startMs = this.#clock.monotonic()
    this.#dueMs = startMs + LAG_PROBE_MS
    this.#windowEndMs = startMs + LAG_WINDOW_MS
    this.#timer = setInterval(() => {
      this.#probe()
    }, LAG_PROBE_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #probe(): void {
    const nowMs = this.#clock.monotonic()
    if (nowMs > this.#windowEndMs) {
      this.#windowEndMs = nowMs + LAG_WINDOW_MS
      this.#worstBeforeSeconds = this.#worstSeconds
      this.#worstSeconds = 0
    }
    this.#worstSeconds = Math.max(this.#worstSeconds, (nowMs - this.#dueMs) / 1000)
    this.#gauge.value = Math.max(this.#worstSeconds, this.#worstBeforeSeconds)
    this.#dueMs = nowMs + LAG_PROBE_MS
  }
}

function formatNumber(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
