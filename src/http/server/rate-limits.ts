/**
 * Limits requests and events per second, for each address and each project. Each limit is off unless it is set. A limit
 * is a token bucket that fills at the configured rate and holds several seconds of it. A batch may take more tokens
 * than the bucket holds. The project then waits until the debt is paid off, so that large batches pass too.
 * docs/OPERATIONS.md, "Rate limits".
 */
import { networkOf } from '../../base/addresses.ts'
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { Counter, MetricFamily } from '../../base/metrics.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import type { Project, ProjectDirectory } from '../../rules/access/project-directory.ts'
import {
  ACCOUNT_FAILURES_PER_HOUR_MAX,
  LOGIN_FAILURES_PER_MINUTE_MAX,
  RATE_BUCKETS_MAX,
} from './limits.ts'

/** The seconds of the rate that a bucket holds, which may be used at once after a pause. */
const BURST_SECONDS = 10
const SECONDS = 60
const HOUR_SECONDS = 3600
/** The lowest status of answers for which the server is responsible. */
const SERVER_ERROR = 500

/** The rates. 0 means no limit. */
export interface RateLimitSettings {
  readonly addressConnectionsPerSecondMax: number
  readonly addressRequestsPerSecondMax: number
  readonly projectRequestsPerSecondMax: number
  readonly projectEventsPerSecondMax: number
}

/** The rates, and the services that the limits need. */
export interface RateLimitOptions extends RateLimitSettings {
  readonly clock: Clock
  /** Counts refused requests by the name of the limit. */
  readonly refused: MetricFamily<Counter>
}

interface Bucket {
  tokens: number
  atMs: number
}

/** Token buckets with one rate, one bucket for each key. `RATE_BUCKETS_MAX` bounds their memory. */
export class TokenBuckets<Key> {
  readonly #perSecond: number
  readonly #clock: Clock
  readonly #keysMax: number
  readonly #tokensMax: number
  /** Two generations of buckets. When the newer one is full, it replaces the older one, which is discarded. */
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

  /** The number of keys that have a bucket. */
  get size(): number {
    return this.#newer.size + this.#older.size
  }

  /**
   * Takes `count` tokens if at least one is left, even if the balance becomes negative. Returns 0 then, else the
   * seconds to wait.
   */
  take(key: Key, count: number): number {
    const waitSeconds = this.waitSeconds(key)
    if (waitSeconds === 0) this.spend(key, count)
    return waitSeconds
  }

  /** Returns the seconds until the bucket has a token again, or 0 if it has one. */
  waitSeconds(key: Key): number {
    const { tokens } = this.#bucket(key)
    return tokens >= 1 ? 0 : (1 - tokens) / this.#perSecond
  }

  /** Takes `count` tokens, whatever the balance. */
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

/** The rate limits of one server. */
export class RateLimits {
  readonly #failures: TokenBuckets<string>
  readonly #accountFailures: TokenBuckets<string>
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
    this.#accountFailures = new TokenBuckets<string>(
      ACCOUNT_FAILURES_PER_HOUR_MAX / HOUR_SECONDS,
      options.clock,
      RATE_BUCKETS_MAX,
      ACCOUNT_FAILURES_PER_HOUR_MAX,
    )
    this.#refused = options.refused
  }

  /** True if new connections are limited. */
  get hasConnectionLimit(): boolean {
    return this.#connections !== null
  }

  /** Counts a new connection from an address. Returns false if there were too many. */
  connection(address: string): boolean {
    if ((this.#connections?.take(networkOf(address), 1) ?? 0) === 0) return true
    this.#refused.with('address_connections').value++
    return false
  }

  /** True if requests of addresses are limited. Otherwise the address need not be determined. */
  get hasAddressLimit(): boolean {
    return this.#addresses !== null
  }

  /** True if requests or events of projects are limited. */
  get hasProjectLimit(): boolean {
    return this.#requests !== null || this.#events !== null
  }

  /** Counts a request from an address. Returns the error if there were too many, else null. */
  address(address: string): ServiceError | null {
    const wait = this.#addresses?.take(networkOf(address), 1) ?? 0
    return this.#refusal(wait, 'address_requests')
  }

  /**
   * Counts a request for a project. Throws 429 `throttled` if there were too many requests. If the request
   * `bringsEvents`, it also throws if there were too many events.
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
   * Runs `open`, which checks a secret that a client sent. If it returns null or refuses the request, a failure of the
   * address is counted, and one of the `account` whose password it checks. Throws 429 `throttled` if either has failed
   * too often; `accountReason` is the reason in the second case.
   */
  async attempt<T>(
    address: string,
    open: () => Promise<T | null>,
    account: string | null = null,
    accountReason: 'account_failures' | 'share_failures' = 'account_failures',
  ): Promise<T | null> {
    const network = networkOf(address)
    const tooMany = this.#refusal(this.#failures.take(network, 1), 'login_failures', 'logins')
    if (tooMany !== null) throw tooMany
    const accountWait = account === null ? 0 : this.#accountFailures.take(account, 1)
    const tooManyOfAccount = this.#refusal(accountWait, accountReason, 'logins')
    if (tooManyOfAccount !== null) throw tooManyOfAccount
    const refund = () => {
      this.#failures.spend(network, -1)
      if (account !== null) this.#accountFailures.spend(account, -1)
    }
    const opened = await open().catch((cause: unknown) => {
      // A server that is too busy to check a secret tells nothing about it.
      if (cause instanceof ServiceError && cause.status >= SERVER_ERROR) refund()
      throw cause
    })
    if (opened !== null) refund()
    return opened
  }

  /** Returns a directory that counts a request for each project that it finds. */
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
