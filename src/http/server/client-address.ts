/**
 * The address that a request is held against: for limits and for the audit log. Unlike `$ip`, which is
 * what a client says of itself, it can only be chosen by proxies that are trusted.
 */
import { isIP } from 'node:net'
import { clientAddress } from '../../rules/capture/address.ts'
import type { TrustedProxies } from './url.ts'

/** Proxies in a row that are believed; the address that the last of them saw is taken. */
const HOPS_MAX = 16
/** Characters at the end of the header that are looked at. */
const HEADER_CHARACTERS_MAX = 2048

/**
 * The peer of the connection, or, if that is a trusted proxy, the last entry of `X-Forwarded-For` that is
 * not one itself. Entries left of it are whatever the client wrote.
 */
export function addressBehind(
  peerAddress: string,
  forwardedFor: string,
  proxies: TrustedProxies,
): string {
  if (forwardedFor === '' || !proxies.has(peerAddress)) return peerAddress
  const entries = forwardedFor.slice(-HEADER_CHARACTERS_MAX).split(',').slice(-HOPS_MAX)
  let address = peerAddress
  for (const entry of entries.reverse()) {
    const hop = clientAddress(entry, '', true)
    if (isIP(hop) === 0) return address
    address = hop
    if (!proxies.has(hop)) return address
  }
  return address
}
