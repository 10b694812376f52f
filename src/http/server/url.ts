/** Determines the IP address of a client behind trusted proxies, and the URL of this server as clients see it. */
import { BlockList, isIP } from 'node:net'
import { addressRange } from '../../base/addresses.ts'
import { UsageError } from '../../base/errors.ts'
import { clientAddress } from '../../rules/capture/address.ts'
import { isHost, type RequestHead } from './framing.ts'
import {
  FORWARDED_CHARACTERS_MAX,
  FORWARDED_KNOWN_CHARACTERS_MAX,
  FORWARDED_KNOWN_MAX,
  PROXY_HOPS_MAX,
} from './limits.ts'

/** The proxies whose `X-Forwarded-*` headers are trusted. */
export class TrustedProxies {
  readonly #list = new BlockList()

  /** @param entries IP addresses or ranges such as 10.0.0.0/8. Throws `UsageError` for anything else. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const range = addressRange(entry)
      if (range === null) {
        throw new UsageError(
          `\`trusted_proxies\` contains ${JSON.stringify(entry)}, which is neither an address nor a range such as 10.0.0.0/8.`,
        )
      }
      this.#list.addSubnet(range.address, range.bits, range.family)
    }
  }

  /** Returns true if an IP address is that of a trusted proxy. `address` has the form of `formatAddress`. */
  has(address: string): boolean {
    const version = isIP(address)
    return version !== 0 && this.#list.check(address, version === 4 ? 'ipv4' : 'ipv6')
  }
}

/**
 * Returns the IP address that rate limits and the audit log use for a request. Clients cannot choose this address,
 * unlike the property `$ip` of an event. Normally, it is the address of the connection's peer. If the peer is a trusted
 * proxy, it is the last address in `X-Forwarded-For` that does not belong to a trusted proxy. The addresses before that
 * one are ignored, because clients can write anything there.
 */
export function addressBehindProxies(
  peerAddress: string,
  forwardedFor: string,
  proxies: TrustedProxies,
): string {
  if (forwardedFor === '' || !proxies.has(peerAddress)) return peerAddress
  const entries = forwardedFor.slice(-FORWARDED_CHARACTERS_MAX).split(',').slice(-PROXY_HOPS_MAX)
  let address = peerAddress
  for (const entry of entries.reverse()) {
    const hop = clientAddress(entry, '', true)
    if (isIP(hop) === 0) return address
    address = hop
    if (!proxies.has(hop)) return address
  }
  return address
}

/** Caches the results of `addressBehindProxies`, for routes that need the result for every request. */
export class AddressesBehind {
  readonly #proxies: TrustedProxies
  #known = new Map<string, string>()

  constructor(proxies: TrustedProxies) {
    this.#proxies = proxies
  }

  /** Returns the IP address of the client that sent a request. See `addressBehindProxies`. */
  of(peerAddress: string, forwardedFor: string): string {
    if (forwardedFor === '') return peerAddress
    if (forwardedFor.length > FORWARDED_KNOWN_CHARACTERS_MAX) {
      return addressBehindProxies(peerAddress, forwardedFor, this.#proxies)
    }
    const name = `${peerAddress} ${forwardedFor}`
    let address = this.#known.get(name)
    if (address === undefined) {
      address = addressBehindProxies(peerAddress, forwardedFor, this.#proxies)
      if (this.#known.size >= FORWARDED_KNOWN_MAX) this.#known = new Map()
      this.#known.set(name, address)
    }
    return address
  }
}

/**
 * Returns the scheme and host for URLs in answers, without a trailing slash. It is the configured public URL. If none
 * is configured, it comes from the headers of a trusted proxy, or else from the Host header, whose form was checked. A
 * client without a proxy can only influence the URLs in its own answers.
 */
export function baseUrl(
  request: {
    readonly head: Pick<RequestHead, 'host' | 'forwardedHost' | 'forwardedProto'>
    readonly peerAddress: string
  },
  settings: { readonly publicUrl: string | null; readonly trustedProxies: TrustedProxies },
): string {
  const { host, forwardedHost, forwardedProto } = request.head
  if (settings.publicUrl !== null) return settings.publicUrl.replace(/\/+$/, '')
  if (settings.trustedProxies.has(request.peerAddress)) {
    const scheme = forwardedProto === 'https' ? 'https' : 'http'
    return `${scheme}://${isHost(forwardedHost) ? forwardedHost : host}`
  }
  return `http://${host}`
}
