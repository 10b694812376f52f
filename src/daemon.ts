/**
 * The composition root: opens all parts of the daemon in order, connects them, and stops them in reverse order. This
 * file decides which parts know each other, and what happens to the process when a part fails.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Clock, SYSTEM_CLOCK } from './base/clock.ts'
import { DiskRoom } from './base/disk-room.ts'
import { EventLoopLag } from './base/event-loop-lag.ts'
import { createLogger, type Logger } from './base/log.ts'
import { collectGarbage } from './base/memory/garbage.ts'
import { refusal } from './base/refusals.ts'
import { createServiceManager, type ServiceManager } from './base/service-manager.ts'
import { VERSION } from './base/version.ts'
import type { EventCopy } from './clickhouse/event-copy.ts'
import type { ClusterNode } from './cluster/cluster-node.ts'
import { urlOf } from './config/base-url.ts'
import type { Settings } from './config/settings.ts'
import type { HttpServerName } from './config/settings-table.ts'
import { Admission } from './engine/front/admission.ts'
import { CohortSchedule } from './engine/front/cohort-schedule.ts'
import { DamageCount, DamageReports } from './engine/front/damage-reports.ts'
import { DiskReserve } from './engine/front/disk-reserve.ts'
import { FlagSchedule } from './engine/front/flag-schedule.ts'
import { FlagService } from './engine/front/flag-service.ts'
import { FrontLoad } from './engine/front/front-load.ts'
import { type CommitOptions, type Commits, GroupCommit } from './engine/front/group-commit.ts'
import { LiveEvents } from './engine/front/live-events.ts'
import { LoggedPersonCommands } from './engine/front/person-commands.ts'
import {
  NO_PROCESSING,
  ProcessingLoop,
  type ProcessingTrouble,
} from './engine/front/processing-loop.ts'
import { measuredQueries } from './engine/front/query-metrics.ts'
import { RefusedCaptures } from './engine/front/refused-captures.ts'
import { RetentionSchedule } from './engine/front/retention-schedule.ts'
import { collectGauges, type GaugeSources } from './engine/front/service-gauges.ts'
import { ServiceMetrics } from './engine/front/service-metrics.ts'
import { StatusReport } from './engine/front/service-status.ts'
import { DailyLimits } from './engine/front/shares/daily-limits.ts'
import { FairShares } from './engine/front/shares/fair-shares.ts'
import { type Queries, WorkerPool } from './engine/threads/pool.ts'
import {
  type AppendResult,
  type ProcessResult,
  planOf,
  threadSettings,
} from './engine/threads/tasks.ts'
import { type ThreadDeath, ThreadEndedError } from './engine/threads/thread-group.ts'
import { buildDocument } from './http/openapi/document.ts'
import { descriptionRoutes } from './http/routes/description.ts'
import { developmentRoutes } from './http/routes/development.ts'
import { healthRoutes, type Readiness } from './http/routes/health.ts'
import { privateRoutes } from './http/routes/private-api.ts'
import { CAPTURE_PATHS, captureRoutes } from './http/routes/public/capture.ts'
import { DEFINITION_ROUTES } from './http/routes/public/flag-definitions.ts'
import { publicFlagRoutes } from './http/routes/public/flag-routes.ts'
import { BodyBudget, bodyBudgetBytes } from './http/server/body.ts'
import { createFront } from './http/server/daemon-server.ts'
import type { Route } from './http/server/router.ts'
import { AddressesBehind, TrustedProxies } from './http/server/url.ts'
import { ProjectDirectory } from './store/catalog/organization-store.ts'
import { DataDir } from './store/directory/data-dir.ts'
import { isShortage } from './store/faults.ts'

/** How often the daemon checks whether other processes changed projects or keys. */
const DIRECTORY_REFRESH_MS = 200
/** How often the free disk space is checked, and how often the daemon checks that its data directory still exists. */
const DISK_CHECK_MS = 250
const DATA_DIR_CHECK_MS = 5000
/** How often the processing thread checks for changed flags when no event causes such a check (store-agreement.ts). */
const FLAGS_LOOK_MS = 5000
/** The time after which memory for large bodies is released if it was not needed. */
const SLABS_RELEASE_MS = 20_000
/** The time between two points of the status history. */
const MINUTE_MS = 60_000
/**
 * How long the daemon waits at most when it stops: until all received requests are answered, and until all events are
 * processed. Unprocessed events stay in the log.
 */
const ANSWER_MS_MAX = 3000
const PROCESS_MS_MAX = 2500
/**
 * How long the daemon waits at most, before it listens, until the blocks that an earlier process accepted are
 * processed.
 */
const CATCH_UP_MS_MAX = 3000
/** The time for which the process continues after a failed write, so that the last answers can be sent. */
const FAILURE_GRACE_MS = 250
/** The number of attempts to start the first thread, and the pause between two attempts. */
const START_ATTEMPTS = 40
const START_PAUSE_MS = 250
/** If a commit takes longer than this, it counts as stalled, and the watchdog may end the process. */
const COMMIT_STALLED_MS = 20_000

/** The public interface of a running daemon. */
export interface Daemon {
  /** The base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  /** The HTTP library in use. */
  readonly httpServer: HttpServerName
  /**
   * Stops accepting requests, answers the requests that were already received, finishes queued work, and closes the
   * stores.
   */
  stop(): Promise<void>
  /** Resolves if the daemon has failed and must be restarted. Otherwise, the promise stays pending. */
  readonly failed: Promise<unknown>
}

/** Resources that the caller already has, and replacements that tests use. */
export interface DaemonOptions {
  /**
   * A data directory that the caller opened earlier, so that no other process could open it in between. The daemon
   * releases it.
   */
  readonly dataDir?: DataDir
  readonly clock?: Clock
  readonly log?: Logger
  /** Called with the port when the daemon listens, before it reports readiness. */
  readonly onListening?: (port: number) => void
  /** The interval at which expired events are searched for, in milliseconds. */
  readonly retentionMs?: number
  /**
   * How often the members of cohorts with rules on behavior are calculated, in milliseconds. The default is an hour.
   */
  readonly cohortsMs?: number
  /** How often the guards of ramps are checked, in milliseconds. */
  readonly guardLookMs?: number
  /** True if another daemon in this process reports to the service manager. This daemon then reports nothing. */
  readonly isBeside?: boolean
  /** The folder with the files of the console. The default is the output folder of the build. */
  readonly consoleFolder?: URL
  /** The file that each thread runs. It determines which stores the threads use. The default is thread.ts. */
  readonly threads?: URL
  /**
   * The project key of `tenrec dev`, for which the daemon has additional routes. Without a key, these routes do not
   * exist.
   */
  readonly developmentKey?: string
}

/**
 * Opens the data directory, which must be initialized, and serves requests. Throws OperatorError if the directory is in
 * use or damaged, or if the port is taken. In that case, everything that was opened is closed again.
 */
export async function startDaemon(
  settings: Settings,
  options: DaemonOptions = {},
): Promise<Daemon> {
  const clock = options.clock ?? SYSTEM_CLOCK
  const log = options.log ?? createLogger({ level: settings.logLevel, format: settings.logFormat })
  const environment = options.isBeside ? {} : process.env
  const serviceManager = createServiceManager({ environment, log })
  serviceManager.status('opening the data directory')
  const dataDir =
    options.dataDir ?? (await DataDir.open(settings.dataDir, settings.isNetworkDiskAllowed))
  for (const note of dataDir.notes) log.warn(note)
  const { onListening = () => {}, retentionMs, cohortsMs, guardLookMs, threads } = options
  const { consoleFolder, developmentKey } = options
  const running = new RunningDaemon({
    settings,
    clock,
    log,
    serviceManager,
    dataDir,
    onListening,
    retentionMs,
    cohortsMs,
    guardLookMs,
    threads,
    consoleFolder,
    developmentKey,
    cluster: settings.cluster.length === 0 ? null : await import('./cluster/cluster-node.ts'),
    warehouse: settings.warehouse === null ? null : await import('./clickhouse/event-copy.ts'),
  })
  try {
    await running.start()
  } catch (error) {
    await running.stop()
    throw error
  }
  return running
}

interface Parts extends Required<Pick<DaemonOptions, 'clock' | 'log' | 'dataDir' | 'onListening'>> {
  readonly settings: Settings
  readonly serviceManager: ServiceManager
  readonly retentionMs: number | undefined
  readonly cohortsMs: number | undefined
  readonly guardLookMs: number | undefined
  readonly threads: URL | undefined
  readonly consoleFolder: URL | undefined
  readonly developmentKey: string | undefined
  readonly cluster: typeof import('./cluster/cluster-node.ts') | null
  readonly warehouse: typeof import('./clickhouse/event-copy.ts') | null
}

class RunningDaemon implements Daemon {
  readonly failed: Promise<unknown>
  readonly #parts: Parts
  readonly #metrics: ServiceMetrics
  readonly #lag: EventLoopLag
  readonly #load = new FrontLoad()
  readonly #disk: DiskReserve
  readonly #directory: ProjectDirectory
  readonly #pool: WorkerPool
  readonly #queries: Queries
  readonly #budget: BodyBudget
  readonly #cluster: ClusterNode | null
  readonly #copy: EventCopy | null
  readonly #groupCommit: Commits
  readonly #loop: ProcessingLoop
  readonly #live: LiveEvents
  readonly #refused: RefusedCaptures
  readonly #shares: FairShares
  readonly #dailyLimits: DailyLimits
  readonly #admission: Admission
  readonly #commands: LoggedPersonCommands
  readonly #retention: RetentionSchedule
  readonly #cohorts: CohortSchedule
  readonly #flags: FlagService
  readonly #schedule: FlagSchedule
  readonly #front: ReturnType<typeof createFront>
  readonly #timers: NodeJS.Timeout[] = []
  readonly #damage = new DamageCount()
  /**
   * The number of the last block that was committed to the log, and the number of the last block that was processed.
   */
  #lastCommitted = 0
  #lastProcessed = 0
  #isStopping = false
  #stopped: Promise<void> | undefined
  #failure: unknown
  #reportFailure: (cause: unknown) => void = () => {}

  constructor(parts: Parts) {
    const { settings, clock, log } = parts
    this.#parts = parts
    this.failed = new Promise((resolve) => {
      this.#reportFailure = resolve
    })
    this.#metrics = new ServiceMetrics({ version: VERSION, clock })
    this.#lag = new EventLoopLag(this.#metrics.eventLoopLagSeconds, clock)
    const diskRoom = new DiskRoom()
    this.#disk = new DiskReserve(settings.dataDir, settings.diskReserveBytes, diskRoom)
    this.#directory = new ProjectDirectory(settings.dataDir, clock, parts.developmentKey)
    const { workerThreads, analyticsThreads, queryMsMax, queryCacheBytes: cacheBytesMax } = settings
    const { lockDescriptor } = parts.dataDir
    const plan = planOf(settings)
    const shared = threadSettings(
      settings,
      this.#damage.shared,
      diskRoom.shared,
      plan,
      lockDescriptor,
    )
    this.#pool = new WorkerPool({
      threads: shared,
      entry: parts.threads,
      workerThreads,
      analyticsThreads,
      queryMsMax,
      cacheBytesMax,
      onDeath: (death) => this.#died(death),
      changes: () => this.#cluster?.changes ?? null,
    })
    this.#budget = new BodyBudget({
      bytesMax: bodyBudgetBytes(settings.inFlightBytesMax, settings.bodyBytesMax),
      clock,
      gauge: this.#metrics.httpBodyBytesInFlight,
    })
    this.#refused = new RefusedCaptures({
      dataDir: settings.dataDir,
      clock,
      directory: this.#directory,
      log,
    })
    this.#shares = new FairShares({ clock, settings, bodies: this.#budget })
    this.#dailyLimits = new DailyLimits({
      dataDir: settings.dataDir,
      clock,
      projects: this.#directory,
      onReached: (projectId, limit) => this.#metrics.dailyLimitReached(projectId, limit),
      log,
    })
    this.#live = new LiveEvents(this.#pool.queries, clock, this.#metrics.liveStreams)
    this.#loop = new ProcessingLoop({
      clock,
      disk: this.#disk,
      front: this.#load,
      pool: settings.partitions.length === 0 ? NO_PROCESSING : this.#pool,
      lagMsMax: settings.processingLagMsMax,
      watches: () => this.#live.begin(),
      copyNews: () => this.#copy?.takeNews() ?? {},
      onResult: (result) => this.#processed(result),
      onTrouble: (trouble) => this.#troubled(trouble),
      onFailure: (cause) => this.#fail('Processing failed.', cause),
    })
    this.#copy =
      parts.warehouse?.openCopy(parts, this.#metrics.page, () => this.#loop.look()) ?? null
    this.#cluster = this.#joinCluster(shared.sharedLogChannel ?? '')
    this.#queries = this.#cluster?.edge.queries ?? this.#pool.queries
    this.#groupCommit =
      this.#cluster?.commits ?? new GroupCommit({ ...this.#commitOptions(), pool: this.#pool })
    this.#admission = new Admission({
      settings,
      disk: this.#disk,
      budget: this.#budget,
      loop: this.#loop,
      groupCommit: this.#groupCommit,
      shares: this.#shares,
      hasFailed: () => this.#failure !== undefined,
    })
    this.#commands = new LoggedPersonCommands({
      groupCommit: this.#groupCommit,
      clock,
      eraseCopies: this.#copy?.erase,
      isSaidElsewhere: () => this.#cluster?.isSaidElsewhere === true,
      refusal: (isErasing) => this.#admission.refusal(isErasing ? 'erasing' : 'change'),
      onLogged: (...of) => this.#cluster?.logged(...of) ?? this.#loop.hurry(),
    })
    const retained = { queries: this.#queries, commands: this.#commands, clock }
    this.#retention = new RetentionSchedule(retained, log, parts.retentionMs)
    this.#cohorts = new CohortSchedule({
      queries: this.#queries,
      commands: this.#commands,
      clock,
      timezoneOf: (id) => this.#directory.projectById(id)?.timezone ?? null,
      log,
      periodMs: parts.cohortsMs,
    })
    this.#flags = new FlagService({
      dataDir: settings.dataDir,
      clock,
      projects: this.#directory,
      log,
      damage: new DamageReports(this.#damage, log, clock),
      groupCommit: this.#groupCommit,
      queries: this.#queries,
      elsewhere: this.#cluster?.edge,
      refusal: () => this.#admission.refusal('change'),
      onDecision: (elapsedMs, hasErrors) => this.#metrics.decided(elapsedMs, hasErrors),
      onRepeat: () => this.#metrics.decidedBefore(),
      listenersMax: settings.flagListenersMax,
      listenerMetrics: this.#metrics,
    })
    this.#schedule = new FlagSchedule({
      queries: this.#queries,
      flags: this.#flags.directory,
      groupCommit: this.#groupCommit,
      onAccepted: (projectId, bytes) => {
        this.#dailyLimits.accepted(projectId, 1, bytes)
        this.#metrics.accepted(projectId, 1)
      },
      timezoneOf: (projectId) => this.#timezoneOf(projectId),
      refresh: () => this.#flags.snapshots.refresh(),
      refusal: () => this.#admission.refusal('change'),
      isMixed: () => this.#cluster?.isMixed === true,
      clock,
      log,
      page: this.#metrics.page,
      lookMs: parts.guardLookMs,
    })
    this.#front = createFront({
      ...parts,
      metrics: this.#metrics,
      budget: this.#budget,
      queries: this.#queries,
      directory: this.#directory,
    })
  }

  get url(): string {
    return urlOf(this.#parts.settings.host, this.port)
  }

  get port(): number {
    return this.#front.server.port
  }

  get httpServer(): HttpServerName {
    return this.#front.server.libraryName
  }

  async start(): Promise<void> {
    const { settings, serviceManager } = this.#parts
    await this.#disk.refresh()
    await this.#flags.usage.start()
    this.#dailyLimits.start()
    this.#refused.start()
    this.#addRoutes()
    // The log is opened now, so that the first request does not have to wait for it.
    await (this.#cluster?.start() ?? this.#openLog())
    // In a cluster, processing does not read the files of the log.
    this.#loop.start(this.#cluster === null ? this.#parts.dataDir.waitingEvents : 0)
    this.#copy?.start()
    // The daemon starts to listen only now. The first client then finds the events that were accepted before the start.
    await this.#loop.caughtUp(CATCH_UP_MS_MAX)
    this.#parts.onListening(await this.#front.server.listen(settings.host, settings.port))
    this.#lag.start()
    if (settings.partitions.length > 0) {
      this.#retention.start()
      this.#cohorts.start()
      this.#schedule.start()
    }
    this.#every(DIRECTORY_REFRESH_MS, () => this.#flags.snapshots.refresh())
    this.#every(FLAGS_LOOK_MS, () => this.#loop.look())
    this.#every(SLABS_RELEASE_MS, () => {
      if (this.#budget.slabs.release() > 0) collectGarbage()
    })
    this.#every(DISK_CHECK_MS, () => void this.#disk.refresh(this.#loop.backlogBytes))
    this.#every(DATA_DIR_CHECK_MS, () => {
      if (!this.#parts.dataDir.isInPlace()) this.#fail('The data directory was moved or removed.')
    })
    this.#metrics.page.onCollect(() => collectGauges(this.#metrics, this.#gaugeSources()))
    serviceManager.startWatchdog(
      () => this.#failure === undefined && this.#groupCommit.commitAgeMs < COMMIT_STALLED_MS,
    )
    serviceManager.status(`serving on ${this.url}`)
    serviceManager.ready()
  }

  /**
   * Opens the log. Threads that start at the same time open many files for a moment. If the limit of open files is too
   * low for this, the thread ends before it has done anything, and its start is repeated.
   */
  async #openLog(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#pool.append({ blocks: [], trimThrough: 0 })
        return
      } catch (cause) {
        const mayRetry = cause instanceof ThreadEndedError && !cause.wasWriting
        if (!mayRetry || isShortage(cause) !== 'files' || attempt === START_ATTEMPTS) throw cause
        await sleep(START_PAUSE_MS)
      }
    }
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const { serviceManager, log, dataDir } = this.#parts
    this.#isStopping = true
    this.#retention.stop()
    this.#cohorts.stop()
    const scheduleStopped = this.#schedule.stop()
    serviceManager.stopping()
    serviceManager.status('stopping')
    this.#live.close()
    this.#flags.listeners.close()
    const cutOffCount = await this.#front.server.close(ANSWER_MS_MAX)
    if (cutOffCount > 0) log.warn({ requests: cutOffCount }, 'Some requests were cut off.')
    if (this.#failure === undefined) {
      await scheduleStopped
      await this.#groupCommit.drained()
      await this.#loop.finish(PROCESS_MS_MAX)
      await this.#groupCommit.drained()
    } else {
      this.#loop.abandon()
    }
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all([this.#cluster?.close(), this.#copy?.close()])
    this.#lag.stop()
    serviceManager.close()
    await this.#flags.usage.stop(this.#failure === undefined)
    await this.#dailyLimits.stop()
    await this.#refused.stop()
    if (this.#failure === undefined) {
      await this.#pool.close()
      await this.#flags.close()
      await this.#directory.close()
    }
    dataDir.release()
    log.info('stopped')
  }

  #addRoutes(): void {
    const { settings, clock } = this.#parts
    const capture = captureRoutes({
      clock,
      pool: this.#pool,
      groupCommit: this.#groupCommit,
      budget: this.#budget,
      directory: this.#front.limits.directory(this.#directory, true),
      bodyBytesMax: settings.bodyBytesMax,
      decodedBytesMax: settings.bodyBytesMax,
      isForwardedForTrusted: settings.isForwardedForTrusted,
      isGetCaptureEnabled: settings.isGetCaptureEnabled,
      shares: this.#shares,
      addresses: new AddressesBehind(new TrustedProxies(settings.trustedProxies)),
      limits: this.#dailyLimits,
      refusal: (account, bytes, events) => this.#admission.refusalOfEvents(account, bytes, events),
      admit: (projectId) => this.#front.limits.project(projectId, true),
      onAccepted: (projectId, eventCount, bytes) => {
        this.#front.limits.events(projectId, eventCount)
        this.#dailyLimits.accepted(projectId, eventCount, bytes)
        this.#metrics.accepted(projectId, eventCount)
      },
      onLimited: (projectId, eventCount) => {
        this.#metrics.limited(projectId, eventCount)
        this.#refused.noteLimited(projectId, eventCount)
      },
      onRefused: (error, request) => this.#refused.note(error, request),
    })
    const flags = publicFlagRoutes({
      clock,
      settings,
      budget: this.#budget,
      directory: this.#front.limits.directory(this.#directory, false),
      flags: this.#flags,
      projects: this.#directory,
      isLimited: (projectId) => this.#dailyLimits.isReached(projectId),
    })
    this.#front.server.publicRoutes([...capture, ...flags])
    this.#front.server.routes([
      ...DEFINITION_ROUTES.map((route) =>
        route.bind({ ...this.#routeServices(), snapshots: this.#flags.snapshots }),
      ),
      ...descriptionRoutes(buildDocument),
      ...healthRoutes(
        { httpServer: this.httpServer, readiness: () => this.#readiness() },
        this.#metrics.page,
      ),
      ...this.#developmentRoutes(this.#parts.developmentKey),
      ...this.#privateRoutes(),
    ])
  }

  /** Returns the services that the handlers of all private routes use. */
  #routeServices() {
    const { settings, clock } = this.#parts
    const { sessions, limits } = this.#front
    return {
      clock,
      directory: this.#directory,
      sessions,
      limits,
      publicUrl: settings.publicUrl,
      trustedProxies: new TrustedProxies(settings.trustedProxies),
    }
  }

  /** Returns the development routes. Only `tenrec dev` passes a key. Without a key, there are no such routes. */
  #developmentRoutes(key: string | undefined): readonly Route[] {
    if (key === undefined) return []
    const queries = this.#queries
    const projectId = (): number => this.#directory.projectByKey(key)?.id ?? 0
    const resetNow = async (): Promise<void> => {
      await queries.organization('replaceProject', projectId())
      this.#flags.snapshots.refresh()
    }
    let lastReset = Promise.resolve()
    return developmentRoutes({
      ...this.#routeServices(),
      queries,
      projectId,
      reset: () => {
        // Resets run one after the other, because each reset replaces the project that the previous one created.
        lastReset = lastReset.then(resetNow, resetNow)
        return lastReset
      },
      accepted: () => this.#lastCommitted,
      processed: () => this.#lastProcessed,
      hurry: () => this.#loop.hurry(),
    })
  }

  #privateRoutes(): readonly Route[] {
    const { clock } = this.#parts
    const queries = this.#queries
    const live = this.#cluster?.streams(this.#live) ?? this.#live
    const analytics = measuredQueries(queries, this.#metrics, clock)
    return privateRoutes({
      ...this.#routeServices(),
      queries,
      analytics,
      numbers: analytics,
      live,
      refused: this.#refused,
      commands: this.#commands,
      shell: this.#front.shell,
      consolePath: this.#parts.settings.consolePath,
      letters: this.#commands,
      status: this.#statusSource(),
      flags: this.#flags.directory,
      decisions: this.#flags.decisions,
      schedule: this.#schedule,
      usageOf: (projectId) => this.#dailyLimits.usageOf(projectId),
      refresh: () => this.#flags.snapshots.refresh(),
      refusal: () => this.#admission.refusalOfChanges(),
      mixedRefusal: () => (this.#cluster?.isMixed === true ? refusal('machines_older') : null),
    })
  }

  /** Returns the time zone of a project whose events this machine stores, or null for all other projects. */
  #timezoneOf(projectId: number): string | null {
    const { partitions } = this.#parts.settings
    const project = this.#directory.projectById(projectId)
    if (project === null || !partitions.includes(project.partition ?? 0)) return null
    return project.timezone
  }

  #statusSource() {
    const report = new StatusReport({
      metrics: this.#metrics,
      clock: this.#parts.clock,
      capturePaths: Object.keys(CAPTURE_PATHS),
      sources: () => this.#gaugeSources(),
    })
    report.note()
    this.#every(MINUTE_MS, () => report.note())
    return { now: () => report.now(), readiness: () => this.#readiness() }
  }

  #readiness(): Readiness {
    const reasons: string[] = []
    if (this.#isStopping) reasons.push('The daemon is stopping.')
    if (!this.#loop.isCaughtUp)
      reasons.push('Events accepted before the start are being processed.')
    const isServing = reasons.length === 0 && this.#groupCommit.isHealthy && !this.#failure
    const reason = this.#admission.reasonAgainstWriting()
    if (reason !== null) reasons.push(reason)
    const parts = [this.#damage, this.#loop, this.#cluster, this.#copy, this.#admission]
    const troubles = parts.flatMap((part) => part?.troubles ?? [])
    return { isReady: reasons.length === 0, isServing, reasons, troubles }
  }

  #joinCluster(channel: string): ClusterNode | null {
    const { cluster, settings } = this.#parts
    if (cluster === null) return null
    return new cluster.ClusterNode({
      settings,
      channel,
      page: this.#metrics.page,
      pool: this.#pool,
      flags: () => this.#flags,
      hurry: () => this.#loop.hurry(),
      directory: this.#directory,
      copy: this.#copy,
      commits: this.#commitOptions(),
      onOutcome: (outcome) => this.#commands.processed({ commands: [outcome], erased: [] }),
      onBlock: (...block) => this.#loop.committed(...block),
    })
  }

  readonly #commitOptions = (): CommitOptions => ({
    ...this.#parts,
    shares: this.#shares,
    onCommit: (...commit) => this.#committed(...commit),
    onFailure: (cause) => this.#fail('The log could not be written.', cause),
  })

  #committed(result: AppendResult, bytes: number, events: number, requests: number): void {
    this.#load.committed(requests)
    this.#metrics.logCommitSeconds.observe(result.commitMs / 1000)
    if (bytes === 0) return
    this.#lastCommitted = result.last
    this.#metrics.ingestBatchBytes.observe(bytes)
    if (this.#cluster === null) this.#loop.committed(result.last, bytes, events)
  }

  #processed(result: ProcessResult): void {
    this.#metrics.processed(result)
    this.#lastProcessed = result.processed
    this.#noteReleased(result.released ?? null)
    this.#groupCommit.trim(result.processed)
    this.#shares.learn(result.elapsedMs)
    // The processed events now take space in the store, so the free space is computed again.
    if (result.eventCount > 0) void this.#disk.refresh(this.#loop.backlogBytes)
    this.#cluster?.processed(result)
    this.#flags.processed(result.changedDefinitions)
    this.#commands.processed(result)
    if (result.changedDefinitions.length > 0) this.#cohorts.changed()
    this.#live.stored(result.live ?? [])
  }

  /** Logs how many bytes of free pages the store has returned to the disk, or why it could not return them. */
  #noteReleased(released: ProcessResult['released']): void {
    if (!released) return
    const { log } = this.#parts
    const { bytes, failure: reason } = released
    if (bytes > 0) log.info({ bytes }, 'Free pages of the store were returned to the disk.')
    if (reason !== null) {
      log.warn({ reason }, 'Free pages of the store could not be returned to the disk.')
    }
  }

  #gaugeSources(): GaugeSources {
    const { checksWaiting, busy, queueDepths: queues, memory, caches } = this.#pool
    return {
      ...this.#parts.settings,
      loop: this.#loop,
      disk: this.#disk,
      damage: this.#damage,
      checksWaiting,
      busy,
      queues,
      memory,
      flags: this.#flags.directory,
      shares: this.#shares,
      displacedChecks: this.#pool.displacedChecks,
      caches: { ...caches, slabs: this.#budget.slabs.held },
      isReady: () => this.#readiness().isReady,
    }
  }

  #troubled({ kind, reason, failures }: ProcessingTrouble): void {
    this.#metrics.processingFailures.with(kind).value++
    this.#parts.log.error({ kind, reason, failures }, 'Processing failed and is tried again.')
  }

  #died({ threads, cause, isReplaced }: ThreadDeath): void {
    this.#metrics.workerThreadDeaths.with(threads).value++
    if (!isReplaced) this.#fail('A thread ended and cannot be replaced.', cause)
    else this.#parts.log.error({ err: cause, threads }, 'A thread ended and is replaced.')
  }

  /**
   * Ends the daemon. Called when the outcome of a write is unknown or a thread was lost, because this process must not
   * write any more then. Waiting requests have received 503. The service manager starts a new process.
   */
  #fail(message: string, cause?: unknown): void {
    if (this.#failure !== undefined) return
    this.#failure = cause ?? message
    this.#parts.log.fatal({ err: cause }, message)
    this.#commands.fail()
    this.#parts.serviceManager.status(`failed: ${message}`)
    setTimeout(() => this.#reportFailure(this.#failure), FAILURE_GRACE_MS)
  }

  #every(periodMs: number, action: () => void): void {
    this.#timers.push(setInterval(action, periodMs))
  }
}
