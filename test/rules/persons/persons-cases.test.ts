/**
 * Runs the person merge cases as one batch and event by event, and the parts of the ingestion cases about persons,
 * groups and the events that carry their data. All of them pass through decoding, normalization and the rules.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import type { ProjectDirectory } from '../../../src/rules/access/project-directory.ts'
import { personUuid } from '../../../src/rules/persons/person-uuid.ts'
import { Differences } from '../../fixtures/differences.ts'
import { mismatches } from '../../fixtures/matchers.ts'
import { type CaseRequest, PersonPipeline } from '../../fixtures/persons/person-pipeline.ts'

interface MergeCaseFile {
  readonly env: {
    readonly now: string
    readonly project: { readonly id: number; readonly api_key: string }
  }
  readonly cases: readonly {
    readonly id: string
    readonly title: string
    readonly events: readonly JsonObject[]
    readonly expect: {
      readonly ingested?: number
      readonly persons: readonly {
        readonly distinct_ids: readonly string[]
        readonly properties: JsonObject
        readonly is_identified: boolean
        readonly uuid_of?: string
        readonly created_at?: string
      }[]
      readonly warnings?: readonly string[]
      readonly person_of_event?: readonly string[]
    }
  }[]
}

interface IngestionCaseFile {
  readonly env: {
    readonly now: string
    readonly remote_addr: string
    readonly projects: readonly { id: number; api_key: string; anonymize_ips?: boolean }[]
    readonly personal_keys: readonly { key: string; projects: readonly number[] }[]
  }
  readonly cases: readonly {
    readonly id: string
    readonly title: string
    readonly steps: readonly { readonly request: CaseRequest }[]
    readonly final: {
      readonly ingested?: number
      readonly events?: readonly unknown[]
      readonly persons?: readonly unknown[]
      readonly groups?: readonly unknown[]
      readonly group_types?: Readonly<Record<string, readonly string[]>>
    }
  }[]
}

/** The cases in the file. Its field `count` refers to a larger collection. */
const MERGE_CASES = 96
const merges = readCases('persons/person-merge-cases.json') as MergeCaseFile
const ingestion = readCases('ingestion-cases.json') as IngestionCaseFile
/** Cases that only HTTP can answer: methods, the preflight, the recordings sink. */
const HTTP_CASES = [
  'route-15',
  'route-19',
  'route-20',
  'route-21',
  'route-22',
  'route-23',
  'cors-01',
]
const directory = directoryOf(ingestion.env)

t.equal(merges.cases.length, MERGE_CASES, 'every merge case is run')

for (const mergeCase of merges.cases) {
  t.test(`${mergeCase.id}: ${mergeCase.title}`, async (t) => {
    const batches = {
      'one batch': [mergeCase.events],
      'one by one': mergeCase.events.map((e) => [e]),
    }
    const differences = new Differences()
    for (const [mode, bodies] of Object.entries(batches)) {
      const pipeline = new PersonPipeline(directory, Date.parse(merges.env.now), '203.0.113.7')
      for (const batch of bodies) {
        const body = JSON.stringify({ api_key: merges.env.project.api_key, batch })
        pipeline.post({ method: 'POST', path: '/batch/', body })
        pipeline.repository(merges.env.project.id).settle()
      }
      const { expect } = mergeCase
      const personIds = pipeline.stored.map((event) => event['person_id'])
      const expectedIds = expect.person_of_event?.map((id) => personUuid(1, id))
      if (expect.ingested !== undefined) {
        differences.equal(pipeline.stored.length, expect.ingested, `${mode}: stored events`)
      }
      differences.same(pipeline.warnings, expect.warnings ?? [], `${mode}: warnings`)
      if (expectedIds !== undefined) {
        differences.same(personIds, expectedIds, `${mode}: persons of events`)
      }
      const wanted = expect.persons.map(({ uuid_of: seed, ...person }) => ({
        ...person,
        distinct_ids: { '~set': person.distinct_ids },
        properties: { '~exact': person.properties },
        ...(seed === undefined ? {} : { uuid: { '~uuidv5Of': seed } }),
      }))
      const found = mismatches({ '~set': wanted }, pipeline.persons())
      differences.same(found, [], `${mode}: persons`)
    }
    t.strictSame(differences.list(), [], 'the same events, warnings and persons in both modes')
  })
}

for (const ingestionCase of ingestion.cases) {
  if (HTTP_CASES.includes(ingestionCase.id)) continue
  t.test(`${ingestionCase.id}: ${ingestionCase.title}`, async (t) => {
    const { env } = ingestion
    const pipeline = new PersonPipeline(directory, Date.parse(env.now), env.remote_addr)
    for (const { request } of ingestionCase.steps) pipeline.post(request)
    const { final } = ingestionCase
    const differences = new Differences()
    for (const { id } of env.projects) pipeline.repository(id).settle()
    const { ingested = pipeline.stored.length } = final
    differences.equal(pipeline.stored.length, ingested, 'stored events')
    for (const [name, wanted, actual] of [
      ['events', final.events, pipeline.stored],
      ['persons', final.persons, pipeline.persons()],
      ['groups', final.groups, pipeline.groups()],
    ] as const) {
      if (wanted !== undefined) differences.same(mismatches(wanted, actual), [], name)
    }
    for (const [projectId, types] of Object.entries(final.group_types ?? {})) {
      differences.same(pipeline.repository(Number(projectId)).types, types, 'group types')
    }
    t.strictSame(differences.list(), [], 'all that the case names is stored')
  })
}

function readCases(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../fixtures/${name}`, import.meta.url), 'utf8'))
}

function directoryOf(env: IngestionCaseFile['env']): ProjectDirectory {
  const projects = env.projects.map((project) => ({
    id: project.id,
    apiKey: project.api_key,
    isIpAnonymized: project.anonymize_ips === true,
  }))
  return {
    projectByKey: (key) => projects.find((project) => project.apiKey === key) ?? null,
    projectById: (id) => projects.find((project) => project.id === id) ?? null,
    personalKey: (text) => {
      const found = env.personal_keys.find(({ key }) => key === text)
      return found === undefined ? null : { ...found, scopes: ['*'] }
    },
  }
}
