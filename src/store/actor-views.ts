/** The persons and groups of an analytic answer as the API shows them, as of the snapshot of the reader. */
import type { GroupActor, PersonActor } from '../query/analytic-query.ts'
import type { AnalyticAnswer, AnalyticPage } from '../query/analytics.ts'
import { withWireTimes } from '../wire/person.ts'
import type { PersonReader } from './person-reader.ts'

type ActorView = AnalyticAnswer['people'][number]

/** Looks up everybody on a page; who does not exist any more is left out and counted. */
export function answerOf(
  page: AnalyticPage,
  projectId: number,
  persons: PersonReader,
): AnalyticAnswer {
  const people: ActorView[] = []
  const appearances: (readonly number[])[] = []
  for (const [index, actor] of page.actors.entries()) {
    const view =
      actor.kind === 'person'
        ? personActor(actor, projectId, persons)
        : groupActor(actor, projectId, persons)
    if (view === null) continue
    people.push(view)
    appearances.push(page.appearances?.[index] ?? [])
  }
  return {
    people,
    appearances: page.appearances === null ? null : appearances,
    isFull: page.isFull,
    missingPersons: page.actors.length - people.length,
  }
}

function personActor(
  { person, value }: PersonActor,
  projectId: number,
  persons: PersonReader,
): ActorView | null {
  const view = persons.actor(projectId, person)
  if (view === null) return null
  return withWireTimes({
    type: 'person' as const,
    id: view.uuid,
    uuid: view.uuid,
    created_at: view.created_at,
    properties: view.properties,
    is_identified: view.is_identified,
    name: view.name,
    distinct_ids: view.distinct_ids,
    matched_recordings: [],
    value_at_data_point: value,
  })
}

function groupActor(
  { typeIndex, key, value }: GroupActor,
  projectId: number,
  persons: PersonReader,
): ActorView {
  const group = persons.group(projectId, typeIndex, key)
  return withWireTimes({
    type: 'group' as const,
    id: key,
    group_key: key,
    group_type_index: typeIndex,
    created_at: group?.created_at ?? null,
    properties: group?.group_properties ?? {},
    matched_recordings: [],
    value_at_data_point: value,
  })
}
