/**
 * Runs the worked examples of queries on events whose properties are only in ClickHouse.
 *
 * @lane cluster
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { giveAway, openSink, sendAll } from '../fixtures/clickhouse/copies.ts'
import { serveDecisions } from '../fixtures/flags/decision-daemon.ts'
import { caseFaults, casesOf, QueryCases, requestOf } from '../fixtures/queries/query-cases.ts'

/** These contradict ingestion. See test/http/queries/question-cases.test.ts. */
const LEFT_OUT = ['tr-016']

t.setTimeout(300_000)

t.test('cases that read ClickHouse', { skip: isClickHouseMissing }, async (t) => {
  const server = await ClickHouseServer.start(t, t.testdir({}))
  for (const file of ['question-cases.json', 'web-cases.json']) {
    await t.test(file, async (t) => {
      const cases = casesOf(file)
      const { daemon: filled } = await QueryCases.start(t, cases)
      const { dataDir } = filled
      await filled.stop()
      const copying = openSink(t, dataDir, server)
      await sendAll(copying)
      t.ok(
        (await giveAway(dataDir, copying)) > cases.length / 2,
        'segments moved columns to ClickHouse',
      )
      const shifted: { nowMs: number | null } = { nowMs: null }
      const clock = { ...SYSTEM_CLOCK, now: () => shifted.nowMs ?? SYSTEM_CLOCK.now() }
      const daemon = await serveDecisions(t, dataDir, { warehouse: server.address }, { clock })
      const asked = new QueryCases(daemon, shifted)
      for (const [index, one] of cases.entries()) {
        if (LEFT_OUT.includes(one.id)) continue
        const answer = await asked.ask(index, one, ...requestOf(one))
        t.strictSame(caseFaults(one, answer), [], `${one.id} ${one.title}`)
      }
      await daemon.stop()
      await server.ask('DROP TABLE events.tenrec_events')
    })
  }
})
