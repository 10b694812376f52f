/**
 * Tests stored changes of a person that cannot be read: processing continues for other persons, and reports the damage.
 *
 * @lane all
 */
import t from 'tap'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, pairKey } from '../../src/store/lmdb/keys.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const TABLES = ['person_changes'] as const

t.test('events of a person with damaged changes do not stop processing', async (t) => {
  const damage: string[] = []
  const log = new PersonLog(t, t.testdir(), {}, ({ place }) => damage.push(place))
  const bought = (who: string, count: number) => {
    const set = { count, notes: 'x'.repeat(40) }
    return { event: 'buy', distinct_id: who, properties: { $set: set } }
  }
  log.send(1, [bought('ann', 1), bought('bob', 1)])
  log.process()
  log.send(1, [bought('ann', 2), bought('bob', 2)])
  log.process()
  const { dataDir } = log
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: TABLES })
  const { person_changes } = environment.tables
  const key = pairKey(1, 1)
  const damaged = Buffer.from(person_changes.get(key) ?? [])
  t.ok(damaged.length > 0)
  damaged[damaged.length - 6] = (damaged.at(-6) ?? 0) ^ 1
  environment.write(() => void person_changes.put(key, damaged))
  await environment.close()
  await log.reopen()
  log.send(1, [bought('ann', 3), bought('bob', 3)])
  log.process()
  log.send(1, [bought('ann', 4), bought('bob', 4)])
  log.process()
  const persons = log.reader.persons()
  t.match(persons.person(1, 1), { properties: { count: 4 } })
  t.throws(() => persons.person(1, 2), DamagedRecordError)
  t.strictSame(damage, [], 'a change is put behind what is damaged without reading it')
  t.equal(log.reader.statistics().projects[0]?.rows, 8, 'the person of this event is damaged, too')
})
