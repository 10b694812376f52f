/**
 * Tests a control group with little memory under uploads that need more. All uploads are answered, and those that do
 * not fit into memory get 503. The kernel kills no process, and afterward the daemon works as before.
 *
 * @lane all
 */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { eventually } from '../fixtures/timed-command.ts'

const MEMORY_MIB = 400
const BODY_BYTES = 12_000_000
const UPLOADS = 24
const GROUP = `/sys/fs/cgroup/memory/tenrec-test-${process.pid}`

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Creates the control group. Returns the reason if that is not possible. */
function makeGroup(): string | null {
  try {
    mkdirSync(GROUP)
    writeFileSync(join(GROUP, 'memory.limit_in_bytes'), String(MEMORY_MIB * 1024 ** 2))
    return null
  } catch (error) {
    return `no control group with a limit can be made here: ${String(error)}`
  }
}

/** A daemon that is in the group from its first moment, because children inherit it. */
async function spawnInGroup(dataDir: string): Promise<SpawnedDaemon> {
  const group = /^\d+:memory:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/'
  writeFileSync(join(GROUP, 'cgroup.procs'), String(process.pid))
  const starting = spawnDaemon({ dataDir })
  writeFileSync(join('/sys/fs/cgroup/memory', group, 'cgroup.procs'), String(process.pid))
  return starting
}

function upload(daemon: SpawnedDaemon, body: string): Promise<number> {
  const headers = { 'Content-Type': 'application/json' }
  return send(`${daemon.url}/batch/`, { method: 'POST', headers, body, isAlone: true }).then(
    ({ status }) => status,
    // A connection that is refused or closed.
    () => 0,
  )
}

t.test('large uploads in a small control group cost 503, not the daemon', async (t) => {
  const obstacle = makeGroup()
  if (obstacle !== null) {
    t.pass('skipped', { skip: obstacle })
    return
  }
  const daemon = await spawnInGroup(join(t.testdir(), 'data'))
  t.teardown(async () => {
    await daemon.kill()
    rmdirSync(GROUP)
  })
  const pad = 'x'.repeat(1000)
  const batch = Array.from({ length: BODY_BYTES / 1100 }, (_, index) => ({
    event: 'large',
    distinct_id: `d${index % 10}`,
    properties: { index, pad },
  }))
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  const statuses = await Promise.all(Array.from({ length: UPLOADS }, () => upload(daemon, body)))
  t.ok(daemon.isRunning, `the daemon continues: ${statuses.join(' ')}`)
  t.ok(statuses.includes(200), 'some uploads are accepted')
  t.ok(statuses.includes(503), 'the surplus is refused')
  t.same(
    [...new Set(statuses)].filter((status) => ![0, 200, 503].includes(status)),
    [],
  )
  t.ok(
    await eventually(async () => {
      const one = { api_key: PROJECT_KEY, event: 'small', distinct_id: 'd' }
      return (await postJson(`${daemon.url}/capture/`, one)).status === 200
    }),
    'the daemon recovers without a restart',
  )
  t.equal((await send(`${daemon.url}/_livez`)).status, 200)
  const failures = readFileSync(join(GROUP, 'memory.oom_control'), 'utf8')
  t.match(failures, /under_oom 0/)
  t.comment(`peak ${Math.round(daemon.memory().peak / 1024 ** 2)} MiB`)
})
