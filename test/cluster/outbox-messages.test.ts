/**
 * Tests lost and unacknowledged outbox messages: a copy receives each block once and in order, and a waiting caller is
 * notified when all earlier blocks have arrived.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HandedLog } from '../../src/cluster/handed-log.ts'
import { ReplicaFeed } from '../../src/cluster/replica-feed.ts'
import { LosingStream, logger, openEdge } from '../fixtures/cluster/losing-stream.ts'
import { Dice } from '../fixtures/dice.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

const BLOCKS = 80
const BLOCK_BYTES = 400_000
const BURST = 15
const PAUSE_MS = 20
const FATES = [...Array.from({ length: 8 }, () => 'taken' as const), 'lost', 'unsaid'] as const

/** A copy that keeps everything it receives for a thread. */
function openCopy(t: Test, stream: LosingStream) {
  const channel = `feed ${Math.random()}`
  const copy = { last: 0 }
  const feed = new ReplicaFeed({
    shared: stream,
    channel,
    logger,
    origin: null,
    position: 0,
    onBlock: (number) => {
      copy.last = number
    },
  })
  const log = new HandedLog(channel)
  t.teardown(async () => {
    feed.close()
    await log.close()
  })
  return { feed, log, copy }
}

for (const seed of [1, 2, 3, 4, 5, 6]) {
  t.test(`each block arrives once although messages are lost: ${seed}`, async (t) => {
    const dice = new Dice(seed)
    const stream = new LosingStream()
    const edge = openEdge(t, t.testdir({}), stream)
    const { feed, log, copy } = openCopy(t, stream)
    stream.fate = () => dice.pick(FATES)
    stream.delayMs = () => dice.below(PAUSE_MS)
    const early: number[] = []
    const told: Promise<void>[] = []
    const send = async (number: number): Promise<void> => {
      await edge.send(Buffer.alloc(BLOCK_BYTES, number))
      if (copy.last < number && edge.outbox.counts.alone === 0) early.push(number)
    }
    while (told.length < BLOCKS) {
      const burst = Math.min(dice.between(1, BURST), BLOCKS - told.length)
      for (let count = 0; count < burst; count++) told.push(send(told.length + 1))
      await sleep(dice.below(PAUSE_MS))
    }
    await Promise.all(told)
    t.ok(await eventually(async () => edge.outbox.unsentBlocks === 0))
    t.strictSame(early, [], 'nobody is told too early')
    t.equal(feed.trouble, null)
    const isThere = async (): Promise<boolean> => {
      log.refresh()
      return log.extent()?.last === BLOCKS
    }
    t.ok(await eventually(isThere))
    const numbers = Array.from({ length: BLOCKS }, (_, index) => index + 1)
    const blocks = numbers.map((number) => log.block(number))
    t.strictSame(
      blocks.map((block) => block?.at(-1)),
      numbers,
      'each block once, in order',
    )
  })
}
