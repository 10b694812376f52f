/**
 * `tenrec doctor`: checks everything around the store that could make a daemon fail or lose data, and says what to do.
 * It changes nothing, except that it writes a temporary file to measure the disk.
 */
import { resolve } from 'node:path'
import { UsageError } from '../../base/errors.ts'
import { urlOf } from '../../config/base-url.ts'
import type { Settings } from '../../config/settings.ts'
import { SETTING_NAMES } from '../../config/settings-table.ts'
import { type CommandInput, type CommandIo, type Commands, JSON_OPTION } from '../lib/command.ts'
import { addressOf } from '../lib/daemon-client.ts'
import { print, printable } from '../lib/output.ts'
import { checkCluster } from './doctor-cluster.ts'
import { checkGeoIp, checkSettings } from './doctor-configuration.ts'
import { checkDaemon } from './doctor-daemon.ts'
import { checkFileSystem, checkFreeSpace, checkStoreFolder } from './doctor-data-dir.ts'
import { judgeDisk, measureDisk } from './doctor-disk-speed.ts'
import { type Finding, Findings, fine, problem } from './doctor-finding.ts'
import {
  checkClock,
  checkHttpServer,
  checkLimits,
  checkMemory,
  checkNode,
} from './doctor-machine.ts'
import { checkBudget, checkMemoryUse } from './doctor-memory.ts'
import { checkFilters, checkStored } from './doctor-stored.ts'
import { checkWarehouse } from './doctor-warehouse.ts'

const PROBLEMS_FOUND = 3

/** `tenrec doctor`. */
export const COMMANDS: Commands = [
  {
    name: 'doctor',
    sentence:
      'Check the settings, the data directory, the disk, the clock and the limits of the system. The exit code is 3 if there is a problem.',
    options: {
      '--base-url URL':
        'Also check the daemon at this address. Use the address that clients use, so that a proxy is checked, too.',
      '--personal-key KEY':
        'With --base-url: also check the links in answers, with this personal key.',
      ...JSON_OPTION,
    },
    settings: SETTING_NAMES,
    async run(input) {
      const findings = await examine(input)
      if (input.isJson) print(input.io, findings, true)
      else report(input.io, findings)
      return findings.some(({ verdict }) => verdict === 'problem') ? PROBLEMS_FOUND : 0
    },
  },
]

async function examine(input: CommandInput): Promise<readonly Finding[]> {
  const { io } = input
  const settings = settingsOf(input)
  const known = typeof settings === 'string' ? null : settings
  const findings = new Findings()
  findings.all.push(checkNode(process.versions.node))
  if (typeof settings === 'string') findings.all.push(problem('configuration', settings))
  else findings.all.push(...checkSettings(settings, io.machine), ...checkGeoIp(settings))
  if (known !== null) await findings.add('http_server', () => [checkHttpServer(known)])
  if (known !== null) await findings.add('warehouse', () => checkWarehouse(known))
  const pid = known === null ? null : await examineDataDir(io, known, findings)
  await findings.add('limits', () => checkLimits(pid))
  await findings.add('memory_limit', () => checkMemory(pid, known))
  if (known !== null) await findings.add('memory_budget', () => [checkBudget(known)])
  if (known !== null && known.cluster.length > 0) {
    await findings.add('cluster', () => checkCluster(known, io.clock.now()))
  }
  await findings.add('daemon', () => {
    const url = input.text('base-url')
    if (url === undefined) {
      const unasked =
        'The daemon was not checked. Give --base-url to check its readiness and the proxy.'
      return [fine('daemon', unasked)]
    }
    const address = addressOf(url, 'https://events.example.com')
    return checkDaemon(address, input.text('personal-key') ?? null)
  })
  const address = daemonAddress(input, known, pid)
  if (address !== null) await findings.add('memory_use', () => checkMemoryUse(address))
  return findings.all
}

/**
 * Returns the URL of the daemon whose metrics are read: `--base-url`, or the URL of the daemon that has the directory
 * open.
 */
function daemonAddress(
  input: CommandInput,
  settings: Settings | null,
  pid: number | null,
): string | null {
  const url = input.text('base-url')
  if (url !== undefined) return addressOf(url, 'https://events.example.com')
  if (settings === null || pid === null || settings.port === 0) return null
  return urlOf(settings.host, settings.port)
}

/** Adds the findings about the data directory. Returns the PID of the process that has it open, or null. */
async function examineDataDir(
  io: CommandIo,
  settings: Settings,
  findings: Findings,
): Promise<number | null> {
  const { dataDir } = settings
  let pid: number | null = null
  let isStore = false
  let isThere = true
  await findings.add('data_directory', () => {
    const folder = checkStoreFolder(dataDir)
    pid = folder.pid
    isStore = folder.isStore
    isThere = folder.findings.every(({ check }) => check !== 'data_directory')
    return folder.findings
  })
  await findings.add('clock', () => checkClock(io.clock, dataDir))
  if (!isThere) return pid
  await findings.add('free_space', () => checkFreeSpace(settings))
  await findings.add('file_system', () => checkFileSystem(dataDir))
  const hasRoom = findings.all.every(
    ({ check, verdict }) => check !== 'free_space' || verdict !== 'problem',
  )
  if (hasRoom) {
    await findings.add('disk_speed', () => [judgeDisk(measureDisk(resolve(dataDir), io.clock))])
  }
  if (isStore) {
    await findings.add('stored', () => checkStored(dataDir, pid !== null))
    await findings.add('stored_filters', () => checkFilters(dataDir))
  }
  return pid
}

/** Returns the settings, or a message that says why they are not valid. */
function settingsOf(input: CommandInput): Settings | string {
  try {
    return input.settings()
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
}

function report(io: CommandIo, findings: readonly Finding[]): void {
  const width = Math.max(...findings.map(({ check }) => check.length))
  for (const { check, verdict, message } of findings) {
    io.out(`${verdict.padEnd(7)}  ${check.padEnd(width)}  ${printable(message)}\n`)
  }
}
