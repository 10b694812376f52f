/**
 * The address that a request is held against: for limits and for the audit log. Unlike `$ip`, which is
 * what a client says of itself, it can only be chosen by proxies that are trusted.
 */
import { isIP } from 'node:net'
import { clientAddress } from '../../rules/capture/address.ts'
import { FORWARDED_CHARACTERS_MAX, PROXY_HOPS_MAX } from './limits.ts'
import type { TrustedProxies } from './url.ts'

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
