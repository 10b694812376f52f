/**
 * Tests that the cached text of a person in analytics answers is used only while the person is unchanged.
 *
 * @lane quick
 */
import t from 'tap'
import type { ActorPage } from '../../src/rules/analytics/analytic-query.ts'
import { answerRows } from '../fixtures/analytics/analytic-answers.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }

/** A page with these persons and a value. */
function pageOf(value: number | null, ...persons: readonly number[]): ActorPage {
  const actors = persons.map((person) => ({ kind: 'person' as const, person, value }))
  return { actors, isFull: false, total: persons.length }
}

t.test('every change of a person changes its text', async (t) => {
  const log = new PersonLog(t, t.testdir())
  let sent = 0
  const send = (distinctId: string, set: object, event = 'a', more = {}): void => {
    const timestamp = new Date(Date.UTC(2024, 0, 10) + sent++).toISOString()
    const properties = { ...more, $set: set }
    log.send(1, [{ event, distinct_id: distinctId, timestamp, properties }])
    log.process()
  }
  const shown = (value: number | null, ...persons: readonly number[]) => {
    log.reader.scanner(LIMITS)
    const { actors, position } = log.reader.answers()
    return actors.answerOf(pageOf(value, ...persons), 1, position, 'json')
  }
  send('ann', { email: 'ann@x.example' })
  send('bob', {})
  t.match(answerRows(shown(2, 1, 2)), [
    { name: 'ann@x.example', value_at_data_point: 2 },
    { name: 'bob', value_at_data_point: 2 },
  ])
  t.match(answerRows(shown(null, 1)), [{ value_at_data_point: null }], 'the value is not cached')
  send('bob', { plan: 'pro' })
  t.match(answerRows(shown(1, 1, 2)), [
    { name: 'ann@x.example', value_at_data_point: 1 },
    { name: 'bob', properties: { plan: 'pro' } },
  ])
  send('ann', { email: 'new@x.example' })
  t.match(answerRows(shown(1, 1)), [{ name: 'new@x.example' }])
  send('ann', {}, '$identify', { $anon_distinct_id: 'anon-1' })
  t.match(answerRows(shown(1, 1)), [{ is_identified: true, distinct_ids: ['ann', 'anon-1'] }])
  log.run(1, { kind: 'split_person', person: 1, mainDistinctId: 'anon-1' })
  t.match(answerRows(shown(1, 1)), [{ distinct_ids: ['anon-1'] }])
  log.run(1, { kind: 'delete_person', person: 1, deletesEvents: false })
  const left = shown(1, 1, 2)
  t.match(answerRows(left), [{ name: 'bob' }])
  t.match(left, { count: 1, total: 2, missingPersons: 1 })
})
