/**
 * The query builder: which events are counted, how they are counted, and with which filters. The URL contains all
 * choices.
 */
import { useState } from 'preact/hooks'
import {
  breakdownsOf,
  closestAddress,
  DEFAULTS,
  type ExclusionChoice,
  hasInterval,
  leftOutOf,
  rangeWords,
  type SeriesChoice,
  type Way,
} from '../../base/query-address.ts'
import {
  AddFilter,
  AddressFields,
  actionIn,
  actionValue,
  Button,
  Choice,
  type FieldRecord,
  FilterChips,
  go,
  type Options,
  type PropertyFilter,
  path,
  project,
  query,
  type Suggestion,
  setQuery,
  TextField,
  useActionSuggestions,
  useEventSuggestions,
  useGet,
  usePropertyNames,
  usePropertyValues,
} from '../../kit.ts'
import {
  chartInterval,
  choice,
  choices,
  exclusions,
  isWhole,
  MATHS,
  question,
  readsProperty,
  setChoices,
  setExclusions,
  way,
} from './question.ts'

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const INTERVALS: Options = [
  ['hour', 'Hour'],
  ['day', 'Day'],
  ['week', 'Week'],
  ['month', 'Month'],
]

/** For each kind of query, its form fields besides series, breakdown and interval. */
const FIELDS: Readonly<Record<Way, FieldRecord>> = {
  trends: {
    formula: {
      label: 'Formula',
      placeholder: 'A / B * 100',
      hint: 'The letters stand for the events above.',
      isShown: () => choices.value.length > 1,
    },
    display: {
      kind: 'choice',
      label: 'Shown as',
      value: 'ActionsLineGraph',
      options: [
        ['ActionsLineGraph', 'Lines'],
        ['ActionsBar', 'Stacked bars'],
        ['ActionsAreaGraph', 'Areas'],
        ['ActionsLineGraphCumulative', 'Cumulative lines'],
        ['BoldNumber', 'One number'],
        ['ActionsBarValue', 'Bars of totals'],
        ['ActionsPie', 'Pie'],
        ['ActionsTable', 'Table'],
      ],
    },
    smoothing: {
      kind: 'choice',
      label: 'Smoothing',
      value: '1',
      options: [
        ['1', 'None'],
        ['7', 'Moving average of 7 intervals'],
        ['30', 'Moving average of 30 intervals'],
      ],
    },
  },
  funnel: {
    show: {
      kind: 'choice',
      label: 'Shown as',
      value: 'steps',
      options: [
        ['steps', 'Steps'],
        ['time_to_convert', 'Time to convert'],
        ['trends', 'Conversion over time'],
      ],
    },
    order: {
      kind: 'choice',
      label: 'Order of steps',
      value: 'ordered',
      options: [
        ['ordered', 'In sequence'],
        ['strict', 'Strictly in sequence'],
        ['unordered', 'In any order'],
      ],
    },
    window: { label: 'Time to complete', type: 'number', value: DEFAULTS.window, isNarrow: true },
    unit: {
      kind: 'choice',
      label: 'Unit',
      value: DEFAULTS.unit,
      options: ['minute', 'hour', 'day', 'week', 'month'].map((one) => [one, `${one}s`] as const),
    },
  },
  retention: {
    period: {
      kind: 'choice',
      label: 'Period',
      value: DEFAULTS.period,
      options: INTERVALS.map(([, words]) => [words, words] as const),
    },
    periods: { label: 'Number of periods', type: 'number', value: DEFAULTS.periods, isNarrow: true },
    first: {
      kind: 'choice',
      label: 'People of a period',
      value: 'retention_recurring',
      options: [
        ['retention_recurring', 'Everyone with the first event'],
        ['retention_first_time', 'First time only'],
        ['retention_first_ever_occurrence', 'First time ever only'],
      ],
    },
    cumulative: { kind: 'check', label: 'Count people who return later, too' },
  },
  paths: {
    items: {
      kind: 'choice',
      label: 'Steps of a path',
      value: DEFAULTS.items,
      options: [
        ['$pageview', 'Pages'],
        ['$screen', 'Screens'],
        ['custom_event', 'Your events'],
        ['all', 'All events'],
        ['everything', 'All events, also technical ones'],
      ],
    },
    steps: { label: 'Maximum steps of a path', type: 'number', value: DEFAULTS.steps, isNarrow: true },
    edges: { label: 'Maximum connections shown', type: 'number', value: DEFAULTS.edges, isNarrow: true },
  },
  lifecycle: {},
  stickiness: { cumulative: { kind: 'check', label: 'Count people with at least as many periods' } },
}

/** The form that builds a query of the chosen kind. */
export function Builder() {
  if (isWhole.value) return <KeptWhole />
  const now = way.value
  return (
    <section class="card builder" aria-label="Query">
      {now !== 'paths' && <SeriesFields />}
      {now === 'paths' && <PathFields />}
      {(now === 'trends' || now === 'funnel') && <Breakdown />}
      <div class="row">
        {hasInterval(now, query.value) && (
          <Choice
            label="Interval"
            value={chartInterval.value}
            options={INTERVALS}
            change={(interval) => setQuery({ interval })}
          />
        )}
        <AddressFields fields={FIELDS[now]} />
      </div>
      {now === 'funnel' && <Exclusions />}
      {now === 'paths' && <LeftOut />}
      <div>
        <h3>Filters</h3>
        <FilterChips />
        <AddFilter />
      </div>
      <AddressFields fields={INTERNAL} />
      {now === 'retention' && query.value.has('span') && <Span />}
    </section>
  )
}

/**
 * Shows the fixed date range of a retention, which the query of an insight may have. Without a fixed range, a retention
 * shows the periods up to now.
 */
function Span() {
  const words = rangeWords(question.value) ?? 'a fixed range'
  return (
    <p class="row">
      <span>Periods of {words}</span>
      <Button press={() => setQuery({ span: null })}>Up to now</Button>
    </p>
  )
}

const INTERNAL: FieldRecord = {
  internal: {
    kind: 'choice',
    label: 'Internal and test users',
    value: '',
    options: [
      ['', 'Included'],
      ['hide', 'Left out'],
    ],
  },
}

/**
 * Tells the reader that the query has options that the builder cannot show. The options stay until the reader removes
 * them.
 */
function KeptWhole() {
  const drop = () => {
    const address = closestAddress(question.value)
    for (const name of ['insight', 'dashboard']) {
      const value = query.value.get(name)
      if (value !== null) address.set(name, value)
    }
    go(`${path.value}?${address.toString()}`)
  }
  return (
    <section class="card builder" aria-label="Query">
      <h3>Saved with options that this page cannot edit</h3>
      <p>The answer takes all of them into account.</p>
      <details>
        <summary>Show the query</summary>
        <pre>{JSON.stringify(question.value, null, 2)}</pre>
      </details>
      <p>
        <Button press={drop}>Edit without these options</Button>
      </p>
    </section>
  )
}

/** Returns the name under which the events that the reader has chosen last are stored in this browser. */
const recentEvents = () => `events of ${project.value.id}`
const EVERY: Suggestion = { value: '', words: 'All events' }
/** The value that stands for all events in a field that is empty before a choice. No event can have this name. */
const ALL = '\u0000'

interface EventFieldProps {
  readonly label: string
  readonly one: SeriesChoice
  readonly set: (next: SeriesChoice) => void
  readonly known: readonly Suggestion[]
}

/** Returns the known events and actions. All fields of a form share them, so that they are requested once. */
function useSuggestions(): readonly Suggestion[] {
  return [...useEventSuggestions(), ...useActionSuggestions()]
}

/** A field in which the reader chooses an event or an action. */
function EventField({ label, one, set, known }: EventFieldProps) {
  function choose(value: string) {
    const { action: _, ...rest } = one
    set({ ...rest, ...chosenIn(value) })
  }
  return (
    <TextField
      picks
      label={label}
      value={one.action === undefined ? (one.event ?? '') : actionValue(one.action)}
      options={[EVERY, ...known]}
      recent={recentEvents()}
      change={choose}
    />
  )
}

/** Returns the event or the action that the value of a field for event names stands for. */
function chosenIn(value: string): SeriesChoice {
  const id = actionIn(value)
  if (id === null) return { event: value === '' ? null : value }
  return { event: null, ...(id !== '' && { action: Number(id) }) }
}

interface NextFieldProps extends Pick<EventFieldProps, 'label' | 'known'> {
  readonly add: (next: SeriesChoice) => void
}

/** A field that adds the event that the reader chooses. It is empty again after that. */
function NextField({ label, known, add }: NextFieldProps) {
  return (
    <TextField
      picks
      isNarrow
      isQuiet
      label={label}
      placeholder={`+ ${label}`}
      value=""
      options={[{ ...EVERY, value: ALL }, ...known]}
      recent={recentEvents()}
      change={(value) => add(chosenIn(value))}
    />
  )
}

function SeriesFields() {
  const list = choices.value
  const known = useSuggestions()
  const now = way.value
  const most = now === 'lifecycle' ? 1 : now === 'retention' ? 2 : LETTERS.length
  const least = now === 'funnel' ? 2 : 1
  return (
    <ol class="series-fields">
      {list.slice(0, most).map((one, at) => (
        <li key={at}>
          <OneSeries
            one={one}
            label={labelOf(at)}
            known={known}
            set={(next) => setChoices(list.with(at, next))}
            remove={list.length > least ? () => setChoices(list.toSpliced(at, 1)) : null}
          />
        </li>
      ))}
      {list.length < most && (
        <li>
          <NextField
            label={now === 'funnel' ? 'Add a step' : now === 'retention' ? 'Add a returning event' : 'Add an event'}
            known={known}
            add={(next) => setChoices([...list, next])}
          />
        </li>
      )}
    </ol>
  )
}

interface OneSeriesProps extends EventFieldProps {
  /** Removes the series. Null if the query needs the series. */
  readonly remove: (() => void) | null
}

function OneSeries({ one, label, set, known, remove }: OneSeriesProps) {
  const { math = 'total', property = '' } = one
  const filters: readonly PropertyFilter[] = one.filters ?? []
  const properties = usePropertyNames('event', one.event === null ? [] : [one.event])
  const setFilters = (next: readonly PropertyFilter[]) => {
    const { filters: _, ...rest } = one
    set(next.length === 0 ? rest : { ...rest, filters: next })
  }
  function setMath(next: string) {
    const { math: _, property: before, ...rest } = one
    set({
      ...rest,
      ...(next !== 'total' && { math: next }),
      ...(readsProperty(next) && { property: before ?? '' }),
    })
  }
  return (
    <>
      <EventField label={label} one={one} set={set} known={known} />
      {remove && (
        <Button aria-label={`Remove ${label}`} press={remove}>
          ✕
        </Button>
      )}
      {way.value === 'trends' && <Choice label="Counted as" isQuiet value={math} options={MATHS} change={setMath} />}
      {way.value === 'trends' && readsProperty(math) && (
        <TextField
          picks
          label="Property"
          value={property}
          options={properties}
          change={(next) => set({ ...one, property: next })}
        />
      )}
      <div class="series-filters">
        <FilterChips filters={filters} change={setFilters} />
        <AddFilter label={label} add={(filter) => setFilters([...filters, filter])} />
      </div>
    </>
  )
}

function labelOf(at: number): string {
  if (way.value === 'funnel') return `Step ${at + 1}`
  if (way.value === 'retention') return at === 0 ? 'First event' : 'Returning event'
  return `Event ${LETTERS[at]}`
}

const OWNERS: Options<'event' | 'person' | 'session'> = [
  ['event', 'Event property'],
  ['person', 'Person property'],
  ['session', 'Session property'],
]
const BREAKDOWNS_MAX = 3

/**
 * The fields for the properties by which numbers are broken down. A query for trends can have several, and a funnel
 * only one.
 */
function Breakdown() {
  const chosen = breakdownsOf(query.value)
  const set = (next: typeof chosen) => setQuery({ by: next.map(({ type, key }) => `${type}:${key}`) })
  const most = way.value === 'funnel' ? 1 : BREAKDOWNS_MAX
  // If another breakdown is allowed, an empty row comes last, in which the reader can choose its property.
  const rows = chosen.length < most ? [...chosen, { type: 'event', key: '' }] : chosen
  return (
    <fieldset>
      <legend>Break down by</legend>
      {rows.map((one, at) => (
        <BreakdownRow
          key={`${at} ${one.key}`}
          chosen={one}
          set={(next) =>
            set(next === null ? chosen.toSpliced(at, 1) : [...chosen.slice(0, at), next, ...chosen.slice(at + 1)])
          }
        />
      ))}
      {chosen.length > 0 && <AddressFields fields={way.value === 'funnel' ? FUNNEL_VALUES : VALUES} />}
    </fieldset>
  )
}

const VALUES: FieldRecord = {
  top: { label: 'Values shown', type: 'number', value: DEFAULTS.top, isNarrow: true },
}
const FUNNEL_VALUES: FieldRecord = {
  ...VALUES,
  attribution: {
    kind: 'choice',
    label: 'Value of',
    value: 'first_touch',
    options: [
      ['first_touch', 'the first event with a value'],
      ['last_touch', 'the last event with a value'],
      ['all_events', 'each event by itself'],
    ],
  },
}

type BreakdownChoice = ReturnType<typeof breakdownsOf>[number]

interface BreakdownRowProps {
  readonly chosen: BreakdownChoice
  /** Sets the chosen property. Null removes the breakdown. */
  readonly set: (next: BreakdownChoice | null) => void
}

function BreakdownRow({ chosen, set }: BreakdownRowProps) {
  const [type, setType] = useState(chosen.type)
  if (type === 'cohort') return <CohortRow chosen={chosen} set={set} />
  return <PropertyRow chosen={chosen} set={set} type={type} setType={setType} />
}

interface PropertyRowProps extends BreakdownRowProps {
  readonly type: string
  readonly setType: (type: string) => void
}

function PropertyRow({ chosen: { key }, set, type, setType }: PropertyRowProps) {
  const names = usePropertyNames(type === 'person' || type === 'session' ? type : 'event')
  function setOwner(next: string) {
    setType(next)
    // Persons and events may have properties with the same name. After a change of the owner, the reader must choose
    // the property again.
    if (key !== '') set(null)
  }
  return (
    <div class="row">
      <Choice<string> isQuiet label="Owner of the property" value={type} options={OWNERS} change={setOwner} />
      <TextField
        picks
        isNarrow
        isQuiet
        label="Break down by property"
        placeholder="Property"
        value={key}
        options={names}
        change={(name) => set(name === '' ? null : { type, key: name })}
      />
      {key !== '' && (
        <Button aria-label={`Do not break down by ${key}`} press={() => set(null)}>
          ✕
        </Button>
      )}
    </div>
  )
}

/** Shows a breakdown by cohorts. The builder cannot create one, but the query of an insight may have one. */
function CohortRow({ chosen: { key }, set }: BreakdownRowProps) {
  const { data } = useGet('project/cohorts/', { limit: 1000 } as never)
  const names = key.split(',').map((id) => {
    if (id === 'all') return 'everyone'
    return data?.results.find((one) => one.id === Number(id))?.name ?? `cohort ${id}`
  })
  return (
    <div class="row">
      <span>Cohorts: {names.join(', ')}</span>
      <Button aria-label="Do not break down by cohorts" press={() => set(null)}>
        ✕
      </Button>
    </div>
  )
}

/** The fields for events that take persons out of a funnel if they happen between two steps. */
function Exclusions() {
  const list = exclusions.value
  const known = useSuggestions()
  const steps = choices.value.map((_, at) => [String(at), `step ${at + 1}`] as const)
  const last = steps.length - 1
  const add = () => setExclusions([...list, { event: null, from: 0, to: last }])
  return (
    <fieldset>
      <legend>Leave out people with</legend>
      {list.map((one, at) => {
        const set = (changes: Partial<ExclusionChoice>) => setExclusions(list.with(at, { ...one, ...changes }))
        const label = `Exclusion ${at + 1}`
        return (
          <div class="row" key={`${at} of ${list.length}`}>
            <EventField
              label={label}
              one={one}
              set={(next) => setExclusions(list.with(at, { ...next, from: one.from, to: one.to }))}
              known={known}
            />
            <Choice<string>
              label="after"
              value={String(one.from)}
              options={steps.slice(0, -1)}
              change={(from) => set({ from: Number(from) })}
            />
            <Choice<string>
              label="before"
              value={String(one.to)}
              options={steps.slice(1)}
              change={(to) => set({ to: Number(to) })}
            />
            <Button aria-label={`Remove ${label}`} press={() => setExclusions(list.toSpliced(at, 1))}>
              ✕
            </Button>
          </div>
        )
      })}
      <Button press={add}>+ Exclusion</Button>
    </fieldset>
  )
}

/**
 * For each kind of item in a path, the event property that contains the item. For kinds that are not listed, the items
 * are event names.
 */
const ITEM_KEYS: Readonly<Record<string, string>> = { $pageview: '$current_url', $screen: '$screen_name' }

/** The fields for the first and the last step of paths. */
function PathFields() {
  const items = choice('items', DEFAULTS.items)
  const [begun, setBegun] = useState('')
  const key = ITEM_KEYS[items] ?? ''
  const events = useEventSuggestions()
  const values = usePropertyValues('event', key, begun)
  const options = key === '' ? events : values
  return (
    <div class="row">
      {(['start', 'end'] as const).map((name) => (
        <TextField
          key={name}
          label={name === 'start' ? 'Start of the path' : 'End of the path'}
          placeholder="Any step"
          value={choice(name, '')}
          options={options}
          typed={setBegun}
          change={(next) => setQuery({ [name]: next })}
        />
      ))}
    </div>
  )
}

/**
 * The fields for items that paths leave out. If paths are made of all events, the technical events of SDKs are left out
 * unless the reader chooses others.
 */
function LeftOut() {
  const list = leftOutOf(query.value)
  const events = useEventSuggestions()
  const set = (next: readonly string[]) => {
    const isEmpty = next.length === 0 && choice('items', '') === 'all'
    setQuery({ without: next, ...(isEmpty && { items: 'everything' }) })
  }
  return (
    <div>
      <h3>Steps that are left out</h3>
      {list.length > 0 && (
        <ul class="chips" aria-label="Steps that are left out">
          {list.map((one, at) => (
            <li key={one}>
              <bdi>{one}</bdi>
              <Button aria-label={`Count ${one} as a step`} press={() => set(list.toSpliced(at, 1))}>
                ✕
              </Button>
            </li>
          ))}
        </ul>
      )}
      <TextField
        isQuiet
        label="Leave out a step"
        placeholder="Leave out a step"
        value=""
        options={events}
        change={(next) => set([...list, next])}
      />
    </div>
  )
}
