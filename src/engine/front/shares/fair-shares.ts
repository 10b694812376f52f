/**
 * What each sender has waiting, and whether it is more than its share. A sender is an address, or the /64 network
 * of an IPv6 address. Its large requests are counted apart from its small ones, so that an import does not
 * hold up live events from the same machine.
 *
 * What waits is counted as the time that processing needs for it. An estimate comes first: so much for an event
 * and so much for a byte. It is corrected by what processing of the same sender has taken lately, because a merge
 * costs a hundred times as much as a page view.
 *
 * The share is a dynamic threshold, as in shared buffers of switches. A sender that is alone may fill the whole
 * queue. Beside others it may hold as much as it leaves free. When the queue is over its limit all the same, the
 * largest senders are refused first: those above the level at which all together would fit ("water filling").
 */
import { networkOf } from '../../../base/addresses.ts'
import type { Clock } from '../../../base/clock.ts'
import type { RefusalReason } from '../../../base/refusals.ts'
import { SENDER_ACTIVE_MS_MAX, SENDERS_MAX, SHARES_MAX, WORK_FACTOR_MAX } from './limits.ts'

/** First estimate, before a sender is known: what the dearest common event, an `$identify` of a new id, takes. */
const EVENT_US = 50
/** The same for bytes: 50 MB a second. */
const BYTES_PER_US = 50
/** How far a sender's own events may be from the estimate. */
const FACTOR_MIN = 0.02
/**
 * What a run of processing with `FULL_RUN_US` of estimated work may take beside its events on a busy machine,
 * milliseconds: it says nothing of them. A run with less work says less, one with more says more.
 */
const RUN_MS = 300
const FULL_RUN_US = 50_000
/** Estimated work, in microseconds, below which a run does not show that events are cheaper than was thought. */
const QUICK_RUN_US = 5000
/** A run shorter than this, milliseconds, had no dear events: a sender that was thought to have some is forgiven by and by. */
const SHORT_RUN_MS = 100
const FORGIVEN_WEIGHT = 0.1
/** The weight of one run that shows that events are cheaper than was thought; dearer ones are believed at once. */
const CHEAPER_WEIGHT = 0.5
/** This part of the queue a sender may hold however much others hold. */
const FLOOR_PART = 1 / 30
/** What is left beside others is divided between a sender and those who may come. */
const SHARE_PART = 0.5
/** The level of `isLight` is computed anew after this time, milliseconds. */
const LEVEL_MS = 50
/** Parts of what waits are rounded to this many steps, so that the level need not be computed for each request. */
const PART_STEPS = 64
/** Commits within this time are released together, milliseconds. */
const ENTRY_SPAN_MS = 20
const US_PER_MS = 1000

/** The memory for bodies of all requests. */
export interface SharedBodies {
  readonly bytesMax: number
  readonly bytesInFlight: number
  tryReserve(bytes: number): boolean
  release(bytes: number): void
}

/** What shares work with. */
export interface FairSharesOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly settings: { readonly processingLagMsMax: number; readonly backlogBytesMax: number }
  readonly bodies: SharedBodies
}

/** How much waits to be processed. */
export interface Backlog {
  readonly lagMs: number
  readonly backlogBytes: number
}

/** What one sender has waiting, of small or of large requests. */
export class SenderAccount {
  readonly sender: Sender
  heldBytes = 0
  /** Estimated work, microseconds. */
  heldUs = 0
  /** What processing takes, as a multiple of the estimate. */
  factor = 1
  /** When the last of its requests was accepted, monotonic milliseconds. */
  activeAtMs = Number.NEGATIVE_INFINITY
  /** The newest charge of this account; it may be in a list that is released already. */
  charge: Charge | null = null

  constructor(sender: Sender) {
    this.sender = sender
  }

  /** Time that processing is expected to take for all that waits, milliseconds. */
  get workMs(): number {
    return (this.heldUs * this.factor) / US_PER_MS
  }
}

/** An address, with what it has waiting and the memory that bodies of its requests take. */
export class Sender {
  /** Requests that are checked on the front. */
  readonly small = new SenderAccount(this)
  /** Requests that are checked by threads. */
  readonly large = new SenderAccount(this)
  readonly #shares: FairShares
  #bodyBytes = 0

  constructor(shares: FairShares) {
    this.#shares = shares
  }

  /** Why `tryReserve` has answered false last. */
  fullReason: RefusalReason = 'bodies_full'

  /** Bytes that are reserved for its bodies now. */
  get bodyBytes(): number {
    return this.#bodyBytes
  }

  /** Nothing of it waits. */
  get isIdle(): boolean {
    return this.#bodyBytes === 0 && this.small.heldUs === 0 && this.large.heldUs === 0
  }

  /** Takes bytes for a body, or answers false and takes none. */
  tryReserve(bytes: number): boolean {
    const isOver = this.#shares.isOverBodyShare(this, bytes)
    this.fullReason = isOver ? 'sender_bodies' : 'bodies_full'
    if (isOver || !this.#shares.bodies.tryReserve(bytes)) return false
    this.#bodyBytes += bytes
    return true
  }

  /** Gives back what `tryReserve` took. */
  release(bytes: number): void {
    this.#bodyBytes -= bytes
    this.#shares.bodies.release(bytes)
  }
}

/** What requests of one account in one list have added. */
interface Charge {
  readonly account: SenderAccount
  readonly list: Charge[]
  bytes: number
  us: number
}

/** Accounts of all senders. For the main thread; each call costs the same however many there are. */
export class FairShares {
  readonly bodies: SharedBodies
  /** Refusals of a sender while others were let in. */
  readonly refused = { queue: 0, bodies: 0 }
  readonly #clock: FairSharesOptions['clock']
  readonly #settings: FairSharesOptions['settings']
  readonly #senders = new Map<string, Sender>()
  /** Shared by all who come while every place is taken by senders with something waiting. */
  readonly #unnamed = new Sender(this)
  /** Has nothing waiting: what is refused for it is refused for everybody. */
  readonly #newcomer = new Sender(this)
  #sweepAtMs = Number.NEGATIVE_INFINITY
  readonly #holding = new Set<SenderAccount>()
  /** Sum of `workMs` of those. */
  #workMs = 0
  /** The sender of the last accepted request, its time, and the time of the last one of any other sender. */
  #latest: Sender | null = null
  #latestAtMs = Number.NEGATIVE_INFINITY
  #beforeAtMs = Number.NEGATIVE_INFINITY
  /** Estimated work by account that was released since the last `learn`, microseconds. */
  readonly #released = new Map<SenderAccount, number>()
  #elapsedMs = 0
  #level = { part: 0, atMs: Number.NEGATIVE_INFINITY, workMs: 0 }

  constructor({ clock, settings, bodies }: FairSharesOptions) {
    this.#clock = clock
    this.#settings = settings
    this.bodies = bodies
  }

  /** Senders that are accounted for. */
  get count(): number {
    return this.#senders.size
  }

  /** An account with nothing waiting. */
  get newcomer(): SenderAccount {
    return this.#newcomer.small
  }

  /** The sender at an address. */
  of(address: string): Sender {
    const known = this.#senders.get(address)
    if (known !== undefined) return known
    const network = address.includes(':') ? networkOf(address) : address
    return (network === address ? undefined : this.#senders.get(network)) ?? this.#add(network)
  }

  /** A list of charges for each log that is written. */
  ledger(chargeMsMax: number = Number.POSITIVE_INFINITY): ChargeLedger {
    return new ChargeLedger(this, this.#clock, chargeMsMax)
  }

  /**
   * Whether an account, with so much more, holds less than those that fill the queue, of which `part` has room.
   * False for everybody when shares become too small to be worth anything.
   */
  isLight(account: SenderAccount, part: number, addedMs = 0): boolean {
    if (this.#holding.size === 0) return false
    const level = this.#levelOf(Math.min(1, part))
    return account.workMs + addedMs < level && level >= (this.#workMs * part) / SHARES_MAX
  }

  /**
   * Whether a request that adds so much would give an account more than its share beside others. A sender with
   * nothing waiting may always send one request, and one that is alone may send all. Senders that hold little
   * are let in although others hold more than their share.
   */
  isOverShare(
    account: SenderAccount,
    { lagMs, backlogBytes }: Backlog,
    bytes: number,
    events: number,
  ): boolean {
    if (account.heldUs === 0) return false
    const hasOthers = this.hasOthers(account.sender)
    if (!hasOthers && !this.#hasOtherKind(account)) return false
    const { processingLagMsMax, backlogBytesMax } = this.#settings
    const part = hasOthers ? SHARE_PART : 1
    const roomFor = (max: number, others: number): number =>
      Math.max((max - others) * part, max * FLOOR_PART)
    // The estimate for others may be far too high while they are new; the lag was measured.
    const othersMs = Math.min(this.#workMs - account.workMs, lagMs)
    const addedMs = (workUs(bytes, events) * account.factor) / US_PER_MS
    const othersBytes = Math.max(0, backlogBytes - account.heldBytes)
    const isOver =
      account.workMs + addedMs > roomFor(processingLagMsMax, othersMs) ||
      account.heldBytes + bytes > roomFor(backlogBytesMax, othersBytes)
    return isOver && !this.isLight(account, SHARE_PART, addedMs)
  }

  /** The same for the memory that bodies take. */
  isOverBodyShare(sender: Sender, bytes: number): boolean {
    const { bytesMax, bytesInFlight } = this.bodies
    const { bodyBytes } = sender
    if (bodyBytes === 0) return false
    const room = (bytesMax - (bytesInFlight - bodyBytes)) * SHARE_PART
    if (bodyBytes + bytes <= room || !this.hasOthers(sender)) return false
    this.refused.bodies++
    return true
  }

  /** Whether requests of another sender were accepted lately. */
  hasOthers(sender: Sender): boolean {
    const atMs = this.#latest === sender ? this.#beforeAtMs : this.#latestAtMs
    return this.#clock.monotonic() - atMs < SENDER_ACTIVE_MS_MAX
  }

  /**
   * Takes over what a run of processing has taken, after what it has processed was released. Senders that were
   * hardly part of it learn hardly anything from it.
   */
  learn(elapsedMs: number): void {
    let totalUs = 0
    for (const us of this.#released.values()) totalUs += us
    this.#elapsedMs += elapsedMs
    if (totalUs === 0) {
      if (this.#holding.size === 0) this.#elapsedMs = 0
      return
    }
    const runMs = this.#elapsedMs
    this.#elapsedMs = 0
    const besideMs = (RUN_MS * FULL_RUN_US) / totalUs
    const least = clamp(((runMs - besideMs) * US_PER_MS) / totalUs)
    const most = clamp((runMs * US_PER_MS) / totalUs)
    for (const [account, us] of this.#released) {
      const { factor } = account
      const share = us / totalUs
      if (least > factor) this.#correct(account, least, share)
      else if (most < factor && totalUs >= QUICK_RUN_US) {
        this.#correct(account, most, share * CHEAPER_WEIGHT)
      } else if (factor > 1 && runMs < SHORT_RUN_MS) {
        this.#correct(account, 1, share * FORGIVEN_WEIGHT)
      }
    }
    this.#released.clear()
  }

  #correct(account: SenderAccount, measured: number, weight: number): void {
    const change = (measured - account.factor) * weight
    account.factor += change
    this.#workMs += (account.heldUs * change) / US_PER_MS
  }

  /** For `ChargeLedger`: something more of an account waits. */
  hold(account: SenderAccount, bytes: number, us: number): void {
    const nowMs = this.#clock.monotonic()
    const { sender } = account
    account.activeAtMs = nowMs
    if (this.#latest !== sender) {
      this.#beforeAtMs = this.#latestAtMs
      this.#latest = sender
    }
    this.#latestAtMs = nowMs
    if (account.heldUs === 0) this.#holding.add(account)
    account.heldBytes += bytes
    account.heldUs += us
    this.#workMs += (us * account.factor) / US_PER_MS
  }

  /** For `ChargeLedger`: it does not wait any more. */
  release({ account, bytes, us }: Charge, isProcessed: boolean): void {
    account.heldBytes -= bytes
    account.heldUs -= us
    this.#workMs -= (us * account.factor) / US_PER_MS
    if (isProcessed) this.#released.set(account, (this.#released.get(account) ?? 0) + us)
    if (account.heldUs > 0) return
    this.#holding.delete(account)
    // The sum of many roundings.
    if (this.#holding.size === 0) this.#workMs = 0
  }

  /** Whether the same address sends requests of the other kind. */
  #hasOtherKind(account: SenderAccount): boolean {
    const { small, large } = account.sender
    const { activeAtMs } = account === small ? large : small
    return this.#clock.monotonic() - activeAtMs < SENDER_ACTIVE_MS_MAX
  }

  #add(network: string): Sender {
    if (this.#senders.size >= SENDERS_MAX && !this.#sweep()) return this.#unnamed
    const sender = new Sender(this)
    this.#senders.set(network, sender)
    return sender
  }

  /** Forgets senders with nothing waiting; false when there is no room for another one. */
  #sweep(): boolean {
    const nowMs = this.#clock.monotonic()
    if (nowMs < this.#sweepAtMs) return false
    for (const [network, sender] of this.#senders) {
      if (sender.isIdle) this.#senders.delete(network)
    }
    // Looking at all of them for each request would cost what this is to save.
    this.#sweepAtMs = nowMs + SENDER_ACTIVE_MS_MAX / SHARES_MAX
    return this.#senders.size < SENDERS_MAX
  }

  /** The work, in milliseconds, at which accounts are cut so that all together fit into a part of the whole. */
  #levelOf(part: number): number {
    const nowMs = this.#clock.monotonic()
    const rounded = Math.ceil(part * PART_STEPS) / PART_STEPS
    const level = this.#level
    if (level.part === rounded && nowMs - level.atMs < LEVEL_MS) return level.workMs
    let roomMs = this.#workMs * rounded
    let above = [...this.#holding].map((account) => account.workMs)
    let workMs = roomMs / above.length
    for (;;) {
      const fitting = above.filter((work) => work < workMs)
      if (fitting.length === 0 || fitting.length === above.length) break
      above = above.filter((work) => work >= workMs)
      roomMs -= fitting.reduce((sum, work) => sum + work, 0)
      workMs = roomMs / above.length
    }
    this.#level = { part: rounded, atMs: nowMs, workMs }
    return workMs
  }
}

/**
 * The charges of one log: of requests that wait for its next commit, of the commit that is on its way, and of
 * blocks that are not processed. `chargeMsMax`: what waits longer is released all the same, milliseconds.
 */
export class ChargeLedger {
  readonly #shares: FairShares
  readonly #clock: FairSharesOptions['clock']
  readonly #chargeMsMax: number
  #filling: Charge[] = []
  /** Blocks up to `last`, oldest first. */
  #logged: { last: number; readonly atMs: number; readonly charges: Charge[] }[] = []

  constructor(shares: FairShares, clock: FairSharesOptions['clock'], chargeMsMax: number) {
    this.#shares = shares
    this.#clock = clock
    this.#chargeMsMax = chargeMsMax
  }

  /** A request was accepted. */
  add(account: SenderAccount, bytes: number, events: number): void {
    const us = workUs(bytes, events)
    addTo(this.#filling, account, bytes, us)
    this.#shares.hold(account, bytes, us)
  }

  /** Takes out the charges of all requests that the next commit writes. */
  begin(): readonly Charge[] {
    const charges = this.#filling
    this.#filling = []
    return charges
  }

  /** The commit is durable; `last` is its last block. */
  logged(charges: readonly Charge[], last: number): void {
    if (charges.length === 0) return
    const atMs = this.#clock.monotonic()
    const newest = this.#logged.at(-1)
    const isNear = newest !== undefined && atMs - newest.atMs < ENTRY_SPAN_MS
    const entry = isNear ? newest : { last, atMs, charges: [] }
    if (!isNear) this.#logged.push(entry)
    entry.last = last
    for (const { account, bytes, us } of charges) addTo(entry.charges, account, bytes, us)
    this.#releaseOld(atMs)
  }

  /** The commit has failed. */
  failed(charges: readonly Charge[]): void {
    for (const charge of charges) this.#shares.release(charge, false)
  }

  /** Blocks up to this number are processed. */
  processed(through: number): void {
    const count = this.#logged.findIndex(({ last }) => last > through)
    // Only here, where everything is processed, the time for it is known.
    this.#remove(count < 0 ? this.#logged.length : count, this.#isProcessedHere)
  }

  get #isProcessedHere(): boolean {
    return this.#chargeMsMax === Number.POSITIVE_INFINITY
  }

  #releaseOld(nowMs: number): void {
    if (this.#isProcessedHere) return
    const oldestMs = nowMs - this.#chargeMsMax
    const count = this.#logged.findIndex(({ atMs }) => atMs >= oldestMs)
    if (count > 0) this.#remove(count, false)
  }

  #remove(count: number, isProcessed: boolean): void {
    for (const { charges } of this.#logged.splice(0, count)) {
      for (const charge of charges) this.#shares.release(charge, isProcessed)
    }
  }
}

/** One charge for each account in a list, however many requests it has. */
function addTo(list: Charge[], account: SenderAccount, bytes: number, us: number): void {
  const { charge } = account
  if (charge?.list === list) {
    charge.bytes += bytes
    charge.us += us
    return
  }
  account.charge = { account, list, bytes, us }
  list.push(account.charge)
}

/** What processing of so much is expected to take, microseconds: a whole number, so that sums return to 0. */
function workUs(bytes: number, events: number): number {
  return events * EVENT_US + Math.ceil(bytes / BYTES_PER_US)
}

function clamp(factor: number): number {
  return Math.min(WORK_FACTOR_MAX, Math.max(FACTOR_MIN, factor))
}
