/** Threads for analytics give way to the front while requests come, and only then. */
import t from 'tap'
import { FrontLoad } from '../../src/engine/front/front-load.ts'
import { FrontWatch, queryLimits } from '../../src/engine/threads/queries/front-watch.ts'

/** Works for longer than a piece of work may take. */
function work(): void {
  const startMs = performance.now()
  while (performance.now() - startMs < 1);
}

t.test('the front is at work for a moment after each request', async (t) => {
  const front = new FrontLoad()
  const watch = new FrontWatch(front.shared)
  t.notOk(watch.isAtWork(0))
  front.came()
  t.ok(watch.isAtWork(10))
  t.ok(watch.isAtWork(59))
  t.notOk(watch.isAtWork(60))
  front.came()
  t.ok(watch.isAtWork(1000))
})

t.test('a query rests between pieces of work while requests come', async (t) => {
  const front = new FrontLoad()
  const watch = new FrontWatch(front.shared)
  const rests = t.capture(Atomics, 'wait', () => 'timed-out')
  const cancelled = new Int32Array(1)
  const stores = { queryMsMax: 1000, front: watch }
  const { isCancelled, deadlineMs } = queryLimits({ stores, cancelled }, 400)
  t.ok(deadlineMs < performance.now() + 601)
  work()
  t.notOk(isCancelled())
  t.equal(rests().length, 0, 'no request has come')
  front.came()
  work()
  isCancelled()
  t.equal(rests().length, 1)
  cancelled[0] = 1
  t.ok(isCancelled())
})
