/** The settings of the project, its goals, how long its events are kept, and erasures. */
import { useState } from 'preact/hooks'
import {
  Ask,
  bytes,
  Card,
  counted,
  exact,
  Form,
  Got,
  List,
  may,
  Page,
  parsed,
  patch,
  plain,
  post,
  put,
  readSession,
  type Shapes,
  say,
} from '../kit.ts'
import { Goals } from './settings/goals.tsx'

type Project = Shapes['Project']

/** Today's usage is requested again after this many milliseconds. */
const TODAY_MS = 10_000

const ZONES = Intl.supportedValuesOf('timeZone')

const SWITCHES = {
  anonymize_ips: 'Discard IP addresses',
  group_types_closed: 'Ignore new group types',
  autocapture_exceptions_opt_in: 'Capture exceptions in browsers',
  autocapture_web_vitals_opt_in: 'Capture web vitals in browsers',
} as const

/** The page "Settings". */
export default function SettingsPage() {
  return (
    <Page title="Settings">
      <div class="grid">
        <Card title="Project">
          <Got route="project/">{(project) => <ProjectForm key={project.id} project={project} />}</Got>
        </Card>
        <div>
          <Card title="Today">
            <Got route="project/" everyMs={TODAY_MS}>
              {(project) => <Today {...project} />}
            </Got>
          </Card>
          {may('action:read') && <Goals />}
          <Card title="Data retention">
            <Got route="project/retention/">{(kept) => <Retention kept={kept} />}</Got>
          </Card>
          {may('person:read') && <Erasures />}
        </div>
      </div>
    </Page>
  )
}

function fieldsOf(project: Project, canWrite: boolean) {
  const check = (name: keyof typeof SWITCHES) => ({
    ...({ kind: 'check', isSwitch: true, isDisabled: !canWrite } as const),
    label: SWITCHES[name],
    value: project[name],
  })
  const list = JSON.stringify(project.test_account_filters, null, 2)
  return {
    name: { label: 'Name', value: project.name, isRequired: true },
    timezone: {
      label: 'Time zone',
      value: project.timezone,
      options: ZONES,
      isRequired: true,
      hint: 'A city such as New York is enough. Days and hours of every chart are in this zone.',
    },
    daily_events_limit: {
      ...({ label: 'Events per day', type: 'number', placeholder: 'no limit' } as const),
      value: plain(project.daily_events_limit ?? ''),
      hint: 'Events beyond this limit are not stored, although their senders get the answer 200. A day begins at midnight UTC.',
    },
    daily_bytes_limit: {
      ...({ label: 'Bytes of events per day', type: 'number', placeholder: 'no limit' } as const),
      value: plain(project.daily_bytes_limit ?? ''),
    },
    anonymize_ips: check('anonymize_ips'),
    group_types_closed: check('group_types_closed'),
    captures_clicks: {
      ...({ kind: 'check', isSwitch: true, isDisabled: !canWrite } as const),
      label: 'Capture clicks in browsers',
      value: !project.autocapture_opt_out,
    },
    autocapture_exceptions_opt_in: check('autocapture_exceptions_opt_in'),
    autocapture_web_vitals_opt_in: check('autocapture_web_vitals_opt_in'),
    test_account_filters: {
      ...({ type: 'area', label: 'Internal and test users', value: list } as const),
      hint: 'A JSON list of property filters. If a query leaves out internal and test users, it uses only events that match all of these filters.',
    },
  }
}

/**
 * Returns the time zone meant by a text: the zone itself, or the only zone with the name of a city. Any other text is
 * returned unchanged, and the daemon refuses it.
 */
function zoneOf(words: string): string {
  const wanted = words.trim().toLowerCase().replaceAll(' ', '_')
  const zones = ZONES.filter((zone) => zone.toLowerCase() === wanted || zone.toLowerCase().endsWith(`/${wanted}`))
  return zones.length === 1 ? (zones[0] ?? words) : words
}

/** Returns the limit in a field. An empty field means that there is no limit. */
function limitOf(words: string): number | null {
  return words === '' ? null : Number(words)
}

function ProjectForm({ project }: { project: Project }) {
  const canWrite = may('project:write')
  return (
    <Form
      action={canWrite ? 'Save settings' : null}
      fields={fieldsOf(project, canWrite)}
      submit={async ({
        test_account_filters: filters,
        daily_events_limit: events,
        daily_bytes_limit: size,
        captures_clicks: isCapturing,
        timezone,
        ...rest
      }) => {
        // If the text is not JSON, it is sent unchanged. The daemon then answers with an error that explains what is
        // wrong.
        const limits = { daily_events_limit: limitOf(events), daily_bytes_limit: limitOf(size) }
        await patch(
          'project/',
          {},
          {
            ...rest,
            ...limits,
            timezone: zoneOf(timezone),
            autocapture_opt_out: !isCapturing,
            test_account_filters: parsed(filters) as never,
          },
        )
        say('Settings saved.')
        await readSession()
      }}
    >
      <p class="quiet">
        Project key: <code>{project.api_token}</code>
      </p>
    </Form>
  )
}

/** Shows how many events and bytes were accepted since midnight UTC, and the daily limits. */
function Today({ today, daily_events_limit: events, daily_bytes_limit: size }: Project) {
  const accepted =
    events === null ? counted(today.events, 'event') : `${exact(today.events)} of ${counted(events, 'event')}`
  return (
    <p role={today.is_limited ? 'alert' : undefined}>
      {accepted} and {bytes(today.bytes)}
      {size !== null && ` of ${bytes(size)}`} since midnight UTC.
      {today.is_limited && ' The daily limit is reached. Events are not stored until midnight UTC.'}
    </p>
  )
}

interface RetentionPlan {
  /** For how many days events are kept. Null means forever. */
  readonly days: number | null
  /** How many events would be deleted now. */
  readonly events: number
}

function Retention({ kept }: { kept: Shapes['EventRetention'] }) {
  const [plan, setPlan] = useState<RetentionPlan | null>(null)
  const bodyOf = (days: number | null) => ({ days, bytes_max: kept.bytes_max, events: kept.events })
  if (!may('project:write')) return <p>Events are kept {wordsOf(kept.days)}.</p>
  async function estimate({ days: words }: { days: string }) {
    const days = words === '' ? null : Number(words)
    const found = await put('project/retention/', {}, { ...bodyOf(days), dry_run: true })
    setPlan({ days, events: 'events' in found && typeof found.events === 'number' ? found.events : 0 })
    return false
  }
  async function keep() {
    await put('project/retention/', {}, bodyOf(plan?.days ?? null))
    say(`Events are kept ${wordsOf(plan?.days)} from now on.`)
    setPlan(null)
  }
  const hint = 'Leave the field empty to keep events forever. Rules for single event names stay as they are.'
  const value = plain(kept.days ?? '')
  return (
    <>
      <p>
        Events are kept {wordsOf(kept.days)}. They take {bytes(kept.bytes)} on the disk.
      </p>
      <Form
        action="Preview"
        fields={{
          days: { label: 'Keep events for this many days', type: 'number', placeholder: 'forever', value, hint },
        }}
        submit={estimate}
      />
      {plan && (
        <p class="row" role="status">
          <span>{consequenceOf(plan)}</span>
          <Ask {...questionOf(plan)} isDangerous={plan.events > 0} submit={keep}>
            {consequenceOf(plan)} {plan.events > 0 && 'Deleted events cannot be restored.'}
          </Ask>
        </p>
      )}
    </>
  )
}

function wordsOf(days: number | null | undefined): string {
  return days == null ? 'forever' : `for ${counted(days, 'day')}`
}

/** Returns the consequence of a retention plan in sentences: which events are deleted now, and which later. */
function consequenceOf({ days, events }: RetentionPlan): string {
  if (days === null) return 'No event is deleted.'
  const now = events === 0 ? 'No event is deleted now.' : `${counted(events, 'event')} will be deleted permanently.`
  return `${now} From then on, every event is deleted when it is older than ${counted(days, 'day')}.`
}

/**
 * Returns the label of the button that applies a retention plan, and the title of the dialog that asks the reader
 * before.
 */
function questionOf({ days, events }: RetentionPlan) {
  const keeping = days === null ? 'Keep events forever' : `keep ${counted(days, 'day')}`
  if (events > 0) return { label: `Delete and ${keeping}`, title: `Delete ${counted(events, 'event')}?` }
  const label = keeping.charAt(0).toUpperCase() + keeping.slice(1)
  return { label, title: `${label}?` }
}

function Erasures() {
  return (
    <List
      title="Erasing events"
      label="Receipts"
      route="project/erasures/"
      aside={may('person:write') && <Erase />}
      none="No events were erased yet."
      columns={[
        ['Requested', 'requested_at', 'time'],
        ['Criteria', ({ criteria }) => describe(criteria), 'code'],
        ['Status', 'status'],
        ['Events', 'events_removed', 'count'],
      ]}
    />
  )
}

/** Returns the criteria of an erasure in one line. Criteria that are not set are left out. */
function describe(criteria: Readonly<Record<string, unknown>>): string {
  return Object.entries(criteria)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => `${name} ${plain(value)}`)
    .join(', ')
}

function Erase() {
  const [found, setFound] = useState<{ readonly of: string; readonly events: number } | null>(null)
  async function run({ event, id, before }: { event: string; id: string; before: string }) {
    const body = { event: event || null, distinct_id: id || null, before: before || null }
    const of = JSON.stringify(body)
    if (found?.of !== of) {
      const plan = await post('project/erasures/', {}, { ...body, dry_run: true })
      setFound({ of, events: 'events' in plan ? plan.events : 0 })
      return false
    }
    await post('project/erasures/', {}, body)
    setFound(null)
    say('The events are being erased in the background. The list shows the receipt.')
    return true
  }
  return (
    <Ask
      label="Erase events"
      title="Erase events"
      action={found === null ? 'Count the events' : `Erase ${counted(found.events, 'event')}`}
      isDangerous
      fields={{
        event: { label: 'Event name', placeholder: 'all events' },
        id: { label: 'Distinct ID', placeholder: 'all persons' },
        before: { label: 'Before this day', type: 'date' },
      }}
      submit={run}
    >
      {found !== null && <p role="status">{counted(found.events, 'event')} will be deleted permanently.</p>}
    </Ask>
  )
}
