/**
 * Checks the machine for `tenrec doctor`: the version of Node.js, the clock, and the limits of the kernel and of the
 * service.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { groupLimit } from '../../base/memory/machine-memory.ts'
import { nodeObstacle } from '../../base/node-versions.ts'
import { STORE_ADDRESSES_GIB } from '../../base/process-limits.ts'
import type { Settings } from '../../config/settings.ts'
import { chooseFront } from '../../http/server/choose-front.ts'
import { ENVIRONMENT_NAMES } from '../../store/directory/data-dir.ts'
import { bytesText, type Finding, fine, problem, warning } from './doctor-finding.ts'

const YEAR_FIRST = 2025
const YEAR_LAST = 2099
const CLOCK_SAMPLES = 10
const CLOCK_PAUSE_MS = 20
const CLOCK_JUMP_MS = 20
/** A file may be newer than the clock by up to this many milliseconds, because the clock may just be adjusted. */
const FUTURE_FILE_MS = 5000
/** The number of files that the daemon must be able to open to start: 128 for itself, and 32 for clients. */
const OPEN_FILES_MIN = 160
const OPEN_FILES_FEW = 4096
const MAPS_FEW = 16_384
const MEMORY_BYTES_MIN = 256 * 1024 ** 2
const MEMORY_BYTES_FEW = 1024 ** 3

/** Checks whether Tenrec supports this version of Node.js. */
export function checkNode(version: string): Finding {
  const obstacle = nodeObstacle(version)
  return obstacle === null
    ? fine('node', `The version of Node.js is ${version}.`)
    : problem('node', obstacle)
}

/** Checks which HTTP library serves, and whether the library in the settings can be loaded. */
export function checkHttpServer({ httpServer }: Settings): Finding {
  const check = 'http_server'
  const { name, obstacle } = chooseFront(httpServer)
  if (name === 'uws') return fine(check, 'The HTTP server is uWebSockets.js.')
  if (obstacle === null)
    return fine(check, 'The HTTP server is node:http, as the setting `http_server` says.')
  return fine(
    check,
    `The HTTP server is node:http, which uses more processor time for each request, because uWebSockets.js cannot be loaded: ${obstacle}`,
  )
}

/** Checks whether the clock runs evenly, shows a plausible year, and is not earlier than the times of stored files. */
export async function checkClock(clock: Clock, dataDir: string): Promise<readonly Finding[]> {
  const check = 'clock'
  const year = new Date(clock.now()).getUTCFullYear()
  if (!(year >= YEAR_FIRST && year <= YEAR_LAST)) {
    return [
      problem(
        check,
        `The clock shows the year ${year}. Set it, because events take their time from it.`,
      ),
    ]
  }
  const aheadMs = newestFileMs(dataDir) - clock.now()
  if (aheadMs > FUTURE_FILE_MS) {
    const seconds = Math.round(aheadMs / 1000)
    const message = `The store was written ${seconds} seconds in the future, so the clock was set back. Check the clock synchronization.`
    return [warning(check, message)]
  }
  const offsets: number[] = []
  for (let count = 0; count < CLOCK_SAMPLES; count++) {
    offsets.push(clock.now() - clock.monotonic())
    await sleep(CLOCK_PAUSE_MS)
  }
  const driftMs = Math.max(...offsets) - Math.min(...offsets)
  if (driftMs > CLOCK_JUMP_MS) {
    const message = `The clock jumped by ${Math.round(driftMs)} ms within ${CLOCK_SAMPLES * CLOCK_PAUSE_MS} ms. Check the clock synchronization.`
    return [warning(check, message)]
  }
  const isSynchronised = existsSync('/run/systemd/timesync/synchronized')
  const how = isSynchronised ? ', and systemd-timesyncd synchronizes it' : ''
  return [fine(check, `The clock runs evenly${how}.`)]
}

function newestFileMs(dataDir: string): number {
  const times = ENVIRONMENT_NAMES.map(
    (name) => statSync(join(dataDir, name, 'data.mdb'), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  )
  return Math.max(...times)
}

/** Checks the limits of the kernel and of a process. `pid` is the daemon, or null for this process. */
export function checkLimits(pid: number | null): readonly Finding[] {
  const ofDaemon = pid === null ? null : read(`/proc/${pid}/limits`)
  const limits = ofDaemon ?? read('/proc/self/limits') ?? ''
  const whose = ofDaemon === null ? 'This shell' : 'The daemon'
  return [
    judgeOpenFiles(limitOf(limits, 'Max open files'), whose),
    judgeAddressSpace(limitOf(limits, 'Max address space')),
    ...judgeMaps(Number(read('/proc/sys/vm/max_map_count') ?? Number.NaN)),
  ]
}

/** Returns a soft limit from the text of `/proc/PID/limits`, or Infinity if there is none. */
export function limitOf(limits: string, name: string): number {
  const soft = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(limits)?.[1]
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

/** Judges how many files a process may open. `whose` names the process in the message. */
export function judgeOpenFiles(openFiles: number, whose: string): Finding {
  const check = 'open_files'
  const raise = "Raise LimitNOFILE= of the service unit, or 'ulimit -n'."
  if (openFiles < OPEN_FILES_MIN) {
    return problem(
      check,
      `${whose} may open ${openFiles} files, which is too few to run the daemon. ${raise}`,
    )
  }
  if (openFiles < OPEN_FILES_FEW) {
    const clients = openFiles - (OPEN_FILES_MIN - 32)
    return warning(
      check,
      `${whose} may open ${openFiles} files, which allows ${clients} connections at once. ${raise}`,
    )
  }
  return fine(check, `${whose} may open ${openFiles} files.`)
}

/** Judges how much address space a process may use. LMDB reserves its memory maps completely, which takes no memory. */
export function judgeAddressSpace(bytes: number): Finding {
  const check = 'address_space'
  if (bytes >= STORE_ADDRESSES_GIB * 1024 ** 3)
    return fine(check, 'The address space is large enough.')
  return problem(
    check,
    `The address space is limited to ${bytesText(bytes)}, but a daemon needs ${STORE_ADDRESSES_GIB} GiB. Remove LimitAS= of the service unit, or 'ulimit -v'.`,
  )
}

function judgeMaps(maps: number): readonly Finding[] {
  if (Number.isNaN(maps)) return []
  if (maps >= MAPS_FEW) return [fine('memory_maps', `vm.max_map_count is ${maps}.`)]
  const message = `vm.max_map_count is ${maps}. Set it to 65530, its usual value.`
  return [warning('memory_maps', message)]
}

/**
 * Checks memory overcommit and the memory limit of a control group. The group is that of the process `pid`, or of this
 * process if `pid` is null.
 */
export function checkMemory(pid: number | null, settings: Settings | null): readonly Finding[] {
  const findings: Finding[] = []
  if (read('/proc/sys/vm/overcommit_memory')?.trim() === '2') {
    const message =
      'vm.overcommit_memory is 2, so memory that Node.js only reserves counts as used, and allocations may fail although memory is free. Set it to 0.'
    findings.push(warning('overcommit', message))
  }
  // The control group of a process of another user may be hidden.
  const process = pid !== null && read(`/proc/${pid}/cgroup`) !== null ? pid : 'self'
  const limit = groupLimit(process)
  findings.push(judgeMemory(limit, settings?.inFlightBytesMax ?? 0))
  return findings
}

/** Judges the memory limit of a control group, in bytes. Infinity stands for no limit. */
export function judgeMemory(limit: number, inFlightBytesMax: number): Finding {
  const check = 'memory_limit'
  if (limit === Number.POSITIVE_INFINITY)
    return fine(check, 'The control group has no memory limit.')
  const has = `The control group may use ${bytesText(limit)}`
  if (limit < MEMORY_BYTES_MIN) {
    return problem(check, `${has}, which is too little to run. Raise MemoryMax= to at least 1 GiB.`)
  }
  if (limit < MEMORY_BYTES_FEW) {
    return warning(
      check,
      `${has}. Raise MemoryMax= to at least 1 GiB, so that there is enough under load.`,
    )
  }
  if (limit < inFlightBytesMax * 2 + MEMORY_BYTES_MIN) {
    return warning(
      check,
      `${has}, which is too little for \`inflight_limit\`. Lower \`inflight_limit\` or raise MemoryMax=.`,
    )
  }
  return fine(check, `${has}.`)
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
