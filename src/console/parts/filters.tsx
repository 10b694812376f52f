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
import { Button, Choice, type Options, TextField } from './fields.tsx'

/** Operators, in the words of a sentence. */
const OPERATORS: Options = [
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
      {filters.map((filter, index) => {
        const words = sentenceOfFilter(filter)
        return (
          <li key={JSON.stringify(filter)}>
            {words}
            <Button press={() => setFilters(filters.toSpliced(index, 1))} aria-label={`Remove the filter: ${words}`}>
              ✕
            </Button>
          </li>
        )
      })}
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

/** Whose properties are offered. */
type Types = readonly PropertyFilter['type'][]

interface FilterProps {
  readonly filter: PropertyFilter
  readonly change: (filter: PropertyFilter) => void
  readonly types: Types
}

/** The fields of one filter: property, operator, value. */
function FilterFields({ filter, change, types }: FilterProps) {
  const { type, key, operator } = filter
  const value = Array.isArray(filter.value) ? filter.value.join(', ') : plain(filter.value ?? '')
  const names = usePropertyNames(type === 'person' || type === 'group' ? type : 'event')
  const values = usePropertyValues(type, key, value)
  const set = (changes: Partial<PropertyFilter>) => change({ ...filter, ...changes })
  const owners = types.map((one) => [one, `${one}s’`] as const)
  return (
    <div class="filter-fields">
      {types.length > 1 && (
        <Choice label="Of" isQuiet value={type} options={owners} change={(chosen) => set({ type: chosen })} />
      )}
      <TextField isNarrow label="Property" value={key} options={names} change={(chosen) => set({ key: chosen })} />
      <Choice label="Comparison" value={operator} options={OPERATORS} change={(chosen) => set({ operator: chosen })} />
      {!operator.endsWith('_set') && (
        <TextField
          isNarrow
          label="Value"
          value={value}
          options={values}
          change={(words) => set({ value: filterValue(operator, words) })}
        />
      )}
    </div>
  )
}

/** What a field for values holds: texts for equality (several between commas), numbers for size. */
function filterValue(operator: string, words: string): unknown {
  const isList = (operator === 'exact' || operator === 'is_not') && words.includes(', ')
  return isList ? words.split(', ') : words
}

/** The filter with which writing one begins. */
function firstFilter([type = 'event']: Types): PropertyFilter {
  return { key: '', operator: 'exact', value: '', type }
}

/** A button that adds a filter to the address by way of its fields. */
export function AddFilter({ types = ['event', 'person'] }: { types?: Types }) {
  const [filter, setFilter] = useState<PropertyFilter | null>(null)
  if (filter === null) return <Button press={() => setFilter(firstFilter(types))}>+ Filter</Button>
  function add(event: SubmitEvent) {
    event.preventDefault()
    if (filter !== null && filter.key !== '') addFilter(filter)
    setFilter(null)
  }
  return (
    <form class="filter-fields" onSubmit={add}>
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
}

/** Conditions of which all must hold, one below the other, and a button for one more. */
export function FilterList({ filters, change, types, none = 'Everybody.' }: FilterListProps) {
  return (
    <fieldset class="filter-list">
      <legend>All of these hold</legend>
      {filters.length === 0 && <p class="quiet">{none}</p>}
      {filters.map((filter, at) => (
        <div class="row" key={`${at} of ${filters.length}`}>
          <FilterFields filter={filter} types={types} change={(next) => change(filters.with(at, next))} />
          <Button press={() => change(filters.toSpliced(at, 1))} aria-label={`Remove condition ${at + 1}`}>
            ✕
          </Button>
        </div>
      ))}
      <Button press={() => change([...filters, firstFilter(types)])}>+ Condition</Button>
    </fieldset>
  )
}
