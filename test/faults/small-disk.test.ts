/**
 * Tests a small disk that is filled at full speed, and one that another program fills at once. Every acknowledged event
 * is processed although no space is freed, and the daemon continues. Needs a small file system, which only root may
 * mount.
 *
 * @lane all
 */
import { randomUUID } from 'node:crypto'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { freeMib, onSmallDisk } from '../fixtures/small-disk.ts'
import { eventually } from '../fixtures/timed-command.ts'

const DISK_MIB = 64
const CLIENTS = 8
const EVENTS_PER_REQUEST = 50
/** A disk counts as full after this number of refusals in a row of one client. */
const REFUSALS_IN_ROW = 20
const REFUSED_PAUSE_MS = 100
const FILL_MS_MAX = 90_000

t.teardown(closeConnections)
t.setTimeout(600_000)

/** Sends new persons with properties, which make the store grow most, until it is refused for a while. */
async function fill(daemon: SpawnedDaemon, acknowledged: Set<string>): Promise<readonly number[]> {
  const statuses = new Set<number>()
  const endMs = performance.now() + FILL_MS_MAX
  const client = async (): Promise<void> => {
    for (let refused = 0; refused < REFUSALS_IN_ROW && performance.now() < endMs; ) {
      const batch = Array.from({ length: EVENTS_PER_REQUEST }, () => {
        const uuid = randomUUID()
        const $set = { name: `name of ${uuid}`, email: `${uuid}@example.com` }
        return { uuid, event: '$identify', distinct_id: `person ${uuid}`, properties: { $set } }
      })
      const { status } = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
      statuses.add(status)
      refused = status === 200 ? 0 : refused + 1
      if (status === 200) for (const { uuid } of batch) acknowledged.add(uuid)
      else await new Promise((resolve) => setTimeout(resolve, REFUSED_PAUSE_MS))
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  return [...statuses].sort()
}

async function backlogBytes(daemon: SpawnedDaemon): Promise<number> {
  const { body } = await send(`${daemon.url}/metrics`)
  return Number(/^ingest_backlog_bytes (\S+)$/m.exec(body.toString())?.[1])
}

/** Waits until everything is processed, and compares the readable events with the acknowledged ones. */
async function checkStored(
  t: Test,
  daemon: SpawnedDaemon,
  acknowledged: Set<string>,
): Promise<void> {
  // A full disk has room for small commits only, so this may take long.
  let left = await backlogBytes(daemon)
  while (left > 0 && (await eventually(async () => (await backlogBytes(daemon)) < left))) {
    left = await backlogBytes(daemon)
  }
  t.equal(left, 0, 'no block waits in the log')
  closeConnections()
  const stored = await readEvents({ url: daemon.url, personalKey: PERSONAL_KEY })
  const found = new Set(stored.map(({ uuid }) => uuid))
  t.equal(stored.length, found.size, 'no event is stored twice')
  const lost = [...acknowledged].filter((uuid) => !found.has(uuid))
  t.equal(lost.length, 0, `all ${acknowledged.size} acknowledged events are stored`)
}

t.test('a small disk filled at full speed processes all acknowledged events', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const dataDir = join(disk, 'data')
    const daemon = await spawnDaemon({ dataDir })
    const acknowledged = new Set<string>()
    try {
      const statuses = await fill(daemon, acknowledged)
      t.strictSame(statuses, [200, 503], 'accepted, then refused')
      t.ok(acknowledged.size > 0)
      t.ok(daemon.isRunning, 'the daemon runs')
      await checkStored(t, daemon, acknowledged)
      t.same(await daemon.stop(), { code: 0, signal: null })
    } finally {
      await daemon.kill()
    }
    t.same((await verifyStore(dataDir, () => undefined)).findings, [], 'the store is sound')
  }),
)

/** Takes the whole disk, as another program would. */
function takeAll(path: string): void {
  const descriptor = openSync(path, 'w')
  const bytes = Buffer.alloc(64 * 1024, 1)
  try {
    for (;;) writeSync(descriptor, bytes)
  } catch (error) {
    t.match(error, { code: 'ENOSPC' })
  } finally {
    closeSync(descriptor)
  }
}

t.test('a disk that another program fills at once costs refusals, not the daemon', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const dataDir = join(disk, 'data')
    const daemon = await spawnDaemon({ dataDir })
    const acknowledged = new Set<string>()
    try {
      const filled = fill(daemon, acknowledged)
      await eventually(async () => acknowledged.size > 1000)
      takeAll(join(disk, 'other'))
      t.ok(freeMib(disk) < 0.1, 'no space is free')
      t.strictSame(await filled, [200, 503])
      t.ok(daemon.isRunning, 'the daemon runs')
      const decided = { api_key: PROJECT_KEY, distinct_id: 'person' }
      t.equal(
        (await postJson(`${daemon.url}/flags/?v=2`, decided)).status,
        200,
        'flags are decided',
      )
      rmSync(join(disk, 'other'))
      await checkStored(t, daemon, acknowledged)
      t.same(await daemon.stop(), { code: 0, signal: null })
    } finally {
      await daemon.kill()
    }
  }),
)
