/**
 * Tests when a machine creates shared streams that are missing.
 *
 * @lane cluster
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createLogger } from '../../src/base/log.ts'
import { eventStream, NatsBrokers } from '../../src/cluster/nats.ts'
import { Brokers, areBrokersMissing as skip } from '../fixtures/cluster/brokers.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(120_000)
// Each test has its own brokers, and waits most of its time.
t.jobs = 2

const logger = createLogger({ level: 'silent', format: 'json' })
const MESSAGES = 20
/** Longer than a stream has to be missing before it is created. */
const MISSING_MS = 3000
/** Longer than the brokers need to persist the list of streams. */
const NOTED_MS = 6000

t.test(
  'a stream is created after it was missing for a while, and only once',
  { skip },
  async (t) => {
    const brokers = await Brokers.start(t, t.testdir({}))
    const clients = [0, 1, 2].map(() => new NatsBrokers(brokers.addresses.split(','), logger))
    t.teardown(() => Promise.all(clients.map((client) => client.close())))
    const isMissing = async (): Promise<boolean> => {
      const answers = clients.map((client) =>
        client.look(eventStream(0)).catch((cause: unknown) => String(cause)),
      )
      return (await Promise.all(answers)).every((answer) => /not found/.test(String(answer)))
    }
    t.ok(await eventually(isMissing), 'the brokers answer')
    const stoppedAtMs = performance.now()
    const clock = t.capture(performance, 'now', () => stoppedAtMs)
    const streams = clients.map((client) => client.stream(eventStream(0)))
    await sleep(MISSING_MS)
    t.ok(await isMissing(), 'the stream is not created before it was missing for a while')
    clock.restore()
    const isOne = async () =>
      streams.every(
        ({ incarnation }) => incarnation !== '' && incarnation === streams[0]?.incarnation,
      )
    t.ok(await eventually(isOne), 'all machines have the same stream')
    const first = streams.map(({ incarnation }) => incarnation)
    await sleep(1500)
    t.same(
      streams.map(({ incarnation }) => incarnation),
      first,
      'and it stays',
    )
  },
)

t.test('killed brokers keep a stream that was created again', { skip }, async (t) => {
  const brokers = await Brokers.start(t, t.testdir({}))
  const client = new NatsBrokers(brokers.addresses.split(','), logger)
  t.teardown(() => client.close())
  const stream = client.stream(eventStream(0))
  t.ok(await eventually(async () => stream.incarnation !== ''))
  const first = stream.incarnation
  await brokers.remove(eventStream(0).name)
  t.ok(await eventually(async () => stream.incarnation !== first))
  for (let count = 1; count <= MESSAGES; count++) {
    await stream.publish(Buffer.from(String(count)), String(count), 5000)
  }
  await sleep(NOTED_MS)
  await brokers.killAll()
  brokers.beginAll()
  const messages = async () => (await client.look(eventStream(0)).catch(() => null))?.last
  t.ok(await eventually(async () => (await messages()) !== undefined), 'the brokers answer again')
  t.equal(await messages(), MESSAGES, 'nothing is removed a second time')
})
