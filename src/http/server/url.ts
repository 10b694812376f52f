/**
 * Addresses: of clients as text, of proxies that may speak for a client, and of this server as a
 * client sees it.
 */
import { BlockList, isIP } from 'node:net'
import { UsageError } from '../../base/errors.ts'
import { isHost } from './framing.ts'

/** The text of 4 or 16 address bytes; an IPv4 address mapped into IPv6 comes out as IPv4. '' for none. */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return dotted(bytes, 0)
  if (bytes.length !== 16) return ''
  if (isMapped(bytes)) return dotted(bytes, 12)
  const groups: number[] = []
  for (let index = 0; index < 16; index += 2) {
    groups.push((bytes[index] ?? 0) * 256 + (bytes[index + 1] ?? 0))
  }
  // RFC 5952: the first of the longest runs of at least two zero groups becomes `::`.
  let bestStart = 0
  let bestLength = 1
  for (let start = 0; start < 8; start++) {
    let length = 0
    while (start + length < 8 && groups[start + length] === 0) length++
    if (length > bestLength) {
      bestStart = start
      bestLength = length
    }
  }
  const hex = groups.map((group) => group.toString(16))
  if (bestLength === 1) return hex.join(':')
  return `${hex.slice(0, bestStart).join(':')}::${hex.slice(bestStart + bestLength).join(':')}`
}

/** Asked for every request: `join` of a typed array takes several times as long. */
function dotted(bytes: Uint8Array, start: number): string {
  return `${bytes[start]}.${bytes[start + 1]}.${bytes[start + 2]}.${bytes[start + 3]}`
}

/** An IPv4 address within an IPv6 one: ten bytes 0 and two bytes 255 in front of it. */
function isMapped(bytes: Uint8Array): boolean {
  for (let index = 0; index < 10; index++) if (bytes[index] !== 0) return false
  return bytes[10] === 0xff && bytes[11] === 0xff
}

/** Peers whose `X-Forwarded-*` headers are believed. */
export class TrustedProxies {
  readonly #list = new BlockList()

  /** @param entries addresses or CIDR blocks; throws `UsageError` for anything else. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', prefix, ...rest] = entry.split('/')
      const version = isIP(address)
      const bitsMax = version === 4 ? 32 : 128
      const bits = prefix === undefined ? bitsMax : Number(prefix)
      const isBits = prefix === undefined || /^[0-9]{1,3}$/.test(prefix)
      if (version === 0 || rest.length > 0 || !isBits || bits > bitsMax) {
        throw new UsageError(
          `trusted proxies: ${JSON.stringify(entry)} is not an address or a block such as 10.0.0.0/8`,
        )
      }
      this.#list.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6')
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
