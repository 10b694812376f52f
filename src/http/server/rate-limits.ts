/**
 * Limits requests and events per second, for each IP address and for each project. Each limit is off unless it is set.
 * A limit is a token bucket that fills at the configured rate. It holds the tokens of `BURST_SECONDS`. A batch may take
 * more tokens than the bucket holds, so that large batches pass too. The project must then wait until the bucket has
 * tokens again. See docs/OPERATIONS.md, "Rate limits".
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

/** A bucket holds the tokens of this many seconds. After a pause, they may be used all at once. */
const BURST_SECONDS = 10
const SECONDS = 60
const HOUR_SECONDS = 3600
/** The lowest HTTP status that reports a fault of the server, and not of the client. */
const SERVER_ERROR = 500

/** The configured rates. 0 means that there is no limit. */
export interface RateLimitSettings {
  readonly addressConnectionsPerSecondMax: number
  readonly addressRequestsPerSecondMax: number
  readonly projectRequestsPerSecondMax: number
  readonly projectEventsPerSecondMax: number
}

/** The rates, and the services that the limits need. */
export interface RateLimitOptions extends RateLimitSettings {
  readonly clock: Clock
  /** Counts refused requests by the name of the limit that refused them. */
  readonly refused: MetricFamily<Counter>
}

interface Bucket {
  tokens: number
  atMs: number
}

/**
 * Token buckets that all fill at the same rate, one for each key, such as a project. `RATE_BUCKETS_MAX` limits their
 * number.
 */
export class TokenBuckets<Key> {
  readonly #perSecond: number
  readonly #clock: Clock
  readonly #keysMax: number
  readonly #tokensMax: number
  /** Two generations of buckets. When the newer one is full, it replaces the older one, whose buckets are discarded. */
  #newer = new Map<Key, Bucket>()
  #older: ReadonlyMap<Key, Bucket> = new Map()

  /**
   * @param perSecond tokens that are added each second, above 0.
   * @param tokensMax the most tokens that a bucket holds.
   */
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
   * If at least one token is left, takes `count` tokens and returns 0. The number of tokens may become negative. If no
   * token is left, takes nothing and returns the seconds until a token is available.
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

  /** Takes `count` tokens, even if none are left. */
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

  /** Counts a new connection from an IP address. Returns false if the address has opened too many. */
  connection(address: string): boolean {
    if ((this.#connections?.take(networkOf(address), 1) ?? 0) === 0) return true
    this.#refused.with('address_connections').value++
    return false
  }

  /** True if requests of an IP address are limited. Otherwise the caller need not determine the address. */
  get hasAddressLimit(): boolean {
    return this.#addresses !== null
  }

  /** True if requests or events of projects are limited. */
  get hasProjectLimit(): boolean {
    return this.#requests !== null || this.#events !== null
  }

  /** Counts a request from an IP address. Returns an error if the address has sent too many, otherwise null. */
  address(address: string): ServiceError | null {
    const wait = this.#addresses?.take(networkOf(address), 1) ?? 0
    return this.#refusal(wait, 'address_requests')
  }

  /**
   * Counts a request for a project. Throws 429 `throttled` if the project has had too many requests. If the request
   * `bringsEvents`, it also throws if the project has sent too many events.
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
   * Runs `open`, which checks a secret that a client sent. If `open` returns null or throws, a failure is counted for
   * the IP address, and for the `account` whose password was checked. Errors with status 500 or more do not count. If
   * the address or the account has too many failures, `open` is not run, and 429 `throttled` is thrown. If it was the
   * account, the reason of this error is `accountReason`.
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
      // If the server was too busy to check the secret, it is unknown whether the secret was wrong, so no failure is
      // counted.
      if (cause instanceof ServiceError && cause.status >= SERVER_ERROR) refund()
      throw cause
    })
    if (opened !== null) refund()
    return opened
  }

  /** Returns a directory that looks up projects in `directory` and counts each lookup as a request of the project. */
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
