/** What the project is called, what its events go through, how long they are kept, and what was erased. */

import { useState } from 'preact/hooks'
import {
  AreaField,
  bytes,
  Card,
  Check,
  ConfirmButton,
  exact,
  Form,
  type Loaded,
  may,
  Page,
  patch,
  plain,
  post,
  put,
  readSession,
  type Shapes,
  Shown,
  say,
  Table,
  TextField,
  time,
  useGet,
} from '../kit.ts'

type Project = Shapes['Project']

const ZONES = Intl.supportedValuesOf('timeZone')

const SWITCHES = [
  ['anonymize_ips', 'Keep no IP addresses'],
  ['autocapture_opt_out', 'Browsers capture no clicks by themselves'],
  ['autocapture_exceptions_opt_in', 'Browsers capture exceptions'],
  ['autocapture_web_vitals_opt_in', 'Browsers capture web vitals'],
] as const

/** The page. */
export default function SettingsPage() {
  const loaded = useGet('project/', {})
  return (
    <Page title="Settings">
      <div class="grid">
        <div>
          <Card title="Project">
            <Shown of={loaded}>
              {(project) => <ProjectForm key={project.id} project={project} reload={loaded.reload} />}
            </Shown>
          </Card>
        </div>
        <div>
          <Retention />
          {may('person:read') ? <Erasures /> : null}
        </div>
      </div>
    </Page>
  )
}

function ProjectForm({ project, reload }: { readonly project: Project; readonly reload: () => void }) {
  const [draft, setDraft] = useState(project)
  const [filters, setFilters] = useState(JSON.stringify(project.test_account_filters, null, 2))
  const set = (changes: Partial<Project>) => setDraft({ ...draft, ...changes })
  const canWrite = may('project:write')
  async function save() {
    const {
      name,
      timezone,
      anonymize_ips,
      autocapture_opt_out,
      autocapture_exceptions_opt_in,
      autocapture_web_vitals_opt_in,
    } = draft
    const switches = {
      anonymize_ips,
      autocapture_opt_out,
      autocapture_exceptions_opt_in,
      autocapture_web_vitals_opt_in,
    }
    const body = { name, timezone, ...switches, test_account_filters: listOf(filters) }
    await patch('project/', {}, body)
    say('Saved.')
    reload()
    await readSession()
  }
  const fields = <ProjectFields {...{ draft, set, canWrite, filters, setFilters }} />
  return canWrite ? (
    <Form action="Save" submit={save}>
      {fields}
    </Form>
  ) : (
    <div class="row">{fields}</div>
  )
}

function ProjectFields({
  draft,
  set,
  canWrite,
  filters,
  setFilters,
}: {
  readonly draft: Project
  readonly set: (changes: Partial<Project>) => void
  readonly canWrite: boolean
  readonly filters: string
  readonly setFilters: (words: string) => void
}) {
  return (
    <>
      <TextField label="Name" value={draft.name} change={(name) => set({ name })} isRequired />
      <TextField
        label="Time zone"
        value={draft.timezone}
        options={ZONES}
        change={(timezone) => set({ timezone })}
        hint="Days and hours of every chart."
        isRequired
      />
      {SWITCHES.map(([name, words]) => (
        <Check
          key={name}
          isSwitch
          label={words}
          value={draft[name]}
          isDisabled={!canWrite}
          change={(is) => set({ [name]: is })}
        />
      ))}
      <AreaField
        label="Who is a test account"
        value={filters}
        change={setFilters}
        hint="Filters as JSON, a list; queries leave them out when asked to."
      />
      <p class="quiet">
        Project key: <code>{draft.api_token}</code>
      </p>
    </>
  )
}

/** A list as JSON. What is no JSON goes to the daemon as it is, whose refusal says what is wrong. */
function listOf(words: string): never {
  try {
    return JSON.parse(words) as never
  } catch {
    return words as never
  }
}

function Retention() {
  const loaded = useGet('project/retention/', {})
  return (
    <Card title="How long events are kept">
      <Shown of={loaded}>{(kept) => <RetentionForm kept={kept} reload={loaded.reload} />}</Shown>
    </Card>
  )
}

function RetentionForm({ kept, reload }: { readonly kept: Shapes['EventRetention']; readonly reload: () => void }) {
  const [days, setDays] = useState(kept.days === null ? '' : String(kept.days))
  const [plan, setPlan] = useState<number | null>(null)
  const body = {
    days: days === '' ? null : Number(days),
    bytes_max: kept.bytes_max,
    events: kept.events,
  }
  const show = days === '' ? 'for ever' : `${days} days`
  if (!may('project:write')) return <p>{kept.days === null ? 'For ever.' : `${kept.days} days.`}</p>
  async function estimate() {
    const found = await put('project/retention/', {}, { ...body, dry_run: true })
    setPlan('events' in found && typeof found.events === 'number' ? found.events : 0)
  }
  return (
    <>
      <p>They take {bytes(kept.bytes)} on the disk.</p>
      <Form action="What would go?" submit={estimate}>
        <TextField
          label="Days"
          type="number"
          value={days}
          change={setDays}
          placeholder="for ever"
          hint="Empty keeps them for ever. Names with rules of their own keep those."
        />
      </Form>
      {plan === null ? null : (
        <p class="row">
          <span>
            Kept {show}: <b>{exact(plan)}</b> events would go now.
          </span>
          <ConfirmButton
            label="Keep them so"
            title={`Keep events ${show}?`}
            submit={async () => {
              await put('project/retention/', {}, body)
              say(`Events are kept ${show}.`)
              setPlan(null)
              reload()
            }}
          >
            <p>{exact(plan)} events go with the next run, for good, and older ones every day after.</p>
          </ConfirmButton>
        </p>
      )}
    </>
  )
}

function Erasures() {
  const loaded: Loaded<Shapes['ErasurePage']> = useGet('project/erasures/', {})
  return (
    <Card title="Erasing events" aside={may('person:write') ? <Erase reload={loaded.reload} /> : null}>
      <Shown of={loaded}>
        {({ results }) => (
          <Table
            label="Receipts"
            rows={results}
            keyOf={({ id }) => id}
            none="Nothing was erased."
            columns={[
              { head: 'Asked', cell: ({ requested_at: at }) => time(at) },
              { head: 'What', cell: ({ criteria }) => <code>{describe(criteria)}</code> },
              { head: 'State', cell: ({ status }) => status },
              {
                head: 'Events',
                isNumber: true,
                cell: ({ events_removed: removed }) => exact(removed),
              },
            ]}
          />
        )}
      </Shown>
    </Card>
  )
}

/** Criteria that say something, in one line. */
function describe(criteria: Readonly<Record<string, unknown>>): string {
  return Object.entries(criteria)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => `${name} ${plain(value)}`)
    .join(', ')
}

function Erase({ reload }: { readonly reload: () => void }) {
  const [event, setEvent] = useState('')
  const [id, setId] = useState('')
  const [before, setBefore] = useState('')
  const [found, setFound] = useState<number | null>(null)
  const body = { event: event || null, distinct_id: id || null, before: before || null }
  async function run() {
    if (found === null) {
      const plan = await post('project/erasures/', {}, { ...body, dry_run: true })
      setFound('events' in plan ? plan.events : 0)
      return false
    }
    await post('project/erasures/', {}, body)
    setFound(null)
    say('Erasing runs in the background; its receipt stands in the list.')
    reload()
    return true
  }
  return (
    <ConfirmButton
      label="Erase events"
      title="Erase events for good"
      action={found === null ? 'How many?' : `Erase ${exact(found)} events`}
      submit={run}
    >
      <TextField label="Event" value={event} change={setEvent} placeholder="every event" />
      <TextField label="distinct_id" value={id} change={setId} placeholder="of everybody" />
      <TextField label="Before" type="date" value={before} change={setBefore} />
      {found === null ? null : <p role="status">{exact(found)} events fit. Nothing brings them back.</p>}
    </ConfirmButton>
  )
}
