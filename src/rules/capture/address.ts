/**
 * The address of a sender as it is stored in `$ip`: the first hop that proxies name, without ports,
 * brackets and the wrapping of IPv4 in IPv6. Source: docs/compatibility/events.md, "Sender address".
 */
import { unmappedAddress } from '../../base/addresses.ts'
import { ADDRESS_CHARACTERS_MAX } from './limits.ts'

const IPV4_WITH_PORT = /^(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}):\d*$/

/**
 * The sender of a request: the first entry of `X-Forwarded-For` ('' when absent) if the header is
 * trusted and names one, else the peer of the connection. '' when neither is known. Entries that are no
 * address are kept as they are. Cost does not depend on the length of the header.
 */
export function clientAddress(
  xForwardedFor: string,
  peerAddress: string,
  isHeaderTrusted: boolean,
): string {
  if (isHeaderTrusted && xForwardedFor !== '') {
    const start = xForwardedFor.slice(0, ADDRESS_CHARACTERS_MAX + 1)
    const comma = start.indexOf(',')
    const entry = (comma === -1 ? start : start.slice(0, comma)).trim()
    if (entry !== '' && entry.length <= ADDRESS_CHARACTERS_MAX) return bareAddress(entry)
  }
  return bareAddress(peerAddress)
}

function bareAddress(text: string): string {
  const firstColon = text.indexOf(':')
  if (firstColon === -1) return text
  if (text.charCodeAt(0) === 0x5b) {
    const bracket = text.indexOf(']')
    return bracket === -1 ? text : unmappedAddress(text.slice(1, bracket))
  }
  const match = IPV4_WITH_PORT.exec(text)
  return match?.[1] ?? unmappedAddress(text)
}
