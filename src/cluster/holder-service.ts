/**
 * Answers requests of other machines about the partition of this machine: thread calls, persons and groups for flag
 * decisions, cohorts and group types, and outcomes of commands. A request waits for a limited time until this replica
 * has caught up with the state that the asking machine has seen. While the service works on a request, it reports this
 * at intervals, so that the asking machine notices if this process ends.
 */
import { ServiceError } from '../base/errors.ts'
import { keepNewest } from '../base/maps.ts'
import { refusal } from '../base/refusals.ts'
import { factsOf } from '../engine/front/decisions.ts'
import { STORE_CALLS } from '../engine/threads/call-table.ts'
import type { WorkerPool } from '../engine/threads/pool.ts'
import type { CommandOutcome, ProcessResult } from '../engine/threads/tasks.ts'
import type { CallOptions } from '../ports/task-runner.ts'
import type { DecisionSourceReader } from '../store/identity/decision-sources.ts'
import { definitionsOf } from './edge-definitions.ts'
import {
  type Asked,
  DEFINITIONS,
  decodeData,
  encodeData,
  encodeFrame,
  framesOf,
  HOLDERS,
  LEAVERS,
  type Question,
} from './holder-message.ts'
import {
  ANSWER_PART_BYTES_MAX,
  DISTANT_ANSWER_BYTES_MAX,
  OUTCOMES_KEPT_MAX,
  QUESTION_WAIT_MS_MAX,
  QUESTIONS_SERVED_MAX,
} from './limits.ts'
import type { Messages } from './shared-stream.ts'

const WORKING_MS = 400
const LOOK_MS = 5
/** The bytes of a message that are reserved for its subject and the head of the answer. */
const MESSAGE_HEAD_BYTES = 1024

/** What the service needs from its node. */
export interface HolderServiceOptions {
  /** The partition that this machine stores. */
  readonly partition: number
  readonly messages: Messages
  readonly pool: Pick<WorkerPool, 'run' | 'queries'>
  readonly stored: () => DecisionSourceReader
  /** Returns the number of the newest catalogue change that this machine has applied. */
  readonly control: () => number
  /** Starts the next processing run at once, because a request waits for the results of blocks in the log. */
  readonly hurry: () => void
}

/** The outcome of a command, and the number of the last block of the processing run that carried out the command. */
export interface KnownOutcome {
  readonly outcome: CommandOutcome
  readonly position: number
  readonly changedDefinitions: readonly number[]
}

interface Work {
  cancel: () => void
  isUnwanted: boolean
}

/** A request of another machine that waits until this replica has caught up. */
interface Waiting {
  readonly isTrue: () => boolean
  readonly work: Work
  readonly deadlineMs: number
  readonly resolve: (isTrue: boolean) => void
}

/** Answers the requests of other machines in this process. */
export class HolderService {
  readonly #options: HolderServiceOptions
  readonly #work = new Map<string, Work>()
  readonly #outcomes = new Map<string, KnownOutcome>()
  readonly #waiting = new Set<Waiting>()
  #lookTimer: NodeJS.Timeout | undefined
  #processed = 0
  #stopServing: (() => void) | null = null
  readonly #stopListening: () => void
  readonly #timer: NodeJS.Timeout
  #isClosed = false
  /** The number of requests of other machines that were answered. */
  answered = 0

  constructor(options: HolderServiceOptions) {
    this.#options = options
    const { messages } = options
    this.#stopListening = messages.listen(LEAVERS, (data) => {
      const work = this.#work.get(data?.toString() ?? '')
      if (work === undefined) return
      work.isUnwanted = true
      work.cancel()
    })
    this.#timer = setInterval(() => {
      for (const place of this.#work.keys()) messages.send(place, encodeFrame({ kind: 'working' }))
    }, WORKING_MS)
  }

  /** Starts or stops receiving requests. A replica that is far behind receives none. */
  serve(isServing: boolean): void {
    if (isServing === (this.#stopServing !== null) || this.#isClosed) return
    this.#stopServing?.()
    this.#stopServing = null
    if (!isServing) return
    this.#stopServing = this.#options.messages.listen(
      HOLDERS.of(this.#options.partition),
      (data, { answerTo }) => {
        if (data !== null && answerTo !== '') void this.#answer(data, answerTo)
      },
      HOLDERS.group,
    )
  }

  /** Must be called after each processing run, with its result. Requests that waited for it can then be answered. */
  processed({ processed, commands, changedDefinitions }: ProcessResult): void {
    this.#processed = processed
    for (const outcome of commands) {
      const known = { outcome, position: processed, changedDefinitions }
      keepNewest(this.#outcomes, outcome.uuid, known, OUTCOMES_KEPT_MAX)
    }
    this.#look()
    if (changedDefinitions.length === 0) return
    const { messages, partition } = this.#options
    messages.send(DEFINITIONS.of(partition), Buffer.from(JSON.stringify(changedDefinitions)))
  }

  close(): void {
    this.serve(false)
    this.#isClosed = true
    this.#stopListening()
    clearInterval(this.#timer)
    this.#look()
    for (const { cancel } of this.#work.values()) cancel()
  }

  async #answer(data: Buffer, place: string): Promise<void> {
    const { messages, control } = this.#options
    const work: Work = { cancel: () => {}, isUnwanted: false }
    try {
      if (this.#work.size >= QUESTIONS_SERVED_MAX) throw refusal('holders_full')
      this.#work.set(place, work)
      // The cast is right: `HolderLink` on another machine of this cluster wrote the request.
      const { asked, after, control: changes } = decodeData(data) as Question
      const isThere = (): boolean => this.#processed >= after && control() >= changes
      if (!(isThere() || (await this.#until(isThere, work)))) {
        messages.send(place, encodeFrame({ kind: 'behind' }))
        return
      }
      const result = await this.#resultOf(asked, work)
      const answer = encodeData({ result, control: control() })
      if (answer.length > DISTANT_ANSWER_BYTES_MAX) throw refusal('holder_message_large')
      this.answered++
      const messageBytes = (messages.messageBytesMax ?? 0) - MESSAGE_HEAD_BYTES
      const partBytes = Math.max(1, Math.min(ANSWER_PART_BYTES_MAX, messageBytes))
      for (const frame of framesOf(answer, partBytes)) {
        if (!messages.send(place, frame)) break
      }
    } catch (cause) {
      const error = cause instanceof ServiceError ? cause : refusal('thread_ended', { cause })
      const { retryAfterSeconds } = error
      const frame = { kind: 'refused', body: error.toBody(), retryAfterSeconds } as const
      messages.send(place, encodeFrame(frame))
    } finally {
      this.#work.delete(place)
    }
  }

  async #resultOf(asked: Asked, work: Work): Promise<unknown> {
    const { pool, stored, hurry } = this.#options
    switch (asked.ask) {
      case 'facts':
        return factsOf(stored(), asked.wanted)
      case 'definitions':
        return definitionsOf(stored(), asked.projects)
      case 'outcome': {
        const known = (): KnownOutcome | undefined => this.#outcomes.get(asked.uuid)
        if (known() === undefined) {
          hurry()
          await this.#until(() => known() !== undefined, work)
        }
        return known() ?? null
      }
      case 'call':
        return await runCall(pool, asked, (cancel) => {
          work.cancel = cancel
          if (work.isUnwanted) cancel()
        })
      default:
        throw new ServiceError(
          'invalid_input',
          'The machine that stores this project cannot answer this request. Run the same version of Tenrec on all machines.',
        )
    }
  }

  #until(isTrue: () => boolean, work: Work): Promise<boolean> {
    return new Promise((resolve) => {
      const deadlineMs = performance.now() + QUESTION_WAIT_MS_MAX
      this.#waiting.add({ isTrue, work, deadlineMs, resolve })
      this.#lookTimer ??= setInterval(() => this.#look(), LOOK_MS)
    })
  }

  #look(): void {
    const now = performance.now()
    for (const waiting of this.#waiting) {
      const { isTrue, work, deadlineMs, resolve } = waiting
      const isThere = isTrue()
      if (!(isThere || work.isUnwanted || this.#isClosed) && now < deadlineMs) continue
      this.#waiting.delete(waiting)
      resolve(isThere)
    }
    if (this.#waiting.size > 0) return
    clearInterval(this.#lookTimer)
    this.#lookTimer = undefined
  }
}

/** Runs a call for another machine. A query is divided among the threads of this machine. */
async function runCall(
  pool: HolderServiceOptions['pool'],
  { name, values, options }: Extract<Asked, { ask: 'call' }>,
  onLeave: NonNullable<CallOptions['onLeave']>,
): Promise<unknown> {
  if (!STORE_CALLS.has(name)) {
    throw new ServiceError(
      'invalid_input',
      'The machine that stores this project does not answer this request for another machine. Run the same version of Tenrec on all machines.',
    )
  }
  if (name === 'query') {
    const [task] = values as Parameters<WorkerPool['queries']['answer']>
    return { kind: 'answer', text: await pool.queries.answer(task, onLeave) }
  }
  // The casts are right: both machines use the same table of calls.
  return await pool.run(name as never, values as never, { ...options, onLeave })
}
