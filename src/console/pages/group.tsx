/** The page of a group, such as a company: its numbers, its people, its events and its properties. */
import { useState } from 'preact/hooks'
import {
  askQuery,
  Card,
  Empty,
  EventDrawer,
  eventLabel,
  exact,
  get,
  go,
  inProjectPath,
  may,
  Page,
  PropertyTable,
  pageId,
  pageOf,
  plain,
  post,
  project,
  type Series,
  type Shapes,
  Shown,
  subId,
  Table,
  Tile,
  Tiles,
  time,
  useGet,
  useLoaded,
} from '../kit.ts'

type Group = Shapes['Group']
type Event = Shapes['Event']

const DAYS = 30
const ROWS = 50

/** The page "Group". */
export default function GroupPage() {
  const asked = {
    group_type_index: Number(pageId.value),
    group_key: subId.value,
  }
  const loaded = useGet('project/groups/find/', asked)
  const types = useGet('project/groups_types/').data ?? []
  const type = types.find((one) => one.group_type_index === asked.group_type_index)
  if (loaded.error?.status === 404 || loaded.error?.status === 400) {
    return (
      <Page title="Group not found">
        <Empty title={`There is no group “${asked.group_key}”.`}>
          <a href={pageOf('/groups')}>All groups</a>
        </Empty>
      </Page>
    )
  }
  return <Shown of={loaded}>{(group) => <Found group={group} kind={type?.name_singular ?? type?.group_type} />}</Shown>
}

function Found({ group, kind }: { group: Group; kind: string | undefined }) {
  const { group_type_index: index, group_key: key, group_properties: properties, created_at: createdAt } = group
  const name = plain(properties['name'] ?? key)
  const filter = { key: `$group_${index}`, value: [key], operator: 'exact', type: 'event' }
  const asked = { group_type_index: index, group_key: key }
  const set = (property: string, value: unknown) =>
    post('project/groups/update_property/', asked, { key: property, value })
  return (
    <Page title={name} aside={<span class="quiet">{kind}</span>}>
      {may('query:read') && <Numbers filter={filter} />}
      <div class="split even">
        <div>
          <Card title="Properties">
            <PropertyTable properties={properties} set={may('group:write') && set} />
            <p class="quiet below">
              Key <code>{key}</code>, first seen {time(createdAt)}
            </p>
          </Card>
          {may('query:read') && <People filter={filter} />}
        </div>
        <div>{may('event:read') && <Events filter={filter} />}</div>
      </div>
    </Page>
  )
}

interface FilterProps {
  readonly filter: object
}

/** Shows the numbers of the group in the last days. */
function Numbers({ filter }: FilterProps) {
  const key = JSON.stringify(filter)
  const loaded = useLoaded(`group numbers ${project.value.id} ${key}`, (signal) =>
    askQuery<readonly Series[]>(
      {
        kind: 'TrendsQuery',
        series: ['dau', 'total'].map((math) => ({ kind: 'EventsNode', event: null, math })),
        properties: [filter],
        dateRange: { date_from: `-${DAYS}d` },
        trendsFilter: { display: 'BoldNumber' },
      },
      signal,
    ),
  )
  return (
    <Shown of={loaded}>
      {([people, events]) => (
        <Tiles>
          <Tile label={`People, last ${DAYS} days`}>{exact(people?.aggregated_value)}</Tile>
          <Tile label={`Events, last ${DAYS} days`}>{exact(events?.aggregated_value)}</Tile>
        </Tiles>
      )}
    </Shown>
  )
}

/** Shows the people of the group who had the most events in the last days. */
function People({ filter }: FilterProps) {
  const key = JSON.stringify(filter)
  const loaded = useLoaded(`group people ${project.value.id} ${key}`, (signal) =>
    askQuery<readonly (readonly [id: string, email: unknown, name: unknown, count: number])[]>(
      {
        kind: 'EventsQuery',
        select: ['person_id', 'person.properties.email', 'person.properties.name', 'count()'],
        properties: [filter],
        after: `-${DAYS}d`,
        limit: ROWS,
      },
      signal,
    ),
  )
  return (
    <Card title={`People, last ${DAYS} days`}>
      <Shown of={loaded}>
        {(rows) => (
          <Table
            label="People"
            rows={rows}
            keyOf={([id]) => id}
            open={([id]) => go(inProjectPath(`/persons/${id}`))}
            none="This group has no events in this time."
            columns={[
              ['Person', ([id, email, name]) => plain(name ?? email ?? id), 'cut'],
              ['Events', ([, , , count]) => exact(count), 'number'],
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function Events({ filter }: FilterProps) {
  const [opened, setOpened] = useState<Event | null>(null)
  const loaded = useLoaded(`group events ${project.value.id} ${JSON.stringify(filter)}`, (signal) =>
    get('project/events/', { properties: JSON.stringify([filter]), limit: ROWS } as never, signal),
  )
  return (
    <Card title="Latest events">
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Events"
            rows={results}
            keyOf={({ uuid }) => uuid}
            open={setOpened}
            none="No events yet."
            columns={[
              ['Time', 'timestamp', 'time'],
              ['Event', ({ event }) => eventLabel(event), 'cut'],
              ['Distinct ID', 'distinct_id', 'minor cut'],
            ]}
          />
        )}
      </Shown>
      {opened && <EventDrawer event={opened} close={() => setOpened(null)} />}
    </Card>
  )
}
