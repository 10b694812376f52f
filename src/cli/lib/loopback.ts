/** Recognizes host names and IP addresses that can only mean this machine. */
import { BlockList, isIP } from 'node:net'

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

/** Returns true for `localhost` and for loopback IP addresses, even in brackets as in a URL. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase()
  if (bare === 'localhost') return true
  const family = isIP(bare)
  if (family === 0) return false
  return LOOPBACK.check(bare, family === 4 ? 'ipv4' : 'ipv6')
}
