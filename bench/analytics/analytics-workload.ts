/**
 * The events of the bench `analytics`: persons who return for sessions over 90 days, and 40 event names of very
 * different frequency. The same seed and sizes always give the same events. Times are whole seconds and increase from
 * event to event of a person, so that the order is unambiguous. Events arrive up to some seconds late, as from real
 * clients.
 */

/** The number of days over which the events are spread. */
export const WORKLOAD_DAYS = 90
/** The start of the first day in milliseconds: 2024-05-01, UTC. */
export const WORKLOAD_START_MS = Date.UTC(2024, 4, 1)
/** A tenth of all sessions has this value of the property `channel`, which some questions search for. */
export const SEARCHED_CHANNEL = 'search'
/** The origin of the addresses of all pages. */
export const PAGE_ORIGIN = 'https://app.example.com'

/** The numbers of events and persons. */
export interface WorkloadSize {
  readonly seed: number
  readonly events: number
  readonly persons: number
}

/** The properties of an event. A property that its kind of event does not have is undefined. */
export interface WorkloadProperties {
  readonly $current_url: string | undefined
  readonly $browser: string
  readonly $os: string
  readonly $device_type: string
  readonly $lib: string
  readonly $session_id: string
  readonly $screen_width: number
  readonly $viewport_height: number
  readonly country: string
  readonly channel: string
  readonly plan: string
  readonly amount: number | undefined
}

/** One event. */
export interface WorkloadEvent {
  readonly name: string
  /** The number of the person, from 0. */
  readonly person: number
  /** Whole seconds since 1970. */
  readonly timeSeconds: number
  /** The time of the person's first event, in seconds. */
  readonly personSinceSeconds: number
  /** The 16 bytes of the uuid. They are overwritten when the next event is drawn. */
  readonly uuidBytes: Uint8Array
  readonly properties: WorkloadProperties
}

const FREQUENT_NAMES = ['$pageview', '$autocapture', '$pageleave'] as const
const FREQUENT_SHARES = [0.3, 0.14, 0.08] as const
/** The less frequent names. The share of each name is 1 / (index + 2) of the share that the names before it leave. */
const OTHER_NAMES = [
  'product viewed',
  'cart filled',
  'checkout started',
  'order completed',
  'search performed',
  'signed up',
  'logged in',
  'logged out',
  'profile edited',
  'invite sent',
  'invite accepted',
  'project created',
  'project archived',
  'file uploaded',
  'file shared',
  'export clicked',
  'import finished',
  'video played',
  'video finished',
  'comment added',
  'comment resolved',
  'notification opened',
  'plan upgraded',
  'plan downgraded',
  'trial started',
  'trial ended',
  'survey shown',
  'survey sent',
  'dashboard viewed',
  'insight saved',
  'report scheduled',
  'api key created',
  'integration connected',
  'integration removed',
  'password reset',
  'tour finished',
  'help opened',
] as const
/** The names of all events. */
export const EVENT_NAMES: readonly string[] = [...FREQUENT_NAMES, ...OTHER_NAMES]

const PAGES = [
  '/pricing',
  '/docs',
  '/docs/install',
  '/docs/sdk',
  '/blog',
  '/blog/launch',
  '/app',
  '/signup',
  '/app/projects',
  '/app/settings',
  '/app/billing',
  '/app/team',
  '/login',
  '/checkout',
  '/about',
  '/checkout/done',
  '/changelog',
  '/careers',
  '/search',
  '/contact',
] as const
const BROWSERS = ['Chrome', 'Safari', 'Firefox', 'Edge', 'Mobile Safari', 'Opera'] as const
const SYSTEMS = ['Mac OS X', 'Windows', 'Linux', 'iOS', 'Android'] as const
const DEVICES = ['Desktop', 'Mobile', 'Tablet'] as const
const COUNTRIES = ['de', 'us', 'fr', 'gb', 'jp', 'br', 'in', 'pl', 'es'] as const
const CHANNELS = [
  SEARCHED_CHANNEL,
  'direct',
  'mail',
  'social',
  'partner',
  'video',
  'news',
  'app',
  'event',
  'other',
] as const
const PLANS = ['free', 'starter', 'pro', 'enterprise'] as const

const SECONDS_PER_DAY = 86_400
/** The mean time in seconds between two events of a session. */
const STEP_SECONDS = 60
const EVENTS_PER_SESSION_MAX = 8
/** A person has at least this many sessions on average. */
const SESSIONS_PER_PERSON_MIN = 1.5
/** All persons have occurred after this share of all sessions. */
const GROWING_SHARE = 0.97
const LATE_SECONDS_MAX = 9
const UUID_BYTES = 16

interface Session {
  person: number
  channel: string
  id: string
}

/** Draws events one after the other, in the order of arrival. An event takes about 1 us. */
export class AnalyticWorkload {
  readonly #random: () => number
  readonly #persons: number
  readonly #startSeconds = WORKLOAD_START_MS / 1000
  readonly #secondsPerEvent: number
  readonly #eventsPerSession: number
  /** The share of sessions that are the first session of a new person. */
  readonly #newShare: number
  /** For each person, the times of the last and of the first event. 0 means that the person has no event yet. */
  readonly #lastSeconds: Uint32Array
  readonly #firstSeconds: Uint32Array
  readonly #sessions: Session[]
  readonly #shares: Float64Array
  readonly #uuid = new Uint8Array(UUID_BYTES)
  #drawn = 0
  /** The number of persons that have occurred. */
  #seen = 0

  constructor({ seed, events, persons }: WorkloadSize) {
    this.#random = seededRandom(seed)
    this.#persons = persons
    this.#secondsPerEvent = (WORKLOAD_DAYS * SECONDS_PER_DAY) / events
    this.#eventsPerSession = Math.min(
      EVENTS_PER_SESSION_MAX,
      events / persons / SESSIONS_PER_PERSON_MIN,
    )
    this.#newShare = (persons * this.#eventsPerSession) / events / GROWING_SHARE
    this.#lastSeconds = new Uint32Array(persons)
    this.#firstSeconds = new Uint32Array(persons)
    this.#shares = cumulativeShares()
    const open = Math.max(1, Math.round(STEP_SECONDS / this.#secondsPerEvent))
    this.#sessions = Array.from({ length: open }, () => this.#newSession(this.#startSeconds))
  }

  next(): WorkloadEvent {
    const now = this.#startSeconds + Math.floor(this.#drawn++ * this.#secondsPerEvent)
    const session = this.#sessionAt(now)
    const { person } = session
    const earliest = Math.max(this.#startSeconds, (this.#lastSeconds[person] ?? 0) + 1)
    const timeSeconds = Math.max(earliest, now - this.#below(LATE_SECONDS_MAX + 1))
    this.#lastSeconds[person] = timeSeconds
    if (this.#firstSeconds[person] === 0) this.#firstSeconds[person] = timeSeconds
    const name = this.#name()
    this.#stampUuid(timeSeconds)
    return {
      name,
      person,
      timeSeconds,
      personSinceSeconds: this.#firstSeconds[person] ?? 0,
      uuidBytes: this.#uuid,
      properties: this.#properties(name, session),
    }
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }

  #pick<T>(items: readonly T[]): T {
    return at(items, this.#below(items.length))
  }

  /** Returns a session whose person has no event in this second yet. */
  #sessionAt(now: number): Session {
    for (;;) {
      const index = this.#below(this.#sessions.length)
      if (this.#random() * this.#eventsPerSession < 1) {
        this.#sessions[index] = this.#newSession(now)
      }
      const session = at(this.#sessions, index)
      if ((this.#lastSeconds[session.person] ?? 0) < now) return session
      this.#sessions[index] = this.#newSession(now)
    }
  }

  #newSession(startSeconds: number): Session {
    const id = this.#sessionId(startSeconds)
    return { person: this.#nextPerson(), channel: this.#pick(CHANNELS), id }
  }

  /** Returns a UUID of version 7 with the time at which the session starts, as SDKs create it. */
  #sessionId(startSeconds: number): string {
    const hex = (number: number, digits: number) => number.toString(16).padStart(digits, '0')
    const drawn = (digits: number) => hex(this.#below(16 ** digits), digits)
    const time = hex(startSeconds * 1000 + this.#below(1000), 12)
    const [early, late] = [time.slice(0, 8), time.slice(8)]
    return `${early}-${late}-7${drawn(3)}-8${drawn(3)}-${drawn(6)}${drawn(6)}`
  }

  /** Returns a new person, or one of the earliest or latest persons. Some persons return far more often than others. */
  #nextPerson(): number {
    const isNew = this.#seen < this.#persons && this.#random() < this.#newShare
    if (isNew || this.#seen === 0) return this.#seen++
    const draw = this.#random()
    const distance = Math.floor(this.#seen * draw * draw)
    return this.#random() < 0.5 ? distance : this.#seen - 1 - distance
  }

  #name(): string {
    const draw = this.#random()
    let place = 0
    while (place < EVENT_NAMES.length - 1 && draw >= (this.#shares[place] ?? 1)) place++
    return at(EVENT_NAMES, place)
  }

  #stampUuid(timeSeconds: number): void {
    const bytes = Buffer.from(this.#uuid.buffer)
    bytes.writeUIntBE(timeSeconds * 1000, 0, 6)
    bytes.writeUInt16BE(0x7000 | this.#below(0x1000), 6)
    bytes.writeUInt32BE((0x80000000 | this.#below(0x40000000)) >>> 0, 8)
    bytes.writeUInt32BE(this.#drawn, 12)
  }

  #properties(name: string, { person, channel, id }: Session): WorkloadProperties {
    const isOnPage = name === '$pageview' || name === '$autocapture' || name === '$pageleave'
    const hash = Math.imul(person + 1, 0x9e3779b1) >>> 0
    return {
      $current_url: isOnPage ? PAGE_ORIGIN + this.#pick(PAGES) : undefined,
      $browser: at(BROWSERS, hash),
      $os: at(SYSTEMS, hash >>> 3),
      $device_type: at(DEVICES, hash >>> 6),
      $lib: 'web',
      $session_id: id,
      $screen_width: 1280 + ((hash >>> 9) % 6) * 128,
      $viewport_height: 600 + this.#below(400),
      country: at(COUNTRIES, hash >>> 12),
      channel,
      plan: at(PLANS, hash >>> 15),
      amount: name === 'order completed' ? this.#below(100_000) / 100 : undefined,
    }
  }
}

function cumulativeShares(): Float64Array {
  const weights = OTHER_NAMES.map((_, place) => 1 / (place + 2))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const left = 1 - FREQUENT_SHARES.reduce((sum, share) => sum + share, 0)
  let sum = 0
  const shares = [...FREQUENT_SHARES, ...weights.map((weight) => (left * weight) / total)]
  return Float64Array.from(shares, (share) => {
    sum += share
    return sum
  })
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length]
  if (item === undefined) throw new RangeError('nothing to choose from')
  return item
}

/**
 * Returns a function that draws numbers of at least 0 and less than 1 (mulberry32). The same seed gives the same
 * sequence.
 */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
