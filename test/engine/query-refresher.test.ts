/**
 * Tests that repeated queries are refreshed as events are stored, and that user queries come first.
 *
 * @lane quick
 */
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Clock } from '../../src/base/clock.ts'
import { QUERY_REFRESH_MS_MAX } from '../../src/engine/threads/limits.ts'
import {
  QueryRefresher,
  type Refresh,
  type RefreshedQuery,
} from '../../src/engine/threads/queries/query-refresher.ts'

/** A query that runs until the test ends it. */
interface Begun {
  readonly task: string
  readonly thread: number
  isGivenUp: boolean
  end(isRemembered: boolean): void
}

/**
 * A refresher, and the queries it has begun. `savedMsMax` is the time that it may use at once. `clock` measures the
 * time and defaults to that of the machine.
 */
function begin(savedMsMax = 0, clock?: Pick<Clock, 'monotonic'>) {
  const begun: Begun[] = []
  const refresh: Refresh<string> = ({ task, thread }, onLeave) =>
    new Promise((resolve, reject) => {
      const one: Begun = { task, thread, isGivenUp: false, end: resolve }
      begun.push(one)
      onLeave(() => {
        one.isGivenUp = true
        reject(new Error('given up'))
      })
    })
  const refresher = new QueryRefresher(refresh, savedMsMax, clock)
  const keep = (task: string, thread: number, askedAtMs = performance.now()): void => {
    const query: RefreshedQuery<string> = { task, thread, askedAtMs }
    refresher.keep(task, query)
  }
  const untilBegun = async (count: number): Promise<Begun> => {
    while (begun.length < count) await wait(2)
    return begun[count - 1] as Begun
  }
  return { begun, refresher, keep, untilBegun }
}

t.test(
  'each cached query runs once for new events, and those of a thread one by one',
  async (t) => {
    const { begun, refresher, keep, untilBegun } = begin()
    refresher.storeChanged()
    keep('a', 0)
    keep('b', 0)
    keep('c', 1)
    await wait(60)
    t.equal(begun.length, 0, 'nothing was stored since')
    refresher.storeChanged()
    refresher.storeChanged()
    await untilBegun(2)
    await wait(30)
    t.strictSame(
      begun.map(({ task, thread }) => `${task} ${thread}`),
      ['a 0', 'c 1'],
    )
    begun[0]?.end(true)
    begun[1]?.end(true)
    const last = await untilBegun(3)
    t.equal(last.task, 'b')
    last.end(true)
    await wait(100)
    t.equal(begun.length, 3)
  },
)

t.test('queries of clients come first', async (t) => {
  const { begun, refresher, keep, untilBegun } = begin()
  keep('a', 0)
  keep('b', 1)
  refresher.storeChanged()
  await untilBegun(2)
  const end = refresher.beginQuestion('a')
  t.strictSame(
    begun.map(({ isGivenUp }) => isGivenUp),
    [false, true],
    'but for what it asks itself',
  )
  begun[0]?.end(true)
  await wait(60)
  t.equal(begun.length, 2, 'no other query begins before it is answered')
  end()
  const again = await untilBegun(3)
  t.equal(again.task, 'b', 'then the query is continued')
  refresher.beginQuestion('x')()
  t.ok(again.isGivenUp)
  const last = await untilBegun(4)
  last.end(true)
  await wait(60)
  t.equal(begun.length, 4)
})

t.test('queries that are old or not cached are not refreshed', async (t) => {
  const { begun, refresher, keep, untilBegun } = begin()
  keep('old', 0, performance.now() - QUERY_REFRESH_MS_MAX - 1)
  keep('forgotten', 0)
  keep('a', 0)
  refresher.storeChanged()
  const first = await untilBegun(1)
  t.equal(first.task, 'forgotten')
  first.end(false)
  const second = await untilBegun(2)
  t.equal(second.task, 'a')
  second.end(true)
  await nextTurn()
  refresher.storeChanged()
  const third = await untilBegun(3)
  t.equal(third.task, 'a')
  third.end(true)
  await wait(60)
  t.equal(begun.length, 3)
})

/** A clock that stands still unless it is advanced. */
class StandingClock {
  ms = 1000

  monotonic(): number {
    return this.ms
  }
}

/** The pause of the refresher before each round, by its clock. In the test, pauses end immediately. */
async function pausesOf(
  t: Test,
  savedMsMax: number,
  roundsMs: readonly number[],
): Promise<readonly number[]> {
  const clock = new StandingClock()
  const { refresher, keep, untilBegun } = begin(savedMsMax, clock)
  const pausesMs: number[] = []
  const begins = globalThis.setTimeout
  t.capture(globalThis, 'setTimeout', (callback: () => void, durationMs: number) => {
    pausesMs.push(durationMs)
    clock.ms += durationMs
    return begins(callback, 0)
  })
  keep('a', 0, clock.ms)
  refresher.storeChanged()
  for (const [index, roundMs] of roundsMs.entries()) {
    const round = await untilBegun(index + 1)
    refresher.storeChanged()
    clock.ms += roundMs
    round.end(true)
  }
  const last = await untilBegun(roundsMs.length + 1)
  last.end(true)
  return pausesMs
}

t.test('a round is followed by a pause of four times its length', async (t) => {
  t.strictSame(await pausesOf(t, 0, [50, 10]), [0, 200, 40])
})

t.test('unused time is available later', async (t) => {
  // 44 ms of 60 are left after the first round. 80 are added during the second round, which takes 276 too many.
  t.strictSame(await pausesOf(t, 60, [20, 400]), [0, 0, 1380])
})

t.test('the slowest query is refreshed last', async (t) => {
  const clock = new StandingClock()
  const { begun, refresher, keep, untilBegun } = begin(10_000, clock)
  for (const name of ['slow', 'middle', 'quick']) keep(name, 0, clock.ms)
  refresher.storeChanged()
  const tookMs = { slow: 60, middle: 30, quick: 0 }
  for (let count = 1; count <= 6; count++) {
    const one = await untilBegun(count)
    clock.ms += tookMs[one.task as keyof typeof tookMs]
    one.end(true)
    if (count === 3) {
      await nextTurn()
      refresher.storeChanged()
    }
  }
  t.strictSame(
    begun.map(({ task }) => task),
    ['slow', 'middle', 'quick', 'quick', 'middle', 'slow'],
  )
})
