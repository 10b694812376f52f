/**
 * Determines how much memory this process may use: the memory of the machine, or less if a control group limits it.
 * Control groups of version 1 and version 2 are supported. Each group between the process and the mount point is read,
 * because each may have a limit.
 */
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { posix } from 'node:path'

/** The inputs from which the limits are read. Tests replace them. */
export interface MemorySources {
  /** The memory of the machine, in bytes. */
  readonly totalBytes: number
  /** Returns the content of a file, or null if there is none. */
  readonly read: (path: string) => string | null
}

/**
 * The files of version 2 that contain a limit. Above `memory.high`, processes are slowed down until they are below it.
 */
const LIMITS_OF_VERSION_2 = ['memory.max', 'memory.high']
const LIMITS_OF_VERSION_1 = ['memory.limit_in_bytes']

const SYSTEM: MemorySources = {
  totalBytes: totalmem(),
  read(path) {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return null
    }
  },
}

const UNLIMITED_BYTES = 2 ** 62

interface Hierarchy {
  /** The folder at which the hierarchy is mounted. */
  readonly mountPoint: string
  /** The control group that is mounted at the mount point. */
  readonly root: string
}

/** Returns the number of bytes that this process may use: the lowest limit of the machine and of all control groups. */
export function machineMemoryBytes(sources: MemorySources = SYSTEM): number {
  return Math.min(sources.totalBytes, groupLimit('self', sources))
}

/** Returns the lowest limit of the control groups of a process in bytes, or Infinity if there is none. */
export function groupLimit(pid: number | 'self', sources: MemorySources = SYSTEM): number {
  const groups = (sources.read(`/proc/${pid}/cgroup`) ?? '').split('\n')
  const mounts = (sources.read('/proc/self/mountinfo') ?? '').split('\n')
  let bytes = Number.POSITIVE_INFINITY
  for (const group of groups) {
    const [, number = '', controllers = '', path = ''] = /^(\d+):([^:]*):(.*)$/.exec(group) ?? []
    const isVersion2 = number === '0' && controllers === ''
    if (!isVersion2 && !controllers.split(',').includes('memory')) continue
    const hierarchy = hierarchyOf(mounts, isVersion2)
    if (hierarchy === null) continue
    const files = isVersion2 ? LIMITS_OF_VERSION_2 : LIMITS_OF_VERSION_1
    for (const folder of foldersOf(hierarchy, path)) {
      for (const file of files) {
        const limit = limitOf(sources.read(posix.join(folder, file)))
        if (limit !== null && limit < bytes) bytes = limit
      }
    }
  }
  return bytes
}

/**
 * Finds the mounted hierarchy of control groups in the lines of `mountinfo`. The fields of a line are: number, parent,
 * device, root, mount point, options, ..., `-`, type, source, options.
 */
function hierarchyOf(mounts: readonly string[], isVersion2: boolean): Hierarchy | null {
  for (const line of mounts) {
    const [before = '', behind = ''] = line.split(' - ')
    const [type, , options = ''] = behind.split(' ')
    const isWanted = isVersion2
      ? type === 'cgroup2'
      : type === 'cgroup' && options.split(',').includes('memory')
    if (!isWanted) continue
    const [, , , root = '/', mountPoint = ''] = before.split(' ')
    return { mountPoint: unescaped(mountPoint), root: unescaped(root) }
  }
  return null
}

/** Returns the folder of a control group and the folders of all groups above it, up to the mount point. */
function foldersOf({ mountPoint, root }: Hierarchy, path: string): readonly string[] {
  const isBelowRoot = root === '/' || path === root || path.startsWith(`${root}/`)
  // In a container, `path` may be a path of the host that is not mounted in the container. It is then ignored, and only
  // the limits of the mount point are read.
  const below =
    isBelowRoot && !path.includes('..') ? path.slice(root === '/' ? 0 : root.length) : ''
  const names = below.split('/').filter((name) => name !== '')
  return Array.from({ length: names.length + 1 }, (_, count) =>
    posix.join(mountPoint, ...names.slice(0, count)),
  )
}

function limitOf(text: string | null): number | null {
  const trimmed = text?.trim() ?? ''
  const bytes = /^\d+$/.test(trimmed) ? Number(trimmed) : 0
  // Control groups of version 1 that have no limit report a number larger than any memory.
  return bytes > 0 && bytes < UNLIMITED_BYTES ? bytes : null
}

/** Replaces the octal escapes with which `mountinfo` writes blanks and backslashes. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  )
}
