/**
 * The page "Health" in Chromium while a disk fills up. The test needs a small file system, and only root may mount one.
 *
 * @lane browser
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openConsole } from '../fixtures/console.ts'
import { PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { freeMib, onSmallDisk } from '../fixtures/small-disk.ts'
import { eventually } from '../fixtures/timed-command.ts'

const DISK_MIB = 96
const RESERVE_MIB = 24
/** Free space that is below the reserve and above zero. */
const LEFT_MIB = 16
/** The page polls every ten seconds, and the disk guard every second. */
const NEWS_MS_MAX = 90_000

t.teardown(closeConnections)
t.setTimeout(300_000)

t.test('Health reports a full disk, explains what to do, and reports the recovery', (t) =>
  onSmallDisk(t, DISK_MIB, (disk) => fillAndLook(t, disk)),
)

async function fillAndLook(t: Test, disk: string): Promise<void> {
  const dataDir = join(disk, 'data')
  mkdirSync(dataDir)
  const daemon = await spawnDaemon({ dataDir, args: ['--disk-reserve', `${RESERVE_MIB}MiB`] })
  try {
    const send = async () => {
      const body = { api_key: PROJECT_KEY, event: 'one', distinct_id: 'ann' }
      return (await postJson(`${daemon.url}/capture/`, body)).status
    }
    t.equal(await send(), 200)
    const ballast = join(disk, 'ballast')
    writeFileSync(ballast, Buffer.alloc((freeMib(disk) - LEFT_MIB) * 1024 ** 2, 1))
    t.ok(await eventually(async () => (await send()) === 503), 'events are refused')
    // Logging in still works, so an operator can see the problem.
    const window = await openConsole(t, daemon)
    if (window === null) return
    const { page } = window
    await window.open('/health')
    const alert = page.getByRole('alert')
    await alert.waitFor()
    const said = await alert.innerText()
    for (const words of [
      'degraded',
      'The disk is nearly full.',
      'accepts no events',
      `Below ${RESERVE_MIB}`,
      'To free space',
    ]) {
      t.ok(said.includes(words), `${words}: ${said}`)
    }
    rmSync(ballast)
    await alert.waitFor({ state: 'detached', timeout: NEWS_MS_MAX })
    t.equal(await send(), 200, 'events are accepted again')
    window.isSilent(t)
  } finally {
    await daemon.stop()
  }
}
