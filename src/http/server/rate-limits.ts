/**
 * Limits of requests and events in a second, for each address and each project; all are off unless they
 * are set. Each is a bucket that fills at the rate and holds some seconds of it. A batch may take more than
 * the bucket holds, and the project then waits until that is paid off, so that large batches pass as well.
 * docs/OPERATIONS.md, "Rate limits".
 */
import { networkOf } from '../../base/addresses.ts'
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import type { Counter, MetricFamily } from '../../base/metrics.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import type { Project, ProjectDirectory } from '../../rules/access/project-directory.ts'
import { LOGIN_FAILURES_PER_MINUTE_MAX, RATE_BUCKETS_MAX } from './limits.ts'

/** Seconds of the rate that may come at once after a pause. */
const BURST_SECONDS = 10
const SECONDS = 60

/** The rates; 0 is no limit. */
export interface RateLimitSettings {
  readonly addressConnectionsPerSecondMax: number
  readonly addressRequestsPerSecondMax: number
  readonly projectRequestsPerSecondMax: number
  readonly projectEventsPerSecondMax: number
}

/** What the limits work with. */
export interface RateLimitOptions extends RateLimitSettings {
  readonly clock: Clock
  /** Counts refused requests by the name of the limit. */
  readonly refused: MetricFamily<Counter>
}

interface Bucket {
  tokens: number
  atMs: number
}

/** Buckets that fill at the same rate, one for each key. Memory is bounded by `RATE_BUCKETS_MAX`. */
export class TokenBuckets<Key> {
  readonly #perSecond: number
  readonly #clock: Clock
  readonly #keysMax: number
  readonly #tokensMax: number
  /** Two generations: when the newer is full, it becomes the older one, and that is forgotten. */
  #newer = new Map<Key, Bucket>()
  #older: ReadonlyMap<Key, Bucket> = new Map()

  /** @param perSecond above 0. @param tokensMax what a bucket holds. */
  constructor(
    perSecond: number,
    clock: Clock,
    keysMax: number = RATE_BUCKETS_MAX,
    tokensMax: number = Math.max(1, perSecond * BURST_SECONDS),
  ) {
    this.#tokensMax = tokensMax
    this.#perSecond = perSecond
    this.#clock = clock
    this.#keysMax = keysMax
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#newer.size + this.#older.size
  }

  /** Takes `count` if there is anything left, even if that leaves less than nothing. Answers the seconds to wait otherwise, else 0. */
  take(key: Key, count: number): number {
    const waitSeconds = this.waitSeconds(key)
    if (waitSeconds === 0) this.spend(key, count)
    return waitSeconds
  }

  /** Seconds until there is one again, 0 when there is. */
  waitSeconds(key: Key): number {
    const { tokens } = this.#bucket(key)
    return tokens >= 1 ? 0 : (1 - tokens) / this.#perSecond
  }

  /** Takes `count`, whatever is left. */
  spend(key: Key, count: number): void {
    this.#bucket(key).tokens -= count
  }

  #bucket(key: Key): Bucket {
    const nowMs = this.#clock.monotonic()
    const tokensMax = this.#tokensMax
    let bucket = this.#newer.get(key)
    if (bucket === undefined) {
      bucket = this.#older.get(key) ?? { tokens: tokensMax, atMs: nowMs }
      if (this.#newer.size >= this.#keysMax / 2) {
        this.#older = this.#newer
        this.#newer = new Map()
      }
      this.#newer.set(key, bucket)
    }
    const gained = ((nowMs - bucket.atMs) / 1000) * this.#perSecond
    bucket.tokens = Math.min(tokensMax, bucket.tokens + gained)
    bucket.atMs = nowMs
    return bucket
  }
}

/** The limits of one server. */
export class RateLimits {
  readonly #failures: TokenBuckets<string>
  readonly #connections: TokenBuckets<string> | null
  readonly #addresses: TokenBuckets<string> | null
  readonly #requests: TokenBuckets<number> | null
  readonly #events: TokenBuckets<number> | null
  readonly #refused: MetricFamily<Counter>

  constructor(options: RateLimitOptions) {
    const buckets = <Key>(perSecond: number): TokenBuckets<Key> | null =>
      perSecond === 0 ? null : new TokenBuckets<Key>(perSecond, options.clock)
    this.#connections = buckets(options.addressConnectionsPerSecondMax)
    this.#addresses = buckets(options.addressRequestsPerSecondMax)
    this.#requests = buckets(options.projectRequestsPerSecondMax)
    this.#events = buckets(options.projectEventsPerSecondMax)
    this.#failures = new TokenBuckets<string>(
      LOGIN_FAILURES_PER_MINUTE_MAX / SECONDS,
      options.clock,
      RATE_BUCKETS_MAX,
      LOGIN_FAILURES_PER_MINUTE_MAX,
    )
    this.#refused = options.refused
  }

  /** New connections are counted. */
  get hasConnectionLimit(): boolean {
    return this.#connections !== null
  }

  /** Counts a new connection from an address; false when there were too many. */
  connection(address: string): boolean {
    if ((this.#connections?.take(networkOf(address), 1) ?? 0) === 0) return true
    this.#refused.with('address_connections').value++
    return false
  }

  /** Addresses are counted: without, nobody need ask for them. */
  get hasAddressLimit(): boolean {
    return this.#addresses !== null
  }

  /** Projects are counted. */
  get hasProjectLimit(): boolean {
    return this.#requests !== null || this.#events !== null
  }

  /** Counts a request from an address; the refusal when there were too many. */
  address(address: string): ServiceError | null {
    const wait = this.#addresses?.take(networkOf(address), 1) ?? 0
    return this.#refusal(wait, 'address_requests')
  }

  /**
   * Counts a request for a project. Throws 429 `throttled` when there were too many, and for a request
   * that `bringsEvents` also when there were too many events.
   */
  project(projectId: number, bringsEvents: boolean): void {
    const eventsWait = bringsEvents ? (this.#events?.waitSeconds(projectId) ?? 0) : 0
    const tooMany =
      this.#refusal(eventsWait, 'project_events') ??
      this.#refusal(this.#requests?.take(projectId, 1) ?? 0, 'project_requests')
    if (tooMany !== null) throw tooMany
  }

  /** Counts events that were accepted for a project. */
  events(projectId: number, count: number): void {
    this.#events?.spend(projectId, count)
  }

  /**
   * What a secret that somebody shows opens. Null, or what `open` throws, counts as a failure of the address.
   * Throws 429 `throttled` when it has failed too often.
   */
  async attempt<T>(address: string, open: () => Promise<T | null>): Promise<T | null> {
    const network = networkOf(address)
    const tooMany = this.#refusal(this.#failures.take(network, 1), 'login_failures', 'logins')
    if (tooMany !== null) throw tooMany
    const opened = await open()
    if (opened !== null) this.#failures.spend(network, -1)
    return opened
  }

  /** A directory that counts a request for each project that it finds. */
  directory(directory: ProjectDirectory, bringsEvents: boolean): ProjectDirectory {
    if (!this.hasProjectLimit) return directory
    const counted = (project: Project | null): Project | null => {
      if (project !== null) this.project(project.id, bringsEvents)
      return project
    }
    return {
      projectByKey: (key) => counted(directory.projectByKey(key)),
      projectById: (id) => counted(directory.projectById(id)),
      personalKey: (key) => directory.personalKey(key),
    }
  }

  #refusal(
    waitSeconds: number,
    limit: RefusalReason,
    counted: string = limit,
  ): ServiceError | null {
    if (waitSeconds === 0) return null
    this.#refused.with(counted).value++
    return refusal(limit, { retryAfterSeconds: Math.ceil(waitSeconds) })
  }
}
