/**
 * Generates realistic product-analytics traffic from a seed. An event has about 25 properties and 900 bytes of JSON. A
 * few users are far more active than the others, and most events are page views. The same seed and options always give
 * the same bytes. This file does not depend on HTTP; see `bodies.ts`.
 */
import { createHash } from 'node:crypto'

/** An event as it appears in the `batch` array of a request. */
export interface GeneratedEvent {
  readonly event: string
  readonly properties: Record<string, unknown>
  readonly timestamp: string
  readonly uuid: string
  $set?: Record<string, unknown>
  $set_once?: Record<string, unknown>
}

export interface EventGeneratorOptions {
  /** The seed. It determines the users and, together with `draw`, their actions. */
  readonly seed: number
  /** Another number gives other events of the same users. The default is 0. */
  readonly draw?: number
  /** The number of distinct active users. The default is 5000. */
  readonly users?: number
  /** If true, all users are equally active. The default is false: a few users are far more active than the others. */
  readonly isUniform?: boolean
  /** The kind of events; see `EventRequestOptions`. The default is traffic. */
  readonly content?: 'traffic' | 'arrivals' | 'merges'
  /** The first user of arrivals and merges. The default is 0. */
  readonly firstUser?: number
  /** The time of the first event, in milliseconds. The default is 2024-05-01. */
  readonly startMs?: number
  /** The mean time between two events, in milliseconds. The default is 250. */
  readonly stepMs?: number
}

interface UserTraits {
  readonly email: string
  readonly name: string
  readonly plan: string
  readonly seats: number
  readonly companyId: string
}

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
)
const PATHS = [
  '/',
  '/pricing',
  '/docs',
  '/docs/install',
  '/docs/sdk/js',
  '/blog',
  '/blog/launch-week-3',
  '/app',
  '/app/projects',
  '/app/projects/42/settings',
  '/app/billing',
  '/app/team',
  '/signup',
  '/login',
  '/checkout',
  '/checkout/done',
  '/changelog',
  '/about',
  '/careers',
  '/search',
] as const
const BROWSERS = [
  ['Chrome', 124],
  ['Chrome', 125],
  ['Safari', 17],
  ['Firefox', 126],
  ['Microsoft Edge', 124],
  ['Mobile Safari', 17],
  ['Samsung Internet', 25],
] as const
const SYSTEMS = [
  ['Mac OS X', '10.15.7', 'Desktop'],
  ['Windows', '10', 'Desktop'],
  ['Linux', '', 'Desktop'],
  ['iOS', '17.4.1', 'Mobile'],
  ['Android', '14', 'Mobile'],
] as const
const PLACES = [
  ['Europe/Berlin', 'de-DE'],
  ['America/New_York', 'en-US'],
  ['America/Los_Angeles', 'en-US'],
  ['Europe/London', 'en-GB'],
  ['Europe/Paris', 'fr-FR'],
  ['America/Sao_Paulo', 'pt-BR'],
  ['Asia/Tokyo', 'ja-JP'],
  ['Asia/Kolkata', 'en-IN'],
  ['Europe/Warsaw', 'pl-PL'],
] as const
const REFERRERS = [
  '$direct',
  '$direct',
  '$direct',
  'https://www.google.com/',
  'https://news.ycombinator.com/',
  'https://t.co/',
  'https://github.com/',
  'https://www.linkedin.com/',
] as const
const PLANS = ['free', 'free', 'free', 'starter', 'pro', 'enterprise'] as const
const FIRST_NAMES = [
  'Anna',
  'Bjørn',
  'Chloé',
  'David',
  'Eva',
  'François',
  'Grace',
  'Hiro',
  'Inés',
  'Jürgen',
  'Kenji',
  'Léa',
  'Marta',
  'Nils',
  'Olga',
  'Paweł',
] as const
const TAGS = ['a', 'button', 'div', 'span', 'input', 'li'] as const
const SOURCES = ['web', 'api', 'import', 'mobile'] as const
const SEARCHES = ['annual report', 'größe filter', 'how to export', 'billing'] as const
const CUSTOM_NAMES = [
  'project created',
  'file uploaded',
  'invite sent',
  'checkout started',
  'checkout completed',
  'search performed',
  'export clicked',
  'video played',
  'comment added',
  'notification opened',
  'plan upgraded',
  'plan downgraded',
  'integration connected',
  'dashboard viewed',
  'insight saved',
  'api key created',
  'trial started',
  'trial ended',
  'survey shown',
  'survey sent',
] as const

/** Draws events one after the other. An event takes about 8 us. */
export class EventGenerator {
  readonly #random: () => number
  readonly #seed: number
  readonly #users: number
  readonly #isUniform: boolean
  readonly #content: 'traffic' | 'arrivals' | 'merges'
  #nextUser: number
  readonly #startMs: number
  readonly #stepMs: number
  #nowMs: number
  /** The time of the event that is being drawn. */
  #path = ''

  constructor(options: EventGeneratorOptions) {
    this.#seed = options.seed
    this.#random = seededRandom(options.seed + (options.draw ?? 0) * 7919)
    this.#users = options.users ?? 5000
    this.#isUniform = options.isUniform ?? false
    this.#content = options.content ?? 'traffic'
    this.#nextUser = options.firstUser ?? 0
    this.#startMs = options.startMs ?? Date.UTC(2024, 4, 1)
    this.#stepMs = options.stepMs ?? 250
    this.#nowMs = this.#startMs
  }

  /** Returns the body of a request with one event, with the key at its root. */
  capture(projectKey: string): Record<string, unknown> {
    return { api_key: projectKey, ...this.event() }
  }

  /** Returns the body of a request with `count` events, as current SDKs send it. */
  batch(projectKey: string, count: number): Record<string, unknown> {
    const batch: GeneratedEvent[] = []
    for (let index = 0; index < count; index++) batch.push(this.event())
    const sentAt = new Date(this.#nowMs + 40).toISOString()
    return { api_key: projectKey, historical_migration: false, batch, sent_at: sentAt }
  }

  event(): GeneratedEvent {
    this.#nowMs += this.#below(2 * this.#stepMs + 1)
    if (this.#content === 'arrivals') return this.#arrival(this.#nextUser++)
    if (this.#content === 'merges') return this.#merge(this.#nextUser++, this.#nextUser++)
    const skew = this.#isUniform ? 1 : this.#fraction()
    const user = Math.floor(this.#users * this.#fraction() * skew)
    return this.#eventOf(user, this.#name())
  }

  /**
   * Returns the first event of a user. It creates a person with some 30 properties, including the e-mail address and
   * the name.
   */
  #arrival(user: number): GeneratedEvent {
    const event = this.#eventOf(user, '$set')
    const { email, name, plan } = this.#traits(user)
    event.$set = { email, name, plan }
    event.$set_once = { initial_path: this.#path }
    return event
  }

  /** Returns an event that joins two users. It has no other properties. */
  #merge(into: number, from: number): GeneratedEvent {
    return {
      event: '$identify',
      properties: {
        distinct_id: this.#distinctId(into),
        $anon_distinct_id: this.#distinctId(from),
      },
      timestamp: new Date(this.#nowMs).toISOString(),
      uuid: this.#uuid(),
    }
  }

  #eventOf(user: number, name: string): GeneratedEvent {
    const event: GeneratedEvent = {
      event: name,
      properties: this.#baseProperties(user),
      timestamp: new Date(this.#nowMs).toISOString(),
      uuid: this.#uuid(),
    }
    this.#addDetails(event, user)
    return event
  }

  #below(limit: number): number {
    return this.#random() % limit
  }

  #fraction(): number {
    return this.#random() / 2 ** 32
  }

  #pick<T>(items: readonly T[]): T {
    return at(items, this.#random())
  }

  #hex(bytes: number): string {
    let text = ''
    for (let index = 0; index < bytes; index++) text += HEX[this.#random() & 255]
    return text
  }

  #uuid(): string {
    const time = this.#nowMs.toString(16).padStart(12, '0')
    const variant = (8 + this.#below(4)).toString(16)
    const middle = `7${this.#hex(2).slice(1)}-${variant}${this.#hex(2).slice(1)}`
    return `${time.slice(0, 8)}-${time.slice(8, 12)}-${middle}-${this.#hex(6)}`
  }

  #hash(user: number): number {
    let hash = Math.imul(user + 1, 0x9e3779b1) ^ this.#seed
    hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
    return (hash ^ (hash >>> 13)) >>> 0
  }

  #distinctId(user: number): string {
    const hash = this.#hash(user)
    if (hash % 3 === 0) return `user_${100_000 + user}`
    const tail = (((user + 1) * 2_654_435_761) % 2 ** 48).toString(16).padStart(12, '0')
    const head = hash.toString(16).padStart(8, '0')
    return `${head}-${(hash % 65_536).toString(16).padStart(4, '0')}-7a3c-9f21-${tail}`
  }

  #name(): string {
    const draw = this.#fraction()
    if (draw < 0.34) return '$pageview'
    if (draw < 0.54) return '$autocapture'
    if (draw < 0.64) return '$pageleave'
    if (draw < 0.67) return '$identify'
    if (draw < 0.68) return '$groupidentify'
    const index = Math.floor(CUSTOM_NAMES.length * this.#fraction() * this.#fraction())
    return CUSTOM_NAMES[index] ?? CUSTOM_NAMES[0]
  }

  #traits(user: number): UserTraits {
    const hash = this.#hash(user)
    const firstName = at(FIRST_NAMES, hash)
    return {
      email: `user${user}@example${hash % 50}.com`,
      name: `${firstName} ${String.fromCharCode(65 + ((hash >>> 8) % 26))}.`,
      plan: at(PLANS, hash >>> 4),
      seats: 1 + ((hash >>> 10) % 40),
      companyId: `c_${(hash >>> 12) % 500}`,
    }
  }

  #baseProperties(user: number): Record<string, unknown> {
    const hash = this.#hash(user)
    const browser = at(BROWSERS, hash)
    const system = at(SYSTEMS, hash >>> 3)
    const place = at(PLACES, hash >>> 6)
    const path = this.#pick(PATHS)
    this.#path = path
    const referrer = this.#pick(REFERRERS)
    const isTagged = this.#below(4) === 0
    const query = isTagged ? `?utm_source=newsletter&utm_campaign=c${this.#below(40)}` : ''
    const session = (Math.floor(this.#nowMs / 1_800_000) ^ hash) >>> 0
    return {
      distinct_id: this.#distinctId(user),
      $os: system[0],
      $os_version: system[1],
      $browser: browser[0],
      $browser_version: browser[1],
      $device_type: system[2],
      $current_url: `https://app.example.com${path}${query}`,
      $host: 'app.example.com',
      $pathname: path,
      $timezone: place[0],
      $browser_language: place[1],
      $screen_height: 720 + (hash % 8) * 90,
      $screen_width: 1280 + (hash % 6) * 128,
      $viewport_height: 600 + this.#below(400),
      $viewport_width: 1000 + this.#below(900),
      $lib: 'web',
      $lib_version: `1.131.${hash % 9}`,
      $insert_id: this.#hex(8),
      $time: this.#nowMs / 1000,
      $device_id: `018f${this.#hash(user + 7)
        .toString(16)
        .padStart(8, '0')}-72e1`,
      $session_id: `018f3a${session.toString(16).padStart(8, '0')}`,
      $window_id: this.#hex(6),
      $referrer: referrer,
      $referring_domain: referrer === '$direct' ? referrer : referrer.slice(8, -1),
    }
  }

  /** Returns the distinct_id of a user. */
  idOf(user: number): string {
    return this.#distinctId(user)
  }

  /** Returns the e-mail address of a user. */
  emailOf(user: number): string {
    return this.#traits(user).email
  }

  /** Adds the properties that only events of this name have. */
  #addDetails(event: GeneratedEvent, user: number): void {
    const properties = event.properties
    switch (event.event) {
      case '$pageview':
        Object.assign(properties, { title: `Example - ${this.#path} – ${this.#pick(PLANS)}` })
        break
      case '$autocapture':
        Object.assign(properties, { $event_type: 'click', $ce_version: 1 })
        Object.assign(properties, { $elements: [this.#element()] })
        break
      case '$pageleave':
        Object.assign(properties, {
          $prev_pageview_duration: Math.round(this.#fraction() * 90_000) / 1000,
          $prev_pageview_max_scroll_percentage: Math.round(this.#fraction() * 100) / 100,
        })
        break
      case '$identify': {
        const { email, name, plan } = this.#traits(user)
        Object.assign(properties, { $anon_distinct_id: `anon-${this.#hex(10)}` })
        event.$set = { email, name, plan }
        event.$set_once = { initial_path: this.#path }
        break
      }
      case '$groupidentify': {
        const { companyId, seats, plan } = this.#traits(user)
        Object.assign(properties, {
          $group_type: 'company',
          $group_key: companyId,
          $group_set: { name: `Company ${companyId}`, seats, plan },
        })
        break
      }
      default: {
        const { plan, companyId } = this.#traits(user)
        Object.assign(properties, {
          plan,
          amount: Math.round(this.#fraction() * 100_000) / 100,
          items: this.#below(20),
          source: this.#pick(SOURCES),
          $groups: { company: companyId },
          '$feature/new-nav': (this.#hash(user) & 1) === 1,
          query: this.#pick(SEARCHES),
        })
      }
    }
  }

  #element(): Record<string, unknown> {
    return {
      tag_name: this.#pick(TAGS),
      $el_text: `Button ${this.#below(60)}`,
      classes: ['btn', 'btn-primary'],
      attr__class: 'btn btn-primary',
      nth_child: this.#below(9),
      nth_of_type: this.#below(4),
    }
  }
}

/**
 * Returns the first 16 hex digits of the SHA-256 of the first 1000 events of a seed. Reports identify the workload by
 * them.
 */
export function workloadHash(seed: number): string {
  const generator = new EventGenerator({ seed })
  const hash = createHash('sha256')
  for (let index = 0; index < 1000; index++) hash.update(JSON.stringify(generator.event()))
  return hash.digest('hex').slice(0, 16)
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length]
  if (item === undefined) throw new RangeError('nothing to choose from')
  return item
}

/**
 * Returns a function that draws 32-bit integers with the small and fast generator sfc32. The same seed gives the same
 * sequence.
 */
function seededRandom(seed: number): () => number {
  let a = 0x9e3779b9 ^ seed
  let b = 0x243f6a88
  let c = 0xb7e15162
  let d = seed ^ 0xdeadbeef
  const next = (): number => {
    const sum = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return sum >>> 0
  }
  for (let index = 0; index < 20; index++) next()
  return next
}
