/** Addresses: of proxies that may speak for a client, and of this server as a client sees it. */
import { BlockList, isIP } from 'node:net'
import { addressRange } from '../../base/addresses.ts'
import { UsageError } from '../../base/errors.ts'
import { isHost } from './framing.ts'

/** Peers whose `X-Forwarded-*` headers are believed. */
export class TrustedProxies {
  readonly #list = new BlockList()

  /** @param entries addresses or CIDR blocks; throws `UsageError` for anything else. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const range = addressRange(entry)
      if (range === null) {
        throw new UsageError(
          `trusted proxies: ${JSON.stringify(entry)} is not an address or a block such as 10.0.0.0/8`,
        )
      }
      this.#list.addSubnet(range.address, range.bits, range.family)
    }
  }

  /** Whether a peer (text, as from `formatAddress`) is one of them. */
  has(address: string): boolean {
    const version = isIP(address)
    return version !== 0 && this.#list.check(address, version === 4 ? 'ipv4' : 'ipv6')
  }
}

/** What a request says about the address it was sent to. */
export interface AddressedRequest {
  readonly host: string
  readonly forwardedHost: string
  readonly forwardedProto: string
  readonly peerAddress: string
}

/**
 * The scheme and authority for links in answers, without a trailing slash: the configured public URL;
 * else, from a trusted proxy, what it forwarded; else the Host of the request, whose form was checked.
 * A client behind no proxy can only choose what it is told itself.
 */
export function baseUrl(
  request: AddressedRequest,
  settings: { readonly publicUrl: string | null; readonly trustedProxies: TrustedProxies },
): string {
  if (settings.publicUrl !== null) return settings.publicUrl.replace(/\/+$/, '')
  if (settings.trustedProxies.has(request.peerAddress)) {
    const scheme = request.forwardedProto === 'https' ? 'https' : 'http'
    const host = isHost(request.forwardedHost) ? request.forwardedHost : request.host
    return `${scheme}://${host}`
  }
  return `http://${request.host}`
}
