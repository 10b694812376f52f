/** When the shared streams are made by who misses them. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createLogger } from '../../src/base/log.ts'
import { eventStream, NatsBrokers } from '../../src/cluster/nats.ts'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(120_000)

t.test(
  'a stream is made when it was missing for a while, once',
  {
    skip: areBrokersMissing,
  },
  async (t) => {
    const brokers = await Brokers.start(t, t.testdir({}))
    const logger = createLogger({ level: 'silent', format: 'json' })
    const clients = [0, 1, 2].map(() => new NatsBrokers(brokers.addresses.split(','), logger))
    t.teardown(() => Promise.all(clients.map((client) => client.close())))
    const isMissing = async (): Promise<boolean> => {
      const answers = clients.map((client) =>
        client.look(eventStream(0)).catch((cause: unknown) => String(cause)),
      )
      return (await Promise.all(answers)).every((answer) => /not found/.test(String(answer)))
    }
    t.ok(await eventually(isMissing), 'the brokers answer')
    const atMs = performance.now()
    const streams = clients.map((client) => client.stream(eventStream(0)))
    t.ok(await eventually(async () => streams.every(({ incarnation }) => incarnation !== '')))
    t.ok(performance.now() - atMs > 1000, 'a new leader of the brokers has had time')
    const first = streams.map(({ incarnation }) => incarnation)
    t.equal(new Set(first).size, 1, 'all have the same')
    await sleep(1500)
    t.same(
      streams.map(({ incarnation }) => incarnation),
      first,
      'and it stays',
    )
  },
)
