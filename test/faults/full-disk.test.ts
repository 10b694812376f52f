/**
 * Tests a disk that fills up under load. Events that do not fit are refused with a clear 503, no acknowledged event is
 * lost, decisions and reads continue, and events are accepted again once there is space, without a restart. A start on
 * a full disk works, too. Needs its own small file system, which only root may mount.
 *
 * @lane all
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents, untilVisible } from '../fixtures/event-pages.ts'
import { type Answer, closeConnections, jsonOf, postJson } from '../fixtures/exact-client.ts'
import { freeMib, onSmallDisk } from '../fixtures/small-disk.ts'
import { eventually } from '../fixtures/timed-command.ts'

const DISK_MIB = 128
const BALLAST_MIB = 48
const RESERVE_MIB = 24
const MIB = 1024 ** 2
const CLIENTS = 8
const EVENTS_PER_REQUEST = 20
const PAD_BYTES = 1500
const REFUSALS_WANTED = 40
const RETRY_MS = 50
const FILL_MS_MAX = 60_000
const DECISIONS = 25

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Clients that send new events until the disk is full, and the answers they got. */
class Traffic {
  readonly acknowledged = new Set<string>()
  readonly refusals: Answer[] = []
  readonly others: Answer[] = []
  /** Refused requests, to be sent again. */
  readonly refused: object[][] = []
  readonly #daemon: SpawnedDaemon

  constructor(daemon: SpawnedDaemon) {
    this.#daemon = daemon
  }

  async untilFull(): Promise<void> {
    const endMs = performance.now() + FILL_MS_MAX
    const client = async (): Promise<void> => {
      while (this.refusals.length < REFUSALS_WANTED && performance.now() < endMs) {
        await this.send(newEvents())
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
  }

  /** Whether the events were accepted. */
  async send(batch: readonly { readonly uuid: string }[]): Promise<boolean> {
    const answer = await postJson(`${this.#daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
    if (answer.status === 200) {
      for (const { uuid } of batch) this.acknowledged.add(uuid)
      return true
    }
    if (answer.status !== 503) this.others.push(answer)
    else this.refusals.push(answer)
    this.refused.push([...batch])
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    return false
  }
}

function newEvents(): readonly { readonly uuid: string }[] {
  return Array.from({ length: EVENTS_PER_REQUEST }, () => ({
    uuid: randomUUID(),
    event: 'fills the disk',
    distinct_id: `person ${Math.floor(Math.random() * 50)}`,
    // No compression makes it smaller.
    properties: { pad: randomBytes(PAD_BYTES).toString('base64') },
  }))
}

function decide(daemon: SpawnedDaemon, person: number): Promise<Answer> {
  const body = { api_key: PROJECT_KEY, distinct_id: `person ${person}` }
  return postJson(`${daemon.url}/flags/?v=2`, body)
}

t.test('a disk that fills up under load loses nothing, and works again', (t) =>
  onSmallDisk(t, DISK_MIB, (disk) => fillAndRecover(t, disk)),
)

async function fillAndRecover(t: Test, disk: string): Promise<void> {
  const ballast = join(disk, 'ballast')
  writeFileSync(ballast, Buffer.alloc(BALLAST_MIB * MIB, 1))
  const dataDir = join(disk, 'data')
  mkdirSync(dataDir)
  const daemon = await spawnDaemon({ dataDir, args: ['--disk-reserve', `${RESERVE_MIB}MiB`] })
  try {
    await fill(t, daemon, disk, ballast)
    t.equal((await daemon.stop()).code, 0, 'the daemon stops normally')
  } finally {
    await daemon.kill()
  }
  await startOnFullDisk(t, dataDir, ballast)
  t.same((await verifyStore(dataDir, () => undefined)).findings, [], 'the store is sound')
}

async function startOnFullDisk(t: Test, dataDir: string, ballast: string): Promise<void> {
  const rest = freeMib(dataDir) * MIB
  writeFileSync(ballast, Buffer.alloc(rest, 1))
  t.ok(freeMib(dataDir) < 1, 'no space is free')
  const daemon = await spawnDaemon({ dataDir })
  try {
    const traffic = new Traffic(daemon)
    t.equal((await decide(daemon, 1)).status, 200, 'decisions are made')
    t.notOk(await traffic.send(newEvents()), 'events are refused')
    rmSync(ballast)
    t.ok(
      await eventually(() => traffic.send(newEvents())),
      'the events are accepted once there is space',
    )
    t.same(traffic.others, [])
    t.same(await daemon.stop(), { code: 0, signal: null })
  } finally {
    await daemon.kill()
  }
}

async function fill(t: Test, daemon: SpawnedDaemon, disk: string, ballast: string): Promise<void> {
  const traffic = new Traffic(daemon)
  await traffic.untilFull()
  t.ok(traffic.acknowledged.size > 0, `${traffic.acknowledged.size} events were accepted before`)
  t.ok(traffic.refusals.length >= REFUSALS_WANTED, `${freeMib(disk).toFixed(1)} MiB are left`)
  t.same(traffic.others, [], 'no other answer')
  const details = traffic.refusals.map((answer) => jsonOf(answer) as { detail?: unknown })
  t.ok(
    details.every(({ detail }) => /disk/i.test(String(detail))),
    `every refusal names the disk: ${JSON.stringify(details[0])}`,
  )
  t.ok(
    traffic.refusals.every(({ headers }) => Number(headers['retry-after']) > 0),
    'every refusal has a retry time',
  )

  const decisions: Answer[] = []
  for (let person = 0; person < DECISIONS; person++) decisions.push(await decide(daemon, person))
  t.ok(
    decisions.every((answer) => {
      const { errorsWhileComputingFlags } = jsonOf(answer) as Record<string, unknown>
      return answer.status === 200 && errorsWhileComputingFlags === false
    }),
    'decisions are made meanwhile',
  )
  t.equal(daemon.isRunning, true, 'the process continues')
  rmSync(ballast)
  await recover(t, daemon, traffic)
}

async function recover(t: Test, daemon: SpawnedDaemon, traffic: Traffic): Promise<void> {
  const again = [...traffic.refused]
  const deadline = performance.now() + FILL_MS_MAX
  for (const batch of again) {
    const events = batch as readonly { readonly uuid: string }[]
    while (!(await traffic.send(events)) && performance.now() < deadline);
  }
  t.equal(daemon.isRunning, true, 'no restart was needed')
  // Connections of the clients have been idle for a while, and the daemon may be closing them.
  closeConnections()
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  const [last = ''] = [...traffic.acknowledged].slice(-1)
  await untilVisible(source, last)
  const stored = (await readEvents(source)).map(({ uuid }) => uuid)
  const found = new Set(stored)
  t.equal(stored.length, found.size, 'no event is stored twice')
  const lost = [...traffic.acknowledged].filter((uuid) => !found.has(uuid))
  t.same(lost, [], `all of ${traffic.acknowledged.size} acknowledged events are there`)
  t.equal(found.size, traffic.acknowledged.size, 'no other event is stored')
}
