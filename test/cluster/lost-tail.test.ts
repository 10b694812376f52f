/**
 * Brokers that lose what they had acknowledged, and remember its ids: the edge sends it again, and a copy that lacks
 * it takes it then; what cannot be sent again stops the copy.
 */
import t from 'tap'
import { HandedLog } from '../../src/cluster/handed-log.ts'
import { ReplicaFeed } from '../../src/cluster/replica-feed.ts'
import {
  LosingStream,
  logger,
  openEdge,
  openFeed,
  reportOf,
} from '../fixtures/cluster/losing-stream.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

t.test('what the brokers lose is sent again, and nobody stops', async (t) => {
  const stream = new LosingStream()
  const edge = openEdge(t, t.testdir({}), stream)
  const [one, two, late] = [openFeed(t, stream), openFeed(t, stream), openFeed(t, stream)]
  stream.announce(reportOf('late', late.feed))
  for (let count = 0; count < 3; count++) await edge.send()
  t.ok(await eventually(async () => late.feed.places[edge.identity.name] !== undefined))
  for (const [name, { feed }] of Object.entries({ one, two, late })) {
    stream.announce(reportOf(name, feed))
  }
  t.equal(edge.trimmed(), 3, 'all have it')
  // The third copy does not get what comes, and then the brokers do not have it any more.
  const third = late.feed.position
  const lost = new LosingStream()
  for (const message of stream.messages) lost.messages.push(message)
  await edge.send()
  await edge.send()
  t.equal(one.feed.position.sequence, 5)
  stream.announce(reportOf('one', one.feed))
  stream.announce({
    ...reportOf('late', late.feed),
    position: third,
    places: { [edge.identity.name]: edge.identity.placeOf(3) },
  })
  stream.announce(reportOf('two', two.feed))
  t.equal(edge.trimmed(), 3, 'what one copy is about to get is kept')
  const behind = openFeed(t, lost)
  await lost.deliver()
  stream.loseNewest(2)
  await edge.send()
  t.equal(stream.messages.length, 4)
  const sixth = stream.messages[3] ?? Buffer.alloc(0)
  lost.messages.push(sixth)
  await lost.deliver()
  t.match(behind.feed.trouble, /lacks blocks 4 to 5/, 'a copy says what it lacks')
  t.equal(behind.feed.position.sequence, 4, 'and goes on')
  await eventually(async () => behind.feed.waitingCount === 0)
  stream.announce(reportOf('behind', behind.feed))
  t.ok(await eventually(async () => edge.outbox.unsentBlocks === 0))
  t.ok(stream.messages.length > 4, 'the edge sends it again')
  for (const message of stream.messages.slice(4)) lost.messages.push(message)
  await lost.deliver()
  t.equal(behind.feed.trouble, null)
  await eventually(async () => behind.feed.waitingCount === 0)
  t.strictSame(behind.feed.places, one.feed.places, 'all have the same')
  t.equal(behind.stored.at(-1), 6)
})

t.test('what is cut off stops a copy', async (t) => {
  const stream = new LosingStream()
  const edge = openEdge(t, t.testdir({}), stream)
  for (let count = 0; count < 4; count++) await edge.send()
  const late = openFeed(t, new LosingStream())
  t.ok(stream.messages.length > 2)
  const [first = Buffer.alloc(0), , third = Buffer.alloc(0)] = stream.messages
  await late.take(1, first)
  t.equal(late.feed.trouble, null)
  // The second message is not in the stream any more.
  await late.take(3, third)
  t.match(late.feed.trouble, /lacks blocks 2 to 2/)
  t.equal(late.feed.position.sequence, 1, 'it goes no further')
})

t.test('a thread that begins while messages come reads each of them, in order', async (t) => {
  const stream = new LosingStream()
  const edge = openEdge(t, t.testdir({}), stream)
  for (let count = 0; count < 4; count++) await edge.send()
  const own = new LosingStream()
  const channel = `feed ${Math.random()}`
  const feed = new ReplicaFeed({
    ...{ shared: own, channel, logger, origin: null, position: 0 },
    onBlock: () => {},
  })
  t.teardown(() => feed.close())
  const take = (sequence: number): void => {
    void own
      .listenerOf(0)
      ?.take({ sequence, data: stream.messages[sequence - 1] ?? Buffer.alloc(0) }, 'one')
  }
  take(1)
  take(2)
  const log = new HandedLog(channel)
  t.teardown(() => log.close())
  // Before the feed has heard of the thread.
  take(3)
  t.ok(
    await eventually(async () => {
      log.refresh()
      return log.extent()?.last === 3
    }),
  )
  take(4)
  t.ok(
    await eventually(async () => {
      log.refresh()
      return log.extent()?.last === 4
    }),
  )
  t.equal(log.extent()?.first, 1)
  t.strictSame(
    [1, 2, 3, 4].map((number) => log.block(number) !== undefined),
    [true, true, true, true],
  )
})
