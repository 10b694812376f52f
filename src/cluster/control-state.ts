/**
 * The catalogue of a cluster on one machine. The catalogue is the result of a sequence of *write sets* in a stream of
 * the brokers. A write set contains the writes of one change. A machine computes the write set on its own copy of the
 * catalogue. The brokers accept the set only if that copy contained all earlier sets. Otherwise the machine applies the
 * sets that it lacks and runs the change again.
 *
 * From time to time, a machine adds the whole catalogue to the stream and deletes the older messages. A machine that is
 * new, or was away for long, starts with the newest whole catalogue. The stream is empty if the cluster is new, or if
 * the brokers have lost everything. The first machine then writes its catalogue to the stream. Until the first change
 * is made, another machine with a newer catalogue may replace this first catalogue.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError, type ServiceError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { refusal } from '../base/refusals.ts'
import type {
  CatalogueCopy,
  ChangeLog,
  ChangePlace,
  Decided,
  PlacedChanges,
  Proposal,
} from '../ports/change-log.ts'
import {
  type ControlMessage,
  encodeControl,
  GatheredParts,
  newId,
  readControl,
} from './control-message.ts'
import {
  CONTROL_ALONE_MS_MAX,
  CONTROL_MESSAGES_MAX,
  CONTROL_MS_MAX,
  PUBLISH_MS_MAX,
} from './limits.ts'
import {
  OvertakenError,
  type SharedStream,
  type StreamMessage,
  type StreamPosition,
} from './shared-stream.ts'

const AGAIN_MS = 50
const LOOK_MS = 250
const COMPLAIN_MS = 10_000
/**
 * After this number of write sets, the node checks whether the stream has become so long that older messages should be
 * deleted.
 */
const CUT_LOOK_SETS = 64

/** What the catalogue of a node needs from the node. */
export interface ControlStateOptions {
  readonly stream: SharedStream
  readonly copy: CatalogueCopy
  /** The position of this machine's copy at the start. Null: the copy has never followed a stream. */
  readonly place: ChangePlace | null
  readonly logger: Logger
  /** Called after this machine's copy has changed. */
  readonly onChange: () => void
  /**
   * Called before this machine publishes its copy as the first catalogue of the cluster, so that an empty copy can be
   * filled.
   */
  readonly onEmpty?: () => void
  /**
   * True for a command, which neither starts the stream nor deletes older messages. The daemon of this machine does
   * both.
   */
  readonly isGuest?: boolean
}

type Outcome = 'made' | 'overtaken' | 'unknown'

/** A write set that was sent to the brokers and whose outcome is not known yet. */
interface Pending {
  readonly id: string
  readonly local: Uint8Array
  /** The sequence number of the set in the stream if the brokers accept it. */
  readonly sequence: number
  readonly resolve: (outcome: Outcome) => void
}

/**
 * Collects what is needed to continue from a whole catalogue in the stream. It exists while the copy itself cannot be
 * continued with further write sets.
 */
interface Beginning {
  /** The write sets that were read since the last gap in the stream. They are applied after the whole catalogue. */
  readonly sets: { readonly sequence: number; readonly message: ControlMessage }[]
  /** The sequence number of a whole catalogue in the stream that is older than the copy, or null if there is none. */
  older: number | null
}

/** The catalogue of one node, kept up to date with the stream. */
export class ControlState implements ChangeLog {
  readonly #options: ControlStateOptions
  readonly #parts = new GatheredParts()
  /** The position up to which the copy contains all write sets. Null: the copy has never followed a stream. */
  place: ChangePlace | null
  #read: StreamPosition
  #beginning: Beginning | null
  #taking: Promise<void> = Promise.resolve()
  #turn: Promise<unknown> = Promise.resolve()
  #pending: Pending | null = null
  /** The reason why this copy no longer follows the stream. Null: it follows. */
  trouble: string | null = null
  /** The error that led to `trouble`, if there was one. */
  failure: unknown
  #isAlone = false
  #isClosed = false
  #isLooking = false
  /** The ids of the whole catalogues that this node has published because the stream had none. */
  readonly #offered = new Set<string>()
  readonly #timer: NodeJS.Timeout
  /**
   * The numbers of changes of this node: those that were `made`, those that were run `again` because another change
   * came first, and those that were `refused`.
   */
  readonly counts = { made: 0, again: 0, refused: 0 }
  /** True if the first catalogue in the stream came from this node. */
  isBeginner = false

  constructor(options: ControlStateOptions) {
    this.#options = options
    const { place, stream } = options
    this.place = place
    this.#read = { incarnation: place?.incarnation ?? '', sequence: place?.sequence ?? 0 }
    this.#beginning = place === null ? { sets: [], older: null } : null
    stream.onIncarnation(() => void this.#queue(() => this.#begin(stream.incarnation)))
    stream.follow({
      position: () => this.#read,
      take: (message, incarnation) => this.#queue(() => this.#take(message, incarnation)),
    })
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
    if (options.isGuest === true) clearInterval(this.#timer)
  }

  /**
   * True if, as far as this process knows, the copy can apply the next write set of the stream. False while it waits
   * for a whole catalogue.
   */
  get isSettled(): boolean {
    return this.#beginning === null
  }

  /**
   * Resolves when the copy contains everything that the brokers had at the time of the call, or after `msMax`
   * milliseconds.
   */
  async caughtUp(msMax: number): Promise<void> {
    const deadline = performance.now() + msMax
    const { stream } = this.#options
    const end = async () => await stream.state().catch(() => null)
    let state = await end()
    while (performance.now() < deadline && !this.#isClosed) {
      const { incarnation, sequence } = this.#read
      if (state?.incarnation === incarnation && sequence >= state.last) return
      await sleep(AGAIN_MS)
      state ??= await end()
    }
  }

  async commit<T>(first: Decided<T>, again: () => Promise<Decided<T>>): Promise<T> {
    const deadline = performance.now() + (this.#isAlone ? CONTROL_ALONE_MS_MAX : CONTROL_MS_MAX)
    // Only one change runs at a time. If two changes ran on the same state, the brokers would accept only one of them.
    const turn = this.#turn.then(() => this.#commit(first, again, deadline))
    this.#turn = turn.catch(() => undefined)
    return await turn
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#resolve('unknown')
  }

  async #commit<T>(
    first: Decided<T>,
    again: () => Promise<Decided<T>>,
    deadline: number,
  ): Promise<T> {
    let decided = first
    while (decided.proposal !== null) {
      if (performance.now() > deadline || this.trouble !== null) throw this.#refused()
      const outcome = this.#isNewest(decided.proposal.place)
        ? await this.#send(decided.proposal, deadline)
        : 'overtaken'
      this.#isAlone = outcome === 'unknown'
      if (outcome === 'unknown') throw this.#refused()
      if (outcome === 'made') {
        this.counts.made++
        if (this.place !== null && this.place.number % CUT_LOOK_SETS === 0) void this.#cut()
        break
      }
      this.counts.again++
      await this.#taking
      if (!this.isSettled) await sleep(AGAIN_MS)
      decided = await again()
    }
    return decided.result
  }

  #refused(): ServiceError {
    this.counts.refused++
    void this.#checkEnd()
    return refusal('control_not_replicated')
  }

  #isNewest({ incarnation, sequence }: ChangePlace): boolean {
    const isSame = this.place?.incarnation === incarnation && this.place.sequence === sequence
    return isSame && this.isSettled
  }

  /**
   * Sends a write set again and again until its outcome is known, or until `deadline`. The set was accepted if the
   * message with the expected sequence number is this set. Another message there means that another change came first.
   */
  async #send({ place, changes, local }: Proposal, deadline: number): Promise<Outcome> {
    const { stream } = this.#options
    const { incarnation, sequence: expected } = this.#read
    const id = newId()
    const data = encodeControl({ kind: 'set', id, number: place.number + 1, content: changes })
    const outcome = new Promise<Outcome>((resolve) => {
      this.#pending = { id, local, sequence: expected + 1, resolve }
    })
    const timer = setTimeout(() => this.#resolve('unknown'), deadline - performance.now())
    const isWaiting = (): boolean => this.#pending?.id === id
    const publish = async (): Promise<void> => {
      while (isWaiting()) {
        try {
          const sequence = await stream.publish(data, id, PUBLISH_MS_MAX, expected)
          return await this.#takeOwn({ sequence, data }, incarnation)
        } catch (cause) {
          // Another message has this sequence number. When it arrives through the stream, it decides the outcome.
          if (cause instanceof OvertakenError) return
          await sleep(AGAIN_MS)
        }
      }
    }
    void publish()
    const known = await outcome
    clearTimeout(timer)
    return known
  }

  #resolve(outcome: Outcome): void {
    const pending = this.#pending
    this.#pending = null
    pending?.resolve(outcome)
  }

  /** Applies a message that this node has published, without waiting until the message arrives through the stream. */
  #takeOwn(message: StreamMessage, incarnation: string): Promise<void> {
    return this.#queue(async () => {
      if (incarnation === this.#read.incarnation) await this.#take(message, incarnation)
    })
  }

  #queue(action: () => Promise<void> | void): Promise<void> {
    this.#taking = this.#taking.then(action).catch((cause: unknown) => {
      const trouble = 'The catalogue of this machine cannot be changed.'
      if (cause instanceof OperatorError) this.#stop(`${trouble} ${cause.message}`, cause, '')
      else this.#stop(trouble, cause)
    })
    return this.#taking
  }

  /** Stops following the stream. `advice` tells the operator what to do. It is '' if `trouble` already says that. */
  #stop(
    trouble: string,
    cause: unknown,
    advice = ' Restore a backup of another machine of the cluster.',
  ): void {
    if (this.#isClosed) return
    this.trouble = trouble
    this.failure = cause
    this.#options.logger.error({ err: cause }, `${trouble}${advice}`)
  }

  /**
   * Stops following if the stream ends before the last message that was read. The brokers have then lost changes on
   * which other changes may be based.
   */
  async #checkEnd(): Promise<void> {
    const { incarnation, sequence } = this.#read
    const state = await this.#options.stream.state().catch(() => null)
    if (state === null || state.incarnation !== incarnation || state.last >= sequence) return
    this.#stop('The brokers have lost catalogue changes.', undefined)
  }

  /** Starts to read a new incarnation of the stream. It contains a whole catalogue, or a machine will publish one. */
  #begin(incarnation: string): void {
    if (incarnation === this.#read.incarnation) return
    this.#read = { incarnation, sequence: 0 }
    this.#beginning = { sets: [], older: null }
    this.#resolve('unknown')
  }

  async #take({ sequence, data }: StreamMessage, incarnation: string): Promise<void> {
    if (this.trouble !== null) return
    this.#begin(incarnation)
    if (sequence <= this.#read.sequence) return
    // The missing messages were deleted, so a whole catalogue follows.
    if (sequence > this.#read.sequence + 1) this.#beginning = { sets: [], older: null }
    const message = readControl(data)
    if (message.kind === 'part') this.#parts.add(message)
    else if (message.kind === 'whole') await this.#takeWhole(message, sequence)
    else if (this.#beginning === null) await this.#apply(message, sequence)
    else this.#keep(this.#beginning, message, sequence)
    this.#read = { incarnation, sequence }
    const pending = this.#pending
    if (pending !== null && sequence >= pending.sequence) {
      this.#resolve(pending.id === message.id ? 'made' : 'overtaken')
    }
  }

  async #apply({ id, number, content: changes }: ControlMessage, sequence: number): Promise<void> {
    const place = { incarnation: this.#read.incarnation, sequence, number }
    const local = this.#pending?.id === id ? this.#pending.local : null
    const set: PlacedChanges = { place, changes, local }
    await this.#insist(() => this.#options.copy.apply(set))
    this.place = place
    this.#options.onChange()
  }

  #keep(beginning: Beginning, message: ControlMessage, sequence: number): void {
    beginning.sets.push({ sequence, message })
    if (beginning.older === null) return
    const trouble = 'The catalogue of this machine has changes that the other machines lack.'
    this.#stop(trouble, new Error('other machines continued with an older catalogue'))
  }

  async #takeWhole(message: ControlMessage, sequence: number): Promise<void> {
    const parts = this.#parts.take(message)
    const beginning = this.#beginning
    const has = this.place?.number ?? -1
    if (parts === null || (beginning === null && message.number <= has)) return
    const sets = (beginning?.sets ?? []).filter((set) => set.sequence > message.through)
    const number = sets.at(-1)?.message.number ?? message.number
    if (number < has && beginning !== null) {
      beginning.older = sequence
      return
    }
    const place = { incarnation: this.#read.incarnation, sequence, number }
    const all = [...parts, ...sets.map((set) => set.message.content)]
    await this.#insist(() => this.#options.copy.replace({ place, parts: all }))
    this.place = place
    this.#beginning = null
    this.isBeginner = this.#offered.has(message.id)
    this.#options.logger.info(
      { number },
      'The catalogue of this machine is up to date with the cluster.',
    )
    this.#options.onChange()
  }

  /**
   * Repeats a write to the copy until it succeeds. A write may fail for a moment, because a thread has ended or too
   * many calls wait. Errors that a retry cannot solve are thrown to the caller.
   */
  async #insist(action: () => void | Promise<void>): Promise<void> {
    let complainAtMs = performance.now() + COMPLAIN_MS
    for (;;) {
      try {
        return await action()
      } catch (cause) {
        const isFinal = cause instanceof RangeError || cause instanceof OperatorError
        if (isFinal || this.#isClosed) throw cause
        if (performance.now() > complainAtMs) {
          this.#options.logger.error(
            { err: cause },
            'The catalogue cannot be written. Tenrec will try again.',
          )
          complainAtMs = performance.now() + COMPLAIN_MS
        }
        await sleep(AGAIN_MS)
      }
    }
  }

  /**
   * Publishes the catalogue of this node if the stream has no whole catalogue and this node has read the stream to its
   * end.
   */
  async #look(): Promise<void> {
    const { stream, copy, onEmpty } = this.#options
    if (this.#beginning === null || this.#isLooking || this.trouble !== null) return
    this.#isLooking = true
    try {
      const { incarnation, last } = await stream.state()
      await this.#taking
      const isAtEnd = incarnation === this.#read.incarnation && last === this.#read.sequence
      if (!isAtEnd || this.#beginning === null) return
      onEmpty?.()
      const { place, parts } = await copy.whole()
      const id = newId()
      this.#offered.add(id)
      const newest = await this.#publishParts(id, parts)
      const isBehind = (): boolean => this.#read.sequence < newest && !this.#isClosed
      while (this.#read.incarnation === incarnation && isBehind()) await sleep(AGAIN_MS)
      // Stop if another machine has published its catalogue first.
      if (this.isSettled || this.#isClosed || this.#read.incarnation !== incarnation) return
      const data = encodeControl({ kind: 'whole', id, number: place.number, parts: parts.length })
      const sequence = await stream.publish(data, id, PUBLISH_MS_MAX, newest)
      await this.#takeOwn({ sequence, data }, incarnation)
    } catch (cause) {
      this.#options.logger.debug({ err: cause }, 'The catalogue could not be published.')
    } finally {
      this.#isLooking = false
    }
  }

  async #publishParts(id: string, parts: readonly Uint8Array[]): Promise<number> {
    let newest = 0
    for (const [number, content] of parts.entries()) {
      const data = encodeControl({ kind: 'part', id, number, content })
      newest = await this.#options.stream.publish(data, `${id}.${number}`, PUBLISH_MS_MAX)
    }
    return newest
  }

  /**
   * Adds the whole catalogue to a stream that has become long, and deletes the messages that the whole catalogue
   * replaces.
   */
  async #cut(): Promise<void> {
    const { stream, copy, logger, isGuest } = this.#options
    if (isGuest === true) return
    try {
      const { first, last } = await stream.state()
      if (last - first < CONTROL_MESSAGES_MAX) return
      const { place, parts } = await copy.whole()
      if (place.incarnation !== this.#read.incarnation) return
      const id = newId()
      await this.#publishParts(id, parts)
      const { number, sequence: through } = place
      const whole = { kind: 'whole', id, number, through, parts: parts.length } as const
      await stream.publish(encodeControl(whole), id, PUBLISH_MS_MAX)
      await stream.cut(through + 1)
      logger.info({ number, parts: parts.length }, 'The catalogue stream is truncated.')
    } catch (cause) {
      logger.debug({ err: cause }, 'The catalogue stream could not be truncated.')
    }
  }
}
