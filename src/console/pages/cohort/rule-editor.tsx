/** The fields of the rule of a cohort: groups of conditions on events, properties and other cohorts. */
import {
  Button,
  Choice,
  FilterFields,
  FilterList,
  type Options,
  type PropertyFilter,
  type Suggestion,
  TextField,
  useEventSuggestions,
} from '../../kit.ts'
import {
  COMPARISONS,
  type Condition,
  conditionOf,
  type Group,
  KINDS,
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
  const events = useEventSuggestions()
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
        <EventFields condition={condition} change={change} events={shared.events} isCounted={kind === 'did'} />
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
  readonly isCounted: boolean
}

/** The event of a condition, how often it happened, and when. */
function EventFields({ condition, change, events, isCounted }: EventProps) {
  const often = oftenOf(condition)
  return (
    <div class="filter-fields">
      <TextField
        picks
        isNarrow
        label="Event"
        value={condition.key}
        options={events}
        change={(key) => change({ ...condition, key })}
      />
      {isCounted && (
        <>
          <Choice
            label="How often"
            value={often.operator === 'eq' ? 'exact' : often.operator}
            options={COMPARISONS}
            change={(operator) => change(withOften(condition, { ...often, operator }))}
          />
          <TextField
            isNarrow
            type="number"
            label="Times"
            value={shownNumber(often.times)}
            change={(words) => change(withOften(condition, { ...often, times: Number(words) }))}
          />
        </>
      )}
      <TextField
        isNarrow
        type="number"
        label="In the last"
        value={shownNumber(condition['time_value'])}
        change={(words) => change({ ...condition, time_value: Number(words) })}
      />
      <Choice
        label="Unit"
        isQuiet
        value={String(condition['time_interval'])}
        options={UNITS}
        change={(unit) => change({ ...condition, time_interval: unit })}
      />
    </div>
  )
}

/** Returns a number for a field. The field is empty for 0, which no rule may contain. */
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
