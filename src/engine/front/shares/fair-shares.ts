/**
 * Measures how much work each sender has waiting, and whether this is more than its share. A sender is an IP address
 * or, for IPv6, a /64 network. Its large requests are counted separately from its small ones, so that an import does
 * not delay live events from the same machine.
 *
 * Waiting work is the time that processing will need for the events. The first estimate is a fixed time per event plus
 * a fixed time per byte. It is corrected by the recent processing times of the same sender, because a merge costs a
 * hundred times as much as a page view.
 *
 * The share is a dynamic threshold, as in the shared buffers of network switches. A sender that is alone may fill the
 * whole queue. If others send as well, it may hold only as much as is still free. If the queue exceeds its limit
 * nevertheless, the largest senders are refused first. All senders are then limited to the same level of work. The
 * level is chosen so that all waiting work would fit if each sender were cut to that level ("water filling").
 */
import { networkOf } from '../../../base/addresses.ts'
import type { Clock } from '../../../base/clock.ts'
import type { RefusalReason } from '../../../base/refusals.ts'
import { SENDER_ACTIVE_MS_MAX, SENDERS_MAX, SHARES_MAX, WORK_FACTOR_MAX } from './limits.ts'

/**
 * The first estimate of the time to process an event, in microseconds. It is the time of the most expensive common
 * event, an `$identify` with a new ID.
 */
const EVENT_US = 50
/** The estimated speed at which bytes are processed, in bytes per microsecond. It is 50 MB per second. */
const BYTES_PER_US = 50
/**
 * The lowest value of `factor`, which is the assumed processing time of a sender's events, divided by the first
 * estimate.
 */
const FACTOR_MIN = 0.02
/**
 * On a busy machine, a processing run takes longer than its events need. This extra time is assumed to be at most
 * `RUN_MS` milliseconds for a run with `FULL_RUN_US` of estimated work, twice as long for a run with half as much work,
 * and half as long for a run with twice as much. It is not counted as time for the events.
 */
const RUN_MS = 300
const FULL_RUN_US = 50_000
/**
 * A processing run with less estimated work than this, in microseconds, does not prove that events are cheaper than
 * estimated.
 */
const QUICK_RUN_US = 5000
/**
 * A processing run shorter than this, in milliseconds, contained no expensive events. If the factors of its senders are
 * above 1 nevertheless, they are lowered slowly, with `FORGIVEN_WEIGHT`.
 */
const SHORT_RUN_MS = 100
const FORGIVEN_WEIGHT = 0.1
/**
 * If events were cheaper than estimated in a processing run, the factors of their senders are lowered by at most this
 * part of the difference. If events were more expensive, the factors are raised by up to the whole difference.
 */
const CHEAPER_WEIGHT = 0.5
/** The share of the queue that a sender may always fill, however much others hold. */
const FLOOR_PART = 1 / 30
/**
 * The share of the remaining space that a sender may use if others send as well. The rest is left for further senders.
 */
const SHARE_PART = 0.5
/** After `isLight` has computed the level of work, it uses the same level for this time, in milliseconds. */
const LEVEL_MS = 50
/**
 * Shares of the queue are rounded up to a multiple of 1 / `PART_STEPS`, so that the level need not be computed again
 * for each request.
 */
const PART_STEPS = 64
/** Commits within this time, in milliseconds, share one entry and are released together. */
const ENTRY_SPAN_MS = 20
const US_PER_MS = 1000

/** The memory that the bodies of all requests share. */
export interface SharedBodies {
  readonly bytesMax: number
  readonly bytesInFlight: number
  tryReserve(bytes: number): boolean
  release(bytes: number): void
}

/** The dependencies of fair shares. */
export interface FairSharesOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly settings: { readonly processingLagMsMax: number; readonly backlogBytesMax: number }
  readonly bodies: SharedBodies
}

/** How far processing is behind: the estimated lag, and the number of bytes that wait to be processed. */
export interface Backlog {
  readonly lagMs: number
  readonly backlogBytes: number
}

/** The waiting requests of one sender that are counted together: either the small or the large ones. */
export class SenderAccount {
  readonly sender: Sender
  heldBytes = 0
  /**
   * The first estimate of the time to process the waiting requests, in microseconds. It is not multiplied by `factor`.
   */
  heldUs = 0
  /** The measured processing time of this sender's events, divided by the first estimate. */
  factor = 1
  /** The time at which the last request of this account was accepted, in monotonic milliseconds. */
  activeAtMs = Number.NEGATIVE_INFINITY
  /** The newest charge of this account. It may already be released. */
  charge: Charge | null = null

  constructor(sender: Sender) {
    this.sender = sender
  }

  /** The expected time to process the waiting requests of this account, in milliseconds. */
  get workMs(): number {
    return (this.heldUs * this.factor) / US_PER_MS
  }
}

/** A sender, with the accounts of its waiting requests and the memory that the bodies of its requests use. */
export class Sender {
  /** The requests that are checked on the main thread. */
  readonly small = new SenderAccount(this)
  /** The requests that are checked by worker threads. */
  readonly large = new SenderAccount(this)
  readonly #shares: FairShares
  #bodyBytes = 0

  constructor(shares: FairShares) {
    this.#shares = shares
  }

  /** The reason for which `tryReserve` last returned false. */
  fullReason: RefusalReason = 'bodies_full'

  /** The number of bytes that are reserved for the bodies of this sender's requests. */
  get bodyBytes(): number {
    return this.#bodyBytes
  }

  /** True if the sender has nothing waiting and no body in memory. */
  get isIdle(): boolean {
    return this.#bodyBytes === 0 && this.small.heldUs === 0 && this.large.heldUs === 0
  }

  /** Reserves memory for a body. Returns false and reserves nothing if there is not enough. */
  tryReserve(bytes: number): boolean {
    const isOver = this.#shares.isOverBodyShare(this, bytes)
    this.fullReason = isOver ? 'sender_bodies' : 'bodies_full'
    if (isOver || !this.#shares.bodies.tryReserve(bytes)) return false
    this.#bodyBytes += bytes
    return true
  }

  /** Releases memory that `tryReserve` has reserved. */
  release(bytes: number): void {
    this.#bodyBytes -= bytes
    this.#shares.bodies.release(bytes)
  }
}

/**
 * The waiting requests of one account that are in the same list of a `ChargeLedger`. They are counted together and
 * released together.
 */
interface Charge {
  readonly account: SenderAccount
  readonly list: Charge[]
  bytes: number
  us: number
}

/** The accounts of all senders, in the main thread. The cost of a call does not depend on the number of senders. */
export class FairShares {
  readonly bodies: SharedBodies
  /** How often a sender was refused because of its share, while other senders were still admitted. */
  readonly refused = { queue: 0, bodies: 0 }
  readonly #clock: FairSharesOptions['clock']
  readonly #settings: FairSharesOptions['settings']
  readonly #senders = new Map<string, Sender>()
  /**
   * The common sender of all addresses that cannot be tracked, because there are `SENDERS_MAX` tracked senders and none
   * of them is idle.
   */
  readonly #unnamed = new Sender(this)
  /**
   * A sender with nothing waiting. Health checks use it: a request that is refused for this sender is refused for all.
   */
  readonly #newcomer = new Sender(this)
  #sweepAtMs = Number.NEGATIVE_INFINITY
  readonly #holding = new Set<SenderAccount>()
  /** The sum of `workMs` of all accounts with waiting requests. */
  #workMs = 0
  /**
   * The sender of the last accepted request. `#latestAtMs` is the time of that request, and `#beforeAtMs` is the time
   * of the last request of another sender.
   */
  #latest: Sender | null = null
  #latestAtMs = Number.NEGATIVE_INFINITY
  #beforeAtMs = Number.NEGATIVE_INFINITY
  /**
   * For each account, the first estimate of the work that was processed since the last call of `learn`, in
   * microseconds.
   */
  readonly #released = new Map<SenderAccount, number>()
  #elapsedMs = 0
  #level = { part: 0, atMs: Number.NEGATIVE_INFINITY, workMs: 0 }

  constructor({ clock, settings, bodies }: FairSharesOptions) {
    this.#clock = clock
    this.#settings = settings
    this.bodies = bodies
  }

  /** The number of senders that are tracked. */
  get count(): number {
    return this.#senders.size
  }

  /** An account of a sender that has nothing waiting. */
  get newcomer(): SenderAccount {
    return this.#newcomer.small
  }

  /** Returns the sender to which an IP address belongs. */
  of(address: string): Sender {
    const known = this.#senders.get(address)
    if (known !== undefined) return known
    const network = address.includes(':') ? networkOf(address) : address
    return (network === address ? undefined : this.#senders.get(network)) ?? this.#add(network)
  }

  /** Creates a ledger. Each log to which this process writes has its own ledger. */
  ledger(chargeMsMax: number = Number.POSITIVE_INFINITY): ChargeLedger {
    return new ChargeLedger(this, this.#clock, chargeMsMax)
  }

  /**
   * Returns whether an account, with `addedMs` more work, is below a level of work. At this level, `part` of all
   * waiting work would be left if all larger accounts were cut to the level. If so many accounts fill the queue that
   * the level is less than 1 / `SHARES_MAX` of that work, returns false for every account.
   */
  isLight(account: SenderAccount, part: number, addedMs = 0): boolean {
    if (this.#holding.size === 0) return false
    const level = this.#levelOf(Math.min(1, part))
    return account.workMs + addedMs < level && level >= (this.#workMs * part) / SHARES_MAX
  }

  /**
   * Returns whether a request of this size would give an account more than its share. A sender with nothing waiting may
   * always send one request, and a sender that is alone may send everything. A sender that holds little is admitted
   * even if others hold more than their share.
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
    // For new senders, the estimated work may be far too high. The work of all other senders is therefore limited to
    // the lag.
    const othersMs = Math.min(this.#workMs - account.workMs, lagMs)
    const addedMs = (workUs(bytes, events) * account.factor) / US_PER_MS
    const othersBytes = Math.max(0, backlogBytes - account.heldBytes)
    const isOver =
      account.workMs + addedMs > roomFor(processingLagMsMax, othersMs) ||
      account.heldBytes + bytes > roomFor(backlogBytesMax, othersBytes)
    return isOver && !this.isLight(account, SHARE_PART, addedMs)
  }

  /** Returns whether a body of this size would give a sender more than its share of the memory for bodies. */
  isOverBodyShare(sender: Sender, bytes: number): boolean {
    const { bytesMax, bytesInFlight } = this.bodies
    const { bodyBytes } = sender
    if (bodyBytes === 0) return false
    const room = (bytesMax - (bytesInFlight - bodyBytes)) * SHARE_PART
    if (bodyBytes + bytes <= room || !this.hasOthers(sender)) return false
    this.refused.bodies++
    return true
  }

  /** Returns whether a request of another sender was accepted recently. */
  hasOthers(sender: Sender): boolean {
    const atMs = this.#latest === sender ? this.#beforeAtMs : this.#latestAtMs
    return this.#clock.monotonic() - atMs < SENDER_ACTIVE_MS_MAX
  }

  /**
   * Corrects the factors of senders by the duration of a processing run. Call it after the requests of the run were
   * released. A sender with a small share of the work in the run is corrected less.
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

  /** Adds waiting requests to an account. Only `ChargeLedger` calls it. */
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

  /** Subtracts requests that no longer wait from what an account holds. Only `ChargeLedger` calls it. */
  release({ account, bytes, us }: Charge, isProcessed: boolean): void {
    account.heldBytes -= bytes
    account.heldUs -= us
    this.#workMs -= (us * account.factor) / US_PER_MS
    if (isProcessed) this.#released.set(account, (this.#released.get(account) ?? 0) + us)
    if (account.heldUs > 0) return
    this.#holding.delete(account)
    // If nothing waits, the sum is set to exactly 0, so that rounding errors do not remain.
    if (this.#holding.size === 0) this.#workMs = 0
  }

  /** Returns whether the same sender has recently sent requests of the other kind (small or large). */
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

  /** Removes the senders that are idle. Returns false if there is still no space for another sender. */
  #sweep(): boolean {
    const nowMs = this.#clock.monotonic()
    if (nowMs < this.#sweepAtMs) return false
    for (const [network, sender] of this.#senders) {
      if (sender.isIdle) this.#senders.delete(network)
    }
    // The next sweep is possible only after a while, because a sweep for each request would cost more than it saves.
    this.#sweepAtMs = nowMs + SENDER_ACTIVE_MS_MAX / SHARES_MAX
    return this.#senders.size < SENDERS_MAX
  }

  /**
   * Returns the level of work, in milliseconds, to which all larger accounts must be cut so that only `part` of all
   * waiting work is left.
   */
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
 * The charges for the requests of one log: requests that wait for the next commit, requests of the current commit, and
 * requests in blocks that are not processed yet. After `chargeMsMax` milliseconds, a charge is released in any case.
 */
export class ChargeLedger {
  readonly #shares: FairShares
  readonly #clock: FairSharesOptions['clock']
  readonly #chargeMsMax: number
  #filling: Charge[] = []
  /**
   * The charges for the blocks in the log that are not processed yet, oldest first. An entry covers the blocks after
   * those of the previous entry, up to `last`.
   */
  #logged: { last: number; readonly atMs: number; readonly charges: Charge[] }[] = []

  constructor(shares: FairShares, clock: FairSharesOptions['clock'], chargeMsMax: number) {
    this.#shares = shares
    this.#clock = clock
    this.#chargeMsMax = chargeMsMax
  }

  /** Charges an accepted request to its account. */
  add(account: SenderAccount, bytes: number, events: number): void {
    const us = workUs(bytes, events)
    addTo(this.#filling, account, bytes, us)
    this.#shares.hold(account, bytes, us)
  }

  /** Returns the charges of all requests in the commit that begins now. */
  begin(): readonly Charge[] {
    const charges = this.#filling
    this.#filling = []
    return charges
  }

  /** Records that a commit is on disk. `last` is the number of its last block. */
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

  /** Releases the charges of a commit that has failed. */
  failed(charges: readonly Charge[]): void {
    for (const charge of charges) this.#shares.release(charge, false)
  }

  /** Releases the charges of the blocks up to this number, because they are processed. */
  processed(through: number): void {
    const count = this.#logged.findIndex(({ last }) => last > through)
    // `learn` may use these charges only if this process processes all events of the log itself.
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

/** Adds a request to the charge of its account in a list. All requests of an account in the list share one charge. */
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

/**
 * Returns the estimated processing time in microseconds. The result is an integer, so that adding and later subtracting
 * the same times gives exactly 0.
 */
function workUs(bytes: number, events: number): number {
  return events * EVENT_US + Math.ceil(bytes / BYTES_PER_US)
}

function clamp(factor: number): number {
  return Math.min(WORK_FACTOR_MAX, Math.max(FACTOR_MIN, factor))
}
