/**
 * Filters of properties: sentences that are built from pickers, and chips in the address. Names and values are
 * offered as they were seen, and never forced.
 */
import { useState } from 'preact/hooks'
import { query, setQuery } from '../base/address.ts'
import { get } from '../base/api.ts'
import { plain } from '../base/format.ts'
import { useGet, useLoaded } from '../base/loaded.ts'
import type { PropertyFilter } from '../base/queries.ts'
import { project } from '../base/session.ts'
import { Choice, TextField } from './fields.tsx'

/** Operators, in the words of a sentence. */
const OPERATORS: readonly (readonly [operator: string, words: string])[] = [
  ['exact', 'is'],
  ['is_not', 'is not'],
  ['icontains', 'contains'],
  ['not_icontains', 'does not contain'],
  ['regex', 'matches'],
  ['not_regex', 'does not match'],
  ['gt', 'is greater than'],
  ['gte', 'is at least'],
  ['lt', 'is less than'],
  ['lte', 'is at most'],
  ['is_set', 'is set'],
  ['is_not_set', 'is not set'],
  ['is_date_before', 'is before'],
  ['is_date_after', 'is after'],
]

/** Filters of the address, parameter `filter`, each as JSON. What is no filter is left out. */
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

/** Puts filters into the address. */
function setFilters(filters: readonly PropertyFilter[]): void {
  setQuery({ filter: filters.map((filter) => JSON.stringify(filter)) })
}

/** Adds "key is value" to the address, unless it is there: what a click on a row does. */
export function addFilter(filter: PropertyFilter): void {
  const filters = filtersOfAddress()
  const isThere = filters.some((one) => JSON.stringify(one) === JSON.stringify(filter))
  if (!isThere) setFilters([...filters, filter])
}

/** A filter as a sentence. */
export function sentenceOfFilter({ key, operator, value }: PropertyFilter): string {
  const words = OPERATORS.find(([one]) => one === operator)?.[1] ?? operator
  const values = Array.isArray(value) ? value.map(plain).join(' or ') : plain(value ?? '')
  return operator.endsWith('_set') ? `${key} ${words}` : `${key} ${words} ${values}`
}

/** Chips of the filters in the address; each goes with a click. */
export function FilterChips() {
  const filters = filtersOfAddress()
  if (filters.length === 0) return null
  return (
    <ul class="chips" aria-label="Filters">
      {filters.map((filter, index) => (
        <li key={JSON.stringify(filter)}>
          {sentenceOfFilter(filter)}
          <button
            type="button"
            class="small"
            aria-label={`Remove the filter: ${sentenceOfFilter(filter)}`}
            onClick={() => setFilters(filters.filter((_, place) => place !== index))}
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  )
}

/** Names of properties that were seen, the most frequent first; none while they load. */
export function usePropertyNames(
  type: 'event' | 'person' | 'group',
  eventNames: readonly string[] = [],
): readonly string[] {
  const names = eventNames.length === 0 ? {} : { event_names: JSON.stringify(eventNames) }
  const { data } = useGet('project/property_definitions/', { type, limit: 200, ...names } as never)
  return data?.results.map(({ name }) => name) ?? []
}

/** Names of events that were seen. */
export function useEventNames(): readonly string[] {
  const { data } = useGet('project/event_definitions/', { limit: 200 } as never)
  return data?.results.map(({ name }) => name) ?? []
}

/** Values of a property that were seen, for a field that begins with `begun`. */
function usePropertyValues(type: string, key: string, begun: string): readonly string[] {
  const { data } = useLoaded(`values ${project.value.id} ${type} ${key} ${begun}`, async (signal) => {
    if (key === '') return []
    const query = { key, value: begun } as never
    const found =
      type === 'person'
        ? await get('project/persons/values/', query, signal)
        : await get('project/events/values/', query, signal)
    return found.map(({ name }) => plain(name))
  })
  return data ?? []
}

/** The fields of one filter: property, operator, value. `types` says whose properties are offered. */
export function FilterFields({
  filter,
  change,
  types = ['event', 'person'],
}: {
  readonly filter: PropertyFilter
  readonly change: (filter: PropertyFilter) => void
  readonly types?: readonly PropertyFilter['type'][]
}) {
  const { type, key, operator } = filter
  const value = Array.isArray(filter.value) ? filter.value.join(', ') : plain(filter.value ?? '')
  const names = usePropertyNames(type === 'person' || type === 'group' ? type : 'event')
  const values = usePropertyValues(type, key, value)
  return (
    <div class="filter-fields">
      {types.length === 1 ? null : (
        <Choice
          label="Of"
          isQuiet
          value={type}
          options={types.map((one) => [one, `${one}s’`] as const)}
          change={(chosen) => change({ ...filter, type: chosen })}
        />
      )}
      <TextField
        isNarrow
        label="Property"
        value={key}
        options={names}
        change={(chosen) => change({ ...filter, key: chosen })}
      />
      <Choice
        label="Comparison"
        value={operator}
        options={OPERATORS}
        change={(chosen) => change({ ...filter, operator: chosen })}
      />
      {operator.endsWith('_set') ? null : (
        <TextField
          isNarrow
          label="Value"
          value={value}
          options={values}
          change={(words) => change({ ...filter, value: filterValue(operator, words) })}
        />
      )}
    </div>
  )
}

/** What a field for values holds: texts for equality (several between commas), numbers for size. */
function filterValue(operator: string, words: string): unknown {
  if (operator === 'exact' || operator === 'is_not') {
    return words.includes(', ') ? words.split(', ') : words
  }
  return words
}

/** A button that adds a filter to the address by way of its fields. */
export function AddFilter({ types }: { readonly types?: readonly PropertyFilter['type'][] }) {
  const [filter, setFilter] = useState<PropertyFilter | null>(null)
  if (filter === null) {
    const first = { key: '', operator: 'exact', value: '', type: types?.[0] ?? 'event' } as const
    return (
      <button type="button" class="small" onClick={() => setFilter(first)}>
        + Filter
      </button>
    )
  }
  return (
    <form
      class="add-filter"
      onSubmit={(event) => {
        event.preventDefault()
        if (filter.key !== '') addFilter(filter)
        setFilter(null)
      }}
    >
      <FilterFields filter={filter} change={setFilter} {...(types === undefined ? {} : { types })} />
      <button type="submit" class="primary">
        Add
      </button>
      <button type="button" onClick={() => setFilter(null)}>
        Cancel
      </button>
    </form>
  )
}
