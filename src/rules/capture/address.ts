/**
 * Finds the IP address of a sender, as it is stored in `$ip`. It is the first entry of `X-Forwarded-For` that is an IP
 * address, without a port, without brackets and without the IPv6 prefix of a mapped IPv4 address. Source:
 * docs/compatibility/events.md, "Sender address".
 */
import { shortAddress } from '../../base/addresses.ts'
import { ADDRESS_CHARACTERS_MAX, FORWARDED_FOR_CHARACTERS_MAX } from './limits.ts'

const IPV4_WITH_PORT = /^(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}):\d*$/
const BRACKETED = /^\[([^\]]*)\](?::\d*)?$/

/**
 * Returns the IP address of the sender of a request. If the header is trusted, it is the first entry of
 * `X-Forwarded-For` ('' when absent) that is an IP address. If the header is not trusted or has no such entry, it is
 * the address of the other end of the connection. Returns '' if no address is known.
 *
 * Proxies also write `unknown`, `-` or an empty entry. Such an entry is skipped, because two visitors with the same
 * entry are not the same visitor. At most `FORWARDED_FOR_CHARACTERS_MAX` characters of the header are read.
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

/**
 * Returns the IP address in an entry, which may have a port or brackets. Returns null if the entry is not an IP
 * address.
 */
function bareAddress(text: string): string | null {
  if (text === '' || text.length > ADDRESS_CHARACTERS_MAX) return null
  const inner = text.includes(':')
    ? (BRACKETED.exec(text)?.[1] ?? IPV4_WITH_PORT.exec(text)?.[1])
    : undefined
  return shortAddress(inner ?? text)
}
