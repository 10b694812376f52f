/**
 * What the front asks of the pool's threads, and what comes back. Bytes travel as transferred
 * ArrayBuffers; nothing here holds an event as an object.
 */
import type { ErrorBody } from '../../base/errors.ts'
import type { LogFormat, LogLevel } from '../../base/log.ts'
import type { RowFormat, RowText } from '../../base/pages.ts'
import type { Settings } from '../../config/settings.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { AnalyticAnswer } from '../../rules/analytics/analytics.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import type { DropReason } from '../../rules/capture/types.ts'
import type { DeadLetterCounts } from '../../rules/events/dead-letter.ts'
import type { DroppedCount, DroppedEventPage, DroppedEventsQuery } from '../../rules/events/dropped-events.ts'
import type { ErasureQueries } from '../../rules/events/erasure.ts'
import type { CohortView } from '../../rules/persons/cohort-shapes.ts'
import type { CommandResult } from '../../rules/persons/commands.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import type { AnalyticSettings, AnalyticTask } from './analytic-tasks.ts'
import type { BlastRadius } from './blast-radius.ts'
import type { CheckLane } from './check-queue.ts'
import type { OrganizationOperation, OrganizationResult, OrganizationTask } from './organization-tasks.ts'
import type { PageResults, PageTask } from './page-tasks.ts'
import type { TableResult, TableTask } from './table-tasks.ts'

/** What every thread is told when it starts. */
export interface ThreadSettings {
  readonly dataDir: string
  /** `--durability commit`. */
  readonly isFlushDeferred: boolean
  readonly decodedBytesMax: number
  readonly propertiesBytesMax: number
  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  /** Threads for analytics only. */
  readonly analytics?: AnalyticSettings
  /** Shared by the threads of a group: how many write transactions they have open. */
  readonly openWrites?: Int32Array
  /** Shared by all threads: how often damage was met (damage-reports.ts). */
  readonly damageCount?: Int32Array
}

/** What the settings of the daemon say to its threads. */
export function threadSettings(settings: Settings): ThreadSettings {
  return {
    dataDir: settings.dataDir,
    isFlushDeferred: settings.durability === 'commit',
    decodedBytesMax: settings.bodyBytesMax,
    propertiesBytesMax: settings.eventPropertiesBytesMax,
    logLevel: settings.logLevel,
    logFormat: settings.logFormat,
  }
}

/** Memory that holds a finished block in its first `bytes` bytes. */
export interface BlockBuffer {
  readonly buffer: ArrayBuffer
  readonly bytes: number
}

/** Writer thread: append blocks to the log and forget those that are processed. */
export interface AppendTask {
  readonly kind: 'append'
  readonly blocks: readonly BlockBuffer[]
  /** Blocks up to this sequence may be removed. */
  readonly trimThrough: number
}

/** What an append has done. */
export interface AppendResult {
  /** Sequence of the last block that is durable. */
  readonly last: number
  readonly commitMs: number
  /** The memory of the blocks, given back for the next ones. */
  readonly buffers: readonly ArrayBuffer[]
}

/** Processing thread: turn log blocks into stored events, for about `budgetMs`. */
export interface ProcessTask {
  readonly kind: 'process'
  readonly budgetMs: number
  /** There is no room to write anew what is stored: erasing and merging wait. */
  readonly isDiskShort: boolean
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

/** How far processing has come. */
export interface ProcessResult {
  /** Everything up to this sequence is processed, durably. */
  readonly processed: number
  readonly last: number
  readonly eventCount: number
  readonly fates: readonly ProjectFates[]
  readonly commitMs: number
  /** Commands that were carried out, durably. */
  readonly commands: readonly CommandOutcome[]
  /** Projects whose cohorts or group types were changed, durably: flags refer to them. */
  readonly changedDefinitions: readonly number[]
  readonly deadLetters: DeadLetterCounts
  /** Bytes of the data file of environment `events` that hold nothing now. */
  readonly freeBytes?: number
  /** There was nothing left to do, background merging included. */
  readonly isIdle: boolean
}

/** A thread for checks: check a body that is too much for the front. */
export interface CheckTask {
  readonly kind: 'check'
  readonly lane: CheckLane
  /** The request; its body is a view of a transferred buffer. */
  readonly request: CaptureRequest
}

/** The verdict on a body; an accepted one comes as a finished block. */
export type CheckResult =
  | {
      readonly kind: 'accepted'
      readonly block: BlockBuffer
      readonly projectId: number
      readonly eventCount: number
    }
  | {
      readonly kind: 'refused'
      readonly error: ErrorBody
      readonly retryAfterSeconds: number | null
    }
  /** It is more work than the lane is for; the body comes back. */
  | { readonly kind: 'deferred'; readonly body: Uint8Array }

/** Readers: what is shown alone; the last value says how it is written. */
export type RowTask = {
  [Name in keyof RowQuestions]: { readonly kind: Name; readonly values: RowQuestions[Name] }
}[keyof RowQuestions]

/** Name of what is shown alone -> what it takes. */
export interface RowQuestions {
  getEvent: [projectId: number, uuid: string]
  getPerson: [projectId: number, person: PersonReference, format: RowFormat, firstId: number]
  findGroup: [projectId: number, typeIndex: number, key: string, format: RowFormat]
  getAction: [projectId: number, id: number, format: RowFormat]
}

/** Readers: small facts as objects. */
export type FactTask =
  | {
      readonly kind: 'findPerson'
      readonly values: readonly [projectId: number, person: PersonReference]
    }
  | { readonly kind: 'groupTypes'; readonly values: readonly [projectId: number] }
  | { readonly kind: 'knownCohorts'; readonly values: readonly [projectId: number] }

/** Readers: events that were dropped, a thousand at most of a kilobyte each. */
export type DroppedTask =
  | { readonly kind: 'listDropped'; readonly values: readonly [query: DroppedEventsQuery] }
  | {
      readonly kind: 'countDropped'
      readonly values: readonly [projectId: number, afterMs: number]
    }

/** Readers: a question about erasures; each kind is named like its method. */
export type ErasureReadTask = {
  [Method in ErasureReads]: {
    readonly kind: Method
    readonly values: Readonly<Parameters<ErasureQueries[Method]>>
  }
}[ErasureReads]

type ErasureReads = Exclude<keyof ErasureQueries, 'listErasures'>

type ErasureResults = {
  [Method in ErasureReads]: Awaited<ReturnType<ErasureQueries[Method]>>
}

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

/** What became of a change: the number of the flag. */
export interface ChangedFlag {
  readonly id: number
}

/** Any thread: change a flag durably. */
export interface FlagCommandTask {
  readonly kind: 'changeFlag'
  readonly projectId: number
  readonly actor: Actor
  readonly nowMs: number
  readonly command: FlagCommand
}

/** Any thread: count whom the condition in a body would reach. */
export interface BlastRadiusTask {
  readonly kind: 'blastRadius'
  readonly projectId: number
  readonly timezone: string
  readonly nowMs: number
  readonly body: Uint8Array
}

/** Every thread: close what is open. The thread does nothing afterwards. */
export interface CloseTask {
  readonly kind: 'close'
}

/** Everything that can be asked of a thread. */
export type Task =
  | AppendTask
  | ProcessTask
  | CheckTask
  | PageTask
  | TableTask
  | RowTask
  | FactTask
  | DroppedTask
  | ErasureReadTask
  | AnalyticTask
  | CloseTask
  | FlagCommandTask
  | OrganizationTask
  | BlastRadiusTask

/** The result of each kind of task. */
export interface TaskResults extends PageResults, ErasureResults {
  append: AppendResult
  process: ProcessResult
  check: CheckResult
  listDropped: DroppedEventPage
  countDropped: readonly DroppedCount[]
  personTable: TableResult
  getEvent: RowText | null
  getPerson: RowText | null
  findGroup: RowText | null
  getAction: RowText | null
  findPerson: { readonly uuid: string } | null
  groupTypes: readonly { readonly group_type: string; readonly group_type_index: number }[]
  knownCohorts: readonly CohortView[]
  analytics: AnalyticAnswer
  changeFlag: ChangedFlag
  organization: OrganizationResult<OrganizationOperation>
  blastRadius: BlastRadius
  close: undefined
}

/** A failure that is the client's to know crosses the thread boundary as a value. */
export type TaskAnswer<Kind extends keyof TaskResults> =
  | { readonly result: TaskResults[Kind] }
  | { readonly refusal: ErrorBody }
