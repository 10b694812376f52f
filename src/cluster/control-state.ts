/**
 * The catalogue of a cluster on one machine: write sets in the order of a stream, each decided by the state that
 * the sets before it led to. Who decided by an older one is refused by the brokers, follows, and decides again.
 *
 * Now and then whoever writes adds the whole catalogue, and cuts off what is older: who comes new, or was away for
 * long, begins with the newest whole one. A stream that is empty, because the cluster is new or the brokers have
 * forgotten everything, begins with the catalogue of whoever is first, and a newer one takes its place as long as
 * nothing was built on it.
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
} from './shared-log.ts'

const AGAIN_MS = 50
const LOOK_MS = 250
const COMPLAIN_MS = 10_000
/** So many sets apart it is looked whether the stream is to be cut. */
const CUT_LOOK_SETS = 64

/** What the catalogue of a node works with. */
export interface ControlStateOptions {
  readonly stream: SharedStream
  readonly copy: CatalogueCopy
  /** Where the copy stands. */
  readonly place: ChangePlace | null
  readonly logger: Logger
  /** The copy has changed. */
  readonly onChange: () => void
  /** There is no catalogue yet: the copy may be filled now, before it is the first one. */
  readonly onEmpty?: () => void
  /** Another process on this machine begins the sequence and cuts it. */
  readonly isGuest?: boolean
}

type Outcome = 'made' | 'overtaken' | 'unknown'

/** A set on its way. */
interface Pending {
  readonly id: string
  readonly local: Uint8Array
  /** Its place in the stream, if it gets in. */
  readonly sequence: number
  readonly resolve: (outcome: Outcome) => void
}

/** Where a copy begins that cannot go on from what it has. */
interface Beginning {
  /** Sets since the last gap. */
  readonly sets: { readonly sequence: number; readonly message: ControlMessage }[]
  /** The sequence of a whole catalogue that is older than the copy. */
  older: number | null
}

/** The catalogue of one node. */
export class ControlState implements ChangeLog {
  readonly #options: ControlStateOptions
  readonly #parts = new GatheredParts()
  /** Where the copy stands; null: it has not begun. */
  place: ChangePlace | null
  #read: StreamPosition
  #beginning: Beginning | null
  #taking: Promise<void> = Promise.resolve()
  #turn: Promise<unknown> = Promise.resolve()
  #pending: Pending | null = null
  /** Why this copy does not follow; null: it does. */
  trouble: string | null = null
  /** What led to the trouble. */
  failure: unknown
  #isAlone = false
  #isClosed = false
  #isLooking = false
  /** Whole catalogues of this node. */
  readonly #offered = new Set<string>()
  readonly #timer: NodeJS.Timeout
  /** Changes of this node: made, decided again, refused. */
  readonly counts = { made: 0, again: 0, refused: 0 }
  /** Whether the sequence began with the catalogue of this node. */
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

  /** The copy is one of the sequence that the brokers have, as far as it is known. */
  get isSettled(): boolean {
    return this.#beginning === null
  }

  /** Resolves when everything that the brokers had at the call is applied; after `msMax` at the latest. */
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
    // One at a time: two that were decided by the same state could not both be made.
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

  /** Sends it until it is known what became of it: what is at its place in the stream says so. */
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
          // What is there instead comes by following.
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

  /** A message of this node, which may come by following, too. */
  #takeOwn(message: StreamMessage, incarnation: string): Promise<void> {
    return this.#queue(async () => {
      if (incarnation === this.#read.incarnation) await this.#take(message, incarnation)
    })
  }

  #queue(action: () => Promise<void> | void): Promise<void> {
    this.#taking = this.#taking.then(action).catch((cause: unknown) => {
      this.#stop('The catalogue of this machine cannot be changed.', cause)
    })
    return this.#taking
  }

  #stop(trouble: string, cause: unknown): void {
    if (this.#isClosed) return
    this.trouble = trouble
    this.failure = cause
    this.#options.logger.error({ err: cause }, `${trouble} Restore a backup of another one.`)
  }

  /** A stream that ends before what was read has lost what others may build on. */
  async #checkEnd(): Promise<void> {
    const { incarnation, sequence } = this.#read
    const state = await this.#options.stream.state().catch(() => null)
    if (state === null || state.incarnation !== incarnation || state.last >= sequence) return
    this.#stop('The brokers have lost changes of the catalogue.', undefined)
  }

  /** Nothing of this incarnation was read: there is a whole catalogue in it, or one is to begin it. */
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
    // What is missing was cut off: a whole catalogue follows.
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
    const trouble = 'The catalogue of this machine has changes that the others lack.'
    this.#stop(trouble, new Error('others went on with an older one'))
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
    this.#options.logger.info({ number }, 'the catalogue is that of the cluster')
    this.#options.onChange()
  }

  /** A copy that cannot be written now is written later: its thread has ended, or too many wait for it. */
  async #insist(action: () => void | Promise<void>): Promise<void> {
    let complainAtMs = performance.now() + COMPLAIN_MS
    for (;;) {
      try {
        return await action()
      } catch (cause) {
        const isFinal = cause instanceof RangeError || cause instanceof OperatorError
        if (isFinal || this.#isClosed) throw cause
        if (performance.now() > complainAtMs) {
          this.#options.logger.error({ err: cause }, 'the catalogue cannot be written; again')
          complainAtMs = performance.now() + COMPLAIN_MS
        }
        await sleep(AGAIN_MS)
      }
    }
  }

  /** At the end of a stream without a whole catalogue, that of this node is offered. */
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
      // Somebody else was first.
      if (this.isSettled || this.#isClosed || this.#read.incarnation !== incarnation) return
      const data = encodeControl({ kind: 'whole', id, number: place.number, parts: parts.length })
      const sequence = await stream.publish(data, id, PUBLISH_MS_MAX, newest)
      await this.#takeOwn({ sequence, data }, incarnation)
    } catch (cause) {
      this.#options.logger.debug({ err: cause }, 'the catalogue is not offered now')
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

  /** Adds the whole catalogue to a stream that has become long, and cuts off what it stands for. */
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
      logger.info({ number, parts: parts.length }, 'the stream of the catalogue is cut')
    } catch (cause) {
      logger.debug({ err: cause }, 'the stream of the catalogue is not cut now')
    }
  }
}
