/**
 * Who asks for flags without cookies: the same id that the visitor's events get, from the headers of the
 * request. Without it a flag for a tenth of all would be on for all such visitors or for none.
 * Source: docs/compatibility/persons.md, "Visitors without cookies".
 */

import type { JsonObject } from '../../../base/json.ts'
import type { Settings } from '../../../config/settings.ts'
import type { DailySalts } from '../../../engine/front/daily-salts.ts'
import { clientAddress } from '../../../rules/capture/address.ts'
import { dayOf, visitorId } from '../../../rules/capture/cookieless.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'

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

  /**
   * The visitor behind a request with the id of all visitors without cookies. The first call of a day may
   * wait for the disk.
   */
  idOf(
    exchange: Exchange,
    { forwardedFor, origin, userAgent }: RequestHead,
    projectId: number,
    body: JsonObject,
    nowMs: number,
  ): string {
    const { timezone, cookieless_hash_extra: extra } = body
    const day = dayOf(nowMs, nowMs, typeof timezone === 'string' ? timezone : '')
    return visitorId(this.#salts.saltOf(day), {
      projectId,
      address: clientAddress(forwardedFor, exchange.peerAddress, this.#isForwardedForTrusted),
      host: origin.replace(/^[a-z]+:\/\//, '').toLowerCase(),
      userAgent,
      extra: typeof extra === 'string' ? extra : '',
    })
  }
}
