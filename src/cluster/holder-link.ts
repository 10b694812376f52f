/**
 * Sends the requests of this machine to the *holders* of a partition: the machines that are its replicas. One holder
 * works on a request, reports at intervals that it is still working, and sends its answer in parts. If its reports
 * stop, or if it has not caught up, another holder is asked. Limits apply to the number of waiting requests, the bytes
 * of their answers, and the time that they take.
 */
import { randomBytes } from 'node:crypto'
import { ServiceError } from '../base/errors.ts'
import { getOrAdd } from '../base/maps.ts'
import { refusal } from '../base/refusals.ts'
import {
  type Answer,
  decodeData,
  decodeFrame,
  encodeData,
  type Frame,
  HOLDERS,
  LEAVERS,
  type Question,
} from './holder-message.ts'
import {
  DISTANT_ANSWER_BYTES_MAX,
  DISTANT_ANSWERS_BYTES_MAX,
  NOBODY_MS_MAX,
  QUESTION_MS_MAX,
  QUESTIONS_WAITING_MAX,
  SILENCE_MS_MAX,
} from './limits.ts'
import type { Messages } from './shared-stream.ts'

const NOBODY_AGAIN_MS = 100

/** Options for a request to a holder. */
export interface AskOptions {
  /** If the holder sends nothing for this long, in milliseconds, another one is asked. */
  readonly silenceMs?: number
  /** The longest time to wait for the answer, in milliseconds. */
  readonly msMax?: number
  /**
   * The number of attempts. The brokers may give each of them to another holder. A request that changes something must
   * have only one attempt.
   */
  readonly attempts?: number
  /** The time, in milliseconds, for which the request is repeated while no holder of the partition is connected. */
  readonly nobodyMs?: number
  /**
   * Receives a function that cancels the request. The caller keeps that function, and calls it when nobody waits for
   * the answer any more.
   */
  readonly onLeave?: ((cancel: () => void) => void) | undefined
}

/** A question in which everything except `asked` may be left out. */
export type Asking = Pick<Question, 'asked'> & Partial<Question>

/** An answer, and the size of its encoded form in bytes. */
export interface Received extends Answer {
  readonly bytes: number
}

/** The reasons why a request may get no answer. */
type Unanswered = NoAnswer['reason'] | 'holders_full' | 'holder_message_large'

/** Thrown if an attempt gets no answer, with the reason. */
class NoAnswer extends Error {
  readonly reason: 'holder_silent' | 'holder_behind' | 'nobody_holds'

  constructor(reason: NoAnswer['reason'], cause?: unknown) {
    super(reason, { cause })
    this.reason = reason
  }
}

interface Waiting {
  readonly onFrame: (data: Buffer) => void
  readonly onNobody: () => void
}

/** Sends the requests of this machine to the holders of partitions. */
export class HolderLink {
  readonly #messages: Messages
  readonly #place = `tenrec.answers.${randomBytes(12).toString('hex')}`
  readonly #waiting = new Map<string, Waiting>()
  readonly #stopListening: () => void
  #questions = 0
  #bytes = 0
  #lastNumber = 0
  /** For each partition of which no holder answers: the time since which no holder has answered. */
  readonly nobodySinceMs = new Map<number, number>()
  #isClosed = false
  /** `asked`: the number of requests. `unanswered`: the number of those that got no answer, for whatever reason. */
  readonly counts = { asked: 0, unanswered: 0 }

  constructor(messages: Messages) {
    this.#messages = messages
    this.#stopListening = messages.listen(`${this.#place}.*`, (data, { subject }) => {
      const waiting = this.#waiting.get(subject)
      if (data === null) waiting?.onNobody()
      else if (waiting !== undefined) waiting.onFrame(data)
    })
  }

  /**
   * Resolves with the answer of a machine that holds a partition. `Question` explains `after` and `control`. Rejects
   * with the `ServiceError` of the holder if it refuses the request. Otherwise rejects with `nobody_holds`,
   * `holder_silent`, `holder_behind`, `holders_full`, `holder_message_large` and `read_unwanted`.
   */
  async ask(
    partition: number,
    { asked, after = 0, control = 0 }: Asking,
    options: AskOptions,
  ): Promise<Received> {
    const { attempts = 1, nobodyMs = NOBODY_MS_MAX, msMax = QUESTION_MS_MAX } = options
    if (this.#isClosed || this.#questions >= QUESTIONS_WAITING_MAX) {
      throw this.#unanswered('holders_full')
    }
    const startedAtMs = performance.now()
    const deadline = startedAtMs + msMax
    const question = encodeData({ asked, after, control })
    if (question.length > (this.#messages.messageBytesMax ?? Number.POSITIVE_INFINITY)) {
      throw this.#unanswered('holder_message_large')
    }
    this.counts.asked++
    this.#questions++
    try {
      for (let attempt = 1; ; ) {
        try {
          const answer = await this.#askOnce(partition, question, deadline, options)
          this.nobodySinceMs.delete(partition)
          return answer
        } catch (cause) {
          if (!(cause instanceof NoAnswer)) throw cause
          const now = performance.now()
          const isNobody = cause.reason === 'nobody_holds'
          const hasTime = isNobody ? now < startedAtMs + nobodyMs : attempt++ < attempts
          if (!hasTime || now >= deadline || this.#isClosed) {
            if (cause.reason !== 'holder_behind') getOrAdd(this.nobodySinceMs, partition, () => now)
            throw this.#unanswered(cause.reason, cause)
          }
          if (isNobody) await new Promise((resolve) => setTimeout(resolve, NOBODY_AGAIN_MS))
        }
      }
    } finally {
      this.#questions--
    }
  }

  #unanswered(reason: Unanswered, cause?: unknown): ServiceError {
    this.counts.unanswered++
    return refusal(reason, { cause })
  }

  close(): void {
    this.#isClosed = true
    this.#stopListening()
    for (const { onNobody } of [...this.#waiting.values()]) onNobody()
  }

  async #askOnce(
    partition: number,
    question: Buffer,
    deadline: number,
    options: AskOptions,
  ): Promise<Received> {
    const { silenceMs = SILENCE_MS_MAX, onLeave = () => {} } = options
    const subject = `${this.#place}.${++this.#lastNumber}`
    const gathered = new Gathered()
    let timer: NodeJS.Timeout | undefined
    try {
      const answer = await new Promise<Answer>((resolve, reject) => {
        const wait = (): void => {
          clearTimeout(timer)
          const leftMs = Math.max(0, deadline - performance.now())
          const waitMs = Math.min(silenceMs, leftMs)
          timer = setTimeout(() => reject(new NoAnswer('holder_silent')), waitMs)
        }
        const onFrame = (data: Buffer): void => {
          wait()
          try {
            const answer = this.#take(gathered, decodeFrame(data))
            if (answer !== null) resolve(answer)
          } catch (cause) {
            const isSaid = cause instanceof NoAnswer || cause instanceof ServiceError
            reject(isSaid ? cause : new NoAnswer('holder_silent', cause))
          }
        }
        this.#waiting.set(subject, {
          onFrame,
          onNobody: () => reject(new NoAnswer('nobody_holds')),
        })
        wait()
        onLeave(() => reject(refusal('read_unwanted')))
        const isSent = this.#messages.send(HOLDERS.of(partition), question, subject)
        if (!isSent) reject(new NoAnswer('nobody_holds'))
      })
      return { ...answer, bytes: gathered.bytes }
    } catch (cause) {
      // Nobody waits for the answer any more, or the attempt has failed. Tell the machine that works on the request to
      // stop.
      this.#messages.send(LEAVERS, Buffer.from(subject))
      throw cause
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(subject)
      this.#bytes -= gathered.bytes
    }
  }

  /**
   * Adds one frame of an answer. Returns the whole answer after its last frame, and null before it. Throws the refusal
   * of the holder, or `NoAnswer`.
   */
  #take(gathered: Gathered, frame: Frame): Answer | null {
    switch (frame.kind) {
      case 'working':
        return null
      case 'behind':
        throw new NoAnswer('holder_behind')
      case 'refused':
        throw ServiceError.fromBody(frame.body, frame.retryAfterSeconds)
      case 'part':
      case 'end': {
        const { index, bytes } = frame
        if (index !== gathered.parts.length) throw new NoAnswer('holder_silent')
        const isTooMuch = gathered.bytes + bytes.length > DISTANT_ANSWER_BYTES_MAX
        const isFull = this.#bytes + bytes.length > DISTANT_ANSWERS_BYTES_MAX
        if (isTooMuch) throw this.#unanswered('holder_message_large')
        if (isFull) throw this.#unanswered('holders_full')
        gathered.parts.push(bytes)
        gathered.bytes += bytes.length
        this.#bytes += bytes.length
        return frame.kind === 'end' ? gathered.answer() : null
      }
    }
  }
}

class Gathered {
  readonly parts: Uint8Array[] = []
  bytes = 0

  answer(): Answer {
    try {
      const [only] = this.parts
      // The cast is right: a machine of this cluster with the same version wrote the answer.
      return decodeData(
        this.parts.length === 1 && only !== undefined ? only : Buffer.concat(this.parts),
      ) as Answer
    } catch (cause) {
      throw new NoAnswer('holder_silent', cause)
    }
  }
}
