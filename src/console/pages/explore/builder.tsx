/** What is counted, how, and of whom: the left side of the page. */
import {
  AddFilter,
  Check,
  Choice,
  FilterChips,
  setQuery,
  TextField,
  useEventNames,
  usePropertyNames,
} from '../../kit.ts'
import { choice, choices, MATHS, readsProperty, type SeriesChoice, setChoices, way } from './question.ts'

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const INTERVALS = [
  ['hour', 'by hour'],
  ['day', 'by day'],
  ['week', 'by week'],
  ['month', 'by month'],
] as const

/** The builder of the way that is chosen. */
export function Builder() {
  const now = way.value
  return (
    <section class="card builder" aria-label="What is counted">
      {now === 'paths' ? <PathsFields /> : <SeriesFields />}
      {now === 'trends' ? <TrendsFields /> : null}
      {now === 'funnel' ? <FunnelFields /> : null}
      {now === 'retention' ? <RetentionFields /> : null}
      {now === 'lifecycle' || now === 'stickiness' ? <Interval otherwise="day" /> : null}
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
  const names = useEventNames()
  const numeric = usePropertyNames('event')
  const now = way.value
  const countMax = now === 'lifecycle' ? 1 : now === 'retention' ? 2 : 26
  const set = (at: number, next: SeriesChoice) => setChoices(list.map((one, place) => (place === at ? next : one)))
  return (
    <ol class="series-fields">
      {list.slice(0, countMax).map((one, at) => (
        <li key={at}>
          <TextField
            label={labelOf(at)}
            value={one.event ?? ''}
            options={names}
            placeholder="every event"
            change={(event) => set(at, { ...one, event: event === '' ? null : event })}
          />
          {now === 'trends' ? (
            <Choice
              label="Counted as"
              isQuiet
              value={one.math ?? 'total'}
              options={MATHS}
              change={(math) => set(at, { ...one, math })}
            />
          ) : null}
          {now === 'trends' && readsProperty(one.math) ? (
            <TextField
              label="Property"
              value={one.property ?? ''}
              options={numeric}
              change={(property) => set(at, { ...one, property })}
            />
          ) : null}
          {list.length > (now === 'funnel' ? 2 : 1) ? (
            <button
              type="button"
              class="small"
              aria-label={`Remove ${labelOf(at)}`}
              onClick={() => setChoices(list.filter((_, place) => place !== at))}
            >
              ✕
            </button>
          ) : null}
        </li>
      ))}
      {list.length < countMax ? (
        <li>
          <button
            type="button"
            class="small"
            onClick={() => setChoices([...list, { event: list.at(-1)?.event ?? null }])}
          >
            + {now === 'funnel' ? 'Step' : 'Series'}
          </button>
        </li>
      ) : null}
    </ol>
  )
}

function labelOf(at: number): string {
  if (way.value === 'funnel') return `Step ${at + 1}`
  if (way.value === 'retention') return at === 0 ? 'Came by' : 'Came back by'
  return `Event ${LETTERS[at]}`
}

function Interval({ otherwise }: { readonly otherwise: 'hour' | 'day' | 'week' }) {
  return (
    <Choice
      label="Interval"
      value={choice('interval', otherwise) as (typeof INTERVALS)[number][0]}
      options={INTERVALS}
      change={(interval) => setQuery({ interval })}
    />
  )
}

function TrendsFields() {
  const events = usePropertyNames('event')
  const [type = 'event', ...key] = choice('by', 'event:').split(':')
  const set = (of: string, name: string) =>
    setQuery({ by: name === '' ? (of === 'event' ? null : `${of}:`) : `${of}:${name}` }, { replace: true })
  return (
    <>
      <div class="row">
        <Choice
          label="Broken down by"
          value={type}
          options={[
            ['event', 'events’'],
            ['person', 'persons’'],
          ]}
          change={(of) => set(of, key.join(':'))}
        />
        <TextField
          isNarrow
          label="Property"
          value={key.join(':')}
          options={events}
          change={(name) => set(type, name)}
        />
      </div>
      {choices.value.length > 1 ? (
        <TextField
          label="Formula"
          hint="A / B * 100"
          value={choice('formula', '')}
          change={(formula) => setQuery({ formula }, { replace: true })}
        />
      ) : null}
      <Interval otherwise="day" />
    </>
  )
}

function FunnelFields() {
  return (
    <div class="row">
      <Choice
        label="Order"
        value={choice('order', 'ordered')}
        options={[
          ['ordered', 'in this order'],
          ['strict', 'nothing in between'],
          ['unordered', 'in any order'],
        ]}
        change={(order) => setQuery({ order })}
      />
      <TextField
        isNarrow
        label="Within days"
        type="number"
        value={choice('days', '14')}
        change={(days) => setQuery({ days }, { replace: true })}
      />
    </div>
  )
}

function RetentionFields() {
  return (
    <div class="row">
      <Choice
        label="Period"
        value={choice('period', 'Week')}
        options={[
          ['Day', 'Days'],
          ['Week', 'Weeks'],
          ['Month', 'Months'],
        ]}
        change={(period) => setQuery({ period })}
      />
      <Check
        label="Only who came for the first time"
        value={choice('first', '') === '1'}
        change={(is) => setQuery({ first: is ? '1' : null })}
      />
    </div>
  )
}

function PathsFields() {
  return (
    <>
      <Choice
        label="Steps are"
        value={choice('items', '$pageview')}
        options={[
          ['$pageview', 'pages'],
          ['$screen', 'screens'],
          ['custom_event', 'events of yours'],
          ['all', 'all events'],
        ]}
        change={(items) => setQuery({ items })}
      />
      <TextField
        label="Beginning at"
        value={choice('start', '')}
        change={(start) => setQuery({ start }, { replace: true })}
        placeholder="anywhere"
      />
      <TextField
        isNarrow
        label="Steps"
        type="number"
        value={choice('steps', '4')}
        change={(steps) => setQuery({ steps }, { replace: true })}
      />
    </>
  )
}
