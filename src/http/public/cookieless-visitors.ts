/**
 * Who asks for flags without cookies: the same id that the visitor's events get, from the headers of the
 * request. Without it a flag for a tenth of all would be on for all such visitors or for none.
 * Source: docs/COMPATIBILITY.md, "Visitors without cookies".
 */
import type { Settings } from '../../config/settings.ts'
import { clientAddress } from '../../ingest/address.ts'
import { COOKIELESS_ID, dayOf, visitorId } from '../../ingest/cookieless.ts'
import type { JsonObject } from '../../ingest/types.ts'
import type { DailySalts } from '../../store/daily-salts.ts'
import type { Exchange } from '../exchange.ts'
import type { RequestHead } from '../framing.ts'

/** What is kept of a request until its body is there. */
export interface Sender {
  readonly exchange: Exchange
  readonly forwardedFor: string
  readonly userAgent: string
  readonly origin: string
}

/** Finds out who asks. */
export class CookielessVisitors {
  readonly #salts: Pick<DailySalts, 'saltOf'>
  readonly #isForwardedForTrusted: boolean

  constructor(
    salts: Pick<DailySalts, 'saltOf'>,
    { isForwardedForTrusted }: Pick<Settings, 'isForwardedForTrusted'>,
  ) {
    this.#salts = salts
    this.#isForwardedForTrusted = isForwardedForTrusted
  }

  /** What has to be known of a request. */
  senderOf(exchange: Exchange, { forwardedFor, userAgent, origin }: RequestHead): Sender {
    return { exchange, forwardedFor, userAgent, origin }
  }

  /**
   * The visitor behind a request with the id of all visitors without cookies; any other id as it is. The
   * first call of a day may wait for the disk.
   */
  distinctIdOf(
    distinctId: string,
    sender: Sender,
    { projectId, body, nowMs }: { projectId: number; body: JsonObject; nowMs: number },
  ): string {
    if (distinctId !== COOKIELESS_ID) return distinctId
    const { timezone, cookieless_hash_extra: extra } = body
    const day = dayOf(nowMs, nowMs, typeof timezone === 'string' ? timezone : '')
    return visitorId(this.#salts.saltOf(day), {
      projectId,
      address: clientAddress(
        sender.forwardedFor,
        sender.exchange.peerAddress,
        this.#isForwardedForTrusted,
      ),
      host: sender.origin.replace(/^[a-z]+:\/\//, '').toLowerCase(),
      userAgent: sender.userAgent,
      extra: typeof extra === 'string' ? extra : '',
    })
  }
}
