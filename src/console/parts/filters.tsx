/**
 * Property filters. The reader builds them with pickers, and they are shown as chips. The names and values of stored
 * events are suggested, but any text is allowed.
 */
import { useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'
import { get } from '../base/api.ts'
import { plain, short } from '../base/format.ts'
import { useListRows, useLoaded } from '../base/loaded.ts'
import { conditionWords, OPERATORS } from '../base/operators.ts'
import type { PropertyFilter } from '../base/queries.ts'
import { project } from '../base/session.ts'
import type { Suggestion } from './combobox.tsx'
import { Button, Choice, TextField } from './fields.tsx'

/** Returns the filters that the URL contains as JSON in its parameters `filter`. Invalid filters are left out. */
export function filtersOfAddress(): readonly PropertyFilter[] {
  return query.value.getAll('filter').flatMap((words) => {
    try {
      const filter = JSON.parse(words) as PropertyFilter | null
      return typeof filter?.key === 'string' ? [filter] : []
    } catch {
      return []
    }
  })
}

/** Writes filters to the URL. A list then shows its first page. */
function setFilters(filters: readonly PropertyFilter[]): void {
  setQuery({ filter: filters.map((filter) => JSON.stringify(filter)), offset: null, cursor: null })
}

/**
 * Adds a filter to the URL, unless the URL already contains it. It is called when the reader clicks on a row of a
 * table.
 */
export function addFilter(filter: PropertyFilter): void {
  const filters = filtersOfAddress()
  const isThere = filters.some((one) => JSON.stringify(one) === JSON.stringify(filter))
  if (!isThere) setFilters([...filters, filter])
}

/** Returns a filter as a sentence. */
export function sentenceOfFilter({ key, operator = 'exact', value }: PropertyFilter): string {
  const values = Array.isArray(value) ? value.map(plain).join(' or ') : plain(value ?? '')
  return conditionWords(key, operator, values)
}

interface FilterChipsProps {
  /** The filters to show. If absent, the filters in the URL are shown and changed. */
  readonly filters?: readonly PropertyFilter[]
  readonly change?: (filters: readonly PropertyFilter[]) => void
}

/** Shows filters as chips. Each chip has a button that removes its filter. */
export function FilterChips({ filters = filtersOfAddress(), change = setFilters }: FilterChipsProps) {
  if (filters.length === 0) return null
  return (
    <ul class="chips" aria-label="Filters">
      {filters.map((filter, index) => {
        const words = sentenceOfFilter(filter)
        return (
          <li key={JSON.stringify(filter)}>
            <bdi>{words}</bdi>
            <Button press={() => change(filters.toSpliced(index, 1))} aria-label={`Remove the filter: ${words}`}>
              ✕
            </Button>
          </li>
        )
      })}
    </ul>
  )
}

/** Which kind of object a property belongs to. */
type Owner = PropertyFilter['type']

/**
 * Returns the known names of the properties that an owner has, the most frequent first. The list is empty while it
 * loads. The properties of the events `eventNames` come before all others. `groupTypeIndex` is the index of the group
 * type if the owner is a group.
 */
export function usePropertyNames(
  type: Owner,
  eventNames: readonly string[] = [],
  groupTypeIndex = 0,
): readonly string[] {
  const asked = {
    type: type === 'cohort' ? 'person' : type,
    limit: NAMES_MAX,
    ...(type === 'group' && { group_type_index: groupTypeIndex }),
    ...(type === 'event' && eventNames.length > 0 && { event_names: JSON.stringify(eventNames) }),
  }
  const rows = useListRows('property_definition:read', 'project/property_definitions/', asked as never)
  return rows?.map(({ name }) => name) ?? []
}

/** At most this many names are suggested. The reader finds the others by searching. */
const NAMES_MAX = 1000

function useEvents() {
  return useListRows('event_definition:read', 'project/event_definitions/', { limit: NAMES_MAX }) ?? []
}

/** Returns the names of known events. */
export function useEventNames(): readonly string[] {
  return useEvents().map(({ name }) => name)
}

/** The headings above suggested events, in their order. */
const EVENT_GROUPS = ['Your events', 'Recorded by the SDK'] as const

/**
 * Returns the known events as suggestions with their counts, the most frequent first. The events that SDKs record come
 * after all others.
 */
export function useEventSuggestions(): readonly Suggestion[] {
  const known = useEvents().toSorted((a, b) => (b.count ?? 0) - (a.count ?? 0))
  const all = known.map(({ name, count }) => ({
    value: name,
    note: short(count),
    group: EVENT_GROUPS[name.startsWith('$') ? 1 : 0],
  }))
  return EVENT_GROUPS.flatMap((group) => all.filter((one) => one.group === group))
}

/** Returns the value that stands for an action in a field for event names. No event can have this name. */
export const actionValue = (id: unknown) => `\u0000${String(id)}`

/** Returns the number of the action that the value of a field for event names stands for. Null for an event. */
export function actionIn(value: string): string | null {
  return value.startsWith('\u0000') ? value.slice(1) : null
}

/** Returns the actions of the project as suggestions for a field for event names. */
export function useActionSuggestions(): readonly Suggestion[] {
  const rows = useListRows('action:read', 'project/actions/', { limit: NAMES_MAX }) ?? []
  return rows.map(({ id, name }) => ({ value: actionValue(id), words: name ?? '', group: 'Actions' }))
}

/** Returns known values of a property that contain `begun`, the text that the reader has typed so far. */
export function usePropertyValues(type: Owner, key: string, begun: string): readonly string[] {
  const { data } = useLoaded(`values ${project.value.id} ${type} ${key} ${begun}`, async (signal) => {
    if (key === '' || type === 'group' || type === 'cohort') return []
    const query = { key, value: begun } as never
    const found = await get(VALUE_ROUTES[type], query, signal)
    return found.map(({ name }) => plain(name))
  })
  return data ?? []
}

const VALUE_ROUTES = {
  event: 'project/events/values/',
  person: 'project/persons/values/',
  session: 'project/sessions/values/',
} as const

/** The kinds of owners whose properties can be chosen. */
type Types = readonly Owner[]

const OWNER_WORDS: Readonly<Record<Owner, string>> = {
  event: 'Event',
  person: 'Person',
  group: 'Group',
  cohort: 'Cohort',
  session: 'Session',
}

interface FilterProps {
  readonly filter: PropertyFilter
  readonly change: (filter: PropertyFilter) => void
  readonly types: Types
}

/** The three fields of a filter: property, operator and value. */
export function FilterFields({ filter, change, types }: FilterProps) {
  const { type, key, operator = 'exact', group_type_index: groupTypeIndex = 0 } = filter
  const value = Array.isArray(filter.value) ? filter.value.join(', ') : plain(filter.value ?? '')
  const [begun, setBegun] = useState('')
  const names = usePropertyNames(type, [], groupTypeIndex)
  const values = usePropertyValues(type, key, begun)
  const set = (changes: Partial<PropertyFilter>) => change({ ...filter, ...changes })
  const owners = types.map((one) => [one, OWNER_WORDS[one]] as const)
  return (
    <div class="filter-fields">
      {types.length > 1 && (
        <Choice label="Of" isQuiet value={type} options={owners} change={(chosen) => set({ type: chosen })} />
      )}
      <TextField
        isNarrow
        picks
        label="Property"
        value={key}
        options={names}
        recent={`${type} properties of ${project.value.id}`}
        change={(chosen) => set({ key: chosen })}
      />
      <Choice label="Comparison" value={operator} options={OPERATORS} change={(chosen) => set({ operator: chosen })} />
      {!operator.endsWith('_set') && (
        <TextField
          isNarrow
          label="Value"
          value={value}
          options={values}
          typed={setBegun}
          change={(words) => set({ value: filterValue(operator, words) })}
        />
      )}
    </div>
  )
}

/**
 * Returns the value of a filter for the text in its field. For the operators of equality, the text may contain several
 * values, separated by commas.
 */
function filterValue(operator: string, words: string): unknown {
  const isList = (operator === 'exact' || operator === 'is_not') && words.includes(', ')
  return isList ? words.split(', ') : words
}

/** Returns the filter with which the fields of a new filter begin. */
function firstFilter([type = 'event']: Types): PropertyFilter {
  return { key: '', operator: 'exact', value: '', type }
}

interface AddFilterProps {
  readonly types?: Types
  /** What is filtered, as a name for screen readers. */
  readonly label?: string
  /** Receives the finished filter. If absent, the filter is added to the URL. */
  readonly add?: (filter: PropertyFilter) => void
}

/** A button that opens the fields of a new filter. The filter is added when the reader presses "Add". */
export function AddFilter({ types = ['event', 'person'], label, add = addFilter }: AddFilterProps) {
  const [filter, setFilter] = useState<PropertyFilter | null>(null)
  if (filter === null) {
    return (
      <Button press={() => setFilter(firstFilter(types))}>
        + Filter{label && <span class="unseen"> of {label}</span>}
      </Button>
    )
  }
  function finish(event: SubmitEvent) {
    event.preventDefault()
    if (filter !== null && filter.key !== '') add(filter)
    setFilter(null)
  }
  return (
    <form class="filter-fields" onSubmit={finish}>
      <FilterFields filter={filter} change={setFilter} types={types} />
      <button type="submit" class="primary">
        Add
      </button>
      <button type="button" onClick={() => setFilter(null)}>
        Cancel
      </button>
    </form>
  )
}

interface FilterListProps {
  readonly filters: readonly PropertyFilter[]
  readonly change: (filters: readonly PropertyFilter[]) => void
  readonly types: Types
  readonly none?: string
  readonly title?: string
  /** The noun for one filter, for the buttons. */
  readonly one?: string
}

/** Shows filters that must all match, one below the other, and a button that adds a filter. */
export function FilterList({
  filters,
  change,
  types,
  none = 'Everybody.',
  title = 'Match all',
  one = 'condition',
}: FilterListProps) {
  return (
    <fieldset class="filter-list">
      <legend>{title}</legend>
      {filters.length === 0 && <p class="quiet">{none}</p>}
      {filters.map((filter, at) => (
        <div class="row" key={`${at} of ${filters.length}`}>
          <FilterFields filter={filter} types={types} change={(next) => change(filters.with(at, next))} />
          <Button press={() => change(filters.toSpliced(at, 1))} aria-label={`Remove ${one} ${at + 1}`}>
            ✕
          </Button>
        </div>
      ))}
      <Button press={() => change([...filters, firstFilter(types)])}>+ {capitalised(one)}</Button>
    </fieldset>
  )
}

function capitalised([first = '', ...rest]: string): string {
  return first.toUpperCase() + rest.join('')
}
