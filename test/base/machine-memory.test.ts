/**
 * Tests how much memory the process may use: the memory of the machine, limited by the control groups of the process
 * and all their parents, in both versions of control groups.
 *
 * @lane quick
 */
import t from 'tap'
import { groupLimit, machineMemoryBytes } from '../../src/base/memory/machine-memory.ts'

const GIB = 1024 ** 3
const MIB = 1024 ** 2
/** The value of version 1 without a limit. */
const NONE = '9223372036854771712\n'

const MOUNTS_1 = [
  '31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755',
  '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
  '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
].join('\n')
const MOUNTS_2 = '30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate'

function memoryOf(files: Readonly<Record<string, string>>): number {
  return machineMemoryBytes({ totalBytes: 24 * GIB, read: (path) => files[path] ?? null })
}

t.test('without control groups it is the memory of the machine', async (t) => {
  t.equal(memoryOf({}), 24 * GIB)
  t.equal(groupLimit('self', { totalBytes: GIB, read: () => null }), Number.POSITIVE_INFINITY)
})

t.test('version 1: the own group and its parents count', async (t) => {
  const files = {
    '/proc/self/cgroup': '9:name=systemd:/\n4:memory:/outer/inner\n0::/\n',
    '/proc/self/mountinfo': MOUNTS_1,
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': NONE,
    '/sys/fs/cgroup/memory/outer/memory.limit_in_bytes': `${GIB}\n`,
    '/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes': `${512 * MIB}\n`,
  }
  t.equal(memoryOf(files), 512 * MIB)
  const outer = { ...files, '/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes': NONE }
  t.equal(memoryOf(outer), GIB, 'the outer limit applies where the inner group has none')
  const none = { ...outer, '/sys/fs/cgroup/memory/outer/memory.limit_in_bytes': NONE }
  t.equal(memoryOf(none), 24 * GIB)
})

t.test('version 1: several controllers in one hierarchy', async (t) => {
  const files = {
    '/proc/self/cgroup': '3:cpu,memory:/a b\n',
    '/proc/self/mountinfo': '35 31 0:32 / /mnt/two\\040words rw - cgroup cgroup rw,cpu,memory',
    '/mnt/two words/a b/memory.limit_in_bytes': `${300 * MIB}`,
  }
  t.equal(memoryOf(files), 300 * MIB)
})

t.test('version 2: memory.max and memory.high up the tree', async (t) => {
  const files = {
    '/proc/self/cgroup': '0::/system.slice/tenrec.service\n',
    '/proc/self/mountinfo': MOUNTS_2,
    '/sys/fs/cgroup/system.slice/memory.max': 'max\n',
    '/sys/fs/cgroup/system.slice/tenrec.service/memory.max': `${2 * GIB}\n`,
    '/sys/fs/cgroup/system.slice/tenrec.service/memory.high': 'max\n',
  }
  t.equal(memoryOf(files), 2 * GIB)
  t.equal(memoryOf({ ...files, '/sys/fs/cgroup/system.slice/memory.high': `${GIB}` }), GIB)
})

t.test('in a container the mounted group is that of the process', async (t) => {
  const files = {
    '/proc/self/cgroup': '4:memory:/docker/abc\n',
    '/proc/self/mountinfo':
      '35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory',
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${768 * MIB}\n`,
  }
  t.equal(memoryOf(files), 768 * MIB)
  t.equal(memoryOf({ ...files, '/proc/self/cgroup': '4:memory:/\n' }), 768 * MIB)
  t.equal(memoryOf({ ...files, '/proc/self/cgroup': '4:memory:/../abc\n' }), 768 * MIB)
})
