/**
 * The settings of threads at their start, and the types of the tasks that the front sends them. Bytes travel in
 * transferred ArrayBuffers; no type here contains an event as an object.
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
import type { ScheduleRequest } from '../../rules/flags/schedule/schedule-input.ts'
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
  /** The kind of the thread. The writer and the processor receive no other calls, and load nothing else. */
  readonly kind?: ThreadKind
  readonly dataDir: string
  /** True with `--durability commit`. */
  readonly isFlushDeferred: boolean
  readonly decodedBytesMax: number
  readonly propertiesBytesMax: number
  readonly aiPropertiesBytesMax: number
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  /** For analytics threads only. */
  readonly analytics?: AnalyticSettings
  /** The address of the warehouse with the columns that segments have given away. */
  readonly warehouse?: string
  /** The enrichment of events during processing. Absent: none. */
  readonly enrichment?: EnrichmentSettings
  /** Shared by the threads of a group: the number of their open write transactions. */
  readonly openWrites?: Int32Array
  /** The limits of caches. Absent: the limits for a machine with plenty of memory. */
  readonly plan?: MemoryPlan
  /** Shared by all threads: the number of memory shortages. */
  readonly shortages?: Int32Array
  /** Shared by the threads of a group: the memory figures of each thread. */
  readonly memory?: MemoryBoard
  /** Shared by all threads: the number of times that damage was found (damage-reports.ts). */
  readonly damageCount?: Int32Array
  /** In a cluster: the name of the channel by which the processing thread receives the shared log. */
  readonly sharedLogChannel?: string
  /** False if other machines of the cluster store the events. */
  readonly holdsEvents?: boolean
  /** Shared by all threads: the last block that was appended to the log, once there is one. */
  readonly logReach?: BigInt64Array
  /** Shared by all threads: the figures of `DiskRoom`. */
  readonly diskRoom?: Float64Array | undefined
  /** The descriptor that holds the lock on the data directory. Absent: no free pages are given back to the disk. */
  readonly lockDescriptor?: number | undefined
}

/** The additional settings of analytics threads. */
export interface AnalyticSettings {
  /** The time that one query may run on its thread. */
  readonly queryMsMax: number
  /** The memory for decoded columns. */
  readonly cache: BlockShare
}

/** The properties that are added to events during processing. */
export interface EnrichmentSettings {
  readonly isBotTagged: boolean
  readonly isUserAgentParsed: boolean
  /** The path of a GeoIP database, or null. */
  readonly geoIpDatabase: string | null
}

/**
 * Returns the settings of threads for the settings of the daemon, with the memory that it shares with them. All threads
 * of a daemon receive the same object.
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

/** The settings that the memory plan depends on. */
export type PlanSetting = 'memoryBytesMax' | 'workerThreads' | 'analyticsThreads'

/** Returns the memory plan of a daemon. */
export function planOf(settings: Pick<Settings, PlanSetting>): MemoryPlan {
  const { memoryBytesMax, workerThreads, analyticsThreads } = settings
  return memoryPlan({ memoryBytesMax, coreCount: Math.max(workerThreads + 1, analyticsThreads) })
}

/** A buffer, of its own or of a slab, whose first `bytes` bytes hold a finished block. */
export interface BlockBuffer {
  readonly buffer: ArrayBufferLike
  readonly bytes: number
}

/** A block on the main thread, with the slab that contains it. Null: it has its own memory. */
export interface HeldBlock extends BlockBuffer {
  readonly slab: Slab | null
}

/** A request to append blocks to the log and remove processed ones. */
export interface AppendTask {
  readonly blocks: readonly BlockBuffer[]
  /** Blocks up to this number may be removed. */
  readonly trimThrough: number
  /** In a cluster: the partition of the outbox. Default 0. */
  readonly partition?: number
}

/** The result of an append. */
export interface AppendResult {
  /** The number of the last durable block. */
  readonly last: number
  readonly commitMs: number
  /**
   * In a cluster: resolves when other machines have the blocks too, with null or with the refusal for the requests. The
   * next commit does not wait for it.
   */
  readonly replicated?: Promise<ServiceError | null>
}

/** A request to process log blocks for about `budgetMs`. */
export interface ProcessTask {
  readonly budgetMs: number
  /**
   * Set if the front is busy. The run then makes one commit of at least this many events, and merges hardly any
   * segments after it.
   */
  readonly commitEventsMin?: number
  /**
   * The milliseconds until the lag is larger than yielding explains. The thread then gets the priority of the front.
   */
  readonly lateInMs: number
  /** True if there is no room to rewrite stored data: erasing and merging wait. */
  readonly isDiskShort: boolean
  /** True after an idle time: unless there is something to process, some persons are folded. */
  readonly isQuiet?: boolean
  /** The events that streams want. */
  readonly watches: readonly LiveWatch[]
  /** The segments whose columns may be removed from the store. */
  readonly copied?: readonly CopiedSegment[]
  /** The jobs whose events have no copies elsewhere any more. */
  readonly erasedCopies?: readonly ErasedJob[]
}

/** The numbers of stored and dropped events of one project. */
export interface ProjectFates {
  readonly projectId: number
  readonly stored: number
  readonly drops: Readonly<Partial<Record<DropReason, number>>>
}

/** The outcome of a command in the log. */
export interface CommandOutcome {
  /** The uuid of its record. */
  readonly uuid: string
  /** The result. Null: an unforeseen error occurred, and the command became a dead letter. */
  readonly result: CommandResult | null
}

/** The figures of the GeoIP database. */
export interface GeoIpCounts {
  readonly isLoaded: boolean
  /** The number of addresses, since the last report, whose record could not be read. */
  readonly failures: number
}

/** The result of a processing run. */
export interface ProcessResult {
  /** The number of the last block that is processed durably. */
  readonly processed: number
  readonly last: number
  readonly eventCount: number
  /** The number of these events that the kernel recognised. */
  readonly recognisedCount: number
  /** The duration, without merging and erasing. */
  readonly elapsedMs: number
  readonly fates: readonly ProjectFates[]
  readonly commitMs: number
  /** The commands that were carried out durably. */
  readonly commands: readonly CommandOutcome[]
  /** The projects whose cohorts or group types were changed durably. Flags refer to them. */
  readonly changedDefinitions: readonly number[]
  /** Absent after a failure. */
  readonly deadLetters?: DeadLetterCounts | undefined
  /** The jobs of `WarehouseWriter.takeCarriedOut`. */
  readonly erased: readonly ErasedJob[]
  /** The free bytes inside the data file of the environment `events`. */
  readonly freeBytes?: number | undefined
  /**
   * The bytes of free pages that were given back to the disk, and the reason if that failed. Null: neither. Absent
   * after a failure.
   */
  readonly released?: { readonly bytes: number; readonly failure: string | null } | null | undefined
  /** Absent if no GeoIP database is configured. */
  readonly geoIp?: GeoIpCounts | undefined
  /** The number of persons that were folded. */
  readonly folded?: number
  /** True if persons wait to be folded after an idle time. */
  readonly mayFold?: boolean
  /** The events found for each requested stream. */
  readonly live?: readonly LiveFound[]
  /** True if nothing was left to do, including background merging. */
  readonly isIdle: boolean
  /** The maintenance steps that have failed and are paused. */
  readonly pausedSteps: readonly MaintenanceStep[]
  /** The error that ended the run. The other members describe the commits before it. */
  readonly failure?: ProcessFailure | undefined
}

/** The reason why a processing run ended early. The next run repeats everything that was not committed. */
export interface ProcessFailure {
  /**
   * `events`: a batch of events could not be stored, and the next batch is smaller. `maintenance`: a maintenance step
   * failed and is paused. `shortage`: the machine is out of disk space or file descriptors, or a read failed; the same
   * batch is retried. `broken`: it is unknown which data is durable, so the process must end.
   */
  readonly kind: 'events' | 'maintenance' | 'shortage' | 'broken'
  readonly shortage?: Shortage
  /** The name and message of the error. */
  readonly reason: string
}

/** A request to check a body that is too large for the front. */
export interface CheckTask {
  readonly lane: CheckLane
  /** The request. Its body is a view of a transferred buffer, or of the slab. */
  readonly request: CaptureRequest
  /** The memory to which the block is written, over the body if that is there too. Null: memory of its own. */
  readonly slab: SharedArrayBuffer | null
}

/** The result for a body. An accepted body is returned as a finished block. */
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
  /** The check is more work than the lane is for. The body is returned. */
  | { readonly kind: 'deferred'; readonly body: Uint8Array }

/** A change of a flag. Bodies are JSON as the client sent it. */
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
  /** The audit entry, stored in the transaction of the change. */
  readonly audit?: AuditEntry | undefined
}

/** A request to change several flags durably, all or none of them. */
export interface FlagApplyTask
  extends Pick<FlagCommandTask, 'projectId' | 'actor' | 'nowMs' | 'audit'> {
  readonly timezone: string
  /** The flags in the form of a file, with different keys. */
  readonly flags: readonly JsonObject[]
  /** The versions of the flags that the plan changes, by key; null for a new flag. */
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
  | { readonly kind: 'create'; readonly flagId: number; readonly request: ScheduleRequest }
  | { readonly kind: 'modify'; readonly id: number; readonly request: ScheduleRequest }
  | { readonly kind: 'remove'; readonly id: number }

/** A request to make a scheduled change that is due, or to stop a ramp. */
export interface FlagMoveTask {
  readonly projectId: number
  readonly nowMs: number
  readonly move: ScheduledMove
}

/**
 * A request to count the persons that the condition in a body would match, or whose value the change in a body would
 * flip.
 */
export interface BlastRadiusTask {
  readonly projectId: number
  readonly timezone: string
  readonly nowMs: number
  readonly body: Uint8Array
}
