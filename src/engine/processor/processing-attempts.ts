/**
 * The record of processing attempts that have not succeeded yet. It is written to a file before each attempt, so that
 * an attempt counts as failed if its thread or the whole process ends during it. After such a failure, the next attempt
 * is smaller:
 *
 * - A batch of events that failed is retried in smaller batches. An event that fails alone becomes a dead letter.
 * - A maintenance step that threw an error (such as merging segments or erasing events) is paused. A step during which
 *   the process ended is tried once more before it is paused, because the process may have ended for another reason.
 *
 * The record is the file `processing` in the data directory: 4096 bytes, rewritten in place, all numbers little-endian.
 * It is not flushed to disk, because it must survive the end of the process, but need not survive a power cut. If the
 * file is lost, some attempts are repeated, but no data is lost.
 *
 *   magic u32 "TNP1" | events: state u32, position f64, done f64, count f64, failures u32, alone u32
 *   | step: state u32, kind u32, project f64, first f64
 *   | failed steps u32 | each: kind u32, failures u32, project f64, first f64, failed at f64 ms
 *   | bytes of the reason u32 | reason (UTF-8)
 */
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import {
  isBeyondRepair,
  isShortage,
  MAINTENANCE_STEPS,
  type MaintenanceStep,
  type StepGuard,
} from '../../store/faults.ts'
import {
  ATTEMPT_PARTS,
  ATTEMPTS_ALONE_MAX,
  ENDS_ALONE_MAX,
  FAILED_STEPS_MAX,
  STEP_PAUSE_MS_MAX,
  STEP_PAUSE_MS_MIN,
} from './limits.ts'

const FILE_NAME = 'processing'
const MAGIC = 0x31504e54
const FILE_BYTES = 4096

const AT_EVENTS = 4
const AT_STEP = 48
const AT_FAILED = 80
const FAILED_START = 84
const FAILED_BYTES = 32
const AT_REASON = FAILED_START + FAILED_STEPS_MAX * FAILED_BYTES
const REASON_ROOM = FILE_BYTES - AT_REASON - 4

/** The state of the events if no attempt is open. */
const AT_REST = 0
/**
 * An attempt is running. If the file contains this state when it is opened, the thread or the process ended during the
 * attempt.
 */
const BEGUN = 1
/** The last attempt threw an error. */
const THROWN = 2
/** The last attempt ended the thread or the process. */
const ENDED = 3

/**
 * The time of failure (in 1970) that is recorded for a step during which the process has ended once. A pause that
 * begins then is long over, so the step is not paused.
 */
const NOT_PAUSED = 0

/**
 * The assumed number of events of a failed attempt if its real number is unknown, because it had not read a block yet.
 */
const COUNT_UNKNOWN = 8192
/** If the limit of a batch has grown beyond this number of events, batches are no longer limited. */
const EVENTS_ENOUGH = 65_536

/** A position in the log: the end of block `position`, plus `done` events of the next block. */
export interface LogPlace {
  readonly position: number
  readonly done: number
}

/** How the next events must be processed. */
export interface AttemptPlan {
  /** The largest number of events in the next transaction. */
  readonly eventsMax: number
  /** The reason with which the next event becomes a dead letter. Null if the event is processed. */
  readonly setAside: string | null
}

/** The plan if no attempt has failed. */
export const WHOLE: AttemptPlan = { eventsMax: Number.POSITIVE_INFINITY, setAside: null }

interface FailedStep {
  readonly kind: number
  readonly projectId: number
  readonly first: number
  failures: number
  failedAtMs: number
}

/**
 * The record of the processing attempts in one data directory (see the top of this file). Only the processing thread
 * uses it. It stays open while the thread reopens the store after a failure.
 */
export class ProcessingAttempts implements StepGuard {
  readonly #bytes = Buffer.alloc(FILE_BYTES)
  readonly #clock: Pick<Clock, 'now'>
  /** The descriptor of the file. Null if the file could not be opened. The record then exists only in memory. */
  readonly #file: number | null
  readonly #mayGiveUpEnded: boolean
  #failedSteps: FailedStep[] = []
  /** The largest number of events of the next batch. It doubles after each success. */
  #eventsMax = Number.POSITIVE_INFINITY
  #isStepRunning = false
  /** The state of the events before the current attempt. */
  #stateBefore = AT_REST

  /**
   * If `mayGiveUpEnded` is true, an event that repeatedly ends the thread or the process becomes a dead letter. It is
   * false in a cluster, because another replica may have enough memory for the event, and all replicas must store the
   * same events.
   */
  constructor(dataDir: string, mayGiveUpEnded = true, clock: Pick<Clock, 'now'> = SYSTEM_CLOCK) {
    this.#mayGiveUpEnded = mayGiveUpEnded
    this.#clock = clock
    this.#file = openRecord(join(dataDir, FILE_NAME), this.#bytes)
    if (this.#bytes.readUInt32LE() !== MAGIC) {
      this.#bytes.fill(0)
      this.#bytes.writeUInt32LE(MAGIC)
    }
    this.#failedSteps = readFailedSteps(this.#bytes)
    if (this.#bytes.readUInt32LE(AT_STEP) === BEGUN) this.#noteStepFailure(ENDED)
    if (this.#state === BEGUN) this.#noteFailure(ENDED, '')
    else if (this.#state !== AT_REST) this.#eventsMax = partOf(this.#count)
    this.#write()
  }

  /**
   * Returns the plan for the events after a position. If the recorded failure is about another position, removes the
   * record, because the events that failed are no longer the next ones.
   */
  plan({ position, done }: LogPlace): AttemptPlan {
    if (this.#state === AT_REST) return { eventsMax: this.#eventsMax, setAside: null }
    const isSame =
      this.#bytes.readDoubleLE(AT_EVENTS + 4) === position &&
      this.#bytes.readDoubleLE(AT_EVENTS + 12) === done
    if (!isSame) {
      this.#rest()
      return { eventsMax: this.#eventsMax, setAside: null }
    }
    const alone = this.#bytes.readUInt32LE(AT_EVENTS + 32)
    const isHopeless =
      this.#state === THROWN
        ? alone >= ATTEMPTS_ALONE_MAX
        : alone >= ENDS_ALONE_MAX && this.#mayGiveUpEnded
    return {
      eventsMax: Math.max(1, this.#eventsMax),
      setAside: isHopeless ? this.#reason(alone) : null,
    }
  }

  /**
   * Records that an attempt begins. `count` is the largest number of its events, or 0 if the number is not known yet.
   */
  begin({ position, done }: LogPlace, count: number): void {
    const failures = this.#state === AT_REST ? 0 : this.#bytes.readUInt32LE(AT_EVENTS + 28)
    this.#stateBefore = this.#state
    const alone = failures === 0 ? 0 : this.#bytes.readUInt32LE(AT_EVENTS + 32)
    this.#bytes.writeUInt32LE(BEGUN, AT_EVENTS)
    this.#bytes.writeDoubleLE(position, AT_EVENTS + 4)
    this.#bytes.writeDoubleLE(done, AT_EVENTS + 12)
    this.#bytes.writeDoubleLE(count, AT_EVENTS + 20)
    this.#bytes.writeUInt32LE(failures, AT_EVENTS + 28)
    this.#bytes.writeUInt32LE(alone, AT_EVENTS + 32)
    this.#writePart(AT_EVENTS, AT_STEP)
  }

  /**
   * Records that the current attempt has `count` events by now. Counts above 1 are rounded up to a power of two. If a
   * batch has many small blocks, the file is therefore written only a few times.
   */
  grow(count: number): void {
    if (count <= this.#bytes.readDoubleLE(AT_EVENTS + 20)) return
    this.#bytes.writeDoubleLE(2 ** Math.ceil(Math.log2(count)), AT_EVENTS + 20)
    this.#writePart(AT_EVENTS + 20, AT_EVENTS + 28)
  }

  /** Records that the attempt was committed. The next batch may be twice as large. */
  succeeded(): void {
    this.#eventsMax *= 2
    if (this.#eventsMax > EVENTS_ENOUGH) this.#eventsMax = Number.POSITIVE_INFINITY
    this.#rest()
  }

  /** Records that the attempt threw an error. */
  threw(reason: string): void {
    this.#noteFailure(THROWN, reason)
    this.#write()
  }

  /** Withdraws the record of the current attempt, because something other than its events caused the error. */
  withdraw(): void {
    this.#bytes.writeUInt32LE(this.#stateBefore, AT_EVENTS)
    this.#writePart(AT_EVENTS, AT_STEP)
  }

  isPaused(step: MaintenanceStep, projectId = 0, first = 0): boolean {
    if (this.#failedSteps.length === 0) return false
    const failed = this.#find(MAINTENANCE_STEPS.indexOf(step), projectId, first)
    if (failed === undefined) return false
    const pauseMs = Math.min(STEP_PAUSE_MS_MAX, STEP_PAUSE_MS_MIN * 2 ** (failed.failures - 1))
    return Math.abs(this.#clock.now() - failed.failedAtMs) < pauseMs
  }

  /** The names of all steps that are paused now. */
  get pausedSteps(): readonly MaintenanceStep[] {
    return MAINTENANCE_STEPS.filter((step, kind) =>
      this.#failedSteps.some(
        (failed) => failed.kind === kind && this.isPaused(step, failed.projectId, failed.first),
      ),
    )
  }

  run<T>(step: MaintenanceStep, action: () => T, projectId = 0, first = 0): T {
    // A step within another step counts as part of the outer one.
    if (this.#isStepRunning) return action()
    this.#bytes.writeUInt32LE(BEGUN, AT_STEP)
    this.#bytes.writeUInt32LE(MAINTENANCE_STEPS.indexOf(step), AT_STEP + 4)
    this.#bytes.writeDoubleLE(projectId, AT_STEP + 8)
    this.#bytes.writeDoubleLE(first, AT_STEP + 16)
    this.#writePart(AT_STEP, AT_FAILED)
    this.#isStepRunning = true
    try {
      const result = action()
      this.#endStep()
      this.#forgetFailures()
      return result
    } catch (cause) {
      // A shortage of space or a failed commit is not the fault of the step, so no failure of the step is recorded.
      if (isShortage(cause) !== null || isBeyondRepair(cause)) this.#endStep()
      else {
        this.#noteStepFailure(THROWN)
        this.#write()
      }
      throw cause
    } finally {
      this.#isStepRunning = false
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }

  get #state(): number {
    return this.#bytes.readUInt32LE(AT_EVENTS)
  }

  /** The number of events of the last attempt. */
  get #count(): number {
    return this.#bytes.readDoubleLE(AT_EVENTS + 20) || COUNT_UNKNOWN
  }

  #rest(): void {
    if (this.#state === AT_REST) return
    this.#bytes.fill(0, AT_EVENTS, AT_STEP)
    this.#writePart(AT_EVENTS, AT_STEP)
  }

  #endStep(): void {
    this.#bytes.writeUInt32LE(AT_REST, AT_STEP)
    this.#writePart(AT_STEP, AT_STEP + 4)
  }

  /** Removes the failures of the step that has just succeeded. */
  #forgetFailures(): void {
    if (this.#failedSteps.length === 0) return
    const known = this.#currentStep
    if (known === undefined) return
    this.#failedSteps = this.#failedSteps.filter((step) => step !== known)
    this.#write()
  }

  #noteFailure(state: number, reason: string): void {
    const count = this.#count
    const alone = count === 1 ? this.#bytes.readUInt32LE(AT_EVENTS + 32) + 1 : 0
    this.#bytes.writeUInt32LE(state, AT_EVENTS)
    this.#bytes.writeUInt32LE(this.#bytes.readUInt32LE(AT_EVENTS + 28) + 1, AT_EVENTS + 28)
    this.#bytes.writeUInt32LE(alone, AT_EVENTS + 32)
    this.#eventsMax = partOf(count)
    const text = Buffer.from(reason).subarray(0, REASON_ROOM)
    this.#bytes.writeUInt32LE(text.length, AT_REASON)
    text.copy(this.#bytes, AT_REASON + 4)
  }

  /** Records a failure of the current step. `how` is `THROWN` or `ENDED`. */
  #noteStepFailure(how: number): void {
    this.#bytes.writeUInt32LE(AT_REST, AT_STEP)
    const known = this.#currentStep
    if (known !== undefined) {
      known.failures = Math.min(known.failures + 1, 32)
      known.failedAtMs = this.#clock.now()
      return
    }
    // The oldest entry is removed to make space for the new one.
    if (this.#failedSteps.length >= FAILED_STEPS_MAX) this.#failedSteps.shift()
    this.#failedSteps.push({
      kind: this.#bytes.readUInt32LE(AT_STEP + 4),
      projectId: this.#bytes.readDoubleLE(AT_STEP + 8),
      first: this.#bytes.readDoubleLE(AT_STEP + 16),
      failures: 1,
      failedAtMs: how === ENDED ? NOT_PAUSED : this.#clock.now(),
    })
  }

  /**
   * The record of earlier failures of the step that is running or, if none is running, of the last step. Undefined if
   * the step has not failed.
   */
  get #currentStep(): FailedStep | undefined {
    const kind = this.#bytes.readUInt32LE(AT_STEP + 4)
    const projectId = this.#bytes.readDoubleLE(AT_STEP + 8)
    return this.#find(kind, projectId, this.#bytes.readDoubleLE(AT_STEP + 16))
  }

  #find(kind: number, projectId: number, first: number): FailedStep | undefined {
    return this.#failedSteps.find(
      (step) => step.kind === kind && step.projectId === projectId && step.first === first,
    )
  }

  #reason(alone: number): string {
    const length = Math.min(this.#bytes.readUInt32LE(AT_REASON), REASON_ROOM)
    const text = this.#bytes.toString('utf8', AT_REASON + 4, AT_REASON + 4 + length)
    if (this.#state === THROWN) return text
    return `the process or its processing thread ended ${alone} times while it processed this event on its own`
  }

  #write(): void {
    const bytes = this.#bytes
    bytes.writeUInt32LE(this.#failedSteps.length, AT_FAILED)
    for (const [index, step] of this.#failedSteps.entries()) {
      const start = FAILED_START + index * FAILED_BYTES
      bytes.writeUInt32LE(step.kind, start)
      bytes.writeUInt32LE(step.failures, start + 4)
      bytes.writeDoubleLE(step.projectId, start + 8)
      bytes.writeDoubleLE(step.first, start + 16)
      bytes.writeDoubleLE(step.failedAtMs, start + 24)
    }
    this.#writePart(0, FILE_BYTES)
  }

  #writePart(start: number, end: number): void {
    if (this.#file === null) return
    try {
      writeSync(this.#file, this.#bytes, start, end - start, start)
    } catch {
      // The error is ignored. If these few bytes cannot be written, neither can the events, and that error is reported.
    }
  }
}

/** Returns the size of the next batch after a batch of `count` events failed. */
function partOf(count: number): number {
  return Math.max(1, Math.floor(count / ATTEMPT_PARTS))
}

function readFailedSteps(bytes: Buffer): FailedStep[] {
  const count = Math.min(bytes.readUInt32LE(AT_FAILED), FAILED_STEPS_MAX)
  return Array.from({ length: count }, (_, index) => {
    const start = FAILED_START + index * FAILED_BYTES
    return {
      kind: bytes.readUInt32LE(start),
      failures: Math.max(1, bytes.readUInt32LE(start + 4)),
      projectId: bytes.readDoubleLE(start + 8),
      first: bytes.readDoubleLE(start + 16),
      failedAtMs: bytes.readDoubleLE(start + 24),
    }
  })
}

/** Opens the file, or creates it, and reads it into `bytes`. Returns null if that fails. */
function openRecord(path: string, bytes: Buffer): number | null {
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
    readSync(file, bytes, 0, FILE_BYTES, 0)
    return file
  } catch {
    return null
  }
}
