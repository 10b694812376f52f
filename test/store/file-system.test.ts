/**
 * Tests that a data directory on a network file system is refused when the store is created or opened.
 *
 * @lane quick
 */
import { dirname, join } from 'node:path'
import t from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { networkFileSystem, requireLocalFileSystem } from '../../src/store/directory/file-system.ts'

const EXT4 = 0xef53
const NFS = 0x6969

t.test(
  'network file systems are recognized by their numbers, also as signed integers',
  async (t) => {
    const known = [0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546, 0x01021997, 0xff534d42 | 0]
    for (const type of known) t.ok(networkFileSystem(type), type.toString(16))
    const local = [EXT4, 0x58465342, 0x9123683e, 0x2fc12fc1, 0x01021994, 0x794c7630, 0]
    for (const type of local) t.equal(networkFileSystem(type), null, type.toString(16))
  },
)

t.test('the folder is checked, or its nearest existing parent', async (t) => {
  const mounted = (mount: string, exists: string) => (path: string) => {
    if (!exists.startsWith(path)) throw new Error('ENOENT')
    return path.startsWith(mount) ? NFS : EXT4
  }
  const refusal = (dataDir: string, mount: string, exists: string): string => {
    try {
      requireLocalFileSystem(dataDir, mounted(mount, exists))
      return ''
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      return error.message
    }
  }
  t.match(refusal('/mnt/nfs/data', '/mnt/nfs', '/mnt/nfs/data'), /NFS.*--allow-network-disk/)
  t.match(refusal('/mnt/nfs/new/data', '/mnt/nfs', '/mnt/nfs'), /^\/mnt\/nfs\/new\/data is on/)
  t.equal(refusal('/mnt/data', '/mnt/nfs', '/mnt'), '')
  t.equal(refusal('/mnt/new/data', '/mnt/nfs', '/mnt'), '')
})

t.test('a local folder of this machine is accepted', async (t) => {
  const dataDir = t.testdir()
  t.doesNotThrow(() => requireLocalFileSystem(dataDir))
  t.doesNotThrow(() => requireLocalFileSystem(join(dirname(dataDir), 'to', 'be', 'made')))
})
