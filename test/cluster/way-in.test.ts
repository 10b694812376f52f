/**
 * Tests the conversion of a single machine to the first machine of a cluster. It is interrupted by SIGKILL at each step
 * that changes the disk, and repeated. The result equals that of an uninterrupted conversion.
 *
 * @lane cluster
 */
import { execFile } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { outboxFolder } from '../../src/store/directory/data-dir.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import { readOrigin } from '../../src/store/open-store.ts'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { Node, Sender } from '../fixtures/cluster/nodes.ts'
import { takeIn } from '../fixtures/cluster/way-in.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

const run = promisify(execFile)
const WAY_IN = 'test/fixtures/faults/way-in.mjs'
const SOURCES = pathToFileURL(`${resolve('.js')}/`).href
/** Time limit of one process of the conversion, in milliseconds. */
const WAY_IN_MS_MAX = 60_000
const STEPS_MIN = 10
const STEPS_MAX = 80
/** Simultaneous steps. */
const AT_ONCE = 4

t.setTimeout(300_000)

/** Whether the conversion was interrupted at that step. False means that it has fewer steps and is complete. */
async function isCut(dataDir: string, addresses: string, step: number): Promise<boolean> {
  const words = ['--require', resolve('.ci/loader.cjs'), WAY_IN, SOURCES]
  // This process has already checked whether the sources have changed.
  const env = { ...process.env, SOURCES_ARE_BLANKED: '1' }
  const options = { timeout: WAY_IN_MS_MAX, killSignal: 'SIGTERM', env } as const
  try {
    await run(process.execPath, [...words, dataDir, addresses, String(step)], options)
    return false
  } catch (cause) {
    if ((cause as { readonly signal?: string }).signal === 'SIGKILL') return true
    throw cause
  }
}

/** The result of the conversion: tables, position in the stream, and the first blocks of the outbox. */
async function entered(dataDir: string): Promise<unknown> {
  const { shared_log: _, ...tables } = await tableDigests(dataDir)
  const log = new LogReader({ dataDir: outboxFolder(dataDir) })
  const extent = log.extent()
  await log.close()
  const { incarnation, sequence, places = {} } = readOrigin(dataDir) ?? {}
  return { tables, extent, incarnation, sequence, places: Object.values(places) }
}

t.test(
  'the conversion to a cluster can be interrupted at each of its steps',
  { skip: areBrokersMissing },
  async (t) => {
    const folder = t.testdir({})
    const brokers = await Brokers.start(t, folder)
    const box = new Node(t, folder, 'box', '')
    await box.start()
    const sender = new Sender([box], 2)
    await sender.more(300)
    // Its log contains unprocessed blocks.
    await box.kill()
    await sender.stop()
    const { addresses } = brokers
    const copyOf = (name: string): string => {
      cpSync(box.dataDir, join(folder, name), { recursive: true })
      return join(folder, name)
    }
    const whole = copyOf('whole')
    await takeIn(whole, addresses)
    const expected = await entered(whole)
    const wrong: number[] = []
    let next = 1
    let end = STEPS_MAX
    // Most of the time a step waits for brokers, so each step works on its own copy.
    const takeSteps = async (): Promise<void> => {
      for (let step = next++; step < end; step = next++) {
        const dataDir = copyOf(`cut-${step}`)
        if (!(await isCut(dataDir, addresses, step))) end = Math.min(end, step)
        else {
          await takeIn(dataDir, addresses)
          if (JSON.stringify(await entered(dataDir)) !== JSON.stringify(expected)) wrong.push(step)
          rmSync(dataDir, { recursive: true })
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, takeSteps))
    t.ok(end > STEPS_MIN && end < STEPS_MAX, `the conversion was interrupted at ${end - 1} steps`)
    t.strictSame(wrong, [], 'and begun again leads to the same')
    const one = new Node(t, folder, `cut-${end}`, addresses)
    await one.start()
    const stored = async (): Promise<number> => (await one.uuids()).size
    const isWhole = await eventually(async () => (await stored()) >= sender.acknowledged.size)
    t.ok(isWhole, 'all events are stored')
    const counts = await one.uuids()
    t.ok(
      [...sender.acknowledged].every((uuid) => counts.get(uuid) === 1),
      'each event is stored once',
    )
  },
)
