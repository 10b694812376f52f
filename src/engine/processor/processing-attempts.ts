/**
 * What processing is about to do, noted on the disk before it does it, so that the same work does not fail for ever:
 * whoever opens the store after an error, after the end of a thread or after the end of the process reads what was
 * tried and has not been done. Events that could not be stored together are tried again in smaller parts, an event
 * that fails alone is set aside, and a step of maintenance (a merge of segments, an erasure) that failed waits.
 *
 * File `processing` in the data directory, 4096 bytes, all numbers little-endian, rewritten in place. It is written
 * without a flush: it has to outlive the process, not a power cut. What it lacks costs attempts, never data.
 *
 *   magic u32 "TNP1" | events: state u32, position f64, done f64, count f64, failures u32, alone u32
 *   | step: state u32, kind u32, project f64, first f64
 *   | failed steps u32 | each: kind u32, failures u32, project f64, first f64, failed at f64 ms
 *   | bytes of the reason u32 | reason (UTF-8)
 */
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { MAINTENANCE_STEPS, type MaintenanceStep, type StepGuard } from '../../store/faults.ts'
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

/** State of the events: nothing is tried. */
const AT_REST = 0
/** They are tried now; whoever finds it on opening knows that the process or its thread ended meanwhile. */
const BEGUN = 1
/** They were tried, and an error was thrown. */
const THROWN = 2
/** They were tried, and the thread or the process ended. */
const ENDED = 3

/** Stands for the events of an attempt that ended before it had any. */
const COUNT_UNKNOWN = 8192
/** From so many events on parts are as large as ever. */
const EVENTS_ENOUGH = 65_536

/** Where in the log the next events are: behind block `position` and `done` events of the block after it. */
export interface LogPlace {
  readonly position: number
  readonly done: number
}

/** How to try the next events. */
export interface AttemptPlan {
  /** At most so many in one transaction. */
  readonly eventsMax: number
  /** Not null: the next event goes to the dead letters, with this reason. */
  readonly setAside: string | null
}

/** As if nothing had ever failed. */
export const WHOLE: AttemptPlan = { eventsMax: Number.POSITIVE_INFINITY, setAside: null }

interface FailedStep {
  readonly kind: number
  readonly projectId: number
  readonly first: number
  failures: number
  failedAtMs: number
}

/** The record of one data directory. For the processing thread alone; it outlives the store that it opens. */
export class ProcessingAttempts implements StepGuard {
  readonly #bytes = Buffer.alloc(FILE_BYTES)
  readonly #clock: Pick<Clock, 'now'>
  /** Null: the file cannot be opened, and what is noted ends with this thread. */
  readonly #file: number | null
  readonly #mayGiveUpEnded: boolean
  #failedSteps: FailedStep[] = []
  /** The same as `eventsMax` of the plan, and grows with each success. */
  #eventsMax = Number.POSITIVE_INFINITY
  #isStepRunning = false
  /** The state of the events before they were tried last. */
  #stateBefore = AT_REST

  /**
   * `mayGiveUpEnded`: an event at which the thread or the process ended again and again is set aside. False where
   * other machines store the same events: this one may lack the memory that they have, and all must decide alike.
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
    if (this.#bytes.readUInt32LE(AT_STEP) === BEGUN) this.#noteStepFailure()
    if (this.#state === BEGUN) this.#noteFailure(ENDED, '')
    else if (this.#state !== AT_REST) this.#eventsMax = partOf(this.#count)
    this.#write()
  }

  /** How to try the events behind a place. What was noted of another place is over: they are stored. */
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

  /** How often the events that come next have failed. */
  get failures(): number {
    return this.#state === AT_REST ? 0 : this.#bytes.readUInt32LE(AT_EVENTS + 28)
  }

  /** Events behind a place are tried, `count` of them at most; 0: that is not known yet. */
  begin({ position, done }: LogPlace, count: number): void {
    const failures = this.failures
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

  /** The attempt has become larger. */
  grow(count: number): void {
    this.#bytes.writeDoubleLE(count, AT_EVENTS + 20)
    this.#writePart(AT_EVENTS + 20, AT_EVENTS + 28)
  }

  /** They are stored. Parts become larger again, step by step. */
  succeeded(): void {
    this.#eventsMax *= 2
    if (this.#eventsMax > EVENTS_ENOUGH) this.#eventsMax = Number.POSITIVE_INFINITY
    this.#rest()
  }

  /** An error was thrown while they were tried; its own fault, or that of one of them. */
  threw(reason: string): void {
    this.#noteFailure(THROWN, reason)
    this.#write()
  }

  /** What was tried has failed for a reason that has nothing to do with it: it does not count. */
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

  /** Steps that are not tried now, by name. */
  get pausedSteps(): readonly MaintenanceStep[] {
    const names = MAINTENANCE_STEPS.filter((step, kind) =>
      this.#failedSteps.some(
        (failed) => failed.kind === kind && this.isPaused(step, failed.projectId, failed.first),
      ),
    )
    return names
  }

  run<T>(step: MaintenanceStep, action: () => T, projectId = 0, first = 0): T {
    // A step within a step is part of it.
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
      return result
    } catch (cause) {
      this.#noteStepFailure()
      this.#write()
      throw cause
    } finally {
      this.#isStepRunning = false
    }
  }

  /** A failure of a step that has nothing to do with it does not count. */
  forgiveStep(): void {
    const kind = this.#bytes.readUInt32LE(AT_STEP + 4)
    const projectId = this.#bytes.readDoubleLE(AT_STEP + 8)
    const first = this.#bytes.readDoubleLE(AT_STEP + 16)
    const failed = this.#find(kind, projectId, first)
    if (failed === undefined) return
    this.#failedSteps = this.#failedSteps.filter((each) => each !== failed)
    this.#write()
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }

  get #state(): number {
    return this.#bytes.readUInt32LE(AT_EVENTS)
  }

  /** Events that were tried last. */
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

  #noteStepFailure(): void {
    const kind = this.#bytes.readUInt32LE(AT_STEP + 4)
    const projectId = this.#bytes.readDoubleLE(AT_STEP + 8)
    const first = this.#bytes.readDoubleLE(AT_STEP + 16)
    this.#bytes.writeUInt32LE(AT_REST, AT_STEP)
    const failedAtMs = this.#clock.now()
    const known = this.#find(kind, projectId, first)
    if (known !== undefined) {
      known.failures = Math.min(known.failures + 1, 32)
      known.failedAtMs = failedAtMs
      return
    }
    // The one that failed longest ago makes room.
    if (this.#failedSteps.length >= FAILED_STEPS_MAX) this.#failedSteps.shift()
    this.#failedSteps.push({ kind, projectId, first, failures: 1, failedAtMs })
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
    return `the process or its processing thread ended ${alone} times while this event was processed alone`
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
      // A disk that refuses these few bytes refuses the events as well, and says so there.
    }
  }
}

/** How many events to try after so many have failed. */
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

/** Opens or makes the file and reads it into `bytes`; null when that cannot be done. */
function openRecord(path: string, bytes: Buffer): number | null {
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
    readSync(file, bytes, 0, FILE_BYTES, 0)
    return file
  } catch {
    return null
  }
}
