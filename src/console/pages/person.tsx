/** A person: its properties, its events, its flags and cohorts, and actions such as merging and deleting. */
import {
  Ask,
  Card,
  CopyButton,
  exact,
  Facts,
  Got,
  go,
  inProjectPath,
  List,
  may,
  Page,
  PropertyTable,
  pageId,
  pageOf,
  post,
  remove,
  type Shapes,
  Shown,
  say,
  Table,
  time,
  useLoaded,
} from '../kit.ts'
import { Timeline } from './person/timeline.tsx'

type Person = Shapes['Person']

/** The page "Person". */
export default function PersonPage() {
  return (
    <Got route="project/persons/{id}/" values={{ id: pageId.value }}>
      {(person) => (
        <Page title={person.name} aside={may('person:write') && <Actions person={person} />}>
          <div class="split even">
            <div>
              <Card title="Who">
                <Facts of={{ uuid: uuidOf(person), 'First seen': time(person.created_at), ...ids(person) }} />
              </Card>
              <Card title="Properties">
                <Properties person={person} />
              </Card>
              {may('feature_flag:read') && <Decisions distinctId={person.distinct_ids[0] ?? ''} />}
              {may('cohort:read') && <Cohorts id={person.uuid} />}
            </div>
            <div>
              {may('event:read') && (
                <Card title="Events">
                  <Timeline personId={person.uuid} />
                </Card>
              )}
              {may('activity_log:read') && <Changes id={person.uuid} />}
            </div>
          </div>
        </Page>
      )}
    </Got>
  )
}

function uuidOf({ uuid }: Person) {
  return (
    <>
      <code>{uuid}</code> <CopyButton text={uuid} />
    </>
  )
}

const IDS_SHOWN = 20

function ids({ distinct_ids: all, distinct_ids_count: count = all.length }: Person) {
  const shown = all.slice(0, IDS_SHOWN).map((id) => (
    <div key={id}>
      <code>{id}</code>
    </div>
  ))
  return { distinct_ids: [shown, all.length > IDS_SHOWN && `and ${exact(count - IDS_SHOWN)} more`] }
}

function Properties({ person: { uuid: id, properties } }: { person: Person }) {
  if (!may('person:write')) return <PropertyTable properties={properties} />
  return (
    <PropertyTable
      properties={properties}
      set={(key, value) => post('project/persons/{id}/update_property/', { id }, { key, value })}
      remove={(key) => post('project/persons/{id}/delete_property/', { id }, { $unset: key })}
    />
  )
}

function Actions({ person: { uuid: id, name, distinct_ids: all } }: { person: Person }) {
  async function erase({ withEvents }: { withEvents: boolean }) {
    await remove('project/persons/{id}/', { id, delete_events: String(withEvents) } as never)
    say(withEvents ? 'Deleted; the receipt of its events stands in Settings.' : 'Deleted.')
    go(inProjectPath('/persons'))
  }
  return (
    <>
      <Ask
        label="Merge"
        title="Merge another person into this one"
        isDangerous
        fields={{ other: { label: 'uuid of the other person', isRequired: true } }}
        submit={({ other }) => post('project/persons/{id}/merge/', { id }, { ids: [other.trim()] })}
      >
        Its distinct_ids and events become this person’s. Splitting takes distinct_ids apart again.
      </Ask>
      {all.length > 1 && (
        <Ask label="Split" title="Split this person?" submit={() => post('project/persons/{id}/split/', { id }, {})}>
          Each of the {exact(all.length)} distinct_ids becomes a person of its own, with its events.
        </Ask>
      )}
      <Ask
        label="Delete"
        title={`Delete ${name}?`}
        isDangerous
        fields={{ withEvents: { kind: 'check', label: 'Its events, too' } }}
        submit={erase}
      >
        <EventsToErase personId={id} />
      </Ask>
    </>
  )
}

/** Shows how many events a deletion would erase, without erasing them. */
function EventsToErase({ personId }: { personId: string }) {
  const loaded = useLoaded(`erase ${personId}`, (signal) =>
    post('project/erasures/', {}, { person_id: personId, dry_run: true }, signal),
  )
  return (
    <Shown of={loaded}>
      {(plan) => <p>It has {'events' in plan && exact(plan.events)} events. Nothing brings them back.</p>}
    </Shown>
  )
}

type Reasons = Readonly<Record<string, { id: number; value: unknown; evaluation: { reason: string } }>>

function Decisions({ distinctId }: { distinctId: string }) {
  return (
    <Card title="Flags as decided now">
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
      none="In none."
      columns={[['Name', (cohort) => <a href={pageOf(`/cohorts?id=${cohort.id}`)}>{cohort.name}</a>]]}
    />
  )
}

function Changes({ id }: { id: string }) {
  return (
    <List
      title="Changes by people"
      label="Changes"
      route="project/persons/{id}/activity/"
      values={{ id }}
      none="None."
      columns={[
        ['When', 'created_at', 'time'],
        ['Who', ({ user }) => user.first_name],
        ['What', ({ activity }) => activity.replaceAll('_', ' ')],
      ]}
    />
  )
}
