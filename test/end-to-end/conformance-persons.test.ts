/**
 * The person merge cases from the log to the readers: in one request, in one request for each event, and with the store
 * reopened between any two events.
 *
 * @lane quick
 */
import t from 'tap'
import { checkPersonCases, PERSONS_NOW_MS, personCases } from '../fixtures/conformance/persons.ts'
import { PersonLog, personDigest } from '../fixtures/persons/person-log.ts'

const cases = personCases(1)

t.test('the merge cases hold, however the events are divided into requests and runs', async (t) => {
  const dir = t.testdir({ batch: {}, single: {}, broken: {} })
  const batch = new PersonLog(t, `${dir}/batch`)
  for (const { projectId, events } of cases) batch.send(projectId, events, PERSONS_NOW_MS)
  batch.process()
  await t.test('all events in one request', async (t) => checkPersonCases(t, batch.reader, cases))

  const single = new PersonLog(t, `${dir}/single`)
  const broken = new PersonLog(t, `${dir}/broken`)
  const length = Math.max(...cases.map(({ events }) => events.length))
  for (let index = 0; index < length; index++) {
    for (const { projectId, events } of cases) {
      const event = events[index]
      if (event === undefined) continue
      single.send(projectId, [event], PERSONS_NOW_MS)
      broken.send(projectId, [event], PERSONS_NOW_MS)
    }
    broken.process()
    await broken.reopen()
  }
  single.process()
  await t.test('one request for each event', async (t) => checkPersonCases(t, single.reader, cases))
  await t.test('the store is reopened after each event', async (t) =>
    checkPersonCases(t, broken.reader, cases),
  )
  const digest = await personDigest(batch.dataDir)
  t.equal(
    await personDigest(single.dataDir),
    digest,
    'one request for each event gives the same bytes',
  )
  t.equal(await personDigest(broken.dataDir), digest, 'reopening the store gives the same bytes')
})
