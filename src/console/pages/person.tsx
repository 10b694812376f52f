/** A person: who it is, what it did, what it is shown, and what can be done about it. */

import { useState } from 'preact/hooks'
import {
  Card,
  Check,
  ConfirmButton,
  CopyButton,
  exact,
  go,
  inProjectPath,
  may,
  Page,
  PropertyTable,
  pageId,
  pageOf,
  plain,
  post,
  remove,
  type Shapes,
  Shown,
  say,
  Table,
  TextField,
  time,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Timeline } from './person/timeline.tsx'

type Person = Shapes['Person']

/** The page. */
export default function PersonPage() {
  const loaded = useGet('project/persons/{id}/', { id: pageId.value })
  const canWrite = may('person:write')
  async function set(key: string, value: unknown) {
    const body = { key, value }
    await post('project/persons/{id}/update_property/', { id: pageId.value }, body)
    loaded.reload()
  }
  async function remove(key: string) {
    const body = { $unset: key }
    await post('project/persons/{id}/delete_property/', { id: pageId.value }, body)
    loaded.reload()
  }
  return (
    <Shown of={loaded}>
      {(person) => (
        <Page title={person.name} aside={canWrite ? <Actions person={person} reload={loaded.reload} /> : null}>
          <div class="split">
            <div>
              <Card title="Who">
                <Facts person={person} />
              </Card>
              <Card title="Properties">
                <PropertyTable properties={person.properties} {...(canWrite ? { set, remove } : {})} />
              </Card>
              {may('feature_flag:read') ? <Decisions distinctId={person.distinct_ids[0] ?? ''} /> : null}
              {may('cohort:read') ? <Cohorts id={person.uuid} /> : null}
            </div>
            <div>
              {may('event:read') ? (
                <Card title="Events">
                  <Timeline personId={person.uuid} />
                </Card>
              ) : null}
              {may('activity_log:read') ? <Changes id={person.uuid} /> : null}
            </div>
          </div>
        </Page>
      )}
    </Shown>
  )
}

function Facts({ person }: { readonly person: Person }) {
  return (
    <dl class="facts">
      <dt>uuid</dt>
      <dd>
        <code>{person.uuid}</code> <CopyButton text={person.uuid} />
      </dd>
      <dt>First seen</dt>
      <dd>{time(person.created_at)}</dd>
      <dt>distinct_ids</dt>
      <dd>
        {person.distinct_ids.slice(0, 20).map((id) => (
          <div key={id}>
            <code>{id}</code>
          </div>
        ))}
        {person.distinct_ids.length > 20
          ? `and ${exact((person.distinct_ids_count ?? person.distinct_ids.length) - 20)} more`
          : null}
      </dd>
    </dl>
  )
}

function Actions({
  person: { uuid, name, distinct_ids: ids },
  reload,
}: {
  readonly person: Person
  readonly reload: () => void
}) {
  const [other, setOther] = useState('')
  const [withEvents, setWithEvents] = useState(false)
  return (
    <>
      <ConfirmButton
        label="Merge"
        title="Merge another person into this one"
        submit={async () => {
          await post('project/persons/{id}/merge/', { id: uuid }, { ids: [other.trim()] })
          reload()
        }}
      >
        <TextField label="uuid of the other person" value={other} change={setOther} isRequired />
        <p>Its distinct_ids and events become this person’s. Splitting takes distinct_ids apart again.</p>
      </ConfirmButton>
      {ids.length > 1 ? (
        <ConfirmButton
          label="Split"
          title="Split this person?"
          submit={async () => {
            await post('project/persons/{id}/split/', { id: uuid }, {})
            reload()
          }}
        >
          <p>Each of the {exact(ids.length)} distinct_ids becomes a person of its own, with its events.</p>
        </ConfirmButton>
      ) : null}
      <ConfirmButton
        label="Delete"
        title={`Delete ${name}?`}
        submit={async () => {
          const query = { delete_events: String(withEvents) }
          await remove('project/persons/{id}/', { id: uuid, ...query })
          say(withEvents ? 'Deleted; the receipt of its events stands in Settings.' : 'Deleted.')
          go(inProjectPath('/persons'))
        }}
      >
        <EventsToErase personId={uuid} />
        <Check label="Its events, too" value={withEvents} change={setWithEvents} />
      </ConfirmButton>
    </>
  )
}

/** How much erasing would take away: asked, not done. */
function EventsToErase({ personId }: { readonly personId: string }) {
  const loaded = useLoaded(`erase ${personId}`, (signal) =>
    post('project/erasures/', {}, { person_id: personId, dry_run: true }, signal),
  )
  return (
    <Shown of={loaded}>
      {(plan) => <p>It has {'events' in plan ? exact(plan.events) : ''} events. Nothing brings them back.</p>}
    </Shown>
  )
}

function Decisions({ distinctId }: { readonly distinctId: string }) {
  const loaded = useGet('project/feature_flags/evaluation_reasons/', { distinct_id: distinctId })
  return (
    <Card title="Flags as decided now">
      <Shown of={loaded}>
        {(reasons) => (
          <Table
            label="Flags"
            rows={Object.entries(reasons as Record<string, { value: unknown; evaluation: { reason: string } }>)}
            keyOf={([key]) => key}
            open={([key]) => go(inProjectPath(`/flags?search=${encodeURIComponent(key)}`))}
            none="No flags."
            columns={[
              { head: 'Flag', cell: ([key]) => key },
              { head: 'Value', cell: ([, { value }]) => <code>{plain(value)}</code> },
              { head: 'Why', cell: ([, { evaluation }]) => evaluation.reason.replaceAll('_', ' ') },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

function Cohorts({ id }: { readonly id: string }) {
  const loaded = useGet('project/persons/cohorts/', { person_id: id })
  return (
    <Card title="Cohorts">
      <Shown of={loaded}>
        {({ results }) =>
          results.length === 0 ? (
            <p class="none">In none.</p>
          ) : (
            <ul>
              {results.map(({ id: cohort, name }) => (
                <li key={cohort}>
                  <a href={pageOf(`/cohorts?id=${cohort}`)}>{name}</a>
                </li>
              ))}
            </ul>
          )
        }
      </Shown>
    </Card>
  )
}

function Changes({ id }: { readonly id: string }) {
  const loaded = useGet('project/persons/{id}/activity/', { id })
  return (
    <Card title="Changes by people">
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Changes"
            rows={results}
            keyOf={(_, index) => index}
            none="None."
            columns={[
              { head: 'When', cell: ({ created_at: at }) => time(at) },
              { head: 'Who', cell: ({ user }) => user.first_name },
              { head: 'What', cell: ({ activity }) => activity.replaceAll('_', ' ') },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}
