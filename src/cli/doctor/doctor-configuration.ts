/** Checks the settings for `tenrec doctor`, and finds values that are valid but rarely intended. */
import { resolve } from 'node:path'
import type { Settings } from '../../config/settings.ts'
import type { Machine } from '../../config/settings-table.ts'
import { geoIpFault } from '../../engine/processor/geoip-database.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { type Finding, fine, warning } from './doctor-finding.ts'

const CHECK = 'configuration'
const GEOIP_CHECK = 'geoip_database'
const MEBIBYTE = 1024 ** 2
const RESERVE_BYTES_FEW = 128 * MEBIBYTE
const THREADS_PER_CORE_MANY = 4
const FLEETING = /^[/](tmp|var[/]tmp|dev[/]shm|run)([/]|$)/
const QUIET_LEVELS: readonly string[] = ['error', 'fatal', 'silent']

/** Returns warnings about unusual values of valid settings. */
export function checkSettings(settings: Settings, machine: Machine): readonly Finding[] {
  const advice = adviceOn(settings, machine).filter(([isMeant]) => isMeant)
  if (advice.length > 0) return advice.map(([, message]) => warning(CHECK, message))
  return [fine(CHECK, 'The settings are valid, and none is unusual.')]
}

/** Checks whether the GeoIP database, if one is set, can be used. Reads the whole file. */
export function checkGeoIp({ geoIpDatabase: path }: Settings): readonly Finding[] {
  if (path === null)
    return [fine(GEOIP_CHECK, 'No GeoIP database is set, so events get no `$geoip_*` properties.')]
  const fault = geoIpFault(path)
  if (fault === null) return [fine(GEOIP_CHECK, `${path} can be read.`)]
  const effect = 'Events get no `$geoip_*` properties until it can be read.'
  return [warning(GEOIP_CHECK, `${path} cannot be used: ${fault}. ${effect}`)]
}

/** Returns all advice on settings. `isMeant` is true for the advice that applies to these settings. */
function adviceOn(
  settings: Settings,
  { coreCount }: Machine,
): readonly (readonly [isMeant: boolean, message: string])[] {
  const { host, publicUrl, diskReserveBytes, logLevel, workerThreads } = settings
  const isOpen = !isLoopbackHost(host)
  return [
    [
      settings.durability === 'commit',
      '`durability` is commit, so a power failure may lose acknowledged events. Set it to fsync unless you accept that.',
    ],
    [
      diskReserveBytes !== null && diskReserveBytes < RESERVE_BYTES_FEW,
      '`disk_reserve` is below 128 MiB. Raise it, because it is hard to recover from a full disk.',
    ],
    [
      FLEETING.test(resolve(settings.dataDir)),
      '`data_dir` is in a directory for temporary files. Choose a directory that is never cleaned up.',
    ],
    [
      isOpen,
      `\`host\` is ${host}. Keys cross the network unencrypted and anybody can read /metrics, unless a firewall lets only a proxy with TLS through.`,
    ],
    [
      isOpen && settings.isForwardedForTrusted,
      '`trust_forwarded_for` is on, and other machines can reach the daemon, so a client may choose its own `$ip`. Turn it off unless all requests come through a proxy.',
    ],
    [
      settings.trustedProxies.some((range) => /\/0+$/.test(range)),
      '`trusted_proxies` trusts every address. Name only your own proxies.',
    ],
    [
      publicUrl?.startsWith('http://') === true && !isLoopbackHost(new URL(publicUrl).hostname),
      '`public_url` begins with http, so clients would send their keys unencrypted. Use https.',
    ],
    [
      workerThreads > coreCount * THREADS_PER_CORE_MANY,
      `\`workers\` is ${workerThreads} on ${coreCount} cores. More threads than cores use memory and gain nothing. Lower it.`,
    ],
    [
      QUIET_LEVELS.includes(logLevel),
      `\`log_level\` is ${logLevel}, so warnings are not logged. Set it to info or warn.`,
    ],
  ]
}
