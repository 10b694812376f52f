/** A daemon with monitored memory and disk use. It runs with the options and variables of `npm start`. */
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Ending, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'

const MIB = 1024 ** 2
/** The unit of `blocks` in the result of stat(2). */
const BLOCK_BYTES = 512
const SAMPLE_MS = 50
const TICKS_PER_SECOND = 100
/** Samples of memory for each sample of the disk. */
const DISK_EVERY = 10
const MEMORY_GROUPS = '/sys/fs/cgroup/memory'

/** As in the script `start` of package.json. */
const NODE_OPTIONS = ['--min-semi-space-size=16', '--no-memory-reducer']
const VARIABLES = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '262144',
  MALLOC_TRIM_THRESHOLD_: '4194304',
  // The value for operators. Tests that run in parallel use a longer one.
  TENREC_PROCESSING_LAG_LIMIT_MS: '30000',
}

/** The kind of machine that a daemon runs on. */
export interface Machine {
  /** Node's heap, MiB. */
  readonly heapMib?: number
  /** The setting `memory_max`, MiB. */
  readonly memoryMaxMib?: number
  /** Maximum number of open files of the process. */
  readonly openFilesMax?: number
  /** Size of a file system in memory that holds the data directory, MiB. Needs root. */
  readonly diskMib?: number
  /** Limit of a memory control group of version 1, MiB. Needs root. */
  readonly groupMib?: number
  /** Resident MiB beyond which the daemon is killed to protect the machine that runs the trial. */
  readonly guardMib: number
}

/** The peak use of a daemon. */
export interface Peaks {
  readonly anonymousMib: number
  readonly residentMib: number
  readonly diskMib: number
  /** The most that was used of the file system that holds the data directory. Null if it is not its own. */
  readonly fileSystemMib: number | null
  /** Of all threads since the start. */
  readonly cpuSeconds: number
}

/** The folder and the limits that starts of one store share. */
export class Place {
  readonly dataDir: string
  readonly machine: Machine
  readonly #folder: string
  readonly #group: string

  constructor(folder: string, machine: Machine) {
    this.#folder = folder
    this.machine = machine
    this.dataDir = join(folder, 'data')
    this.#group = join(MEMORY_GROUPS, `tenrec-extremes-${process.pid}`)
    if (machine.diskMib !== undefined) {
      const words = ['-t', 'tmpfs', '-o', `size=${machine.diskMib}m`, 'tmpfs', folder]
      execFileSync('mount', words)
    }
    if (machine.groupMib !== undefined) {
      mkdirSync(this.#group, { recursive: true })
      const limit = String(machine.groupMib * MIB)
      writeFileSync(join(this.#group, 'memory.limit_in_bytes'), limit)
    }
  }

  /** A command that sets the limits of the process and then replaces itself with the daemon. */
  launcher(): readonly string[] {
    const { openFilesMax, groupMib } = this.machine
    const steps: string[] = []
    if (openFilesMax !== undefined) steps.push(`ulimit -n ${openFilesMax}`)
    if (groupMib !== undefined) steps.push(`echo $$ > ${join(this.#group, 'cgroup.procs')}`)
    return steps.length === 0 ? [] : ['sh', '-c', `${steps.join('; ')}; exec "$@"`, 'sh']
  }

  /** Returns the use of the file system that holds only the data directory, or null if there is none. */
  fileSystem(): { readonly usedMib: number; readonly sizeMib: number } | null {
    if (this.machine.diskMib === undefined) return null
    const { bsize, blocks, bfree } = statfsSync(this.#folder)
    return { usedMib: ((blocks - bfree) * bsize) / MIB, sizeMib: (blocks * bsize) / MIB }
  }

  /** Enlarges that file system to `mib` MiB while it is in use. */
  growFileSystem(mib: number): void {
    execFileSync('mount', ['-o', `remount,size=${mib}m`, this.#folder])
  }

  release(): void {
    if (this.machine.diskMib !== undefined) execFileSync('umount', ['--lazy', this.#folder])
    if (this.machine.groupMib !== undefined) rmdirSync(this.#group)
  }
}

export class WatchedDaemon {
  readonly process: SpawnedDaemon
  /** Time from the start of the process until it was ready. */
  readonly readyMs: number
  /** Maps messages of warnings and errors to their counts. */
  readonly complaints: ReadonlyMap<string, number>
  readonly #watch: Watch

  private constructor(daemon: SpawnedDaemon, readyMs: number, watch: Watch) {
    this.process = daemon
    this.readyMs = readyMs
    this.#watch = watch
    this.complaints = watch.complaints
    daemon.ended.then(() => watch.stop())
  }

  /** Starts a daemon and waits until it is ready. Throws a `StartFailure` if it is not ready in time. */
  static async start(place: Place, startMsMax: number): Promise<WatchedDaemon> {
    const { machine } = place
    const watch = new Watch(place)
    const heap = machine.heapMib === undefined ? [] : [`--max-old-space-size=${machine.heapMib}`]
    const memoryMax =
      machine.memoryMaxMib === undefined ? [] : ['--memory-max', `${machine.memoryMaxMib}MiB`]
    const startMs = performance.now()
    try {
      const daemon = await spawnDaemon({
        dataDir: place.dataDir,
        startMsMax,
        nodeOptions: [...NODE_OPTIONS, ...heap],
        args: [...memoryMax, '--log-level', 'info'],
        env: VARIABLES,
        launcher: place.launcher(),
        onSpawn: (pid) => watch.start(pid),
        onLine: (line) => watch.take(line),
      })
      return new WatchedDaemon(daemon, performance.now() - startMs, watch)
    } catch (error) {
      watch.stop()
      throw new StartFailure(String(error), watch)
    }
  }

  get isAlive(): boolean {
    return this.process.isRunning
  }

  get isStoppedByGuard(): boolean {
    return this.#watch.isStoppedByGuard
  }

  peaks(): Peaks {
    return this.#watch.peaks()
  }

  /** Current anonymous memory, MiB. */
  anonymousMib(): number {
    return readMemory(this.process.pid)?.anonymousMib ?? 0
  }

  kill(): Promise<Ending> {
    return this.process.kill()
  }
}

/** A start that ended before the daemon was ready, with the memory it used until then. */
export class StartFailure extends Error {
  readonly peaks: Peaks
  readonly isStoppedByGuard: boolean
  readonly complaints: ReadonlyMap<string, number>

  constructor(message: string, watch: Watch) {
    super(message)
    this.peaks = watch.peaks()
    this.isStoppedByGuard = watch.isStoppedByGuard
    this.complaints = watch.complaints
  }
}

class Watch {
  readonly complaints = new Map<string, number>()
  isStoppedByGuard = false
  readonly #place: Place
  #anonymousMib = 0
  #residentMib = 0
  #diskMib = 0
  #fileSystemMib: number | null = null
  #cpuSeconds = 0
  #samples = 0
  #timer: NodeJS.Timeout | undefined
  #pid: number | undefined
  /** An interrupted trial ends its daemon, too. */
  readonly #kill = (): void => {
    if (this.#pid !== undefined && readMemory(this.#pid) !== null)
      process.kill(this.#pid, 'SIGKILL')
  }

  constructor(place: Place) {
    this.#place = place
  }

  start(pid: number): void {
    this.#pid = pid
    process.once('exit', this.#kill)
    this.#timer = setInterval(() => this.#sample(pid), SAMPLE_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
    process.removeListener('exit', this.#kill)
  }

  peaks(): Peaks {
    this.#lookAtDisk()
    return {
      anonymousMib: Math.round(this.#anonymousMib),
      residentMib: Math.round(this.#residentMib),
      diskMib: Math.round(this.#diskMib),
      fileSystemMib: this.#fileSystemMib === null ? null : Math.round(this.#fileSystemMib),
      cpuSeconds: Number(this.#cpuSeconds.toFixed(1)),
    }
  }

  /** Counts a warning or an error of the log. */
  take(line: string): void {
    if (!line.startsWith('{')) {
      // Output of Node or the C library. The first start also prints keys.
      if (/fatal|error|abort|malloc/i.test(line)) this.#count(line.slice(0, 160))
      return
    }
    const fields = JSON.parse(line) as { level?: unknown; msg?: unknown; err?: unknown }
    const isComplaint =
      typeof fields.level === 'number' ? fields.level >= 40 : fields.level !== 'info'
    if (!isComplaint) return
    const cause = (fields.err as { message?: unknown } | undefined)?.message
    this.#count(
      `${String(fields.msg)}${cause === undefined ? '' : `: ${String(cause)}`}`.slice(0, 200),
    )
  }

  #count(text: string): void {
    this.complaints.set(text, (this.complaints.get(text) ?? 0) + 1)
  }

  #sample(pid: number): void {
    const memory = readMemory(pid)
    if (memory === null) return
    this.#cpuSeconds = Math.max(this.#cpuSeconds, readCpuSeconds(pid))
    this.#anonymousMib = Math.max(this.#anonymousMib, memory.anonymousMib)
    this.#residentMib = Math.max(this.#residentMib, memory.peakMib)
    if (memory.anonymousMib > this.#place.machine.guardMib) {
      this.isStoppedByGuard = true
      process.kill(pid, 'SIGKILL')
    }
    this.#lookAtFileSystem()
    if (this.#samples++ % DISK_EVERY === 0) this.#lookAtDisk()
  }

  #lookAtFileSystem(): void {
    const use = this.#place.fileSystem()
    if (use !== null) this.#fileSystemMib = Math.max(this.#fileSystemMib ?? 0, use.usedMib)
  }

  #lookAtDisk(): void {
    this.#diskMib = Math.max(this.#diskMib, folderBytes(this.#place.dataDir) / MIB)
  }
}

interface Memory {
  readonly anonymousMib: number
  /** The peak resident memory so far, including mapped files. */
  readonly peakMib: number
}

function readMemory(pid: number): Memory | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const mib = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024
    return { anonymousMib: mib('RssAnon'), peakMib: mib('VmHWM') }
  } catch {
    // The process is gone.
    return null
  }
}

/** User and system time of all threads, or 0 if the process is gone. */
function readCpuSeconds(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // Fields 14 and 15 of proc(5). The first one after the name is field 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
  } catch {
    return 0
  }
}

/** Returns the bytes on disk of all files in a folder. Files may appear and disappear meanwhile. */
function folderBytes(folder: string): number {
  try {
    let bytes = 0
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) bytes += folderBytes(path)
      else bytes += (statSync(path, { throwIfNoEntry: false })?.blocks ?? 0) * BLOCK_BYTES
    }
    return bytes
  } catch {
    return 0
  }
}
