/** Checks of `tenrec doctor` on the data directory: is it there, whose is it, and is there room. */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { diskSpace } from '../../base/disk-space.ts'
import type { Settings } from '../../config/settings.ts'
import { reserveBytesOf } from '../../engine/front/disk-guard.ts'
import { DataDir, PART_NAMES, requireStore, storeBytes } from '../../store/directory/data-dir.ts'
import { bytesText, type Finding, fine, problem, warning } from './doctor-finding.ts'

/** Free space below this many times the reserve is worth a word. */
const RESERVES_FEW = 4
const NETWORK_TYPES: ReadonlySet<string> = new Set([
  ...['nfs', 'nfs4', 'cifs', 'smb3', 'smbfs', 'ncpfs', 'afs', 'coda', 'ceph', 'lustre', 'gpfs'],
  ...['beegfs', 'orangefs', 'pvfs2', 'glusterfs', 'davfs', '9p', 'sshfs', 's3fs', 'rclone'],
])
const MEMORY_TYPES: ReadonlySet<string> = new Set(['tmpfs', 'ramfs'])
const SHARED_TYPES: ReadonlySet<string> = new Set(['ocfs2', 'gfs2', 'virtiofs', 'vboxsf'])

/** Format, lock and owner. `pid` is the process that has the directory open, or null; a process of another
 * pid namespace has none. Throws `OperatorError`. */
export function checkStoreFolder(dataDir: string): {
  readonly findings: readonly Finding[]
  readonly pid: number | null
  readonly isStore: boolean
} {
  const path = resolve(dataDir)
  if (!existsSync(path)) {
    const message = `${path} does not exist: 'tenrec serve' or 'tenrec init' creates it`
    return { findings: [warning('data_directory', message)], pid: null, isStore: false }
  }
  if (!statSync(path).isDirectory()) {
    const message = `${path} is no directory: name another with --data-dir`
    return { findings: [problem('data_directory', message)], pid: null, isStore: false }
  }
  const holder = DataDir.holder(path)
  const owner =
    holder === null
      ? fine('lock', 'no daemon has the data directory open')
      : fine('lock', `${holder.description} has the data directory open`)
  const format = checkHeaders(path)
  const isStore = format.every(({ verdict }) => verdict === 'ok')
  return {
    findings: [...format, ...checkOwnership(path), owner],
    pid: holder?.pid ?? null,
    isStore,
  }
}

/** The format, and the headers of every data file. */
function checkHeaders(path: string): readonly Finding[] {
  const findings: Finding[] = []
  for (const name of PART_NAMES) {
    try {
      requireStore(path, name)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (findings.every((finding) => finding.message !== message)) {
        const isMissing = message.startsWith('There is no store')
        findings.push((isMissing ? warning : problem)('store', message))
      }
    }
  }
  if (findings.length > 0) return findings
  return [
    fine(
      'store',
      "the format is known and the headers of all data files are sound; 'tenrec verify' reads the rest",
    ),
  ]
}

/** A daemon that runs as another user than the owner of the files cannot write them. */
function checkOwnership(path: string): readonly Finding[] {
  const { mode, uid } = statSync(path)
  if ((mode & 0o007) !== 0) {
    return [
      warning(
        'permissions',
        `everybody may look into ${path}: run 'chmod o-rwx' on it, it holds keys`,
      ),
    ]
  }
  return [fine('permissions', `${path} belongs to the user with number ${uid} and is not public`)]
}

/** Room on the disk, against the reserve and against what is stored. */
export async function checkFreeSpace(settings: Settings): Promise<readonly Finding[]> {
  const path = resolve(settings.dataDir)
  const { freeBytes, sizeBytes } = await diskSpace(path)
  const bytes = PART_NAMES.reduce((sum, name) => sum + storeBytes(path, name), 0)
  const reserveBytes = reserveBytesOf(settings.diskReserveBytes, sizeBytes)
  const free = `${bytesText(freeBytes)} are free, the store has ${bytesText(bytes)}`
  if (freeBytes < reserveBytes) {
    const message = `${free}: that is below the reserve of ${bytesText(reserveBytes)}, so events are refused with 503; make room`
    return [problem('free_space', message)]
  }
  if (freeBytes < reserveBytes * RESERVES_FEW) {
    return [warning('free_space', `${free}: make room before the reserve is reached`)]
  }
  if (freeBytes < bytes / 10) {
    return [warning('free_space', `${free}: less than a tenth of the store is left to grow`)]
  }
  if (freeBytes < settings.backlogBytesMax) {
    const message = `${free}: less than backlog_limit, so a long backlog would fill the disk; lower it`
    return [warning('free_space', message)]
  }
  return [fine('free_space', `${free}; the reserve is ${bytesText(reserveBytes)}`)]
}

/** Whether the file system can hold memory maps and locks. */
export function checkFileSystem(dataDir: string): readonly Finding[] {
  const mounts = readMounts()
  if (mounts === null) return [fine('file_system', 'its type cannot be found out on this system')]
  return [judgeFileSystem(fileSystemOf(mounts, realpathSync(dataDir)))]
}

/** The verdict on a type of file system as the kernel names it, such as `ext4`; '' for an unknown one. */
export function judgeFileSystem(type: string): Finding {
  const check = 'file_system'
  const plain = type.replace(/^fuse\./, '')
  if (NETWORK_TYPES.has(plain)) {
    return problem(
      check,
      `${type} is a network file system, on which LMDB loses data, so the daemon does not start: move the data directory to a local disk`,
    )
  }
  if (MEMORY_TYPES.has(plain)) {
    return warning(check, `${type} is memory: everything is lost with the next restart; use a disk`)
  }
  if (SHARED_TYPES.has(plain) || type.startsWith('fuse')) {
    return warning(
      check,
      `${type} may lack working memory maps or locks, and the daemon may start only with --allow-network-disk: use a local disk unless you have tested it`,
    )
  }
  if (plain === 'overlay') {
    return warning(check, 'overlay is the layer of a container and goes with it: mount a volume')
  }
  return fine(check, plain === '' ? 'of an unknown type' : `${plain}, a local file system`)
}

/** A mounted file system. */
export interface Mount {
  /** As the kernel names it, such as `ext4`. */
  readonly type: string
  /** The device, or what stands for one. */
  readonly source: string
  /** Options of the mount and of the file system, such as `rw,relatime`. */
  readonly options: string
}

/** The file system that holds a path that exists; null when it cannot be found out. */
export function findMount(path: string): Mount | null {
  const mounts = readMounts()
  return mounts === null ? null : mountOf(mounts, realpathSync(path))
}

/** The type of the file system that holds an absolute path; '' when no line fits. See `mountOf`. */
export function fileSystemOf(mounts: string, path: string): string {
  return mountOf(mounts, path)?.type ?? ''
}

/**
 * The file system that holds an absolute path, from the text of `/proc/self/mountinfo`; null when no line
 * fits. Of mounts at the same place the last one counts.
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
