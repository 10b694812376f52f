/** The settings of the project, the retention of its events, and erasures. */
import { useState } from 'preact/hooks'
import {
  Ask,
  bytes,
  Card,
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

type Project = Shapes['Project']

/** The interval in which today's usage is refreshed, in milliseconds. */
const TODAY_MS = 10_000

const ZONES = Intl.supportedValuesOf('timeZone')

const SWITCHES = {
  anonymize_ips: 'Keep no IP addresses',
  group_types_closed: 'Events make no new group types',
  autocapture_opt_out: 'Browsers capture no clicks by themselves',
  autocapture_exceptions_opt_in: 'Browsers capture exceptions',
  autocapture_web_vitals_opt_in: 'Browsers capture web vitals',
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
          <Card title="How long events are kept">
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
      hint: 'Days and hours of every chart.',
    },
    daily_events_limit: {
      ...({ label: 'Events a day', type: 'number', placeholder: 'no limit' } as const),
      value: plain(project.daily_events_limit ?? ''),
      hint: 'Further events of a day, which begins at midnight UTC, are answered 200 and not stored.',
    },
    daily_bytes_limit: {
      ...({ label: 'Bytes of events a day', type: 'number', placeholder: 'no limit' } as const),
      value: plain(project.daily_bytes_limit ?? ''),
    },
    anonymize_ips: check('anonymize_ips'),
    group_types_closed: check('group_types_closed'),
    autocapture_opt_out: check('autocapture_opt_out'),
    autocapture_exceptions_opt_in: check('autocapture_exceptions_opt_in'),
    autocapture_web_vitals_opt_in: check('autocapture_web_vitals_opt_in'),
    test_account_filters: {
      ...({ type: 'area', label: 'Who is a test account', value: list } as const),
      hint: 'Filters as JSON, a list; queries leave them out when asked to.',
    },
  }
}

/** Returns the limit of a field. An empty field means no limit. */
function limitOf(words: string): number | null {
  return words === '' ? null : Number(words)
}

function ProjectForm({ project }: { project: Project }) {
  const canWrite = may('project:write')
  return (
    <Form
      action={canWrite ? 'Save' : null}
      fields={fieldsOf(project, canWrite)}
      submit={async ({
        test_account_filters: filters,
        daily_events_limit: events,
        daily_bytes_limit: size,
        ...rest
      }) => {
        // A text that is not JSON is sent unchanged, so that the error of the daemon explains it.
        const limits = { daily_events_limit: limitOf(events), daily_bytes_limit: limitOf(size) }
        await patch('project/', {}, { ...rest, ...limits, test_account_filters: parsed(filters) as never })
        say('Saved.')
        await readSession()
      }}
    >
      <p class="quiet">
        Project key: <code>{project.api_token}</code>
      </p>
    </Form>
  )
}

/** Shows the events and bytes that were accepted since midnight UTC, with the daily limits. */
function Today({ today, daily_events_limit: events, daily_bytes_limit: size }: Project) {
  const of = (limit: string | null) => (limit === null ? '' : ` of ${limit}`)
  return (
    <p role={today.is_limited ? 'alert' : undefined}>
      {exact(today.events)}
      {of(events === null ? null : exact(events))} events and {bytes(today.bytes)}
      {of(size === null ? null : bytes(size))} since midnight UTC.
      {today.is_limited && ' The daily limit is reached: events are not stored until the next day begins.'}
    </p>
  )
}

interface RetentionPlan {
  /** The days for which events are kept; null keeps them forever. */
  readonly days: number | null
  /** The number of events that would be removed now. */
  readonly events: number
}

function Retention({ kept }: { kept: Shapes['EventRetention'] }) {
  const [plan, setPlan] = useState<RetentionPlan | null>(null)
  const bodyOf = (days: number | null) => ({ days, bytes_max: kept.bytes_max, events: kept.events })
  if (!may('project:write')) return <p>{wordsOf(kept.days)}</p>
  async function estimate({ days: words }: { days: string }) {
    const days = words === '' ? null : Number(words)
    const found = await put('project/retention/', {}, { ...bodyOf(days), dry_run: true })
    setPlan({ days, events: 'events' in found && typeof found.events === 'number' ? found.events : 0 })
    return false
  }
  async function keep() {
    await put('project/retention/', {}, bodyOf(plan?.days ?? null))
    say(`Events are kept ${wordsOf(plan?.days)}.`)
    setPlan(null)
  }
  const hint = 'Empty keeps them for ever. Names with rules of their own keep those.'
  const value = plain(kept.days ?? '')
  return (
    <>
      <p>They take {bytes(kept.bytes)} on the disk.</p>
      <Form
        action="What would go?"
        fields={{ days: { label: 'Days', type: 'number', placeholder: 'for ever', value, hint } }}
        submit={estimate}
      />
      {plan && (
        <p class="row">
          <span>
            Kept {wordsOf(plan.days)}: <b>{exact(plan.events)}</b> events would go now.
          </span>
          <Ask label="Keep them so" title={`Keep events ${wordsOf(plan.days)}?`} submit={keep}>
            {exact(plan.events)} events go with the next run, for good, and older ones every day after.
          </Ask>
        </p>
      )}
    </>
  )
}

function wordsOf(days: number | null | undefined): string {
  return days == null ? 'for ever' : `${days} days`
}

function Erasures() {
  return (
    <List
      title="Erasing events"
      label="Receipts"
      route="project/erasures/"
      aside={may('person:write') && <Erase />}
      none="Nothing was erased."
      columns={[
        ['Asked', 'requested_at', 'time'],
        ['What', ({ criteria }) => describe(criteria), 'code'],
        ['State', 'status'],
        ['Events', 'events_removed', 'count'],
      ]}
    />
  )
}

/** Returns the set criteria of an erasure in one line. */
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
    say('Erasing runs in the background; its receipt stands in the list.')
    return true
  }
  return (
    <Ask
      label="Erase events"
      title="Erase events for good"
      action={found === null ? 'How many?' : `Erase ${exact(found.events)} events`}
      isDangerous
      fields={{
        event: { label: 'Event', placeholder: 'every event' },
        id: { label: 'distinct_id', placeholder: 'of everybody' },
        before: { label: 'Before', type: 'date' },
      }}
      submit={run}
    >
      {found !== null && <p role="status">{exact(found.events)} events fit. Nothing brings them back.</p>}
    </Ask>
  )
}
