/** The fields of the rule of a cohort: groups of conditions on events, properties and other cohorts. */
import {
  actionIn,
  actionValue,
  Button,
  Choice,
  FilterFields,
  FilterList,
  type Options,
  type PropertyFilter,
  type Suggestion,
  TextField,
  useActionSuggestions,
  useEventSuggestions,
} from '../../kit.ts'
import {
  COMPARISONS,
  type Condition,
  conditionOf,
  type Group,
  KINDS,
  type Kind,
  kindOf,
  type Match,
  oftenOf,
  type Rule,
  type RuleNames,
  sentenceOf,
  UNITS,
  withEventFilters,
  withOften,
} from './rule.ts'

/** The other cohorts that a rule may refer to. */
export type OtherCohorts = readonly (readonly [id: number, name: string])[]

interface EditorProps {
  readonly rule: Rule
  readonly change: (rule: Rule) => void
  readonly names: RuleNames
  readonly cohorts: OtherCohorts
}

/** The data that the fields of all conditions use. */
type Shared = Pick<EditorProps, 'names' | 'cohorts'> & { readonly events: readonly Suggestion[] }

const MATCHES: Options<Match> = [
  ['AND', 'all conditions'],
  ['OR', 'any condition'],
]
const ONE: Condition = { type: 'behavioral', key: '' }
const NEW_EVENT_FILTER: PropertyFilter = { key: '', operator: 'exact', value: '', type: 'event' }

/** The fields of a rule. */
export function RuleEditor({ rule, change, names, cohorts }: EditorProps) {
  const [known, actions] = [useEventSuggestions(), useActionSuggestions()]
  const events = [...known, ...actions]
  const { values: groups } = rule
  const firstCohort = cohorts[0]?.[0] ?? null
  const newGroup: Group = { type: 'AND', values: [conditionOf('did', ONE, firstCohort)] }
  return (
    <div class="stack">
      {groups.length > 1 && (
        <Choice
          label="People match"
          value={rule.type}
          options={[
            ['AND', 'all groups'],
            ['OR', 'any group'],
          ]}
          change={(type) => change({ ...rule, type })}
        />
      )}
      {groups.map((group, at) => (
        <GroupFields
          key={`${at} of ${groups.length}`}
          group={group}
          title={groups.length > 1 ? `Group ${at + 1}` : 'People who match'}
          change={(next) => {
            const rest = next.values.length === 0 ? groups.toSpliced(at, 1) : groups.with(at, next)
            change({ ...rule, values: rest })
          }}
          shared={{ names, cohorts, events }}
        />
      ))}
      <p>
        <Button press={() => change({ ...rule, values: [...groups, newGroup] })}>
          {groups.length === 0 ? '+ Condition' : '+ Group'}
        </Button>
      </p>
    </div>
  )
}

interface GroupProps {
  readonly group: Group
  readonly title: string
  readonly change: (group: Group) => void
  readonly shared: Shared
}

function GroupFields({ group, title, change, shared }: GroupProps) {
  const { type, values } = group
  return (
    <fieldset class="filter-list">
      <legend>{title}</legend>
      {values.length > 1 && (
        <Choice label="Match" value={type} options={MATCHES} change={(next) => change({ ...group, type: next })} />
      )}
      {values.map((condition, at) => (
        <ConditionFields
          key={`${at} of ${values.length}`}
          condition={condition}
          change={(next) => change({ ...group, values: values.with(at, next) })}
          remove={() => change({ ...group, values: values.toSpliced(at, 1) })}
          title={`condition ${at + 1} of ${title.toLowerCase()}`}
          shared={shared}
        />
      ))}
      <Button
        press={() => change({ ...group, values: [...values, conditionOf('did', ONE, shared.cohorts[0]?.[0] ?? null)] })}
      >
        + Condition<span class="unseen"> in {title.toLowerCase()}</span>
      </Button>
    </fieldset>
  )
}

interface ConditionProps {
  readonly condition: Condition
  readonly change: (condition: Condition) => void
  readonly remove: () => void
  readonly title: string
  readonly shared: Shared
}

function ConditionFields({ condition, change, remove, title, shared }: ConditionProps) {
  const kind = kindOf(condition)
  const removal = (
    <Button press={remove} aria-label={`Remove ${title}`}>
      ✕
    </Button>
  )
  if (kind === 'other') {
    return (
      <div class="condition">
        <div class="row">
          <p>
            {sentenceOf(condition, shared.names)} <small class="quiet">Only the API can change this condition.</small>
          </p>
          {removal}
        </div>
      </div>
    )
  }
  const first = shared.cohorts[0]?.[0] ?? null
  const eventFilters = (condition['event_filters'] ?? []) as readonly PropertyFilter[]
  const setEventFilters = (filters: readonly PropertyFilter[]) => change(withEventFilters(condition, filters))
  return (
    <div class="condition">
      <div class="row">
        <Choice
          label="People who"
          isQuiet
          value={kind}
          options={KINDS}
          change={(chosen) => change(conditionOf(chosen, condition, first))}
        />
        {removal}
      </div>
      {kind === 'person' && (
        <FilterFields
          filter={condition as unknown as PropertyFilter}
          types={['person']}
          change={(next) => change(next as unknown as Condition)}
        />
      )}
      {(kind === 'in' || kind === 'out') && (
        <CohortField condition={condition} change={change} cohorts={shared.cohorts} />
      )}
      {condition.type === 'behavioral' && (
        <EventFields condition={condition} change={change} events={shared.events} kind={kind} />
      )}
      {eventFilters.length > 0 && (
        <FilterList
          title="Only events where"
          one="event filter"
          types={['event']}
          filters={eventFilters}
          change={setEventFilters}
        />
      )}
      {condition.type === 'behavioral' && eventFilters.length === 0 && (
        <p>
          <Button press={() => setEventFilters([NEW_EVENT_FILTER])}>
            + Event filter<span class="unseen"> of {title}</span>
          </Button>
        </p>
      )}
    </div>
  )
}

interface EventProps {
  readonly condition: Condition
  readonly change: (condition: Condition) => void
  readonly events: readonly Suggestion[]
  readonly kind: Kind
}

/**
 * The labels of the time fields, for the kinds of conditions whose labels are not the usual ones. The first label
 * belongs to the time in which the event counts. The second label is empty if the kind has no second time.
 */
const TIME_LABELS: Partial<Readonly<Record<Kind, readonly [first: string, second: string]>>> = {
  sequence: ['In the last', 'Within'],
  regularly: ['Periods of', ''],
  stopped: ['In the last', 'But not in the last'],
  again: ['Not in the last', 'But again in the last'],
}

/** The event of a condition, how often it happened, and when. */
function EventFields({ condition, change, events, kind }: EventProps) {
  const { operator, times } = oftenOf(condition)
  const [first, second] = TIME_LABELS[kind] ?? ['In the last', '']
  const members = { condition, change }
  return (
    <div class="filter-fields">
      <EventField {...members} label="Event" name="key" type="event_type" events={events} />
      {(kind === 'did' || kind === 'regularly') && (
        <>
          <Choice
            label="How often"
            value={operator}
            options={COMPARISONS}
            change={(next) => change(withOften(condition, { times, operator: next }))}
          />
          <TextField
            isNarrow
            type="number"
            label="Times"
            value={shownNumber(times)}
            change={(words) => change(withOften(condition, { operator, times: Number(words) }))}
          />
        </>
      )}
      {kind === 'regularly' && (
        <>
          <NumberField {...members} label="In at least" name="min_periods" />
          <NumberField {...members} label="Of the last" name="total_periods" />
        </>
      )}
      {kind === 'sequence' && (
        <EventField {...members} label="And then" name="seq_event" type="seq_event_type" events={events} />
      )}
      {kind === 'sequence' && <TimeFields {...members} label={second} prefix="seq_" />}
      <TimeFields {...members} label={first} prefix="" />
      {second !== '' && kind !== 'sequence' && <TimeFields {...members} label={second} prefix="seq_" />}
    </div>
  )
}

type MemberProps = Pick<EventProps, 'condition' | 'change'> & { readonly label: string }

/** A field in which the reader chooses an event or an action. */
function EventField({
  condition,
  change,
  label,
  name,
  type,
  events,
}: MemberProps & Pick<EventProps, 'events'> & { readonly name: string; readonly type: string }) {
  const value = String(condition[name])
  function choose(chosen: string) {
    const id = actionIn(chosen)
    change({ ...condition, [name]: id ?? chosen, [type]: id === null ? 'events' : 'actions' })
  }
  return (
    <TextField
      picks
      isNarrow
      label={label}
      value={condition[type] === 'actions' ? actionValue(value) : value}
      options={events}
      change={choose}
    />
  )
}

/** A field for a whole number. */
function NumberField({ condition, change, label, name }: MemberProps & { readonly name: string }) {
  return (
    <TextField
      isNarrow
      type="number"
      label={label}
      value={shownNumber(condition[name])}
      change={(words) => change({ ...condition, [name]: Number(words) })}
    />
  )
}

/** The fields of a length of time: a number and its unit. */
function TimeFields({ prefix, ...member }: MemberProps & { readonly prefix: '' | 'seq_' }) {
  const { condition, change, label } = member
  const unit = `${prefix}time_interval`
  return (
    <div class="together">
      <NumberField {...member} name={`${prefix}time_value`} />
      <Choice
        label={`Unit of “${label}”`}
        isQuiet
        value={String(condition[unit])}
        options={UNITS}
        change={(next) => change({ ...condition, [unit]: next })}
      />
    </div>
  )
}

/** Returns the text of a field for a number. The text is empty for 0, which no rule may contain. */
function shownNumber(number: unknown): string {
  return number === 0 ? '' : String(number)
}

function CohortField({
  condition,
  change,
  cohorts,
}: Pick<ConditionProps, 'condition' | 'change'> & { readonly cohorts: OtherCohorts }) {
  if (cohorts.length === 0) return <span class="quiet">There is no other cohort yet.</span>
  const options = cohorts.map(([id, name]) => [String(id), name] as const)
  return (
    <Choice
      label="Cohort"
      value={String(condition.value)}
      options={options}
      change={(id) => change({ ...condition, value: Number(id) })}
    />
  )
}
