/** Checks of `tenrec doctor` on the machine: Node, the clock, limits of the kernel and of the service. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { groupLimit } from '../../base/memory/machine-memory.ts'
import { nodeObstacle } from '../../base/node-versions.ts'
import type { Settings } from '../../config/settings.ts'
import { chooseFront } from '../../http/server/choose-front.ts'
import { ENVIRONMENT_NAMES } from '../../store/directory/data-dir.ts'
import { bytesText, type Finding, fine, problem, warning } from './doctor-finding.ts'

const YEAR_FIRST = 2025
const YEAR_LAST = 2099
const CLOCK_SAMPLES = 10
const CLOCK_PAUSE_MS = 20
const CLOCK_JUMP_MS = 20
/** Files may be a little ahead of a clock that is being adjusted. */
const FUTURE_FILE_MS = 5000
/** The daemon refuses to start its server with less: 128 for itself, 32 for clients. */
const OPEN_FILES_MIN = 160
const OPEN_FILES_FEW = 4096
const MAPS_FEW = 16_384
/** Address space for the maps of three environments and for Node. */
const ADDRESS_BYTES_MIN = 1024 ** 4
const MEMORY_BYTES_MIN = 256 * 1024 ** 2
const MEMORY_BYTES_FEW = 1024 ** 3

/** Whether this Node is one of those that Tenrec is tested with. */
export function checkNode(version: string): Finding {
  const obstacle = nodeObstacle(version)
  return obstacle === null ? fine('node', `Node ${version}`) : problem('node', obstacle)
}

/** Which library speaks HTTP, and whether the one that is set can be loaded. */
export function checkHttpServer({ httpServer }: Settings): Finding {
  const check = 'http_server'
  const { name, obstacle } = chooseFront(httpServer)
  if (name === 'uws') return fine(check, 'uWebSockets.js serves')
  if (obstacle === null) return fine(check, 'node:http serves, as it is set')
  return fine(
    check,
    `node:http serves, which takes more processor time for each request: uWebSockets.js cannot be loaded, ${obstacle}`,
  )
}

/** Whether the wall clock runs evenly, shows a credible year, and never ran ahead of the stored files. */
export async function checkClock(clock: Clock, dataDir: string): Promise<readonly Finding[]> {
  const check = 'clock'
  const year = new Date(clock.now()).getUTCFullYear()
  if (!(year >= YEAR_FIRST && year <= YEAR_LAST)) {
    return [problem(check, `it shows the year ${year}: set it, events take their time from it`)]
  }
  const aheadMs = newestFileMs(dataDir) - clock.now()
  if (aheadMs > FUTURE_FILE_MS) {
    const seconds = Math.round(aheadMs / 1000)
    const message = `the store was written ${seconds} s in the future: the clock was set back; check its synchronisation`
    return [warning(check, message)]
  }
  const offsets: number[] = []
  for (let count = 0; count < CLOCK_SAMPLES; count++) {
    offsets.push(clock.now() - clock.monotonic())
    await sleep(CLOCK_PAUSE_MS)
  }
  const driftMs = Math.max(...offsets) - Math.min(...offsets)
  if (driftMs > CLOCK_JUMP_MS) {
    const message = `it jumped by ${Math.round(driftMs)} ms within ${CLOCK_SAMPLES * CLOCK_PAUSE_MS} ms: check its synchronisation`
    return [warning(check, message)]
  }
  const isSynchronised = existsSync('/run/systemd/timesync/synchronized')
  const how = isSynchronised ? ' and systemd-timesyncd keeps it' : ''
  return [fine(check, `it runs evenly${how}`)]
}

function newestFileMs(dataDir: string): number {
  const times = ENVIRONMENT_NAMES.map(
    (name) => statSync(join(dataDir, name, 'data.mdb'), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  )
  return Math.max(...times)
}

/** Limits of the process `pid` (the daemon, or null for this one) and of the kernel. */
export function checkLimits(pid: number | null): readonly Finding[] {
  const ofDaemon = pid === null ? null : read(`/proc/${pid}/limits`)
  const limits = ofDaemon ?? read('/proc/self/limits') ?? ''
  const whose = ofDaemon === null ? 'this shell' : 'the daemon'
  return [
    judgeOpenFiles(limitOf(limits, 'Max open files'), whose),
    judgeAddressSpace(limitOf(limits, 'Max address space')),
    ...judgeMaps(Number(read('/proc/sys/vm/max_map_count') ?? Number.NaN)),
  ]
}

/** A soft limit in the text of `/proc/PID/limits`; Infinity when there is none. */
export function limitOf(limits: string, name: string): number {
  const soft = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(limits)?.[1]
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

/** The verdict on a limit of open files. `whose` it is, for people. */
export function judgeOpenFiles(openFiles: number, whose: string): Finding {
  const check = 'open_files'
  const raise = "raise LimitNOFILE= of the unit, or 'ulimit -n'"
  if (openFiles < OPEN_FILES_MIN) {
    return problem(check, `${whose} may open ${openFiles} files, too few to serve: ${raise}`)
  }
  if (openFiles < OPEN_FILES_FEW) {
    const clients = openFiles - (OPEN_FILES_MIN - 32)
    return warning(
      check,
      `${whose} may open ${openFiles} files, so ${clients} connections at once: ${raise}`,
    )
  }
  return fine(check, `${whose} may open ${openFiles} files`)
}

/** LMDB reserves its maps as a whole, without using memory for them. */
function judgeAddressSpace(bytes: number): Finding {
  const check = 'address_space'
  if (bytes >= ADDRESS_BYTES_MIN) return fine(check, 'not limited')
  return problem(
    check,
    `limited to ${bytesText(bytes)}, the memory maps need 1 TiB: remove LimitAS= or 'ulimit -v'`,
  )
}

function judgeMaps(maps: number): readonly Finding[] {
  if (Number.isNaN(maps)) return []
  if (maps >= MAPS_FEW) return [fine('memory_maps', `vm.max_map_count is ${maps}`)]
  const message = `vm.max_map_count is ${maps}: set it to 65530, its usual value`
  return [warning('memory_maps', message)]
}

/** How the kernel hands out memory, and how much the control group of `pid` (null: this process) may have. */
export function checkMemory(pid: number | null, settings: Settings | null): readonly Finding[] {
  const findings: Finding[] = []
  if (read('/proc/sys/vm/overcommit_memory')?.trim() === '2') {
    const message =
      'vm.overcommit_memory is 2: reservations of Node count as used, so it may be refused memory that is free; set it to 0'
    findings.push(warning('overcommit', message))
  }
  // Of a daemon of another user nothing may be told.
  const process = pid !== null && read(`/proc/${pid}/cgroup`) !== null ? pid : 'self'
  const limit = groupLimit(process)
  findings.push(judgeMemory(limit, settings?.inFlightBytesMax ?? 0))
  return findings
}

/** The verdict on the memory of a control group, in bytes; Infinity for no limit. */
export function judgeMemory(limit: number, inFlightBytesMax: number): Finding {
  const check = 'memory_limit'
  if (limit === Number.POSITIVE_INFINITY) return fine(check, 'the control group has none')
  const has = `the control group may use ${bytesText(limit)}`
  if (limit < MEMORY_BYTES_MIN) {
    return problem(check, `${has}, too little to run: raise MemoryMax= to at least 1 GiB`)
  }
  if (limit < MEMORY_BYTES_FEW) {
    return warning(check, `${has}: raise MemoryMax= to at least 1 GiB for room under load`)
  }
  if (limit < inFlightBytesMax * 2 + MEMORY_BYTES_MIN) {
    return warning(check, `${has}, too little for inflight_limit: lower that or raise MemoryMax=`)
  }
  return fine(check, has)
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
