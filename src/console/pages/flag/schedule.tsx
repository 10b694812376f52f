/** The scheduled changes of a flag: single changes at a given time, and ramps with their steps and guards. */
import { useState } from 'preact/hooks'
import {
  ApiError,
  Ask,
  act,
  Button,
  Card,
  Check,
  Choice,
  Dialog,
  exact,
  Form,
  Got,
  may,
  patch,
  percent,
  post,
  remove,
  type Shapes,
  Shown,
  say,
  Table,
  TextField,
  time,
  useLoaded,
} from '../../kit.ts'
import { draftOf, type Flag } from './draft.ts'
import { hoursOf, percentagesOf, rampValue } from './ramp-plan.ts'
import type { FlagReferences } from './references.ts'
import { audienceOf } from './sentences.ts'

type Change = Shapes['ScheduledChange']
type Ramp = NonNullable<Change['ramp']>
type Look = Ramp['looks'][number]

interface ScheduleProps {
  readonly flag: Flag
  readonly references: FlagReferences
}

/** The data is requested again after this many milliseconds, because the daemon makes changes without the reader. */
const EVERY_MS = 5000

/** The tab "Schedule" of a flag. */
export function FlagSchedule({ flag, references }: ScheduleProps) {
  const canEdit = flag.can_edit && may('feature_flag:write')
  return (
    <div class="stack">
      {canEdit && (
        <p class="row">
          <RollOutSafely flag={flag} references={references} />
          <ChangeAtTime flag={flag} />
        </p>
      )}
      <Got route="project/scheduled_changes/" values={{ record_id: String(flag.id) }} everyMs={EVERY_MS}>
        {({ results }) => (
          <>
            {results.length === 0 && (
              <p class="none">Nothing is scheduled. The flag changes only when somebody changes it.</p>
            )}
            {results.map((change) =>
              change.ramp === null ? (
                <Once key={change.id} change={change} canEdit={canEdit} />
              ) : (
                <RampCard key={change.id} change={change} ramp={change.ramp} canEdit={canEdit} />
              ),
            )}
          </>
        )}
      </Got>
    </div>
  )
}

interface ChangeProps {
  readonly change: Change
  readonly canEdit: boolean
}

function authorOf({ created_by: author, created_at: at }: Change): string {
  return `Scheduled ${time(at)}${author === null ? '' : ` by ${author.email || author.first_name}`}`
}

function Cancel({ change }: { change: Change }) {
  return (
    <Ask
      label="Cancel"
      action="Cancel what is left"
      title="Cancel this change?"
      submit={() => remove('project/scheduled_changes/{id}/', { id: change.id })}
    >
      What has already happened stays. Nothing else will happen.
    </Ask>
  )
}

const OPERATIONS: Readonly<Record<string, string>> = {
  add_release_condition: 'Add a rule',
  update_variants: 'Change the variants',
  ramp: 'Roll out in steps',
}

function titleOf({ payload }: Change): string {
  if (payload.operation !== 'update_status') return OPERATIONS[payload.operation] ?? payload.operation
  return payload.value === true ? 'Switch on' : 'Switch off'
}

/** A single change that is made at a given time. */
function Once({ change, canEdit }: ChangeProps) {
  const { scheduled_at: at, executed_at: endedAt, last_executed_at: lastAt, failure_reason: reason } = change
  const { is_recurring: isRecurring, recurrence_interval: interval, end_date: endDate } = change
  const isWaiting = endedAt === null
  return (
    <Card title={titleOf(change)} aside={canEdit && isWaiting && <Cancel change={change} />}>
      <p>
        {isWaiting && (interval === null || isRecurring) && <b>{time(at)}</b>}
        {isWaiting && interval !== null && !isRecurring && 'Paused'}
        {!isWaiting && (reason === null ? `Done ${time(endedAt)}` : `Not made ${time(endedAt)}`)}
        {interval !== null && `, ${interval}`}
        {endDate !== null && `, until ${time(endDate)}`}
        {lastAt !== null && `. Last made ${time(lastAt)}`}
      </p>
      {reason !== null && <p class="worse">{reason}</p>}
      <p class="quiet">{authorOf(change)}</p>
    </Card>
  )
}

const STATES: Readonly<Record<Ramp['state'], string>> = {
  running: 'Running',
  halted: 'Halted',
  turned_back: 'Turned back',
  done: 'Done',
}

function RampCard({ change, ramp, canEdit }: ChangeProps & { readonly ramp: Ramp }) {
  const { state, reason, steps, guards, looks, looked_at: lookedAt, on_breach: onBreach } = ramp
  const isOpen = change.executed_at === null
  const setState = (to: 'running' | 'halted', words: string) =>
    act(patch('project/scheduled_changes/{id}/', { id: change.id }, { state: to }), words)
  return (
    <Card
      title="Roll out in steps"
      aside={
        canEdit &&
        isOpen && (
          <span class="row">
            {state === 'running' && <Button press={() => setState('halted', 'The rollout is halted.')}>Halt</Button>}
            {state === 'halted' && <Button press={() => setState('running', 'The rollout goes on.')}>Continue</Button>}
            <Cancel change={change} />
          </span>
        )
      }
    >
      <p>
        <span class={state === 'halted' || state === 'turned_back' ? 'badge bad' : 'badge'}>{STATES[state]}</span>{' '}
        <span class="quiet">{authorOf(change)}</span>
      </p>
      {reason !== null && <p class="worse">{reason}</p>}
      <Table
        label="Steps"
        rows={steps}
        columns={[
          ['Share', ({ rollout_percentage: share }) => `${share} %`],
          ['Made', ({ executed_at: at }) => time(at)],
          ['Due', ({ due_at: at }) => (state === 'running' ? time(at) : '–')],
        ]}
      />
      {guards.map(({ event, worse, tolerance }) => (
        <p key={event} class="quiet">
          {onBreach === 'turn_back' ? 'Turns back' : 'Halts'} if {worse === 'higher' ? 'more' : 'fewer'} people with the
          flag than without it have {event}, by more than {exact(tolerance * 100)} percentage points.
        </p>
      ))}
      {state === 'running' && guards.length > 0 && (
        <Guards looks={looks} lookedAt={lookedAt} isWatched={ramp.watched_from !== null} />
      )}
    </Card>
  )
}

interface GuardsProps {
  readonly looks: readonly Look[]
  readonly lookedAt: string | null
  readonly isWatched: boolean
}

/** Shows what the last check of the guards has found. */
function Guards({ looks, lookedAt, isWatched }: GuardsProps) {
  if (!isWatched) return <p class="quiet">The guards begin with the first step.</p>
  if (lookedAt === null) return <p class="quiet">The guards have not been checked yet.</p>
  if (looks.length === 0) return <p class="quiet">Nobody has reported a value of the flag since the last step.</p>
  return (
    <Table
      label={`Guards, ${time(lookedAt)}`}
      rows={looks}
      keyOf={({ event, value }) => `${event} ${value}`}
      columns={[
        ['Event', 'event'],
        ['Value', 'value'],
        ['With the flag', (look) => shareText(look.persons_with_flag_with_event, look.persons_with_flag)],
        ['Without', (look) => shareText(look.persons_without_flag_with_event, look.persons_without_flag)],
        ['Verdict', verdictOf],
      ]}
    />
  )
}

function shareText(converted: number, persons: number): string {
  return persons === 0 ? '–' : `${percent(converted / persons)} of ${exact(persons)}`
}

function verdictOf({ is_violated: isViolated, missing }: Look): string {
  if (missing !== null) return 'Not enough people yet'
  return isViolated ? 'Violated' : 'Within bounds'
}

/**
 * Returns the moment in a date field of the browser. The field contains a wall clock time in the time zone of the
 * browser.
 */
function timeOf(words: string): string {
  const moment = new Date(words)
  if (!Number.isNaN(moment.getTime())) return moment.toISOString()
  throw new ApiError(400, { code: 'invalid_input', detail: 'Choose a day and a time.' })
}

function ChangeAtTime({ flag }: { flag: Flag }) {
  return (
    <Ask
      label="Change at a time"
      action="Schedule"
      title={`Change ${flag.key} at a time`}
      fields={{
        value: {
          kind: 'choice',
          label: 'Change',
          value: flag.active ? 'off' : 'on',
          options: [
            ['on', 'Switch on'],
            ['off', 'Switch off'],
          ],
        },
        at: { label: 'Time', type: 'datetime-local', isRequired: true, hint: 'In the time zone of this browser.' },
        interval: {
          kind: 'choice',
          label: 'Repeat',
          options: [
            ['', 'never'],
            ['daily', 'daily'],
            ['weekly', 'weekly'],
            ['monthly', 'monthly'],
            ['yearly', 'yearly'],
          ],
        },
      }}
      submit={({ value, at, interval }) =>
        post(
          'project/scheduled_changes/',
          {},
          {
            record_id: flag.id,
            model_name: 'FeatureFlag',
            payload: { operation: 'update_status', value: value === 'on' },
            scheduled_at: timeOf(at),
            is_recurring: interval !== '',
            recurrence_interval: interval === '' ? null : (interval as 'daily'),
          },
        )
      }
    />
  )
}

/** A button that opens the form for a ramp. */
function RollOutSafely(props: ScheduleProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button press={() => setOpen(true)} class="small primary">
        Roll out safely
      </Button>
      {isOpen && <RampForm {...props} close={() => setOpen(false)} />}
    </>
  )
}

function RampForm({ flag, references, close }: ScheduleProps & { close: () => void }) {
  const { rules } = draftOf(flag)
  const [steps, setSteps] = useState('5, 25, 50, 100')
  const [hours, setHours] = useState('24')
  const [at, setAt] = useState('')
  const [condition, setCondition] = useState(String(rules.length - 1))
  const [isGuarded, setGuarded] = useState(true)
  const [tolerance, setTolerance] = useState('0.5')
  const percentages = percentagesOf(steps)
  const wait = hoursOf(hours)
  const isComplete = percentages !== null && wait !== null
  const value = rampValue({
    percentages: percentages ?? [],
    hours: wait ?? 0,
    condition: Number(condition),
    tolerance: isGuarded ? Number(tolerance) / 100 : null,
  })
  const payload = { operation: 'ramp', value } as const
  async function submit() {
    if (!isComplete) return false
    const start = at === '' ? {} : { scheduled_at: timeOf(at) }
    const body = { record_id: flag.id, model_name: 'FeatureFlag', payload, ...start } as const
    await post('project/scheduled_changes/', {}, body)
    say(`${flag.key} is rolled out in ${percentages.length} steps.`)
    close()
    return true
  }
  return (
    <Dialog title={`Roll out ${flag.key} safely`} close={close} side>
      <Form action={isComplete ? 'Start the rollout' : null} submit={submit}>
        {rules.length > 1 && (
          <Choice
            label="Rule"
            value={condition}
            change={setCondition}
            options={rules.map((rule, index) => [String(index), audienceOf(rule, references.names)] as const)}
          />
        )}
        <TextField
          label="Steps in %"
          value={steps}
          change={setSteps}
          hint={percentages === null ? 'Write percentages from 0 to 100, with commas.' : undefined}
        />
        <TextField isNarrow label="Hours between two steps" type="number" value={hours} change={setHours} />
        <TextField
          label="Start"
          type="datetime-local"
          value={at}
          change={setAt}
          hint="Empty means now. In the time zone of this browser."
        />
        <Check label="Turn back if more people have errors" value={isGuarded} change={setGuarded} />
        {isGuarded && (
          <TextField
            isNarrow
            label="Tolerated difference in percentage points"
            type="number"
            value={tolerance}
            change={setTolerance}
            hint="Errors are events $exception. People with the flag are compared with people without it."
          />
        )}
        {!flag.active && <p class="notice">The first step switches the flag on.</p>}
        {isComplete && <Preview flag={flag} payload={payload} subjects={references.names.subjects} />}
      </Form>
    </Dialog>
  )
}

interface PreviewProps {
  readonly flag: Flag
  readonly payload: Shapes['ScheduledPayload']
  readonly subjects: string
}

/** Shows what each step would change. Nothing is saved to find this out. */
function Preview({ flag, payload, subjects }: PreviewProps) {
  const body = { record_id: flag.id, payload }
  const loaded = useLoaded(`preview ${flag.version} ${JSON.stringify(body)}`, (signal) =>
    post('project/scheduled_changes/preview/', {}, body, signal),
  )
  return (
    <Shown of={loaded}>
      {({ steps }) => (
        <>
          <Table
            label="What each step changes"
            rows={steps}
            columns={[
              ['Step', ({ rollout_percentage: share }) => `${exact(share)} %`],
              ['Gain the flag', 'newly_enabled', 'count'],
              ['Lose it', 'newly_disabled', 'count'],
              ['Have it then', 'enabled', 'count'],
            ]}
          />
          <p class="quiet">{sampleText(steps[0], subjects)}</p>
        </>
      )}
    </Shown>
  )
}

function sampleText(step: Shapes['ScheduledPreview']['steps'][number] | undefined, subjects: string): string {
  if (step === undefined) return ''
  const { sampled, total } = step
  return sampled < total
    ? `In a sample of ${exact(sampled)} of ${exact(total)} ${subjects}.`
    : `Of ${exact(total)} ${subjects}.`
}
