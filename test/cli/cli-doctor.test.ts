/**
 * `tenrec doctor`: a sound machine passes, and each kind of damage is reported by name.
 *
 * @lane quick
 */
import { readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { fileSystemOf, judgeFileSystem } from '../../src/cli/doctor/doctor-data-dir.ts'
import { judgeDisk, measureDisk } from '../../src/cli/doctor/doctor-disk-speed.ts'
import {
  checkClock,
  checkNode,
  judgeAddressSpace,
  judgeMemory,
  judgeOpenFiles,
  limitOf,
} from '../../src/cli/doctor/doctor-machine.ts'
import { judgeBacklog, judgeDeadLetters } from '../../src/cli/doctor/doctor-stored.ts'
import { isLoopbackHost } from '../../src/cli/lib/loopback.ts'
import { DISK_FLUSHING_MS_MAX, DISK_LARGE_MS_MAX } from '../../src/cli/limits.ts'
import type { Outcome } from '../fixtures/command-line.ts'
import { mmdbOf } from '../fixtures/enrichment/mmdb-writer.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import { startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { runTimed } from '../fixtures/timed-command.ts'

t.teardown(closeConnections)

/** Returns the verdict of each check. If a check reports several, the worst one counts. */
function verdictsOf({ out }: Outcome): ReadonlyMap<string, string> {
  const verdicts = new Map<string, string>()
  for (const line of out.trimEnd().split('\n')) {
    const { check, verdict } = JSON.parse(line) as { check: string; verdict: string }
    if (verdicts.get(check) !== 'problem') verdicts.set(check, verdict)
  }
  return verdicts
}

t.test('a sound store passes all checks and is not changed', async (t) => {
  const dataDir = t.testdir()
  t.equal((await runTimed(['init', '--data-dir', dataDir])).exitCode, 0)
  const before = readdirSync(dataDir).sort()
  const outcome = await runTimed(['doctor', '--data-dir', dataDir, '--json'])
  t.equal(outcome.exitCode, 0, outcome.out)
  const verdicts = verdictsOf(outcome)
  for (const check of ['node', 'store', 'lock', 'dead_letters', 'backlog']) {
    t.equal(verdicts.get(check), 'ok', check)
  }
  for (const check of [
    'free_space',
    'file_system',
    'disk_speed',
    'clock',
    'open_files',
    'memory_limit',
  ]) {
    t.ok(verdicts.has(check), check)
  }
  t.same(readdirSync(dataDir).sort(), before, 'no files are left behind')
  const text = await runTimed(['doctor', '--data-dir', dataDir])
  t.match(text.out, /^ok +store +The format is supported/m)
})

t.test(
  'an unreadable GeoIP database is reported by name, and the other checks still run',
  async (t) => {
    const dataDir = t.testdir()
    const path = join(dataDir, 'city.mmdb')
    const flags = ['--data-dir', dataDir, '--geoip-database', path]
    const verdict = async () =>
      verdictsOf(await runTimed(['doctor', ...flags, '--json'])).get('geoip_database')
    const check = () => runTimed(['config', 'check', ...flags])
    t.equal(await verdict(), 'warning')
    t.match(await check(), {
      exitCode: 0,
      err: /GeoIP database .*city\.mmdb cannot be used: .*no such file/i,
    })
    writeFileSync(path, 'no database')
    t.equal(await verdict(), 'warning')
    t.match(
      (await runTimed(['doctor', ...flags])).out,
      /^warning +geoip_database .*not a MaxMind DB/m,
    )
    writeFileSync(path, mmdbOf({ '203.0.113.0/24': { country: { iso_code: 'SE' } } }))
    t.equal(await verdict(), 'ok')
    t.equal((await check()).err, 'The settings are valid.\n')
  },
)

t.test('a damaged data file is reported with its file name', async (t) => {
  const dataDir = t.testdir()
  await runTimed(['init', '--data-dir', dataDir])
  truncateSync(join(dataDir, 'events', 'data.mdb'), 100)
  const outcome = await runTimed(['doctor', '--data-dir', dataDir, '--json'])
  t.equal(outcome.exitCode, 3)
  t.equal(verdictsOf(outcome).get('store'), 'problem')
  t.match(outcome.out, /events\/data\.mdb is damaged/)
})

t.test('a store of a newer format is reported as a problem', async (t) => {
  const dataDir = t.testdir()
  await runTimed(['init', '--data-dir', dataDir])
  writeFileSync(join(dataDir, 'format'), 'tenrec 999\n')
  const outcome = await runTimed(['doctor', '--data-dir', dataDir])
  t.equal(outcome.exitCode, 3)
  t.match(outcome.out, /^problem +store +.*format 999/m)
})

t.test('invalid settings are reported, and the remaining checks still run', async (t) => {
  const outcome = await runTimed(['doctor', '--json'], { TENREC_PORT: 'eighty' })
  t.equal(outcome.exitCode, 3)
  const verdicts = verdictsOf(outcome)
  t.equal(verdicts.get('configuration'), 'problem')
  t.equal(verdicts.get('node'), 'ok')
  t.ok(verdicts.has('open_files'))
})

t.test('unusual settings are reported as warnings', async (t) => {
  const words = ['doctor', '--data-dir', t.testdir(), '--durability', 'commit', '--host', '0.0.0.0']
  const outcome = await runTimed(words)
  t.equal(outcome.exitCode, 0)
  t.match(outcome.out, /^warning +configuration +`durability` is commit/m)
  t.match(outcome.out, /^warning +configuration +`host` is 0\.0\.0\.0/m)
  t.match(outcome.out, /^warning +store +There is no store/m)
})

t.test('less free space than the reserve is reported as a problem', async (t) => {
  const words = ['doctor', '--data-dir', t.testdir(), '--disk-reserve', '16TiB']
  const outcome = await runTimed(words)
  t.equal(outcome.exitCode, 3)
  t.match(outcome.out, /^problem +free_space +.*below the reserve/m)
  t.notMatch(outcome.out, /disk_speed/)
})

t.test('the running daemon is queried at the address that clients use', async (t) => {
  const dataDir = t.testdir({})
  const { daemon } = await startDecisions(t)
  const words = ['doctor', '--data-dir', join(dataDir, 'none'), '--json', '--base-url', daemon.url]
  const verdicts = verdictsOf(await runTimed(words))
  t.equal(verdicts.get('data_directory'), 'warning')
  for (const check of ['readiness', 'metrics', 'large_bodies', 'large_headers']) {
    t.equal(verdicts.get(check), 'ok', check)
  }
  const gone = await runTimed([...words.slice(0, -1), 'http://127.0.0.1:1'])
  t.equal(gone.exitCode, 3)
  t.equal(verdictsOf(gone).get('daemon'), 'problem')
})

t.test(
  'the file system is the one with the longest mount point, and network file systems are refused',
  async (t) => {
    const mounts = [
      '22 1 0:20 / / rw - ext4 /dev/vda1 rw',
      '23 22 0:21 / /srv rw,relatime shared:1 - xfs /dev/vdb rw',
      '24 23 0:22 / /srv/with\\040space rw - nfs4 host:/x rw',
    ].join('\n')
    t.equal(fileSystemOf(mounts, '/opt/data'), 'ext4')
    t.equal(fileSystemOf(mounts, '/srv/data'), 'xfs')
    t.equal(fileSystemOf(mounts, '/srvdata'), 'ext4')
    t.equal(fileSystemOf(mounts, '/srv/with space/data'), 'nfs4')
    for (const type of ['nfs4', 'cifs', 'fuse.sshfs', '9p', 'ceph']) {
      t.equal(judgeFileSystem(type).verdict, 'problem', type)
    }
    for (const type of ['tmpfs', 'overlay', 'fuse.unknown']) {
      t.equal(judgeFileSystem(type).verdict, 'warning', type)
    }
    for (const type of ['ext4', 'xfs', 'btrfs', 'zfs']) t.equal(judgeFileSystem(type).verdict, 'ok')
  },
)

t.test('process limits are compared with the needs of the daemon', async (t) => {
  const limits = 'Max open files            1024                 524288               files\n'
  t.equal(limitOf(limits, 'Max open files'), 1024)
  t.equal(limitOf(limits, 'Max address space'), Number.POSITIVE_INFINITY)
  t.equal(judgeOpenFiles(100, 'it').verdict, 'problem')
  t.equal(judgeOpenFiles(1024, 'it').verdict, 'warning')
  t.equal(judgeOpenFiles(65_536, 'it').verdict, 'ok')
  t.equal(judgeAddressSpace(639 * 1024 ** 3).verdict, 'problem')
  t.equal(judgeAddressSpace(640 * 1024 ** 3).verdict, 'ok')
  t.equal(judgeMemory(128 * 1024 ** 2, 0).verdict, 'problem')
  t.equal(judgeMemory(512 * 1024 ** 2, 0).verdict, 'warning')
  t.equal(judgeMemory(2 * 1024 ** 3, 8 * 1024 ** 3).verdict, 'warning')
  t.equal(judgeMemory(Number.POSITIVE_INFINITY, 1).verdict, 'ok')
  t.equal(checkNode('18.20.0').verdict, 'problem')
  t.equal(checkNode('24.1.0').verdict, 'ok')
  t.equal(judgeDeadLetters(3).verdict, 'problem')
  t.equal(judgeBacklog(1_000_000, true).verdict, 'warning')
  t.equal(judgeBacklog(1_000_000, false).verdict, 'ok')
})

t.test('a clock that is set to the wrong year or that jumps is reported', async (t) => {
  const dataDir = t.testdir()
  const verdict = async (now: () => number, monotonic = () => 0): Promise<string | undefined> =>
    (await checkClock({ now, monotonic }, dataDir))[0]?.verdict
  t.equal(await verdict(() => 0), 'problem')
  t.equal(await verdict(() => Date.UTC(2027, 0)), 'ok')
  let nowMs = Date.UTC(2027, 0)
  t.equal(await verdict(() => (nowMs += 10)), 'warning')
})

t.test('the speed of the disk is measured and judged', async (t) => {
  const dataDir = t.testdir()
  const speed = measureDisk(dataDir, SYSTEM_CLOCK)
  t.ok(speed.flushes > 0 && speed.p50Ms <= speed.p99Ms && speed.p99Ms <= speed.maxMs)
  t.ok(speed.bytesPerSecond > 0)
  t.same(readdirSync(dataDir), [])
  const disk = { flushes: 100, maxMs: 900, bytesPerSecond: 1e8 }
  t.equal(judgeDisk({ ...disk, p50Ms: 2, p99Ms: 8 }).verdict, 'ok')
  t.equal(judgeDisk({ ...disk, p50Ms: 2, p99Ms: 80 }).verdict, 'warning')
  t.equal(judgeDisk({ ...disk, p50Ms: 0.001, p99Ms: 0.002 }).verdict, 'warning')
  t.equal(judgeDisk({ ...disk, p50Ms: 300, p99Ms: 800 }).verdict, 'problem')
})

t.test('a slow disk is measured with fewer flushes and writes', async (t) => {
  let nowMs = 0
  const clock = { now: () => 0, monotonic: () => (nowMs += 100) }
  const speed = measureDisk(t.testdir(), clock)
  // The clock is read twice for each flush and once for each MiB that is written.
  t.match(speed, { flushes: Math.ceil(DISK_FLUSHING_MS_MAX / 200), p50Ms: 100, maxMs: 100 })
  const writes = DISK_LARGE_MS_MAX / 100
  t.equal(speed.bytesPerSecond, (writes * 1024 ** 2 * 1000) / ((writes + 2) * 100))
})

t.test('a loopback address is recognized as local', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '127.9.9.9', '::1', '[::1]']) {
    t.ok(isLoopbackHost(host), host)
  }
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'localhost.example.com', '127.0.0.1.nip.io']) {
    t.notOk(isLoopbackHost(host), host)
  }
})
