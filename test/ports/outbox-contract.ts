/** The contract of every outbox (src/ports/outbox.ts). */
import type { Test } from 'tap'
import type { Outbox, Subscription } from '../../src/ports/outbox.ts'

/** Creates an outbox, and a function that stores events of project 1 by name in one commit and returns its position. */
export type OutboxMaker = (t: Test) => {
  readonly outbox: Outbox
  readonly store: (...names: readonly string[]) => number
}

async function takeBatch(subscription: Subscription) {
  const delivery = await subscription.next()
  if (delivery?.kind !== 'batch') throw new Error(`no batch: ${JSON.stringify(delivery)}`)
  return delivery
}

/** Runs all tests of the contract. */
export function outboxContract(t: Test, name: string, make: OutboxMaker): void {
  t.test(`${name}: subscribers receive the events of commits, in order`, async (t) => {
    const { outbox, store } = make(t)
    store('before')
    const subscription = outbox.subscribe(1000)
    const position = store('a', 'b')
    store('c')
    const first = await takeBatch(subscription)
    t.equal(first.position, position)
    t.match(first.rows, [
      { projectId: 1, sequence: 2, event: { name: 'a' } },
      { projectId: 1, sequence: 3, event: { name: 'b' } },
    ])
    t.match(first.rows[0]?.uuid ?? '', /^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    t.match(
      first.persons,
      [{ projectId: 1, numbers: [1] }],
      'the properties set by the events are delivered',
    )
    t.match((await takeBatch(subscription)).rows, [{ sequence: 4, event: { name: 'c' } }])
    const waiting = subscription.next()
    store('d')
    t.match(
      await waiting,
      { kind: 'batch', rows: [{ sequence: 5 }] },
      'waiting subscribers are notified',
    )
    subscription.close()
  })

  t.test(`${name}: a slow subscriber learns what it missed, and continues after it`, async (t) => {
    const { outbox, store } = make(t)
    const slow = outbox.subscribe(3)
    const other = outbox.subscribe(1000)
    store('a', 'b')
    store('c', 'd')
    const last = store('e')
    t.strictSame(await slow.next(), {
      kind: 'gap',
      position: last,
      missed: [{ projectId: 1, after: 0, through: 5 }],
    })
    store('f')
    t.match(await slow.next(), { kind: 'batch', rows: [{ sequence: 6, event: { name: 'f' } }] })
    const seen: number[] = []
    while (seen.length < 6) {
      seen.push(...(await takeBatch(other)).rows.map(({ sequence }) => sequence))
    }
    t.strictSame(seen, [1, 2, 3, 4, 5, 6], 'others are not held up')
    slow.close()
    other.close()
  })

  t.test(`${name}: unwanted events are left out, and others are counted once`, async (t) => {
    const { outbox, store } = make(t)
    const asked: string[] = []
    const chosen = outbox.subscribe(1000, (projectId, event) => {
      asked.push(`${projectId} ${event.name}`)
      return event.name === 'b'
    })
    t.equal(chosen.take(), null, 'no event has arrived')
    store('a', 'b', 'c')
    t.strictSame(asked, ['1 a', '1 b', '1 c'])
    t.match(chosen.take(), { kind: 'batch', rows: [{ sequence: 2, event: { name: 'b' } }] })
    t.equal(chosen.take(), null)
    const all = outbox.subscribe(1000)
    store('d', 'b')
    t.equal((await takeBatch(all)).rows.length, 2)
    t.equal(asked.length, 5)
    chosen.close()
    all.close()
  })

  t.test(`${name}: a subscriber that left receives nothing more`, async (t) => {
    const { outbox, store } = make(t)
    const subscription = outbox.subscribe(1000)
    const waiting = subscription.next()
    subscription.close()
    t.equal(await waiting, null)
    store('a')
    t.equal(await subscription.next(), null)
  })
}
