/** Checks of `tenrec doctor` on settings: values that are allowed and yet seldom meant. */
import { resolve } from 'node:path'
import type { Settings } from '../../config/settings.ts'
import type { Machine } from '../../config/settings-table.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { type Finding, fine, warning } from './doctor-finding.ts'

const CHECK = 'configuration'
const MEBIBYTE = 1024 ** 2
const RESERVE_BYTES_FEW = 128 * MEBIBYTE
const THREADS_PER_CORE_MANY = 4
const FLEETING = /^[/](tmp|var[/]tmp|dev[/]shm|run)([/]|$)/
const QUIET_LEVELS: readonly string[] = ['error', 'fatal', 'silent']

/** What is surprising about valid settings. */
export function checkSettings(settings: Settings, machine: Machine): readonly Finding[] {
  const advice = [
    ...adviceOnStorage(settings),
    ...adviceOnNetwork(settings),
    ...adviceOnThreads(settings, machine),
  ]
  if (advice.length > 0) return advice.map((message) => warning(CHECK, message))
  return [fine(CHECK, 'the settings are valid, and none is unusual')]
}

function adviceOnStorage(settings: Settings): readonly string[] {
  const advice: string[] = []
  if (settings.durability === 'commit') {
    advice.push(
      "durability is 'commit': a power cut may lose acknowledged events; set it to fsync unless " +
        'that is meant',
    )
  }
  if (settings.diskReserveBytes !== null && settings.diskReserveBytes < RESERVE_BYTES_FEW) {
    advice.push('disk_reserve is below 128 MiB: raise it, a full disk is hard to get out of')
  }
  if (FLEETING.test(resolve(settings.dataDir))) {
    advice.push('data_dir is a folder for temporary files: choose one that is never cleaned up')
  }
  return advice
}

function adviceOnNetwork(settings: Settings): readonly string[] {
  const advice: string[] = []
  const { host, publicUrl } = settings
  if (!isLoopbackHost(host)) {
    advice.push(
      `host is ${host}: keys cross the network unencrypted and anybody may read /metrics, unless a ` +
        'firewall lets only a proxy with TLS through',
    )
    if (settings.isForwardedForTrusted) {
      advice.push(
        'trust_forwarded_for is on and others than a local proxy reach the daemon: a client may ' +
          'choose its $ip; turn it off unless everything comes through a proxy',
      )
    }
  }
  if (settings.trustedProxies.some((range) => /\/0+$/.test(range))) {
    advice.push('trusted_proxies trusts every address: name only your proxies')
  }
  if (publicUrl?.startsWith('http://') && !isLoopbackHost(hostOf(publicUrl))) {
    advice.push('public_url begins with http: clients would send their keys unencrypted; use https')
  }
  return advice
}

function adviceOnThreads(settings: Settings, { coreCount }: Machine): readonly string[] {
  const advice: string[] = []
  if (settings.workerThreads > coreCount * THREADS_PER_CORE_MANY) {
    advice.push(
      `workers is ${settings.workerThreads} on ${coreCount} cores: more than the cores costs memory ` +
        'and gains nothing',
    )
  }
  if (QUIET_LEVELS.includes(settings.logLevel)) {
    advice.push(`log_level is ${settings.logLevel}: warnings are lost; set it to info or warn`)
  }
  return advice
}

function hostOf(url: string): string {
  return new URL(url).hostname
}
