/** Checks the data directory for `tenrec doctor`: whether it exists, its owner, its file system and the free space. */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { diskSpace } from '../../base/disk-space.ts'
import type { Settings } from '../../config/settings.ts'
import { reserveBytesOf } from '../../engine/front/disk-reserve.ts'
import { DataDir, PART_NAMES, requireStore, storeBytes } from '../../store/directory/data-dir.ts'
import { bytesText, type Finding, fine, problem, warning } from './doctor-finding.ts'

/**
 * There is a warning if the free space is less than this multiple of the space that is reserved for accepted events.
 */
const RESERVES_FEW = 4
const NETWORK_TYPES: ReadonlySet<string> = new Set([
  'nfs',
  'nfs4',
  'cifs',
  'smb3',
  'smbfs',
  'ncpfs',
  'afs',
  'coda',
  'ceph',
  'lustre',
  'gpfs',
  'beegfs',
  'orangefs',
  'pvfs2',
  'glusterfs',
  'davfs',
  '9p',
  'sshfs',
  's3fs',
  'rclone',
])
const MEMORY_TYPES: ReadonlySet<string> = new Set(['tmpfs', 'ramfs'])
const SHARED_TYPES: ReadonlySet<string> = new Set(['ocfs2', 'gfs2', 'virtiofs', 'vboxsf'])

/**
 * Checks the format, the lock and the owner of a data directory. `pid` is the process that has the directory open. It
 * is null if there is none, or if the process is in another PID namespace. Throws `OperatorError`.
 */
export function checkStoreFolder(dataDir: string): {
  readonly findings: readonly Finding[]
  readonly pid: number | null
  readonly isStore: boolean
} {
  const path = resolve(dataDir)
  if (!existsSync(path)) {
    const message = `${path} does not exist. Create it with 'tenrec serve' or 'tenrec init'.`
    return { findings: [warning('data_directory', message)], pid: null, isStore: false }
  }
  if (!statSync(path).isDirectory()) {
    const message = `${path} is not a directory. Name another path with --data-dir.`
    return { findings: [problem('data_directory', message)], pid: null, isStore: false }
  }
  const holder = DataDir.holder(path)
  const owner =
    holder === null
      ? fine('lock', 'No daemon has the data directory open.')
      : fine('lock', `The data directory is open in ${holder.description}.`)
  const format = checkHeaders(path)
  const isStore = format.every(({ verdict }) => verdict === 'ok')
  return {
    findings: [...format, ...checkOwnership(path), owner],
    pid: holder?.pid ?? null,
    isStore,
  }
}

/** Checks the format of the directory, and the headers of each data file. */
function checkHeaders(path: string): readonly Finding[] {
  const findings: Finding[] = []
  for (const name of PART_NAMES) {
    try {
      requireStore(path, name)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (findings.every((finding) => finding.message !== message)) {
        const isMissing = /^there is no store/i.test(message)
        findings.push((isMissing ? warning : problem)('store', message))
      }
    }
  }
  if (findings.length > 0) return findings
  return [
    fine(
      'store',
      "The format is supported, and the headers of all data files are sound. Run 'tenrec verify' to check all data.",
    ),
  ]
}

/** Checks the owner and the permissions of the data directory. */
function checkOwnership(path: string): readonly Finding[] {
  const { mode, uid } = statSync(path)
  if ((mode & 0o007) !== 0) {
    return [
      warning(
        'permissions',
        `All users of the machine may read ${path}, which contains keys. Run 'chmod o-rwx' on it.`,
      ),
    ]
  }
  return [fine('permissions', `${path} belongs to the user with ID ${uid} and is not public.`)]
}

/** Compares the free disk space with the reserved space and with the size of the store. */
export async function checkFreeSpace(settings: Settings): Promise<readonly Finding[]> {
  const path = resolve(settings.dataDir)
  const { freeBytes, sizeBytes } = await diskSpace(path)
  const bytes = PART_NAMES.reduce((sum, name) => sum + storeBytes(path, name), 0)
  const reserveBytes = reserveBytesOf(settings.diskReserveBytes, sizeBytes)
  const free = `${bytesText(freeBytes)} are free, and the store uses ${bytesText(bytes)}.`
  if (freeBytes < reserveBytes) {
    const message = `${free} The free space is below the reserve of ${bytesText(reserveBytes)}, so events are refused with 503. Free some space.`
    return [problem('free_space', message)]
  }
  if (freeBytes < reserveBytes * RESERVES_FEW) {
    return [warning('free_space', `${free} Free some space before the reserve is reached.`)]
  }
  if (freeBytes < bytes / 10) {
    return [
      warning('free_space', `${free} The store can grow by less than one tenth. Free some space.`),
    ]
  }
  if (freeBytes < settings.backlogBytesMax) {
    const message = `${free} That is less than \`backlog_limit\`, so a long backlog would fill the disk. Lower \`backlog_limit\`.`
    return [warning('free_space', message)]
  }
  return [fine('free_space', `${free} The reserve is ${bytesText(reserveBytes)}.`)]
}

/** Checks whether the file system supports memory maps and locks. */
export function checkFileSystem(dataDir: string): readonly Finding[] {
  const mounts = readMounts()
  if (mounts === null)
    return [fine('file_system', 'The type of the file system is unknown on this system.')]
  return [judgeFileSystem(fileSystemOf(mounts, realpathSync(dataDir)))]
}

/** Judges a file system by its type, as the kernel reports it, such as `ext4`. The type is '' if it is unknown. */
export function judgeFileSystem(type: string): Finding {
  const check = 'file_system'
  const plain = type.replace(/^fuse\./, '')
  if (NETWORK_TYPES.has(plain)) {
    return problem(
      check,
      `${type} is a network file system, on which data may be lost, so the daemon does not start. Move the data directory to a local disk.`,
    )
  }
  if (MEMORY_TYPES.has(plain)) {
    return warning(
      check,
      `${type} is in memory, and all data is lost when the machine restarts. Use a disk.`,
    )
  }
  if (SHARED_TYPES.has(plain) || type.startsWith('fuse')) {
    return warning(
      check,
      `${type} may lack working memory maps or locks, and the daemon may start only with --allow-network-disk. Use a local disk unless you have tested it.`,
    )
  }
  if (plain === 'overlay') {
    return warning(
      check,
      'overlay is the writable layer of a container, and its data is lost with the container. Mount a volume.',
    )
  }
  return fine(
    check,
    plain === '' ? 'The type of the file system is unknown.' : `${plain} is a local file system.`,
  )
}

/** A mounted file system. */
export interface Mount {
  /** Type that the kernel reports, such as `ext4`. */
  readonly type: string
  /** The device, or a name if there is no device. */
  readonly source: string
  /** Options of the mount and of the file system, such as `rw,relatime`. */
  readonly options: string
}

/** Returns the file system of an existing path, or null if it is unknown. */
export function findMount(path: string): Mount | null {
  const mounts = readMounts()
  return mounts === null ? null : mountOf(mounts, realpathSync(path))
}

/** Returns the type of the file system of an absolute path, or '' if no line matches. See `mountOf`. */
export function fileSystemOf(mounts: string, path: string): string {
  return mountOf(mounts, path)?.type ?? ''
}

/**
 * Returns the file system of an absolute path, from the text of `/proc/self/mountinfo`, or null if no line matches. If
 * several file systems are mounted at the same path, the last one counts.
 */
function mountOf(mounts: string, path: string): Mount | null {
  let mount: Mount | null = null
  let depth = -1
  for (const line of mounts.split('\n')) {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , , place, options = ''] = before.split(' ')
    if (place === undefined) continue
    const point = unescapeMount(place)
    const isAbove = point === '/' || path === point || path.startsWith(`${point}/`)
    if (!isAbove || point.length < depth) continue
    depth = point.length
    const [type = '', source = '', superOptions = ''] = after.split(' ')
    const all = [...new Set([...options.split(','), ...superOptions.split(',')])]
    mount = { type, source: unescapeMount(source), options: all.join(',') }
  }
  return mount
}

function unescapeMount(text: string): string {
  return text.replace(/\\(\d{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
}

function readMounts(): string | null {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8')
  } catch {
    return null
  }
}
