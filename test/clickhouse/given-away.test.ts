/**
 * Tests a store whose older columns were moved to ClickHouse: all answers stay the same.
 *
 * @lane cluster
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { BlockingClient } from '../../src/clickhouse/blocking-client.ts'
import { FetchedColumns } from '../../src/clickhouse/fetched-columns.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { findColumnsIn } from '../../src/store/events/read/segment-texts.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { seenAnswer } from '../fixtures/analytics/analytic-answers.ts'
import { type RandomQuery, randomQuery } from '../fixtures/analytics/random-queries.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { giveAway, openSink, sendAll } from '../fixtures/clickhouse/copies.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { growHistories } from '../fixtures/persons/grown-histories.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

t.setTimeout(300_000)

/** All events with all their data in a list, an export and a timeline. */
function everything(reader: EventReader, projectId: number): unknown {
  const { results } = reader.listEvents({ projectId, limit: 1000 })
  const exported: unknown[] = []
  for (const segment of reader.exportEvents({ projectId, afterId: 0, rowsMax: 1000 })) {
    exported.push(...segment.events)
  }
  const names = reader.names(projectId, () => undefined)
  return JSON.parse(JSON.stringify({ results, exported, names }))
}

t.test('answers that read ClickHouse', { skip: isClickHouseMissing }, async (t: Test) => {
  const folder = t.testdir({ store: {} })
  const server = await ClickHouseServer.start(t, folder)
  const store = join(folder, 'store', 'data')
  t.match(await runCommand('init', '--data-dir', store), { exitCode: 0 })
  const log = new PersonLog(t, store)
  const seeds = Array.from({ length: 12 }, (_, index) => 7_000_000 + index)
  const asked: { projectId: number; query: RandomQuery; nowMs: number; seen: string }[] = []
  const before = new Map<number, unknown>()
  const worlds = new Map<number, object>()
  for (const history of growHistories(log, seeds)) {
    const { projectId, anchorMs, spanMs, dice } = history
    const world = history.world()
    worlds.set(projectId, world)
    for (let number = 0; number < 40; number++) {
      const query = randomQuery(history)
      const nowMs = anchorMs + Math.floor(dice.between(0, spanMs))
      const seen = JSON.stringify(seenAnswer(log.reader, projectId, query, { ...world, nowMs }))
      asked.push({ projectId, query, nowMs, seen })
    }
    before.set(projectId, everything(log.reader, projectId))
  }
  const dataDir = join(folder, 'copy')
  cpSync(log.dataDir, dataDir, { recursive: true })
  const copying = openSink(t, dataDir, server)
  await sendAll(copying)
  const count = await giveAway(dataDir, copying)
  t.ok(count >= seeds.length, `${count} segments moved columns to ClickHouse`)
  t.same((await verifyStore(dataDir, () => undefined)).findings, [], 'verify knows them')

  const opened = (): EventReader => {
    const reader = new EventReader({ dataDir })
    t.teardown(() => reader.close())
    return reader
  }
  const none = opened()
  findColumnsIn(null)
  const withoutSetting = () => everything(none, asked[0]?.projectId ?? 0)
  t.throws(withoutSetting, /the setting `warehouse` is missing/)

  const door = new BlockingClient(server.address)
  findColumnsIn(new FetchedColumns(door))
  t.teardown(() => findColumnsIn(null))
  const reader = opened()
  let wrong = 0
  let answered = 0
  for (const { projectId, query, nowMs, seen } of asked) {
    const world = { ...worlds.get(projectId), nowMs } as never
    const now = JSON.stringify(seenAnswer(reader, projectId, query, world))
    if (seen.includes('"rows":[[')) answered++
    if (now === seen) continue
    wrong++
    t.equal(now, seen, JSON.stringify(query))
  }
  t.equal(wrong, 0, `${asked.length} queries are answered as before`)
  t.ok(answered > asked.length / 10, `${answered} of them return persons`)
  for (const [projectId, all] of before) t.strictSame(everything(reader, projectId), all)

  await server.kill()
  const later = opened()
  findColumnsIn(new FetchedColumns(door))
  const refused = () => everything(later, asked[0]?.projectId ?? 0)
  t.throws(refused, /in ClickHouse, which does not answer/)
  server.begin()
})
