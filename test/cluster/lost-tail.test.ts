/**
 * Tests brokers that lose acknowledged messages but remember their ids. The edge sends them again, and a copy that
 * lacks them takes them. A message that cannot be sent again stops the copy.
 *
 * @lane cluster
 */
import t from 'tap'
import { placeOf, readHead } from '../../src/cluster/block-message.ts'
import { HandedLog } from '../../src/cluster/handed-log.ts'
import { eventStream, NatsBrokers } from '../../src/cluster/nats.ts'
import { ReplicaFeed } from '../../src/cluster/replica-feed.ts'
import { Brokers, areBrokersMissing as skip } from '../fixtures/cluster/brokers.ts'
import {
  LosingStream,
  logger,
  openEdge,
  openFeed,
  reportOf,
} from '../fixtures/cluster/losing-stream.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

t.test('messages that the brokers have lost are sent again, and no replica stops', async (t) => {
  const stream = new LosingStream()
  const edge = openEdge(t, t.testdir({}), stream)
  const [one, two, late] = [openFeed(t, stream), openFeed(t, stream), openFeed(t, stream)]
  stream.announce(reportOf('late', late.feed))
  for (let count = 0; count < 3; count++) await edge.send()
  t.ok(await eventually(async () => late.feed.places[edge.identity.name] !== undefined))
  for (const [name, { feed }] of Object.entries({ one, two, late })) {
    stream.announce(reportOf(name, feed))
  }
  t.equal(edge.trimmed(), 3, 'all copies have them')
  // The third copy does not receive the next messages, and then the brokers lose them.
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
  t.equal(edge.trimmed(), 3, 'a message that a copy still needs is kept')
  const behind = openFeed(t, lost)
  await lost.deliver()
  stream.loseNewest(2)
  await edge.send()
  t.equal(stream.messages.length, 4)
  const sixth = stream.messages[3] ?? Buffer.alloc(0)
  lost.messages.push(sixth)
  await lost.deliver()
  t.match(behind.feed.trouble, /lacks blocks 4 to 5/, 'a copy reports its missing messages')
  t.equal(behind.feed.position.sequence, 4, 'the copy continues')
  await eventually(async () => behind.feed.waitingCount === 0)
  stream.announce(reportOf('behind', behind.feed))
  t.ok(await eventually(async () => edge.outbox.unsentBlocks === 0))
  t.ok(stream.messages.length > 4, 'the edge sends them again')
  for (const message of stream.messages.slice(4)) lost.messages.push(message)
  await lost.deliver()
  t.equal(behind.feed.trouble, null)
  await eventually(async () => behind.feed.waitingCount === 0)
  t.strictSame(behind.feed.places, one.feed.places, 'all have the same')
  t.equal(behind.stored.at(-1), 6)
})

t.test('a replica beyond the end of the stream gets new messages', { skip }, async (t) => {
  const brokers = await Brokers.start(t, t.testdir({}))
  const client = new NatsBrokers(brokers.addresses.split(','), logger)
  t.teardown(() => client.close())
  const stream = client.stream(eventStream(0))
  const taken: string[] = []
  const place = { incarnation: '', sequence: 0 }
  stream.follow({
    position: () => place,
    take: async ({ sequence, data }, incarnation) => {
      Object.assign(place, { incarnation, sequence })
      taken.push(String(data))
    },
  })
  let count = 0
  const publish = async (through: number): Promise<void> => {
    const isThere = async () => {
      const word = `message ${count + 1}`
      await stream.publish(Buffer.from(word), word, 5000).catch(() => 0)
      return await eventually(async () => taken.includes(word))
    }
    for (; count < through; count++) t.ok(await isThere(), `message ${count + 1} is taken`)
  }
  t.ok(await eventually(async () => stream.incarnation !== ''))
  await publish(3)
  const putBack = brokers.keepAll()
  await publish(9)
  await putBack()
  brokers.beginAll()
  const answers = async () => (await client.look(eventStream(0)).catch(() => null)) !== null
  t.ok(await eventually(answers))
  t.equal((await client.look(eventStream(0)))?.last, 3, 'the end of the stream is lost')
  await publish(11)
})

t.test('blocks that an earlier process has only published are not missing', async (t) => {
  const stream = new LosingStream()
  const folder = t.testdir({})
  const before = openEdge(t, folder, stream)
  for (let count = 0; count < 5; count++) await before.send()
  const { feed } = openFeed(t, stream)
  const { name } = before.identity
  // The process was killed with two blocks in flight, which a copy has received.
  const published = placeOf(1, 7)
  const edge = openEdge(t, folder, stream, 5)
  for (let count = 0; count < 4; count++) await edge.send()
  t.equal(edge.identity.placeOf(6), placeOf(2, 6))
  t.ok(await eventually(async () => feed.places[name] === placeOf(2, 9)))
  stream.announce(reportOf('one', feed))
  const sent = stream.messages.length
  stream.announce({
    ...reportOf('two', feed),
    position: { incarnation: 'one', sequence: sent },
    waiting: 0,
    places: { [name]: published },
  })
  t.equal(edge.trimmed(), 5, 'the blocks that have these numbers now are kept')
  t.ok(await eventually(async () => stream.messages.length > sent))
  const { blocks } = readHead(stream.messages[sent] ?? Buffer.alloc(0))
  t.equal(blocks[0]?.place, placeOf(2, 6), 'all are sent again from the first of them')
})

t.test('a replica stops if the stream no longer has the blocks that it lacks', async (t) => {
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
  t.equal(late.feed.position.sequence, 1, 'the copy does not continue')
})

t.test('a thread that starts while messages arrive reads each of them, in order', async (t) => {
  const stream = new LosingStream()
  const edge = openEdge(t, t.testdir({}), stream)
  for (let count = 0; count < 4; count++) await edge.send()
  const own = new LosingStream()
  const channel = `feed ${Math.random()}`
  const feed = new ReplicaFeed({
    shared: own,
    channel,
    logger,
    origin: null,
    position: 0,
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
  // Before the feed knows of the thread.
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
