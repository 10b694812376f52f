/**
 * The settings that threads receive at their start, and the types of the tasks that the main thread sends them. Events
 * are never sent as objects, but as bytes in transferred ArrayBuffers.
 */
import { randomUUID } from 'node:crypto'
import type { ErrorBody, ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import type { LogFormat, LogLevel } from '../../base/log.ts'
import { type MemoryBoard, shortageCount } from '../../base/memory/memory-board.ts'
import type { BlockShare } from '../../base/shared-blocks.ts'
import type { Slab } from '../../base/slabs.ts'
import { type MemoryPlan, memoryPlan } from '../../config/memory-plan.ts'
import type { Settings } from '../../config/settings.ts'
import type { CopiedSegment, ErasedJob } from '../../ports/warehouse.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import type { DropReason } from '../../rules/capture/drop-reasons.ts'
import type { DeadLetterCounts } from '../../rules/events/dead-letter.ts'
import type { LiveFound, LiveWatch } from '../../rules/events/live-events.ts'
import type { ExperimentCommand } from '../../rules/experiments/edit/experiment-changes.ts'
import type { ScheduleCopy, ScheduleRequest } from '../../rules/flags/schedule/schedule-input.ts'
import type { ScheduledMove } from '../../rules/flags/schedule/scheduled-change.ts'
import type { CommandResult } from '../../rules/persons/commands.ts'
import type { MaintenanceStep, Shortage } from '../../store/faults.ts'

/** The lanes in which uploads are checked, cheapest first. */
export const CHECK_LANES = ['express', 'bulk', 'slow'] as const
/** One of CHECK_LANES. */
export type CheckLane = (typeof CHECK_LANES)[number]

/** The kinds of threads, by their names in logs and metrics. */
export type ThreadKind =
  | 'writer'
  | 'processor'
  | 'checkers'
  | 'readers'
  | 'long_readers'
  | 'analytics'

/** The settings that every thread receives at its start. */
export interface ThreadSettings {
  /** The kind of the thread. The writer thread and the processing thread load only the code for their own calls. */
  readonly kind?: ThreadKind
  readonly dataDir: string
  /** True if the log is flushed after a commit was acknowledged (`--durability commit`). */
  readonly isFlushDeferred: boolean
  readonly decodedBytesMax: number
  readonly propertiesBytesMax: number
  readonly aiPropertiesBytesMax: number
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  /** The settings of an analytics thread. Undefined for all other threads. */
  readonly analytics?: AnalyticSettings
  /** The URL of the ClickHouse server to which columns of segments were moved. */
  readonly warehouse?: string
  /** Which properties are added to events during processing. Undefined if none are added. */
  readonly enrichment?: EnrichmentSettings
  /** Shared memory in which the threads of a group count their open write transactions. */
  readonly openWrites?: Int32Array
  /** The limits of caches. If undefined, the limits are those for a machine with plenty of memory. */
  readonly plan?: MemoryPlan
  /** A counter in memory that all threads share: how often memory was short so far. */
  readonly shortages?: Int32Array
  /** Shared memory in which the threads of a group report how much memory each of them uses. */
  readonly memory?: MemoryBoard
  /** A counter in memory that all threads share: how often damage was found (damage-reports.ts). */
  readonly damageCount?: Int32Array
  /** In a cluster: the name of the channel by which the processing thread receives the shared log. */
  readonly sharedLogChannel?: string
  /** False if other machines of the cluster store the events. */
  readonly holdsEvents?: boolean
  /** The number of the last block that was appended to the log, in memory that all threads share. */
  readonly logReach?: BigInt64Array
  /** The figures of `DiskRoom`, in memory that all threads share. */
  readonly diskRoom?: Float64Array | undefined
  /**
   * The file descriptor of the lock on the data directory. The program that releases free pages inherits it. If the
   * daemon is killed, the lock is therefore held until that program has ended, too. If it is undefined, no free pages
   * are released to the file system.
   */
  readonly lockDescriptor?: number | undefined
}

/** The additional settings of analytics threads. */
export interface AnalyticSettings {
  /** The time that one query may run on its thread, in milliseconds. */
  readonly queryMsMax: number
  /** The shared memory for decoded columns. */
  readonly cache: BlockShare
}

/** Which properties are added to events during processing. */
export interface EnrichmentSettings {
  readonly isBotTagged: boolean
  readonly isUserAgentParsed: boolean
  /** The path of a GeoIP database, or null. */
  readonly geoIpDatabase: string | null
}

/**
 * Returns the settings of all threads. They contain shared memory, so all threads of a daemon must receive the same
 * object.
 */
export function threadSettings(
  settings: Settings,
  damageCount: Int32Array,
  diskRoom?: Float64Array,
  plan: MemoryPlan = planOf(settings),
  lockDescriptor?: number,
): ThreadSettings {
  const { isBotTagged, isUserAgentParsed, geoIpDatabase } = settings
  const isEnriched = isBotTagged || isUserAgentParsed || geoIpDatabase !== null
  return {
    ...(settings.cluster.length === 0 ? {} : { sharedLogChannel: `tenrec ${randomUUID()}` }),
    ...(settings.partitions.length === 0 ? { holdsEvents: false } : {}),
    ...(isEnriched ? { enrichment: { isBotTagged, isUserAgentParsed, geoIpDatabase } } : {}),
    ...(settings.warehouse === null ? {} : { warehouse: settings.warehouse }),
    plan,
    shortages: shortageCount(),
    dataDir: settings.dataDir,
    isFlushDeferred: settings.durability === 'commit',
    decodedBytesMax: settings.bodyBytesMax,
    propertiesBytesMax: settings.eventPropertiesBytesMax,
    aiPropertiesBytesMax: settings.aiEventPropertiesBytesMax,
    logLevel: settings.logLevel,
    logFormat: settings.logFormat,
    damageCount,
    diskRoom,
    lockDescriptor,
    logReach: new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT)),
  }
}

/** The settings of the daemon on which the memory plan depends. */
export type PlanSetting = 'memoryBytesMax' | 'workerThreads' | 'analyticsThreads'

/** Returns the memory plan of a daemon. */
export function planOf(settings: Pick<Settings, PlanSetting>): MemoryPlan {
  const { memoryBytesMax, workerThreads, analyticsThreads } = settings
  return memoryPlan({ memoryBytesMax, coreCount: Math.max(workerThreads + 1, analyticsThreads) })
}

/**
 * A finished block: the first `bytes` bytes of a buffer. The buffer is either a slab (reusable shared memory,
 * base/slabs.ts) or memory of its own.
 */
export interface BlockBuffer {
  readonly buffer: ArrayBufferLike
  readonly bytes: number
}

/** A block on the main thread, and the slab that contains it. The slab is null if the block has memory of its own. */
export interface HeldBlock extends BlockBuffer {
  readonly slab: Slab | null
}

/** A request to append blocks to the log and remove processed ones. */
export interface AppendTask {
  readonly blocks: readonly BlockBuffer[]
  /** The number of the last processed block. The log may remove the blocks up to it. */
  readonly trimThrough: number
  /** In a cluster, the partition whose outbox the blocks belong to. Default: 0. */
  readonly partition?: number
}

/** The result of an append. */
export interface AppendResult {
  /** The number of the last durable block. */
  readonly last: number
  readonly commitMs: number
  /**
   * In a cluster, resolves with null when enough other machines have the blocks, too. If the requests must be refused,
   * resolves with the error for them. The next commit does not wait for this promise.
   */
  readonly replicated?: Promise<ServiceError | null>
}

/** A request to process blocks of the log for about `budgetMs`. */
export interface ProcessTask {
  readonly budgetMs: number
  /**
   * Set if the main thread is busy. The processing run then makes only one commit, of at least this many events, and
   * hardly merges segments.
   */
  readonly commitEventsMin?: number
  /**
   * The time in milliseconds until the lag of processing becomes too large. The processing thread then gets the
   * priority of the main thread.
   */
  readonly lateInMs: number
  /** True if the disk has too little space for rewriting stored data. Erasing and merging then wait. */
  readonly isDiskShort: boolean
  /**
   * True if the daemon has been idle for a while. If there is nothing to process, some persons are folded (see
   * `LogProcessor.fold`).
   */
  readonly isQuiet?: boolean
  /** The filters of the live streams. */
  readonly watches: readonly LiveWatch[]
  /** Segments that ClickHouse has a copy of. Their columns may be moved there. */
  readonly copied?: readonly CopiedSegment[]
  /** Erasure jobs whose events were erased from all copies, too. */
  readonly erasedCopies?: readonly ErasedJob[]
}

/** How many events of a project were stored and dropped. */
export interface ProjectFates {
  readonly projectId: number
  readonly stored: number
  readonly drops: Readonly<Partial<Record<DropReason, number>>>
}

/** The result of a command that was in the log. */
export interface CommandOutcome {
  /** The uuid of the command's record in the log. */
  readonly uuid: string
  /** The result. Null means that an unforeseen error occurred, and that the command became a dead letter. */
  readonly result: CommandResult | null
}

/** Figures about the GeoIP database. */
export interface GeoIpCounts {
  readonly isLoaded: boolean
  /** The number of IP addresses whose record in the database could not be read, since the last report. */
  readonly failures: number
}

/** The result of a processing run. */
export interface ProcessResult {
  /** The number of the last block that is processed and whose results are on the disk. */
  readonly processed: number
  readonly last: number
  readonly eventCount: number
  /** How many of these events the kernel (rules/capture/kernel/) read without parsing them. */
  readonly recognizedCount: number
  /** The duration of the processing run in milliseconds, without merging and erasing. */
  readonly elapsedMs: number
  readonly fates: readonly ProjectFates[]
  readonly commitMs: number
  /** The commands whose results are on the disk. */
  readonly commands: readonly CommandOutcome[]
  /**
   * The projects whose cohorts or group types have changed. The changes are on the disk. Flags that refer to them must
   * be compiled again.
   */
  readonly changedDefinitions: readonly number[]
  /** The counts of dead letters. Undefined after a failure. */
  readonly deadLetters?: DeadLetterCounts | undefined
  /** The erasure jobs whose events were erased from the store; see `WarehouseWriter.takeCarriedOut`. */
  readonly erased: readonly ErasedJob[]
  /** The free bytes inside the data file of the LMDB environment `events`. */
  readonly freeBytes?: number | undefined
  /**
   * How many bytes of free pages were returned to the disk, and the reason if this failed. Null if there was nothing to
   * return. Undefined after a failure.
   */
  readonly released?: { readonly bytes: number; readonly failure: string | null } | null | undefined
  /** Undefined if no GeoIP database is configured. */
  readonly geoIp?: GeoIpCounts | undefined
  /** The number of persons that were folded in this processing run. */
  readonly folded?: number
  /** True if there are persons to fold (see `LogProcessor.fold`) after an idle time. */
  readonly mayFold?: boolean
  /** The events that were found for each live stream. */
  readonly live?: readonly LiveFound[]
  /** True if nothing is left to do, including merges and other maintenance. */
  readonly isIdle: boolean
  /** The maintenance steps that have failed and are paused. */
  readonly pausedSteps: readonly MaintenanceStep[]
  /** The error that ended the processing run. The other members then describe what was committed before it. */
  readonly failure?: ProcessFailure | undefined
}

/** The reason why a processing run ended early. The next run repeats everything that was not committed. */
export interface ProcessFailure {
  /**
   * `events`: a batch of events could not be stored, so the next batch is made smaller. `maintenance`: a maintenance
   * step failed and is paused. `shortage`: the machine lacks disk space or file descriptors, or a read failed, so the
   * same batch is retried. `broken`: it is unknown which data is on the disk, so the process must end.
   */
  readonly kind: 'events' | 'maintenance' | 'shortage' | 'broken'
  readonly shortage?: Shortage
  /** The name and message of the error. */
  readonly reason: string
}

/** A request to check a body that is too large for the main thread. */
export interface CheckTask {
  readonly lane: CheckLane
  /** The request. Its body is a view of a transferred buffer, or of the slab. */
  readonly request: CaptureRequest
  /**
   * The shared memory into which the block is written. If this memory contains the body, the block overwrites it. If
   * null, the block gets memory of its own.
   */
  readonly slab: SharedArrayBuffer | null
}

/** The result of a check. If the body is accepted, the result is a finished block. */
export type CheckResult =
  | {
      readonly kind: 'accepted'
      readonly block: BlockBuffer
      readonly projectId: number
      readonly eventCount: number
      /** The JSON of the answer, for capture v1. */
      readonly answer: string | null
    }
  | {
      readonly kind: 'refused'
      readonly error: ErrorBody
      readonly retryAfterSeconds: number | null
    }
  /** The check needs more work than the lane permits. The body is returned for the next lane. */
  | { readonly kind: 'deferred'; readonly body: Uint8Array }

/**
 * A change of a flag. A body is the bytes of the JSON that the client sent. A thread parses it, because parsing may
 * take long.
 */
export type FlagCommand =
  | { readonly kind: 'create'; readonly body: Uint8Array }
  | {
      readonly kind: 'update'
      readonly id: number
      readonly body: Uint8Array
      readonly isKeyRequired: boolean
    }
  | { readonly kind: 'add_dashboard'; readonly id: number }
  | { readonly kind: 'experiment'; readonly change: ExperimentCommand }

/** A request to change a flag durably. */
export interface FlagCommandTask {
  readonly projectId: number
  readonly actor: Actor
  readonly nowMs: number
  readonly command: FlagCommand
  /** The audit entry of the change, which is stored in the same transaction. */
  readonly audit?: AuditEntry | undefined
}

/** A request to change several flags durably, all or none of them. */
export interface FlagApplyTask
  extends Pick<FlagCommandTask, 'projectId' | 'actor' | 'nowMs' | 'audit'> {
  readonly timezone: string
  /** The flags as they should become, in the form of docs/FLAGS-IN-FILES.md. No two have the same key. */
  readonly flags: readonly JsonObject[]
  /** Maps the key of each flag that the plan changes to the version of the flag, or to null for a new flag. */
  readonly versions: JsonObject
}

/** A change of the schedule of a project. The audit entry is stored in the transaction of the change. */
export interface ScheduleTask {
  readonly projectId: number
  readonly actor: Actor
  readonly nowMs: number
  readonly command: ScheduleCommand
  readonly audit?: AuditEntry | undefined
}

/** A scheduled change that is created, modified or removed. */
export type ScheduleCommand =
  | {
      readonly kind: 'create'
      readonly flagId: number
      readonly request: ScheduleRequest
      readonly copy?: ScheduleCopy
    }
  | { readonly kind: 'modify'; readonly id: number; readonly request: ScheduleRequest }
  | { readonly kind: 'remove'; readonly id: number }

/** A request to make a scheduled change that is due, or to stop a ramp. */
export interface FlagMoveTask {
  readonly projectId: number
  readonly nowMs: number
  readonly move: ScheduledMove
}

/**
 * A request to count persons or groups: either those that the condition in a body would match, or those for which the
 * change in a body would alter the value of a flag.
 */
export interface BlastRadiusTask {
  readonly projectId: number
  readonly timezone: string
  readonly nowMs: number
  readonly body: Uint8Array
}
