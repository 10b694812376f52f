/** The address under which clients of the machine reach a daemon. */
import type { Settings } from './settings.ts'

/** Addresses to listen on that are none to connect to. */
const ALL_ADDRESSES: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The address of a port of a host, which may be an IPv6 address. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** The address under which clients of this machine reach a daemon that listens on `port`. */
export function baseUrlOf(settings: Settings, port: number): string {
  if (settings.publicUrl !== null) return settings.publicUrl
  const { host } = settings
  const reachable = Object.hasOwn(ALL_ADDRESSES, host) ? ALL_ADDRESSES[host] : undefined
  return urlOf(reachable ?? host, port)
}
