/**
 * How much memory this process may use: what the machine has, or less where a control group limits it. Both
 * versions of control groups are read, and every group from that of the process up to the one that is mounted,
 * because each of them may have a limit.
 */
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { posix } from 'node:path'

/** What the limits are read from, for tests. */
export interface MemorySources {
  /** Of the machine. */
  readonly totalBytes: number
  /** The content of a file, or null where there is none. */
  readonly read: (path: string) => string | null
}

/** Files of version 2 with a limit; processes beyond `memory.high` are slowed down until they are below it. */
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
  /** Where it is mounted. */
  readonly mountPoint: string
  /** Which group is mounted there. */
  readonly root: string
}

/** Bytes that the machine and all control groups of this process allow it together. */
export function machineMemoryBytes(sources: MemorySources = SYSTEM): number {
  return Math.min(sources.totalBytes, groupLimit('self', sources))
}

/** The least limit of the control groups of a process, bytes; Infinity for none. */
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

/** Lines of mountinfo: number, parent, device, root, mount point, options, ..., `-`, type, source, options. */
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

/** The folder of a group and those of all groups above it, as far as they are mounted. */
function foldersOf({ mountPoint, root }: Hierarchy, path: string): readonly string[] {
  const isBelowRoot = root === '/' || path === root || path.startsWith(`${root}/`)
  // In a container the path may be that of the host, of which nothing is mounted but the root.
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
  // Version 1 says that there is none with the largest number of pages.
  return bytes > 0 && bytes < UNLIMITED_BYTES ? bytes : null
}

/** Blanks and backslashes are written as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  )
}
