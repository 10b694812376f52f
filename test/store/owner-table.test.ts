/**
 * Compares the table of owners of a project, updated from snapshot to snapshot, with a table that is read anew.
 *
 * @lane all
 */
import t from 'tap'
import type { EventScanRequest } from '../../src/rules/analytics/event-columns.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { OWNER_CHUNKS_NOTED_MAX } from '../../src/store/identity/limits.ts'
import type { OwnerChanges, PersonCounters } from '../../src/store/identity/person-records.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, numberKey } from '../../src/store/lmdb/keys.ts'
import { getRecord } from '../../src/store/lmdb/records.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
const RANGE_NUMBERS = 256
const STEPS = 20
const EVERYTHING: EventScanRequest = {
  projectId: 1,
  fromMs: Number.NEGATIVE_INFINITY,
  toMs: Number.POSITIVE_INFINITY,
  filter: null,
  series: [{ names: null, filter: null, steps: [] }],
  values: [{ kind: 'distinct_id' }],
  persons: null,
  nowMs: 0,
}

function sent(distinctId: string, event = 'seen', properties: object = {}): SentEvent {
  return { event, distinct_id: distinctId, timestamp: '2024-01-10T00:00:00Z', properties }
}

function anonymous(distinctId: string): SentEvent {
  return sent(distinctId, 'seen', { $process_person_profile: false })
}

/** Returns the owner of each event, and the first number without a person. */
function ownersSeen(reader: EventReader): object {
  const scanner = reader.scanner(NO_LIMITS)
  const { persons, values } = scanner.scan(EVERYTHING)
  const ids = values[0]
  const owned = Array.from(persons, (person, row) => {
    const id = String(ids?.values[ids.ids[row] ?? 0])
    return `${id} ${scanner.personUuid(1, person)} ${person}`
  })
  return { owned, ...scanner.extent(1), first: scanner.firstPersonless(1) }
}

async function storedChanges(dataDir: string): Promise<OwnerChanges> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const counters = getRecord(environment.tables.person_projects, numberKey(1)) as PersonCounters
  await environment.close()
  return counters.owners as OwnerChanges
}

t.test('an updated owner table equals a newly read one, whatever changes', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const random = randomNumbers(5)
  const below = (limit: number) => Math.floor(random() * limit)
  let ids = 0
  for (let step = 0; step < STEPS; step++) {
    // Sometimes more ranges change at once than are recorded.
    const isMuch = step === 16
    const count = isMuch ? RANGE_NUMBERS * (OWNER_CHUNKS_NOTED_MAX + 3) : below(4)
    const events = Array.from({ length: count }, () => {
      const id = `id-${ids++}`
      return below(3) === 0 ? anonymous(id) : sent(id)
    })
    for (let sendFrom = 0; sendFrom < events.length; sendFrom += 100) {
      log.send(1, events.slice(sendFrom, sendFrom + 100))
    }
    const [one, other] = [`id-${below(ids + 1)}`, `id-${below(ids + 1)}`]
    if (below(2) === 0) log.send(1, [sent(one, '$merge_dangerously', { alias: other })])
    if (below(3) === 0) log.send(1, [sent(one, '$identify', { $anon_distinct_id: other })])
    log.process()
    if (below(4) === 0)
      log.run(1, { kind: 'split_person', person: 1 + below(9), mainDistinctId: null })
    if (below(4) === 0)
      log.run(1, { kind: 'delete_person', person: 1 + below(9), deletesEvents: false })
    const anew = new EventReader({ dataDir: log.dataDir })
    t.strictSame(ownersSeen(log.reader), ownersSeen(anew), `step ${step}`)
    await anew.close()
  }
})

t.test('the recorded changes do not depend on commits', async (t) => {
  const events = Array.from({ length: 3000 }, (_, index) =>
    index % 7 === 6
      ? sent(`id-${index}`, '$merge_dangerously', { alias: `id-${(index * 31) % index}` })
      : sent(`id-${index}`),
  )
  const noted = [1, 50].map(async (requestsPerCommit) => {
    const dir = t.testdir({ [requestsPerCommit]: {} })
    const log = new PersonLog(t, `${dir}/${requestsPerCommit}`)
    for (let index = 0; index < events.length; index += 20) {
      log.send(1, events.slice(index, index + 20))
      if ((index / 20) % requestsPerCommit === 0) log.process()
    }
    log.process()
    return storedChanges(log.dataDir)
  })
  const [often, rarely] = await Promise.all(noted)
  t.strictSame(often, rarely)
  t.ok((often?.count ?? 0) >= events.length)
})
