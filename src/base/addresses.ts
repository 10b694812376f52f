/**
 * IP addresses as text: their usual form, their networks, and ranges of addresses. Only this file imports ipaddr.js.
 */
import { isIP } from 'node:net'
import { loadPackage } from './load-package.ts'

const { IPv6 } = loadPackage('ipaddr.js') as typeof import('ipaddr.js')

/**
 * The number of 16-bit groups of an IPv6 address that identify one customer. Providers usually assign a /64 network
 * (four groups) to each customer.
 */
const NETWORK_GROUPS = 4

/** A range of IP addresses: all addresses of the family whose first `bits` bits are the same as those of `address`. */
export interface AddressRange {
  readonly address: string
  readonly bits: number
  readonly family: 'ipv4' | 'ipv6'
}

/**
 * Returns the range described by a text: one IP address, or an IP address with a prefix length after a slash, such as
 * `10.0.0.0/8`. Returns null for other texts.
 */
export function addressRange(text: string): AddressRange | null {
  const [address = '', prefix, ...rest] = text.split('/')
  const version = isIP(address)
  const bitsMax = version === 4 ? 32 : 128
  const bits = prefix === undefined ? bitsMax : Number(prefix)
  const isBits = prefix === undefined || /^\d{1,3}$/.test(prefix)
  if (version === 0 || rest.length > 0 || !isBits || bits > bitsMax) return null
  return { address, bits, family: version === 4 ? 'ipv4' : 'ipv6' }
}

/**
 * Returns the text of an IP address of 4 or 16 bytes (RFC 5952), or '' for another length. An IPv4 address mapped into
 * IPv6 is written as IPv4.
 */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return dotted(bytes, 0)
  if (bytes.length !== 16) return ''
  return isMapped(bytes) ? dotted(bytes, 12) : new IPv6([...bytes]).toRFC5952String()
}

/**
 * Returns the 4 or 16 bytes of an IP address, as `formatAddress` takes them. Returns an empty buffer for other texts.
 */
export function addressBytes(text: string): ArrayBuffer {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number).buffer
  const address = text.split('%', 1)[0] ?? ''
  if (isIP(address) !== 6) return new ArrayBuffer(0)
  return Uint8Array.from(IPv6.parse(address).toByteArray()).buffer
}

/** The number of characters of an IPv6 address whose eight groups have four digits each. */
const FULL_IPV6_CHARACTERS = 39

/**
 * Returns the short lower-case form of an IP address (RFC 5952). An IPv4 address mapped into IPv6 is returned as IPv4.
 * Returns null for other texts, including an address with a zone such as `fe80::1%eth0`, because only one machine knows
 * the zone. An IPv6 address that is written in full, with four digits in each group, is returned unchanged, because
 * PostHog stores such addresses unchanged.
 */
export function shortAddress(text: string): string | null {
  if (isIPv4(text)) return text
  if (!text.includes(':') || text.includes('%') || isIP(text) === 0) return null
  const address = IPv6.parse(text)
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString()
  return text.length === FULL_IPV6_CHARACTERS ? text : address.toRFC5952String()
}

/**
 * Returns true for an IPv4 address: four numbers up to 255 without leading zeros. The test runs for every event, and a
 * regular expression would be several times slower.
 */
function isIPv4(text: string): boolean {
  const { length } = text
  if (length < 7 || length > 15) return false
  let parts = 0
  let value = -1
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index)
    if (code === 0x2e) {
      if (value < 0 || ++parts > 3) return false
      value = -1
    } else {
      const digit = code - 0x30
      if (digit < 0 || digit > 9 || value === 0) return false
      value = value < 0 ? digit : value * 10 + digit
      if (value > 255) return false
    }
  }
  return parts === 3 && value >= 0
}

/** Returns the IPv4 address inside `::ffff:a.b.c.d`, in any spelling. Returns other texts unchanged. */
export function unmappedAddress(text: string): string {
  const first = text.charCodeAt(0)
  // An IPv4 address mapped into IPv6 begins with a colon or a zero.
  if ((first !== 0x3a && first !== 0x30) || !IPv6.isValid(text)) return text
  const address = IPv6.parse(text)
  return address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : text
}

/**
 * Returns the part of an IP address that a rate limit counts by: a whole IPv4 address, or the /64 network of an IPv6
 * address.
 */
export function networkOf(address: string): string {
  if (!IPv6.isValid(address)) return address
  const groups = IPv6.parse(address).parts.slice(0, NETWORK_GROUPS)
  return groups.map((group) => group.toString(16)).join(':')
}

/**
 * Returns the text of an IPv4 address. It runs for every request, and `join` of a typed array would be several times
 * slower.
 */
function dotted(bytes: Uint8Array, start: number): string {
  return `${bytes[start]}.${bytes[start + 1]}.${bytes[start + 2]}.${bytes[start + 3]}`
}

/** Returns true for an IPv4 address mapped into IPv6. Its first twelve bytes are ten bytes 0 and two bytes 255. */
function isMapped(bytes: Uint8Array): boolean {
  for (let index = 0; index < 10; index++) if (bytes[index] !== 0) return false
  return bytes[10] === 0xff && bytes[11] === 0xff
}
