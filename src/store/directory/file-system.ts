/**
 * Decides which file systems may contain a data directory. LMDB maps its files into memory and relies on locks and
 * flushes. On a network file system, at least one of these does not work, and data would be lost without an error.
 */
import { statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError } from '../../base/errors.ts'

/** Network file systems: the number by which Linux identifies the file system -> its name. Source: statfs(2). */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB 2'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x786f4256, 'VirtualBox shared folders'],
  [0xbacbacbc, 'VMware shared folders'],
])

/**
 * Returns the name of a network file system, or null for a local or unknown file system. `type` is the number of the
 * file system type from `statfs`. FUSE counts as a network file system, because most FUSE file systems (sshfs, s3fs,
 * shared folders) use a network.
 */
export function networkFileSystem(type: number): string | null {
  return NETWORK_FILE_SYSTEMS.get(type >>> 0) ?? null
}

/**
 * Throws `OperatorError` if a data directory, or the folder in which it would be created, is on a network file system.
 * `typeOf` returns the number of the file system of a path, and throws if the path does not exist.
 */
export function requireLocalFileSystem(
  dataDir: string,
  typeOf: (path: string) => number = (path) => statfsSync(path).type,
): void {
  const path = resolve(dataDir)
  const name = networkFileSystem(typeOfNearest(path, typeOf))
  if (name === null) return
  throw new OperatorError(
    `${path} is on a network file system (${name}), where the store would lose data. Use a local disk. ` +
      'If you know that the file system supports memory maps, locks and flushes, set --allow-network-disk.',
  )
}

/** Returns the file system type of a path, or of the nearest existing folder above it. */
function typeOfNearest(path: string, typeOf: (path: string) => number): number {
  try {
    return typeOf(path)
  } catch {
    const above = dirname(path)
    return above === path ? 0 : typeOfNearest(above, typeOf)
  }
}
