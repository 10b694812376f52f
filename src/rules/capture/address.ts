/**
 * The address of a sender as it is stored in `$ip`: the first hop that proxies name by an address, without ports,
 * brackets and the wrapping of IPv4 in IPv6. Source: docs/compatibility/events.md, "Sender address".
 */
import { shortAddress } from '../../base/addresses.ts'
import { ADDRESS_CHARACTERS_MAX, FORWARDED_FOR_CHARACTERS_MAX } from './limits.ts'

const IPV4_WITH_PORT = /^(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}):\d*$/
const BRACKETED = /^\[([^\]]*)\](?::\d*)?$/

/**
 * The sender of a request: the first entry of `X-Forwarded-For` ('' when absent) that is an address, if the header is
 * trusted, else the peer of the connection. Proxies also write `unknown`, `-` and nothing: those name nobody, and
 * two visitors with such an entry are not the same. '' when no address is known. At most
 * `FORWARDED_FOR_CHARACTERS_MAX` of the header are looked at.
 */
export function clientAddress(
  xForwardedFor: string,
  peerAddress: string,
  isHeaderTrusted: boolean,
): string {
  if (isHeaderTrusted && xForwardedFor !== '') {
    const text =
      xForwardedFor.length <= FORWARDED_FOR_CHARACTERS_MAX
        ? xForwardedFor
        : xForwardedFor.slice(0, FORWARDED_FOR_CHARACTERS_MAX)
    for (let start = 0; start < text.length; ) {
      const comma = text.indexOf(',', start)
      const end = comma === -1 ? text.length : comma
      const address = bareAddress(text.slice(start, end).trim())
      if (address !== null) return address
      start = end + 1
    }
  }
  return bareAddress(peerAddress) ?? ''
}

/** The address in an entry, which may have a port or brackets; null for none. */
function bareAddress(text: string): string | null {
  if (text === '' || text.length > ADDRESS_CHARACTERS_MAX) return null
  const inner = text.includes(':')
    ? (BRACKETED.exec(text)?.[1] ?? IPV4_WITH_PORT.exec(text)?.[1])
    : undefined
  return shortAddress(inner ?? text)
}
