/**
 * The daily salts from which the ids of visitors without cookies are computed. All machines use the same salts, so that
 * a visitor gets the same id everywhere, and replicas that process the same log compute the same results. Machines
 * publish salts a day ahead, and all machines use the first salt of a day in the stream. If no broker answers and a day
 * has no salt, a machine creates its own.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../base/clock.ts'
import type { DailySalts } from '../engine/front/daily-salts.ts'
import { isDayOpen } from '../rules/capture/cookieless.ts'
import { PUBLISH_MS_MAX } from './limits.ts'
import type { SharedStream } from './shared-stream.ts'

const AGAIN_MS = 50
const PREPARE_MS = 600_000
const AGAIN_SOON_MS = 5000
const DAY_MS = 86_400_000
/**
 * The days for which salts are prepared, as offsets from today: all days that can be open today or tomorrow. A day is
 * *open* while it is today in some time zone, or while its events may still arrive.
 */
const DAYS = [-5, -4, -3, -2, -1, 0, 1, 2] as const

/** A message of the stream of daily salts. */
interface SaltMessage {
  readonly day: string
  /** The salt of that day, as hex digits. */
  readonly salt: string
}

/** What shared salts need from their node. */
export interface SharedSaltsOptions {
  readonly stream: SharedStream
  readonly salts: DailySalts
  readonly clock: Clock
}

/** The shared salts, as one machine knows them. */
export class SharedSalts {
  readonly #options: SharedSaltsOptions
  readonly #known = new Set<string>()
  #read = 0
  #incarnation = ''
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: SharedSaltsOptions) {
    this.#options = options
    options.stream.follow({
      position: () => ({ incarnation: '', sequence: 0 }),
      take: ({ sequence, data }, incarnation) => this.#take(sequence, data, incarnation),
    })
    options.stream.onIncarnation(() => {
      this.#begin(options.stream.incarnation)
      this.#prepareSoon(0)
    })
  }

  /** Resolves when all open days have their salt, or after `msMax` milliseconds. */
  async ready(msMax: number): Promise<void> {
    const deadline = performance.now() + msMax
    while (this.#missing().length > 0 && performance.now() < deadline) await sleep(AGAIN_MS)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #missing(): readonly string[] {
    const now = this.#options.clock.now()
    return DAYS.map((offset) => new Date(now + offset * DAY_MS).toISOString().slice(0, 10))
      .filter((day) => isDayOpen(day, now) || isDayOpen(day, now + DAY_MS))
      .filter((day) => !this.#known.has(day))
  }

  #take(sequence: number, data: Buffer, incarnation: string): void {
    this.#begin(incarnation)
    this.#read = sequence
    // The cast is right: `#prepare` wrote the message.
    const { day, salt } = JSON.parse(data.toString()) as SaltMessage
    if (this.#known.has(day)) return
    this.#known.add(day)
    this.#options.salts.adopt(day, Buffer.from(salt, 'hex'))
  }

  #begin(incarnation: string): void {
    if (incarnation === this.#incarnation) return
    this.#incarnation = incarnation
    this.#read = 0
    this.#known.clear()
  }

  #prepareSoon(delayMs: number): void {
    clearTimeout(this.#timer)
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      void this.#prepare().then(
        () => this.#prepareSoon(PREPARE_MS),
        () => this.#prepareSoon(AGAIN_SOON_MS),
      )
    }, delayMs)
  }

  /**
   * Publishes a salt for each day that is open today or tomorrow and has none in the stream. It publishes the salt that
   * this machine already uses, or else a new one.
   */
  async #prepare(): Promise<void> {
    const { stream, salts } = this.#options
    const { last } = await stream.state()
    while (!this.#isClosed && this.#read < last) await sleep(AGAIN_MS)
    for (const day of this.#missing()) {
      const salt = Buffer.from(salts.find(day) ?? randomBytes(32)).toString('hex')
      const message: SaltMessage = { day, salt }
      await stream.publish(Buffer.from(JSON.stringify(message)), `${day}.${salt}`, PUBLISH_MS_MAX)
    }
  }
}
