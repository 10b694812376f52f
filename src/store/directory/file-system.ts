/**
 * Which file systems a data directory may be on. LMDB maps its files into memory and relies on locks and
 * flushes; over a network one of them is missing, and data is lost without a word.
 */
import { statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError } from '../../base/errors.ts'

/** The number by which Linux knows a file system -> its name. Source: statfs(2). */
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
 * The name of a network file system, or null for a local or unknown one. `type`: as `statfs` answers it.
 * FUSE counts as one: most of its kinds (sshfs, s3fs, shared folders) reach over a network.
 */
export function networkFileSystem(type: number): string | null {
  return NETWORK_FILE_SYSTEMS.get(type >>> 0) ?? null
}

/**
 * Throws `OperatorError` when a data directory, or the folder in which it would be made, is on a network
 * file system. `typeOf` answers the number of the file system of a path, and throws for a missing path.
 */
export function requireLocalFileSystem(
  dataDir: string,
  typeOf: (path: string) => number = (path) => statfsSync(path).type,
): void {
  const path = resolve(dataDir)
  const name = networkFileSystem(typeOfNearest(path, typeOf))
  if (name === null) return
  throw new OperatorError(
    `${path} is on a network file system (${name}), where the store would lose data: use a local disk; ` +
      'if you know that it keeps memory maps, locks and flushes, set --allow-network-disk',
  )
}

/** The type of the file system of a path, or of the first folder above it that exists. */
function typeOfNearest(path: string, typeOf: (path: string) => number): number {
  try {
    return typeOf(path)
  } catch {
    const above = dirname(path)
    return above === path ? 0 : typeOfNearest(above, typeOf)
  }
}
