/**
 * The person merge cases from the log to what readers see: as one request, as one request for each event,
 * and with the store closed and opened again between any two events.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { PersonLog, personDigest, type SentEvent } from '../fixtures/persons/person-log.ts'

interface MergeCase {
  readonly id: string
  readonly title: string
  readonly events: readonly SentEvent[]
  readonly expect: {
    readonly ingested: number
    readonly warnings?: readonly string[]
    readonly person_of_event?: Readonly<Record<string, string>> | readonly (string | null)[]
    readonly persons: readonly {
      readonly distinct_ids: readonly string[]
      readonly properties: Readonly<Record<string, unknown>>
      readonly is_identified: boolean
      readonly uuid_of?: string
      readonly created_at?: string
    }[]
  }
}

interface CaseFile {
  readonly env: { readonly now: string }
  readonly cases: readonly MergeCase[]
}

const file = JSON.parse(
  readFileSync(new URL('../fixtures/persons/person-merge-cases.json', import.meta.url), 'utf8'),
) as CaseFile
const NOW_MS = Date.parse(file.env.now)
const FAR_FUTURE_MS = 4e15

/** Every case has a project of its own, so that all share a store. */
const cases = file.cases.map((mergeCase, index) => ({ ...mergeCase, projectId: index + 1 }))

type OwnCase = (typeof cases)[number]

function personsOf(log: PersonLog, { projectId, expect }: OwnCase) {
  const query = { projectId, limit: 1000, offset: 0, nowMs: FAR_FUTURE_MS }
  const { results, count } = log.reader.persons().list(query)
  return { count, persons: results.map((person) => sight(person, expect)).sort(byIds) }
}

/** What a case says about persons, of those that it says it about. */
function expectedPersons({ projectId, expect }: OwnCase) {
  const persons = expect.persons.map((person) => {
    const uuid = person.uuid_of === undefined ? {} : { uuid: personUuid(projectId, person.uuid_of) }
    const time = person.created_at === undefined ? {} : { created_at: person.created_at }
    const ids = [...person.distinct_ids].sort()
    const { properties, is_identified } = person
    return { distinct_ids: ids, properties, is_identified, ...uuid, ...time }
  })
  return { count: persons.length, persons: persons.sort(byIds) }
}

function sight(
  person: {
    readonly distinct_ids: readonly string[]
    readonly properties: Readonly<Record<string, unknown>>
    readonly is_identified: boolean
    readonly uuid: string
    readonly created_at: string
  },
  expect: MergeCase['expect'],
) {
  const ids = [...person.distinct_ids].sort()
  const wanted = expect.persons.find(({ distinct_ids }) => distinct_ids.includes(ids[0] ?? ''))
  const { properties, is_identified } = person
  return {
    distinct_ids: ids,
    properties: { ...properties },
    is_identified,
    ...(wanted?.uuid_of === undefined ? {} : { uuid: person.uuid }),
    ...(wanted?.created_at === undefined
      ? {}
      : { created_at: new Date(person.created_at).toISOString() }),
  }
}

function byIds(
  a: { readonly distinct_ids: readonly string[] },
  b: { readonly distinct_ids: readonly string[] },
): number {
  return (a.distinct_ids[0] ?? '') < (b.distinct_ids[0] ?? '') ? -1 : 1
}

function check(t: Test, log: PersonLog): void {
  for (const mergeCase of cases) {
    const { id, title, projectId, expect } = mergeCase
    t.strictSame(personsOf(log, mergeCase), expectedPersons(mergeCase), `${id}: ${title}`)
    const warnings = log.reader
      .listWarnings(projectId, 1000)
      .flatMap(({ type, count }) => Array.from({ length: count }, () => type))
    t.strictSame(warnings.toSorted(), (expect.warnings ?? []).toSorted(), `${id}: warnings`)
    const { results } = log.reader.listEvents({ projectId, limit: 1000 })
    t.equal(results.length, expect.ingested, `${id}: events`)
    const events = results.toSorted((a, b) => a.id - b.id)
    for (const [index, seed] of Object.entries(expect.person_of_event ?? {})) {
      if (seed === null) continue
      const wanted = personUuid(projectId, String(seed))
      t.equal(events[Number(index)]?.person_id, wanted, `${id}: person of event ${index}`)
    }
  }
}

t.test('the merge cases hold, however the events are cut into requests and runs', async (t) => {
  const dir = t.testdir({ batch: {}, single: {}, broken: {} })
  const batch = new PersonLog(t, `${dir}/batch`)
  for (const { projectId, events } of cases) batch.send(projectId, events, NOW_MS)
  batch.process()
  await t.test('as one request', async (t) => check(t, batch))

  const single = new PersonLog(t, `${dir}/single`)
  const broken = new PersonLog(t, `${dir}/broken`)
  const length = Math.max(...cases.map(({ events }) => events.length))
  for (let index = 0; index < length; index++) {
    for (const { projectId, events } of cases) {
      const event = events[index]
      if (event === undefined) continue
      single.send(projectId, [event], NOW_MS)
      broken.send(projectId, [event], NOW_MS)
    }
    broken.process()
    await broken.reopen()
  }
  single.process()
  await t.test('as one request each', async (t) => check(t, single))
  await t.test('with the store opened again after each', async (t) => check(t, broken))
  const digest = await personDigest(batch.dataDir)
  t.equal(await personDigest(single.dataDir), digest, 'one request each, the same bytes')
  t.equal(await personDigest(broken.dataDir), digest, 'opened again, the same bytes')
})
