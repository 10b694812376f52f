/** The URL under which programs on this machine reach a daemon. */
import type { Settings } from './settings.ts'

/** For each address on which a daemon can listen but to which a client cannot connect, the host to use instead. */
const ALL_ADDRESSES: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Returns the URL of a port on a host. The host may be an IPv6 address. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Returns the URL under which programs on this machine reach a daemon that listens on `port`. */
export function baseUrlOf(settings: Settings, port: number): string {
  if (settings.publicUrl !== null) return settings.publicUrl
  const { host } = settings
  const reachable = Object.hasOwn(ALL_ADDRESSES, host) ? ALL_ADDRESSES[host] : undefined
  return urlOf(reachable ?? host, port)
}
