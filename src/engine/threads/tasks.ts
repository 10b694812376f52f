/**
 * What threads are told when they start, and the shapes of what the front asks of them. Bytes travel as
 * transferred ArrayBuffers; nothing here holds an event as an object.
 */
import { randomUUID } from 'node:crypto'
import type { ErrorBody, ServiceError } from '../../base/errors.ts'
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
import type { CommandResult } from '../../rules/persons/commands.ts'
import type { MaintenanceStep, Shortage } from '../../store/faults.ts'

/** Lanes in which uploads are checked, the cheapest first. */
export const CHECK_LANES = ['express', 'bulk', 'slow'] as const
/** One of CHECK_LANES. */
export type CheckLane = (typeof CHECK_LANES)[number]

/** Threads by the name that logs and metrics give them. */
export type ThreadKind =
  | 'writer'
  | 'processor'
  | 'checkers'
  | 'readers'
  | 'long_readers'
  | 'analytics'

/** What every thread is told when it starts. */
export interface ThreadSettings {
  /** What it is there for: the writer and the processor are asked nothing else, and load nothing else. */
  readonly kind?: ThreadKind
  readonly dataDir: string
  /** `--durability commit`. */
  readonly isFlushDeferred: boolean
  readonly decodedBytesMax: number
  readonly propertiesBytesMax: number
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  /** Threads for analytics only. */
  readonly analytics?: AnalyticSettings
  /** Where columns are that segments have given away. */
  readonly warehouse?: string
  /** What processing adds to events; absent: nothing. */
  readonly enrichment?: EnrichmentSettings
  /** Shared by the threads of a group: how many write transactions they have open. */
  readonly openWrites?: Int32Array
  /** What caches may hold; absent: as much as on a machine with plenty of memory. */
  readonly plan?: MemoryPlan
  /** Shared by all threads: how often memory was short. */
  readonly shortages?: Int32Array
  /** Shared by the threads of a group: where each tells what memory it takes. */
  readonly memory?: MemoryBoard
  /** Shared by all threads: how often damage was met (damage-reports.ts). */
  readonly damageCount?: Int32Array
  /** In a cluster: the name of the channel by which the processing thread gets the shared log. */
  readonly sharedLogChannel?: string
  /** False: other machines of the cluster store the events. */
  readonly holdsEvents?: boolean
  /** Shared by all threads: the last block of the log that was appended, once there is one. */
  readonly logReach?: BigInt64Array
  /** Shared by all threads: as `DiskRoom` reads it. */
  readonly diskRoom?: Float64Array | undefined
  /** The descriptor that holds the lock on the data directory; absent: no free pages are given back to the disk. */
  readonly lockDescriptor?: number | undefined
}

/** What threads for analytics are told besides what all are told. */
export interface AnalyticSettings {
  /** Time that one question may take on its thread. */
  readonly queryMsMax: number
  /** Memory for decoded columns. */
  readonly cache: BlockShare
}

/** What is added to events while they are processed. */
export interface EnrichmentSettings {
  readonly isBotTagged: boolean
  readonly isUserAgentParsed: boolean
  /** The path of a GeoIP database, or null. */
  readonly geoIpDatabase: string | null
}

/**
 * What the settings of the daemon say to its threads, with the memory that it shares with them; all threads of a
 * daemon get the same object.
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
    logLevel: settings.logLevel,
    logFormat: settings.logFormat,
    damageCount,
    diskRoom,
    lockDescriptor,
    logReach: new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT)),
  }
}

/** Settings that the plan of memory follows from. */
export type PlanSetting = 'memoryBytesMax' | 'workerThreads' | 'analyticsThreads'

/** What the budget of a daemon gives to each part of it. */
export function planOf(settings: Pick<Settings, PlanSetting>): MemoryPlan {
  const { memoryBytesMax, workerThreads, analyticsThreads } = settings
  return memoryPlan({ memoryBytesMax, coreCount: Math.max(workerThreads + 1, analyticsThreads) })
}

/** Memory, of its own or of a slab, that holds a finished block in its first `bytes` bytes. */
export interface BlockBuffer {
  readonly buffer: ArrayBufferLike
  readonly bytes: number
}

/** The same on the main thread, with what it lies in; null: memory of its own. */
export interface HeldBlock extends BlockBuffer {
  readonly slab: Slab | null
}

/** Append blocks to the log and forget those that are processed. */
export interface AppendTask {
  readonly blocks: readonly BlockBuffer[]
  /** Blocks up to this sequence may be removed. */
  readonly trimThrough: number
  /** In a cluster: the partition whose outbox it is; default 0. */
  readonly partition?: number
}

/** What an append has done. */
export interface AppendResult {
  /** Sequence of the last block that is durable. */
  readonly last: number
  readonly commitMs: number
  /**
   * In a cluster: resolves when others have the blocks, too, with null or with what the requests are refused with.
   * The next commit does not wait for it.
   */
  readonly replicated?: Promise<ServiceError | null>
}

/** Turn log blocks into stored events, for about `budgetMs`. */
export interface ProcessTask {
  readonly budgetMs: number
  /** The front is busy: one commit of at least so many events, and hardly any merging behind it. */
  readonly stretchEvents?: number
  /** In so many milliseconds the lag is more than waiting explains: the thread gets the front's priority. */
  readonly lateInMs: number
  /** There is no room to write anew what is stored: erasing and merging wait. */
  readonly isDiskShort: boolean
  /** It has been quiet for a while: unless there is something to process, some persons are folded. */
  readonly isQuiet?: boolean
  /** What streams want to be shown. */
  readonly watches: readonly LiveWatch[]
  /** Segments whose columns may leave the store. */
  readonly copied?: readonly CopiedSegment[]
  /** Jobs of which nothing is left elsewhere. */
  readonly erasedCopies?: readonly ErasedJob[]
}

/** Events of one project by what became of them. */
export interface ProjectFates {
  readonly projectId: number
  readonly stored: number
  readonly drops: Readonly<Partial<Record<DropReason, number>>>
}

/** What became of a command that was in the log. */
export interface CommandOutcome {
  /** The uuid of its record. */
  readonly uuid: string
  /** Null: it met something unforeseen and went to the dead letters. */
  readonly result: CommandResult | null
}

/** What processing tells of its GeoIP database. */
export interface GeoIpCounts {
  readonly isLoaded: boolean
  /** Addresses, since the last time, whose record could not be read. */
  readonly failures: number
}

/** How far processing has come. */
export interface ProcessResult {
  /** Everything up to this sequence is processed, durably. */
  readonly processed: number
  readonly last: number
  readonly eventCount: number
  /** Events of them that the kernel recognised. */
  readonly recognisedCount: number
  /** How long that took; merging and erasing is not in it. */
  readonly elapsedMs: number
  readonly fates: readonly ProjectFates[]
  readonly commitMs: number
  /** Commands that were carried out, durably. */
  readonly commands: readonly CommandOutcome[]
  /** Projects whose cohorts or group types were changed, durably: flags refer to them. */
  readonly changedDefinitions: readonly number[]
  /** Absent after a failure. */
  readonly deadLetters?: DeadLetterCounts | undefined
  /** As `WarehouseWriter.takeCarriedOut`. */
  readonly erased: readonly ErasedJob[]
  /** Bytes of the disk that the data file of environment `events` takes and that hold nothing now. */
  readonly freeBytes?: number | undefined
  /** Free pages that were given back to the disk, in bytes, and why it failed; null: neither. Absent after a failure. */
  readonly released?: { readonly bytes: number; readonly failure: string | null } | null | undefined
  /** Absent when there is to be no such database. */
  readonly geoIp?: GeoIpCounts | undefined
  /** Persons that were folded. */
  readonly folded?: number
  /** Persons wait to be folded when it has been quiet for a while. */
  readonly mayFold?: boolean
  /** For each stream that was asked about. */
  readonly live?: readonly LiveFound[]
  /** There was nothing left to do, background merging included. */
  readonly isIdle: boolean
  /** Steps of maintenance that have failed and are not tried again for a while. */
  readonly pausedSteps: readonly MaintenanceStep[]
  /** The error that ended the run. The other members describe the commits before it. */
  readonly failure?: ProcessFailure | undefined
}

/** Why a run of processing ended early. The next run repeats everything that was not committed. */
export interface ProcessFailure {
  /**
   * `events`: a batch of events could not be stored, and the next batch is smaller. `maintenance`: a maintenance step
   * failed and is paused. `shortage`: the machine is out of disk space or file descriptors, or a read failed; the same
   * batch is retried. `broken`: it is unknown which data is durable, so the process must end.
   */
  readonly kind: 'events' | 'maintenance' | 'shortage' | 'broken'
  readonly shortage?: Shortage
  /** Name and message of the error. */
  readonly reason: string
}

/** Check a body that is too much for the front. */
export interface CheckTask {
  readonly lane: CheckLane
  /** The request; its body is a view of a transferred buffer, or of the slab. */
  readonly request: CaptureRequest
  /** Where the block is written, over the body if that lies there; null: into memory of its own. */
  readonly slab: SharedArrayBuffer | null
}

/** The verdict on a body; an accepted one comes as a finished block. */
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
  /** It is more work than the lane is for; the body comes back. */
  | { readonly kind: 'deferred'; readonly body: Uint8Array }

/** A change of a flag; bodies are JSON as it was sent. */
export type FlagCommand =
  | { readonly kind: 'create'; readonly body: Uint8Array }
  | {
      readonly kind: 'update'
      readonly id: number
      readonly body: Uint8Array
      readonly isKeyRequired: boolean
    }
  | { readonly kind: 'add_dashboard'; readonly id: number }

/** Change a flag durably. */
export interface FlagCommandTask {
  readonly projectId: number
  readonly actor: Actor
  readonly nowMs: number
  readonly command: FlagCommand
  /** Stored in the transaction of the change. */
  readonly audit?: AuditEntry | undefined
}

/** Count whom the condition in a body would reach, or whose value the change in a body would flip. */
export interface BlastRadiusTask {
  readonly projectId: number
  readonly timezone: string
  readonly nowMs: number
  readonly body: Uint8Array
}
