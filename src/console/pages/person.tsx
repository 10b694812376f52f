/** The page of a person: name, events, properties, flags and cohorts, and actions such as merging and deleting. */
import {
  type ApiError,
  Ask,
  ago,
  askQuery,
  Card,
  CopyButton,
  counted,
  countryFlag,
  countryName,
  Empty,
  exact,
  Facts,
  Got,
  get,
  go,
  inProjectPath,
  isTechnical,
  List,
  may,
  Page,
  PropertyTable,
  pageId,
  pageOf,
  plain,
  post,
  project,
  remove,
  type Shapes,
  Shown,
  say,
  Table,
  time,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Timeline } from './person/timeline.tsx'

type Person = Shapes['Person']

/** The page "Person". */
export default function PersonPage() {
  const loaded = useGet('project/persons/{id}/', { id: pageId.value })
  if (isUnknown(loaded.error)) return <Unknown id={pageId.value} />
  return <Shown of={loaded}>{(person) => <Found person={person} />}</Shown>
}

function isUnknown(error: ApiError | null): boolean {
  return error !== null && (error.status === 404 || error.status === 400)
}

function Unknown({ id }: { id: string }) {
  return (
    <Page title="Person not found">
      <Empty title="There is no person with this address.">
        The person may have been deleted, or merged into another one.{' '}
        <a href={pageOf(`/persons?search=${encodeURIComponent(id)}`)}>Search all persons for “{id}”</a>
      </Empty>
    </Page>
  )
}

function Found({ person }: { person: Person }) {
  return (
    <Page title={titleOf(person)} aside={may('person:write') && <Actions person={person} />}>
      <div class="split even">
        <div>
          <Card title="About">
            <About person={person} />
          </Card>
          <Card title="Properties">
            <Properties person={person} />
          </Card>
          {may('feature_flag:read') && <Decisions distinctId={person.distinct_ids[0] ?? ''} />}
          {may('cohort:read') && <Cohorts id={person.uuid} />}
          {may('activity_log:read') && <Changes id={person.uuid} />}
        </div>
        <div>
          {may('event:read') && (
            <Card title="Events">
              <Timeline personId={person.uuid} />
            </Card>
          )}
        </div>
      </div>
    </Page>
  )
}

function titleOf({ name, properties }: Person): string {
  const own = properties['name']
  return typeof own === 'string' && own !== '' ? own : name
}

/** Shows the facts that readers look for first. Facts that are unknown are left out. */
function About({ person }: { person: Person }) {
  const { properties, created_at: createdAt, uuid } = person
  const text = (...keys: readonly string[]) => keys.map((key) => plain(properties[key] ?? '')).find((one) => one !== '')
  const span = useSpan(uuid)
  const first = span?.first !== undefined && span.first < createdAt ? span.first : createdAt
  const facts = {
    'E-mail': text('email'),
    Company: text('company', '$initial_company', 'organization'),
    Location: placeOf(person),
    'First seen': <Moment at={first} />,
    'Last seen': span?.last && <Moment at={span.last} />,
    'Came from': text('$initial_utm_source', '$initial_referring_domain')?.replace('$direct', 'direct visit'),
    Campaign: text('$initial_utm_campaign'),
    Device: [text('$browser'), text('$os'), text('$device_type')].filter((one) => one !== undefined).join(', '),
    'Distinct IDs': <Ids person={person} />,
    UUID: (
      <>
        <code>{uuid}</code> <CopyButton text={uuid} />
      </>
    ),
  }
  return (
    <Facts of={Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined && value !== ''))} />
  )
}

function Moment({ at }: { at: string }) {
  return (
    <>
      <time>{time(at)}</time> <span class="quiet">{ago(at)}</span>
    </>
  )
}

function placeOf({ properties }: Person): string {
  const code = plain(properties['$geoip_country_code'] ?? properties['$initial_geoip_country_code'] ?? '')
  const city = plain(properties['$geoip_city_name'] ?? properties['$initial_geoip_city_name'] ?? '')
  const country = countryName(code)
  return [city, country === null ? code : `${countryFlag(code)} ${country}`].filter((one) => one !== '').join(', ')
}

/** A date before all events. */
const LONG_AGO = '1970-01-02'

/**
 * Returns the moments of the first and the last event of a person. The events that a person sent before being
 * identified belong to the person, too. The first event may therefore be older than the person.
 */
function useSpan(personId: string): { first?: string | undefined; last?: string | undefined } | undefined {
  const { data } = useLoaded(`span ${project.value.id} ${personId}`, async (signal) => {
    if (!may('query:read')) return {}
    const read = async (order: 'ASC' | 'DESC') => {
      const asked = { select: ['timestamp'], personId, after: LONG_AGO, orderBy: [`timestamp ${order}`], limit: 1 }
      const [row] = await askQuery<readonly (readonly [string])[]>({ kind: 'EventsQuery', ...asked }, signal)
      return row?.[0]
    }
    const [first, last] = await Promise.all([read('ASC'), read('DESC')])
    return { first, last }
  })
  return data
}

const IDS_SHOWN = 20

function Ids({ person: { distinct_ids: all, distinct_ids_count: count = all.length } }: { person: Person }) {
  const ids = all.slice(0, IDS_SHOWN).map((id) => (
    <div key={id}>
      <code>{id}</code>
    </div>
  ))
  if (count === 1) return <>{ids}</>
  return (
    <details>
      <summary>{exact(count)} IDs</summary>
      {ids}
      {count > IDS_SHOWN && <div class="quiet">and {exact(count - IDS_SHOWN)} more</div>}
    </details>
  )
}

/**
 * Shows the properties that the user's own program has set. The properties of SDKs are below, in a section that is
 * closed at first.
 */
function Properties({ person: { uuid: id, properties } }: { person: Person }) {
  const entries = Object.entries(properties)
  const own = Object.fromEntries(entries.filter(([key]) => !isTechnical(key)))
  const technical = entries.filter(([key]) => isTechnical(key))
  const change = may('person:write') && {
    set: (key: string, value: unknown) => post('project/persons/{id}/update_property/', { id }, { key, value }),
    remove: (key: string) => post('project/persons/{id}/delete_property/', { id }, { $unset: key }),
  }
  return (
    <>
      <PropertyTable properties={own} {...change} />
      {technical.length > 0 && (
        <details class="below">
          <summary>Technical properties ({exact(technical.length)})</summary>
          <PropertyTable properties={Object.fromEntries(technical)} />
        </details>
      )}
    </>
  )
}

function Actions({ person }: { person: Person }) {
  const { uuid: id, distinct_ids: all } = person
  async function erase({ withEvents }: { withEvents: boolean }) {
    await remove('project/persons/{id}/', { id, delete_events: String(withEvents) } as never)
    say(withEvents ? 'Person deleted. Settings shows the receipt for the events.' : 'Person deleted.')
    go(inProjectPath('/persons'))
  }
  return (
    <>
      <Ask
        label="Merge"
        title={`Merge another person into ${titleOf(person)}`}
        action="Merge persons"
        fields={{ other: { label: 'E-mail, distinct ID or UUID of the other person', isRequired: true } }}
        submit={async ({ other }) =>
          post('project/persons/{id}/merge/', { id }, { ids: [await findUuid(other.trim())] })
        }
      >
        The distinct IDs and events of the other person become part of this person. Properties of this person are kept.
        “Split” separates the distinct IDs again.
      </Ask>
      {all.length > 1 && (
        <Ask
          label="Split"
          title="Split this person?"
          action="Split person"
          isDangerous={false}
          submit={() => post('project/persons/{id}/split/', { id }, {})}
        >
          Each of the {exact(all.length)} distinct IDs becomes a person of its own, with its events.
        </Ask>
      )}
      <Ask
        label="Delete"
        title={`Delete ${titleOf(person)}?`}
        action="Delete person"
        isDangerous
        fields={{ withEvents: { kind: 'check', label: 'Also delete the events of this person', value: true } }}
        submit={erase}
      >
        <EventsToErase personId={id} />
      </Ask>
    </>
  )
}

/**
 * Returns the UUID of the person with this email address or distinct ID, if there is exactly one. Returns any other
 * text unchanged.
 */
async function findUuid(words: string): Promise<string> {
  const { results } = await get('project/persons/', { search: words, limit: 2 })
  const [found] = results
  return found !== undefined && results.length === 1 ? found.uuid : words
}

/** Shows how many events a deletion of the person would erase. Nothing is erased. */
function EventsToErase({ personId }: { personId: string }) {
  const loaded = useLoaded(`erase ${personId}`, (signal) =>
    post('project/erasures/', {}, { person_id: personId, dry_run: true }, signal),
  )
  return (
    <Shown of={loaded}>
      {(plan) => (
        <p>This person has {counted('events' in plan ? plan.events : 0, 'event')}. A deletion is permanent.</p>
      )}
    </Shown>
  )
}

type Reasons = Readonly<Record<string, { id: number; value: unknown; evaluation: { reason: string } }>>

function Decisions({ distinctId }: { distinctId: string }) {
  return (
    <Card title="Current flag values">
      <Got route="project/feature_flags/evaluation_reasons/" values={{ distinct_id: distinctId }}>
        {(reasons) => (
          <Table
            label="Flags"
            rows={Object.entries(reasons as Reasons)}
            open={([, { id }]) => go(inProjectPath(`/flags/${id}?tab=explain&who=${encodeURIComponent(distinctId)}`))}
            none="No flags."
            columns={[
              ['Flag', ([key]) => key],
              ['Value', ([, { value }]) => value as string, 'code'],
              ['Why', ([, { evaluation }]) => evaluation.reason.replaceAll('_', ' ')],
            ]}
          />
        )}
      </Got>
    </Card>
  )
}

function Cohorts({ id }: { id: string }) {
  return (
    <List
      title="Cohorts"
      route="project/persons/cohorts/"
      values={{ person_id: id }}
      none="This person is in no cohort."
      columns={[['Name', (cohort) => <a href={pageOf(`/cohorts?id=${cohort.id}`)}>{cohort.name}</a>]]}
    />
  )
}

function Changes({ id }: { id: string }) {
  return (
    <List
      title="Changes by members"
      label="Changes"
      route="project/persons/{id}/activity/"
      values={{ id }}
      none="No member has changed this person."
      columns={[
        ['When', 'created_at', 'time'],
        ['Member', ({ user }) => user.first_name],
        ['Change', ({ activity }) => activity.replaceAll('_', ' ')],
      ]}
    />
  )
}
