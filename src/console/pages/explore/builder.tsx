/** The query builder: the counted events, the way of counting, and the filters. */
import {
  AddFilter,
  AddressFields,
  Button,
  Choice,
  type FieldRecord,
  FilterChips,
  interval,
  setQuery,
  TextField,
  useEventNames,
  usePropertyNames,
} from '../../kit.ts'
import { choice, choices, MATHS, readsProperty, type SeriesChoice, setChoices, type Way, way } from './question.ts'

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'

const INTERVAL: FieldRecord = {
  interval: {
    kind: 'choice',
    label: 'Interval',
    value: 'day',
    options: ['hour', 'day', 'week', 'month'].map((one) => [one, `by ${one}`] as const),
  },
}

/** The fields of each kind of query, besides its series. */
const FIELDS: Readonly<Record<Way, FieldRecord>> = {
  get trends() {
    // Without a choice, trends have the interval that fits the range.
    const { interval: field } = INTERVAL
    return {
      formula: { label: 'Formula', hint: 'A / B * 100', isShown: () => choices.value.length > 1 },
      interval: { ...field, value: interval.value },
    } as FieldRecord
  },
  funnel: {
    order: {
      kind: 'choice',
      label: 'Order',
      value: 'ordered',
      options: [
        ['ordered', 'in this order'],
        ['strict', 'nothing in between'],
        ['unordered', 'in any order'],
      ],
    },
    days: { label: 'Within days', type: 'number', value: '14', isNarrow: true },
  },
  retention: {
    period: {
      kind: 'choice',
      label: 'Period',
      value: 'Week',
      options: ['Day', 'Week', 'Month'].map((one) => [one, `${one}s`] as const),
    },
    first: { kind: 'check', label: 'Only who came for the first time' },
  },
  paths: {
    items: {
      kind: 'choice',
      label: 'Steps are',
      value: '$pageview',
      options: [
        ['$pageview', 'pages'],
        ['$screen', 'screens'],
        ['custom_event', 'events of yours'],
        ['all', 'all events'],
      ],
    },
    start: { label: 'Beginning at', placeholder: 'anywhere' },
    steps: { label: 'Steps', type: 'number', value: '4', isNarrow: true },
  },
  lifecycle: INTERVAL,
  stickiness: INTERVAL,
}

/** The builder of the chosen kind of query. */
export function Builder() {
  return (
    <section class="card builder" aria-label="What is counted">
      {way.value !== 'paths' && <SeriesFields />}
      {way.value === 'trends' && <Breakdown />}
      <AddressFields fields={FIELDS[way.value]} />
      <div>
        <h3>Of whom</h3>
        <FilterChips />
        <AddFilter />
      </div>
    </section>
  )
}

function SeriesFields() {
  const list = choices.value
  const now = way.value
  const most = now === 'lifecycle' ? 1 : now === 'retention' ? 2 : LETTERS.length
  const least = now === 'funnel' ? 2 : 1
  return (
    <ol class="series-fields">
      {list.slice(0, most).map((one, at) => (
        <li key={at}>
          <OneSeries one={one} label={labelOf(at)} set={(next) => setChoices(list.with(at, next))} />
          {list.length > least && (
            <Button aria-label={`Remove ${labelOf(at)}`} press={() => setChoices(list.toSpliced(at, 1))}>
              ✕
            </Button>
          )}
        </li>
      ))}
      {list.length < most && (
        <li>
          <Button press={() => setChoices([...list, { event: list.at(-1)?.event ?? null }])}>
            + {now === 'funnel' ? 'Step' : 'Series'}
          </Button>
        </li>
      )}
    </ol>
  )
}

interface OneSeriesProps {
  readonly one: SeriesChoice
  readonly label: string
  readonly set: (next: SeriesChoice) => void
}

function OneSeries({ one, label, set }: OneSeriesProps) {
  const { event, math = 'total', property = '' } = one
  const names = useEventNames()
  const numeric = usePropertyNames('event')
  const name = { options: names, placeholder: 'every event', value: event ?? '' }
  return (
    <>
      <TextField label={label} {...name} change={(next) => set({ ...one, event: next === '' ? null : next })} />
      {way.value === 'trends' && (
        <Choice
          label="Counted as"
          isQuiet
          value={math}
          options={MATHS}
          change={(next) => set({ ...one, math: next })}
        />
      )}
      {way.value === 'trends' && readsProperty(math) && (
        <TextField
          label="Property"
          value={property}
          options={numeric}
          change={(next) => set({ ...one, property: next })}
        />
      )}
    </>
  )
}

function labelOf(at: number): string {
  if (way.value === 'funnel') return `Step ${at + 1}`
  if (way.value === 'retention') return at === 0 ? 'Came by' : 'Came back by'
  return `Event ${LETTERS[at]}`
}

const OWNERS = [
  ['event', 'property of events'],
  ['person', 'property of persons'],
] as const

/** Two fields for one URL parameter: the owner of the breakdown property, and its name. */
function Breakdown() {
  const events = usePropertyNames('event')
  const [type = 'event', ...rest] = choice('by', 'event:').split(':')
  const key = rest.join(':')
  const set = (of: string, name: string) =>
    setQuery({ by: of === 'event' && name === '' ? null : `${of}:${name}` }, { replace: true })
  return (
    <div class="row">
      <Choice<string> label="Broken down by" value={type} options={OWNERS} change={(of) => set(of, key)} />
      <TextField isNarrow label="Property" value={key} options={events} change={(name) => set(type, name)} />
    </div>
  )
}
