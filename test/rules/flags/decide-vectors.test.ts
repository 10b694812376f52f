/**
 * Whole-flag cases over HTTP: each has a project of its own, with its flags, cohorts, persons and groups,
 * and its request must get exactly the expected answer on `/flags/?v=2`, and the same values on `/decide/`.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { type FlagDraft, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

interface EvalCase {
  readonly id: number
  readonly name: string
  readonly flags: readonly {
    readonly id: number
    readonly key: string
    readonly active: boolean
    readonly deleted: boolean
    readonly version: number
    readonly ensure_experience_continuity: boolean
    readonly bucketing_identifier?: 'distinct_id' | 'device_id' | null
    readonly filters: JsonObject
  }[]
  readonly cohorts?: readonly {
    readonly id: number
    readonly is_static: boolean
    readonly filters?: JsonObject
  }[]
  readonly group_type_mapping?: Readonly<Record<string, string>>
  readonly stored_groups?: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>
  readonly person?: {
    readonly properties?: JsonObject
    readonly static_cohorts?: readonly number[]
    readonly hash_key_overrides?: Readonly<Record<string, string>>
  } | null
  readonly request: JsonObject
  readonly expected: Readonly<
    Record<
      string,
      {
        readonly enabled: boolean
        readonly variant: string | null
        readonly code: string
        readonly condition_index: number | null
        readonly payload: string | null
        readonly failed?: true
      }
    >
  >
  readonly expected_errors: boolean
}

const file = JSON.parse(
  readFileSync(new URL('../../fixtures/flags/flag-eval-vectors.json', import.meta.url), 'utf8'),
) as { readonly cases: readonly EvalCase[] }
const cases = file.cases.map((evalCase, index) => ({ ...evalCase, projectId: index + 1 }))
type OwnCase = (typeof cases)[number]

const world = await startDecisions(t, cases.length)

function draftOf(flag: EvalCase['flags'][number]): FlagDraft {
  return {
    id: flag.id,
    key: flag.key,
    active: flag.active,
    deleted: flag.deleted,
    version: flag.version,
    ensureExperienceContinuity: flag.ensure_experience_continuity,
    bucketingIdentifier: flag.bucketing_identifier ?? null,
    filters: flag.filters,
  }
}

/** Group types in the order of their index, the stored groups, and the person of the request. */
function eventsOf({ group_type_mapping, stored_groups, person, request }: OwnCase): object[] {
  const events: object[] = []
  for (const [index, type] of Object.entries(group_type_mapping ?? {})) {
    const groups = Object.entries(stored_groups?.[index] ?? { 'no group of a case': {} })
    for (const [key, properties] of groups) {
      const group = { $group_type: type, $group_key: key, $group_set: properties }
      events.push({ event: '$groupidentify', distinct_id: 'groups', properties: group })
    }
  }
  if (person !== undefined && person !== null) {
    const properties = { $set: person.properties ?? {} }
    events.push({ event: 'seen', distinct_id: request['distinct_id'], properties })
  }
  return events
}

/** Cohorts get their numbers in order, so the gaps between those of a case are filled. */
async function makeCohorts({ cohorts = [], person, request, projectId }: OwnCase): Promise<void> {
  const last = Math.max(0, ...cohorts.map(({ id }) => id))
  for (let id = 1; id <= last; id++) {
    const cohort = cohorts.find((candidate) => candidate.id === id)
    const isStatic = cohort === undefined || cohort.is_static
    const isMember = person?.static_cohorts?.includes(id) === true
    const body = {
      name: `Cohort ${id}`,
      is_static: isStatic,
      ...(isStatic ? {} : { filters: cohort.filters }),
      ...(isMember ? { distinct_ids: [request['distinct_id']] } : {}),
    }
    const answer = await world.api('POST', 'cohorts/', projectId, body)
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  }
}

for (const evalCase of cases) {
  const events = eventsOf(evalCase)
  if (events.length > 0) await world.capture(events, evalCase.projectId)
  await makeCohorts(evalCase)
  await world.putFlags(evalCase.flags.map(draftOf), evalCase.projectId, false)
}
await world.settled()

for (const { id, name, request, expected, expected_errors: hasErrors, projectId } of cases) {
  t.test(`case ${id}: ${name}`, async (t) => {
    const { status, body } = await world.decide('/flags/?v=2', request, projectId)
    t.equal(status, 200)
    const flags = body['flags'] as Readonly<Record<string, Record<string, JsonObject>>>
    const seen = Object.fromEntries(
      Object.entries(flags).map(([key, { enabled, variant, reason, metadata, failed }]) => [
        key,
        {
          enabled,
          variant,
          code: reason?.['code'],
          condition_index: reason?.['condition_index'],
          payload: metadata?.['payload'],
          ...(failed === undefined ? {} : { failed }),
        },
      ]),
    )
    t.strictSame(seen, expected)
    t.equal(body['errorsWhileComputingFlags'], hasErrors)
    const decided = await world.decide('/decide/?v=3', request, projectId)
    const values = Object.entries(expected)
      .filter(([, { failed }]) => failed !== true)
      .map(([key, { enabled, variant }]) => [key, enabled && variant !== null ? variant : enabled])
    t.strictSame(decided.body['featureFlags'], Object.fromEntries(values))
  })
}
