/** All metrics of the daemon. base/metrics.ts implements counters, gauges and histograms. */
import type { Clock } from '../../base/clock.ts'
import { getOrAdd } from '../../base/maps.ts'
import { memoryUsage } from '../../base/memory/process-memory.ts'
import { type Counter, MetricPage } from '../../base/metrics.ts'
import type { ProcessResult } from '../threads/tasks.ts'
import { PROCESSING_TROUBLES } from './processing-loop.ts'
import type { RateTotals } from './rate-history.ts'

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
const COMMIT_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const DECISION_SECONDS = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.05]
const QUERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const BATCH_BYTES = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 20_971_520]
/** The kinds of threads, as labels. */
const THREADS = ['writer', 'processor', 'checkers', 'readers', 'long_readers', 'analytics']

/** Every metric of the daemon under its public name (see docs/OPERATIONS.md, "Metrics"). */
export class ServiceMetrics {
  readonly page = new MetricPage()
  /** Labels `route` (a path pattern), `code` (an HTTP status). */
  readonly httpRequests = this.page.counters(
    'http_requests_total',
    'Number of answered requests.',
    ['route', 'code'],
  )
  /** Label `route`. */
  readonly httpRequestSeconds = this.page.histograms(
    'http_request_duration_seconds',
    'Time from the headers of a request to the answer. On public routes, one request in 16 is timed.',
    ['route'],
    REQUEST_SECONDS,
  )
  readonly httpRequestsAborted = this.page
    .counters(
      'http_requests_aborted_total',
      'Requests whose client disconnected before the answer.',
      [],
    )
    .with()
  readonly httpRequestsInProgress = this.page
    .gauges('http_requests_in_progress', 'Requests that are not answered yet.', [])
    .with()
  /** Label: `server` (`uws`, `node`). */
  readonly httpServer = this.page.gauges(
    'http_server_info',
    'Always 1. The label names the HTTP library: uWebSockets.js or node:http.',
    ['server'],
  )
  readonly httpConnections = this.page
    .gauges('http_connections', 'Open client connections.', [])
    .with()
  readonly httpConnectionsRefused = this.page
    .counters(
      'http_connections_refused_total',
      'Connections closed because too many were open.',
      [],
    )
    .with()
  readonly httpBodyBytesInFlight = this.page
    .gauges('http_body_bytes_in_flight', 'Bytes reserved for the bodies of open requests.', [])
    .with()
  readonly httpAnswerBytesWaiting = this.page
    .gauges('http_answer_bytes_waiting', 'Bytes of large answers that wait for their clients.', [])
    .with()
  /** Label: `reason` (`stalled`, `slow`, `room`). */
  readonly httpReadersCut = this.page.counters(
    'http_readers_cut_total',
    'Connections closed because the client did not read a large answer, by reason.',
    ['reason'],
  )
  /** Label: `limit` (`address_connections`, `address_requests`, `project_requests`, `project_events`, `logins`). */
  readonly httpRateLimited = this.page.counters(
    'http_rate_limited_total',
    'Requests refused with 429 and connections closed, by the limit that was reached.',
    ['limit'],
  )
  /** Label: `kind` (`queue`, `bodies`, `checks`). */
  readonly #shareRefused = this.page.counters(
    'ingest_share_refused_total',
    'Requests refused because their client had more than its share, by the resource that was full.',
    ['kind'],
  )
  readonly senders = this.page
    .gauges('ingest_senders', 'Clients whose waiting events are counted.', [])
    .with()
  /** Labels: `project`, `limit` (`events`, `bytes`). */
  readonly #dailyLimits = this.page.counters(
    'ingest_daily_limits_reached_total',
    'On how many days a project has reached a daily limit.',
    ['project', 'limit'],
  )
  readonly liveStreams = this.page.gauges('live_streams', 'Open event streams.', []).with()
  readonly flagListeners = this.page
    .gauges('flag_listeners', 'Clients that listen for changes of flags.', [])
    .with()
  readonly flagListenersTold = this.page
    .counters('flag_listeners_told_total', 'Messages about changes of flags to listeners.', [])
    .with()
  readonly flagListenersCut = this.page
    .counters(
      'flag_listeners_cut_total',
      'Listeners for changes of flags that were cut off because they did not read.',
      [],
    )
    .with()
  readonly auditFailures = this.page
    .counters('audit_failures_total', 'Audit log entries that could not be stored.', [])
    .with()
  /** Labels `project` (its number), `fate` (`accepted`, `stored`, or a drop reason). */
  readonly ingestEvents = this.page.counters('ingest_events_total', 'Events by their outcome.', [
    'project',
    'fate',
  ])
  readonly kernelEvents = this.page
    .counters(
      'ingest_kernel_events_total',
      'Processed events of the usual form, which are read without parsing their JSON.',
      [],
    )
    .with()
  readonly personsFolded = this.page
    .counters(
      'persons_folded_total',
      'Persons rewritten in idle time, so that no changes have to be applied when they are read.',
      [],
    )
    .with()
  readonly deadLetters = this.page
    .gauges(
      'dead_letters',
      'Events and blocks that could not be processed and are kept as dead letters.',
      [],
    )
    .with()
  readonly deadLetterBytes = this.page
    .gauges('dead_letter_bytes', 'Bytes of the dead letters.', [])
    .with()
  readonly deadLettersForgotten = this.page
    .counters(
      'dead_letters_forgotten_total',
      'Dead letters discarded because too many were kept.',
      [],
    )
    .with()
  readonly #geoIpLoaded = this.page.gauges(
    'geoip_database_loaded',
    '1 while addresses are looked up in a GeoIP database, 0 while the configured database cannot be used.',
    [],
  )
  readonly #geoIpFailures = this.page.counters(
    'geoip_failures_total',
    'Addresses whose record in the GeoIP database could not be read.',
    [],
  )
  readonly ingestBatchBytes = this.page
    .histograms('ingest_batch_bytes', 'Bytes of one block written to the log.', [], BATCH_BYTES)
    .with()
  /** Label: `lane` (`express`, `bulk`, `slow`). */
  readonly ingestChecksWaiting = this.page.gauges(
    'ingest_checks_waiting',
    'Uploads that wait for a worker thread to check them.',
    ['lane'],
  )
  readonly ingestQueueDepth = this.page
    .gauges(
      'ingest_queue_depth',
      'Accepted events that are not processed yet, including those of an earlier run.',
      [],
    )
    .with()
  readonly ingestOldestUnprocessedSeconds = this.page
    .gauges(
      'ingest_oldest_unprocessed_age_seconds',
      'Age of the oldest event that is not processed yet. For events of an earlier run, the time since the start.',
      [],
    )
    .with()
  readonly ingestLagSeconds = this.page
    .gauges(
      'ingest_lag_seconds',
      'Estimated time until an event that is accepted now can be read.',
      [],
    )
    .with()
  /** Label: `store` (`log`, `events`, `flags`). */
  readonly storeCommitSeconds = this.page.histograms(
    'store_commit_duration_seconds',
    'Duration of one write transaction, with its flush to disk.',
    ['store'],
    COMMIT_SECONDS,
  )
  /** The histogram of `storeCommitSeconds` with the label `log`. */
  readonly logCommitSeconds = this.storeCommitSeconds.with('log')
  /** Label: `store`. */
  readonly storeMapUsedBytes = this.page.gauges(
    'store_map_used_bytes',
    'Disk space of the files of the store.',
    ['store'],
  )
  readonly storeFreeBytes = this.page.gauges(
    'store_free_bytes',
    'Free bytes within these files, which are reused first.',
    ['store'],
  )
  readonly storeDamage = this.page
    .counters('store_damage_total', 'How often a damaged record of the store was found.', [])
    .with()
  readonly diskFreeBytes = this.page
    .gauges('disk_free_bytes', 'Free bytes of the file system of the data directory.', [])
    .with()
  readonly diskReserveBytes = this.page
    .gauges('disk_reserve_bytes', 'Free disk space below which no more events are accepted.', [])
    .with()
  readonly ingestBacklogBytes = this.page
    .gauges(
      'ingest_backlog_bytes',
      'Bytes of events that were accepted since the start and are not processed yet.',
      [],
    )
    .with()
  readonly ingestBacklogBytesMax = this.page
    .gauges('ingest_backlog_limit_bytes', 'Backlog above which events are refused.', [])
    .with()
  readonly serviceReady = this.page
    .gauges('service_ready', '1 while events are accepted, 0 otherwise. The same as /_readyz.', [])
    .with()
  /** Label: `outcome` (`ok`, `repeated` for a cached decision, `partial` if some flag could not be decided). */
  readonly flagDecisions = this.page.counters(
    'flag_decisions_total',
    'Requests for flags that were evaluated.',
    ['outcome'],
  )
  /** The number of events that were stored or dropped since the start. */
  #processed = 0
  /** The counter of the accepted events of each project. */
  readonly #accepted = new Map<number, Counter>()
  readonly #decisionsRepeated = this.flagDecisions.with('repeated')
  readonly #decisionsMade = this.flagDecisions.with('ok')
  readonly flagDecisionSeconds = this.page
    .histograms(
      'flag_decision_duration_seconds',
      'Time to evaluate all flags of one request.',
      [],
      DECISION_SECONDS,
    )
    .with()
  readonly flagSnapshotVersion = this.page
    .gauges('flag_snapshot_version', 'Number of the last flag change that evaluations use.', [])
    .with()
  /** Labels: `kind` (`trends`, `funnel`, ...), `outcome` (`ok`, `refused`, `failed`). */
  readonly queries = this.page.counters('queries_total', 'Analytic queries answered.', [
    'kind',
    'outcome',
  ])
  /** Label: `kind`. */
  readonly querySeconds = this.page.histograms(
    'query_duration_seconds',
    'Duration of analytic queries, including the time in which they waited for a worker thread.',
    ['kind'],
    QUERY_SECONDS,
  )
  /** Label: `threads` (`writer`, `processor`, `checkers`, `readers`, `long_readers`, `analytics`). */
  readonly workerBusySeconds = this.page.counters(
    'worker_busy_seconds_total',
    'Time in which the threads of a kind worked, in total.',
    ['threads'],
  )
  /** Label: `threads`. */
  readonly workerQueueDepth = this.page.gauges(
    'worker_queue_depth',
    'Tasks that wait for a thread of this kind.',
    ['threads'],
  )
  /** Label: `threads`. */
  readonly workerThreads = this.page.gauges('worker_threads', 'Threads of this kind.', ['threads'])
  /** Label: `threads`. */
  readonly workerThreadDeaths = this.page.counters(
    'worker_thread_deaths_total',
    'Threads of this kind that ended unexpectedly. Each was replaced, or the process ended.',
    ['threads'],
  )
  /** Label: `kind`. */
  readonly processingFailures = this.page.counters(
    'processing_failures_total',
    'Processing runs that failed and were tried again, by cause.',
    ['kind'],
  )
  /** The working memory: its budget, and its use by threads and caches. */
  readonly memoryBudgetBytes = this.page
    .gauges('memory_budget_bytes', 'Working memory that all parts of the process share.', [])
    .with()
  /** Label: `kind` (`anonymous`, `files`). */
  readonly memoryResidentBytes = this.page.gauges(
    'memory_resident_bytes',
    'Resident memory. It consists of heaps, buffers and pages of mapped files, which the system takes back when it needs them.',
    ['kind'],
  )
  /** Label: `thread` (`main`, `processor_1`, ...). */
  readonly memoryHeapUsedBytes = this.page.gauges(
    'memory_heap_used_bytes',
    'Used JavaScript heap of a thread.',
    ['thread'],
  )
  /** Label: `thread`. */
  readonly memoryHeapBytes = this.page.gauges(
    'memory_heap_bytes',
    'JavaScript heap of a thread, including free space in it.',
    ['thread'],
  )
  /** Label: `thread`. */
  readonly memoryHeapBytesMax = this.page.gauges(
    'memory_heap_limit_bytes',
    'Limit of the JavaScript heap of a thread. A thread that needs more ends and is replaced.',
    ['thread'],
  )
  /** Label: `thread`. */
  readonly memoryBufferBytes = this.page.gauges(
    'memory_buffer_bytes',
    'Buffers of a thread outside its heap.',
    ['thread'],
  )
  /** Label: `cache`. */
  readonly memoryCacheBytes = this.page.gauges(
    'memory_cache_bytes',
    'Approximate content of the caches, all threads together.',
    ['cache'],
  )
  /** Label: `cache`. */
  readonly memoryCacheBytesMax = this.page.gauges(
    'memory_cache_limit_bytes',
    'Limit of the caches, all threads together.',
    ['cache'],
  )
  readonly eventLoopLagSeconds = this.page
    .gauges('event_loop_lag_seconds', 'Worst delay of a timer in the last 15 to 30 seconds.', [])
    .with()

  constructor(options: { readonly version: string; readonly clock: Clock }) {
    this.page
      .gauges('build_info', 'Always 1. The labels name the running versions.', [
        'version',
        'node_version',
      ])
      .with(options.version, process.versions.node).value = 1
    // The counters start at 0. If a counter first appeared with the death of a thread, the Prometheus function
    // `increase` would not count that death.
    for (const threads of THREADS) this.workerThreadDeaths.with(threads)
    for (const kind of PROCESSING_TROUBLES) this.processingFailures.with(kind)
    this.#addProcess(options.clock)
  }

  /** Counts a decision that was answered from the cache. */
  decidedBefore(): void {
    this.#decisionsRepeated.value++
  }

  /** Counts events that were acknowledged. */
  accepted(projectId: number, eventCount: number): void {
    const newCounter = () => this.ingestEvents.with(String(projectId), 'accepted')
    getOrAdd(this.#accepted, projectId, newCounter).value += eventCount
  }

  /** Counts that a project has reached a daily limit. */
  dailyLimitReached(projectId: number, limit: 'events' | 'bytes'): void {
    this.#dailyLimits.with(String(projectId), limit).value++
  }

  /** Counts events that were dropped because of a daily limit. */
  limited(projectId: number, eventCount: number): void {
    this.ingestEvents.with(String(projectId), 'daily_limit').value += eventCount
  }

  /** Sets the numbers of requests that were refused since the start because their sender had more than its share. */
  sharesRefused(kinds: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(kinds)) {
      this.#shareRefused.with(kind).value = count
    }
  }

  /** Returns the totals of all projects since the start of the process. */
  totals(): RateTotals {
    const sum = (counters: Iterable<Counter>): number => {
      let total = 0
      for (const { value } of counters) total += value
      return total
    }
    const accepted = sum(this.#accepted.values())
    return { accepted, processed: this.#processed, decisions: sum(this.flagDecisions.all) }
  }

  /** Adds the counts of a processing run. */
  processed(result: ProcessResult): void {
    for (const { projectId, stored, drops } of result.fates) {
      const project = String(projectId)
      this.#processed += stored
      if (stored > 0) this.ingestEvents.with(project, 'stored').value += stored
      for (const [reason, count] of Object.entries(drops)) {
        this.ingestEvents.with(project, reason).value += count
        this.#processed += count
      }
    }
    const { eventCount, commitMs, deadLetters, geoIp, freeBytes = 0 } = result
    if (eventCount > 0) this.storeCommitSeconds.with('events').observe(commitMs / 1000)
    this.kernelEvents.value += result.recognizedCount
    this.personsFolded.value += result.folded ?? 0
    if (deadLetters !== undefined) {
      this.deadLetters.value = deadLetters.count
      this.deadLetterBytes.value = deadLetters.bytes
      this.deadLettersForgotten.value += deadLetters.forgotten
    }
    this.storeFreeBytes.with('events').value = freeBytes
    if (geoIp === undefined) return
    this.#geoIpLoaded.with().value = geoIp.isLoaded ? 1 : 0
    this.#geoIpFailures.with().value += geoIp.failures
  }

  /** Counts a decision. `hasErrors` is true if a flag could not be decided. */
  decided(elapsedMs: number, hasErrors: boolean): void {
    // A cached counter is used, because `with` builds a text in each call.
    const counter = hasErrors ? this.flagDecisions.with('partial') : this.#decisionsMade
    counter.value++
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
      .counters('process_cpu_seconds_total', 'Processor time of all threads, user and system.', [])
      .with()
    const start = page
      .gauges('process_start_time_seconds', 'Start time of the process in seconds since 1970.', [])
      .with()
    const loop = page
      .counters('event_loop_busy_seconds_total', 'Time in which the main thread worked.', [])
      .with()
    start.value = Math.round(clock.now() / 1000 - process.uptime())
    page.onCollect(() => {
      const memory = memoryUsage()
      const usage = process.cpuUsage()
      resident.value = memory.rss
      heap.value = memory.heapUsed
      external.value = memory.external
      cpu.value = (usage.user + usage.system) / 1e6
      loop.value = performance.eventLoopUtilization().active / 1000
    })
  }
}
