/**
 * Property filters, built with pickers and shown as chips from the URL. Names and values that were seen are suggested,
 * but any text is allowed.
 */
import { useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'
import { get } from '../base/api.ts'
import { plain, short } from '../base/format.ts'
import { useGet, useLoaded } from '../base/loaded.ts'
import { conditionWords, OPERATORS } from '../base/operators.ts'
import type { PropertyFilter } from '../base/queries.ts'
import { project } from '../base/session.ts'
import type { Suggestion } from './combobox.tsx'
import { Button, Choice, TextField } from './fields.tsx'

/** Returns the filters of the URL, which are JSON in the parameters `filter`. Invalid ones are left out. */
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

/** Writes filters to the URL. */
function setFilters(filters: readonly PropertyFilter[]): void {
  setQuery({ filter: filters.map((filter) => JSON.stringify(filter)) })
}

/** Adds a filter to the URL unless it is already there. A click on a table row calls it. */
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
  /** The filters. Without them, those of the URL are shown and changed. */
  readonly filters?: readonly PropertyFilter[]
  readonly change?: (filters: readonly PropertyFilter[]) => void
}

/** Shows filters as chips, with a button that removes each. */
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

/** The owner of a property. */
type Owner = PropertyFilter['type']

/**
 * Returns the names of known properties of an owner, most frequent first. The list is empty while it loads.
 * `groupTypeIndex` says which type of group, and `eventNames` puts the properties of these events first.
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
  const { data } = useGet('project/property_definitions/', asked as never)
  return data?.results.map(({ name }) => name) ?? []
}

/** The most names that are suggested. A search finds the others. */
const NAMES_MAX = 1000

/** Returns the names of known events. */
export function useEventNames(): readonly string[] {
  const { data } = useGet('project/event_definitions/', { limit: NAMES_MAX } as never)
  return data?.results.map(({ name }) => name) ?? []
}

/** The headings of suggested events, in their order. */
const EVENT_GROUPS = ['Your events', 'Recorded by the SDK'] as const

/** Returns known events as suggestions with their counts, the most frequent first. Events of the SDK come last. */
export function useEventSuggestions(): readonly Suggestion[] {
  const { data } = useGet('project/event_definitions/', { limit: NAMES_MAX } as never)
  const known = (data?.results ?? []).toSorted((a, b) => (b.count ?? 0) - (a.count ?? 0))
  const all = known.map(({ name, count }) => ({
    value: name,
    note: short(count),
    group: EVENT_GROUPS[name.startsWith('$') ? 1 : 0],
  }))
  return EVENT_GROUPS.flatMap((group) => all.filter((one) => one.group === group))
}

/** Returns known values of a property that contain `begun`, the text typed so far. */
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

/** The owners whose properties are offered. */
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

/** The fields of one filter: property, operator and value. */
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

/** Returns the value of a filter from its text. Equality accepts several texts, separated by commas. */
function filterValue(operator: string, words: string): unknown {
  const isList = (operator === 'exact' || operator === 'is_not') && words.includes(', ')
  return isList ? words.split(', ') : words
}

/** Returns the initial filter of a new condition. */
function firstFilter([type = 'event']: Types): PropertyFilter {
  return { key: '', operator: 'exact', value: '', type }
}

interface AddFilterProps {
  readonly types?: Types
  /** The name of what is filtered, for screen readers. */
  readonly label?: string
  /** Takes the finished filter. Without it, the filter is added to the URL. */
  readonly add?: (filter: PropertyFilter) => void
}

/** A button that opens the fields of a filter. The filter counts when the reader presses "Add". */
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
  /** The name of one of the filters, on its buttons. */
  readonly one?: string
}

/** Shows conditions that must all match, one below the other, with a button that adds one. */
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
