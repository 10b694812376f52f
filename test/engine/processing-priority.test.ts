/**
 * Tests the priority of the processing thread, where the process may raise it again and where it may not.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import {
  PROCESSING_NICENESS,
  STEADY_NICENESS,
} from '../../src/engine/threads/processing/processing-priority.ts'

const MODULE = new URL(
  '../../src/engine/threads/processing/processing-priority.ts',
  import.meta.url,
)
const NOBODY = 65_534
const CAP_SYS_NICE = 1n << 23n
/** Returns the niceness of its thread after each message, when a given time has passed. */
const THREAD = `
  const { getPriority } = require('node:os')
  const { parentPort, workerData } = require('node:worker_threads')
  import(workerData).then(({ watchPriority }) => {
    parentPort.on('message', (lateInMs) => {
      const look = watchPriority(lateInMs)
      const atFirst = getPriority(0)
      setTimeout(() => {
        look()
        parentPort.postMessage([atFirst, getPriority(0)])
      }, 20)
    })
    parentPort.postMessage('ready')
  })`

function hasCapability(): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
  const digits = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]
  return (BigInt(`0x${digits}`) & CAP_SYS_NICE) !== 0n
}

const SKIP = hasCapability() ? false : 'only who may raise priorities can try both'

/**
 * Returns how much higher the niceness of a processing thread is than that of the front end, as one pair for each
 * period.
 */
async function nicenesses(lateness: readonly number[], isNobody: boolean): Promise<unknown[]> {
  const thread = new Worker(THREAD, { eval: true, workerData: MODULE.href })
  const front = getPriority(process.pid)
  await once(thread, 'message')
  if (isNobody) process.seteuid?.(NOBODY)
  try {
    const found: unknown[] = []
    for (const lateInMs of lateness) {
      thread.postMessage(lateInMs)
      const [values] = (await once(thread, 'message')) as [readonly number[]]
      found.push(values.map((niceness) => niceness - front))
    }
    return found
  } finally {
    if (isNobody) process.seteuid?.(0)
    await thread.terminate()
  }
}

t.test(
  'processing has a lower priority than the main thread, and the same while it is late',
  { skip: SKIP },
  async (t) => {
    const { PRIORITY_LOW } = constants.priority
    const low = Math.min(PROCESSING_NICENESS, PRIORITY_LOW - getPriority(process.pid))
    t.strictSame(await nicenesses([1000, 5, -1, 1000], false), [
      [low, low],
      [low, 0],
      [0, 0],
      [low, low],
    ])
  },
)

t.test(
  'without the right to raise its priority, a thread lowers it a little, once',
  { skip: SKIP },
  async (t) => {
    const steady = [STEADY_NICENESS, STEADY_NICENESS]
    t.strictSame(await nicenesses([1000, 5, -1, 1000], true), [steady, steady, steady, steady])
  },
)
