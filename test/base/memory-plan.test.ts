/**
 * Tests the budget of working memory: its source, and the limits derived from it.
 *
 * @lane quick
 */
import t from 'tap'
import { automaticBudget, memoryPlan } from '../../src/config/memory-plan.ts'
import { daemonSettings, loadSettings } from '../../src/config/settings.ts'
import { planOf } from '../../src/engine/threads/tasks.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

function load(flags: Readonly<Record<string, string>>, memoryBytes = 24 * GIB, coreCount = 2) {
  return loadSettings({
    flags: new Map(Object.entries(flags)),
    environment: {},
    machine: { coreCount, isTerminal: false, memoryBytes },
  })
}

t.test('a large machine gets the useful maximum, a small one three quarters', async (t) => {
  t.equal(load({}).memoryBytesMax, 640 * MIB)
  t.equal(load({}, 24 * GIB, 4).memoryBytesMax, 768 * MIB)
  t.equal(load({}, 512 * MIB).memoryBytesMax, 384 * MIB)
  t.equal(load({ 'memory-max': 'auto' }, 512 * MIB).memoryBytesMax, 384 * MIB)
  t.equal(load({ 'memory-max': '400MB' }).memoryBytesMax, 400_000_000)
})

t.test(
  'threads and caches are derived from the budget unless a setting overrides them',
  async (t) => {
    const usual = load({}, 24 * GIB, 8)
    t.match(usual, { workerThreads: 7, analyticsThreads: 8, queryCacheBytes: 160 * MIB })
    const small = load({}, 512 * MIB, 8)
    t.match(small, { workerThreads: 1, analyticsThreads: 1 })
    t.ok(small.queryCacheBytes < 64 * MIB)
    t.ok(small.inFlightBytesMax < 256 * MIB)
    const chosen = load({ workers: '3', 'query-cache': '99MiB' }, 512 * MIB, 8)
    t.match(chosen, { workerThreads: 3, queryCacheBytes: 99 * MIB })
    const large = load({ 'memory-max': '4GiB' })
    t.ok(large.queryCacheBytes > GIB, 'the rest is for analytics queries')
  },
)

t.test('no part grows when the budget shrinks', async (t) => {
  const budgets = [160, 256, 300, 384, 512, 639, 640, 2000].map((mib) => mib * MIB)
  const plans = budgets.map((memoryBytesMax) => memoryPlan({ memoryBytesMax, coreCount: 2 }))
  const numbersOf = ({ heapMib, idleThreadMs: _, ...parts }: (typeof plans)[number]) => ({
    ...parts,
    ...heapMib,
  })
  const shrinking = plans.slice(1).flatMap((plan, index) => {
    const before = Object.entries(numbersOf(plans[index] as typeof plan))
    const now = new Map(Object.entries(numbersOf(plan)))
    return before.filter(([name, value]) => value > (now.get(name) ?? 0)).map(([name]) => name)
  })
  t.strictSame(shrinking, [])
  const held = plans.slice(2).filter(({ budgetBytes, queryCacheBytes, questionBytes }) => {
    return queryCacheBytes + questionBytes > budgetBytes
  })
  t.strictSame(held, [], 'columns and questions never take all of it')
})

t.test('daemons of one process share the budget', async (t) => {
  const settings = load({ cluster: 'nats://one:4222', partitions: '0,1' })
  const budgets = daemonSettings(settings).map((one) => planOf(one).budgetBytes)
  t.strictSame(budgets, [320 * MIB, 320 * MIB])
})

t.test('a budget beyond the address space is still a number', async (t) => {
  t.equal(automaticBudget(Number.MAX_SAFE_INTEGER, 1), 640 * MIB)
})
