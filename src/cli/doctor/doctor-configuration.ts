/** Checks of `tenrec doctor` on settings: values that are allowed and yet seldom meant. */
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

/** What is surprising about valid settings. */
export function checkSettings(settings: Settings, machine: Machine): readonly Finding[] {
  const advice = adviceOn(settings, machine).filter(([isMeant]) => isMeant)
  if (advice.length > 0) return advice.map(([, message]) => warning(CHECK, message))
  return [fine(CHECK, 'the settings are valid, and none is unusual')]
}

/** Whether the GeoIP database, if there is to be one, can be used. Reads it as a whole. */
export function checkGeoIp({ geoIpDatabase: path }: Settings): readonly Finding[] {
  if (path === null) return [fine(GEOIP_CHECK, 'none is set: events get no $geoip_*')]
  const fault = geoIpFault(path)
  if (fault === null) return [fine(GEOIP_CHECK, `${path} can be read`)]
  const effect = 'events get no $geoip_* until it can be read'
  return [warning(GEOIP_CHECK, `${path} cannot be used, ${fault}: ${effect}`)]
}

/** All advice there is, each with whether it is meant. */
function adviceOn(
  settings: Settings,
  { coreCount }: Machine,
): readonly (readonly [isMeant: boolean, message: string])[] {
  const { host, publicUrl, diskReserveBytes, logLevel, workerThreads } = settings
  const isOpen = !isLoopbackHost(host)
  return [
    [
      settings.durability === 'commit',
      "durability is 'commit': a power cut may lose acknowledged events; set it to fsync unless that is meant",
    ],
    [
      diskReserveBytes !== null && diskReserveBytes < RESERVE_BYTES_FEW,
      'disk_reserve is below 128 MiB: raise it, a full disk is hard to get out of',
    ],
    [
      FLEETING.test(resolve(settings.dataDir)),
      'data_dir is a folder for temporary files: choose one that is never cleaned up',
    ],
    [
      isOpen,
      `host is ${host}: keys cross the network unencrypted and anybody may read /metrics, unless a firewall lets only a proxy with TLS through`,
    ],
    [
      isOpen && settings.isForwardedForTrusted,
      'trust_forwarded_for is on and others than a local proxy reach the daemon: a client may choose its $ip; turn it off unless everything comes through a proxy',
    ],
    [
      settings.trustedProxies.some((range) => /\/0+$/.test(range)),
      'trusted_proxies trusts every address: name only your proxies',
    ],
    [
      publicUrl?.startsWith('http://') === true && !isLoopbackHost(new URL(publicUrl).hostname),
      'public_url begins with http: clients would send their keys unencrypted; use https',
    ],
    [
      workerThreads > coreCount * THREADS_PER_CORE_MANY,
      `workers is ${workerThreads} on ${coreCount} cores: more than the cores costs memory and gains nothing`,
    ],
    [
      QUIET_LEVELS.includes(logLevel),
      `log_level is ${logLevel}: warnings are lost; set it to info or warn`,
    ],
  ]
}
