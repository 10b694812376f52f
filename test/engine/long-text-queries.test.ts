/**
 * Tests a query over more long texts than fit into the memory of a query: each segment is searched and freed, and the
 * query is not refused.
 *
 * @lane all
 */
import t from 'tap'
import { collectGarbage } from '../../src/base/memory/garbage.ts'
import { WorkingMemory } from '../../src/engine/threads/queries/working-memory.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { all, BASE, NO_LIMITS, START_MS } from '../fixtures/analytics/scan-comparison.ts'
import { Dice } from '../fixtures/dice.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { seedOf } from '../fixtures/random-depth.ts'

const MIB = 1024 * 1024
const EVENTS = 3000
const EVENTS_AT_ONCE = 50
const TEXT_UNITS = 50_000
const NEEDLE_EVERY = 100
/** The texts of one segment have up to 32 MiB. All texts together have more than twice as many bytes as this. */
const MEMORY_BYTES_MAX = 64 * MIB
const CACHE_BYTES_MAX = 8 * MIB

const dice = new Dice(seedOf(54))
const WORDS = dice.list(200_000, () => dice.below(36 ** 4).toString(36)).join(' ')

function textOf(index: number): string {
  const from = dice.below(WORDS.length - TEXT_UNITS)
  const words = WORDS.slice(from, from + TEXT_UNITS)
  return index % NEEDLE_EVERY === 0 ? `${words} Needle in a trace` : words
}

t.test('a query over more long texts than fit into its memory is answered', async (t) => {
  const log = new PersonLog(t, t.testdir())
  for (let start = 0; start < EVENTS; start += EVENTS_AT_ONCE) {
    const events = Array.from({ length: EVENTS_AT_ONCE }, (_, index) => ({
      event: '$ai_generation',
      distinct_id: `u${index}`,
      timestamp: new Date(START_MS + 1000 * (start + index)).toISOString(),
      properties: { text: textOf(start + index) },
    }))
    log.send(1, events)
    log.process()
  }
  const reader = new EventReader({ dataDir: log.dataDir, scanCache: CACHE_BYTES_MAX })
  t.teardown(() => reader.close())
  // The garbage of storing the events must not count as memory that was in use before the query.
  collectGarbage()
  collectGarbage()
  const memory = new WorkingMemory(MEMORY_BYTES_MAX, () => reader.caches.column_values?.bytes ?? 0)
  memory.isLimited = true
  let checks = 0
  const scanner = reader.scanner({
    ...NO_LIMITS,
    checkMemory(nowMs) {
      checks++
      memory.check(nowMs)
    },
  })
  const filter = all({ key: 'text', operator: 'icontains', value: 'needle in' })
  const { count } = scanner.scan({ ...BASE, filter })
  t.equal(count, EVENTS / NEEDLE_EVERY)
  t.ok(checks > EVENTS / 100, `the memory was checked ${checks} times`)
})
