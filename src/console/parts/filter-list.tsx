/** Conditions of which all must hold, one below the other: of cohorts and of flags. */
import type { PropertyFilter } from '../base/queries.ts'
import { FilterFields } from './filters.tsx'

/** The conditions, and a button for one more. */
export function FilterList({
  filters,
  change,
  types,
  none = 'Everybody.',
}: {
  readonly filters: readonly PropertyFilter[]
  readonly change: (filters: readonly PropertyFilter[]) => void
  readonly types: readonly PropertyFilter['type'][]
  readonly none?: string
}) {
  const first: PropertyFilter = {
    key: '',
    operator: 'exact',
    value: '',
    type: types[0] ?? 'person',
  }
  return (
    <fieldset class="filter-list">
      <legend>All of these hold</legend>
      {filters.length === 0 ? <p class="quiet">{none}</p> : null}
      {filters.map((filter, at) => (
        <div class="row" key={`${at} of ${filters.length}`}>
          <FilterFields
            filter={filter}
            types={types}
            change={(next) => change(filters.map((one, place) => (place === at ? next : one)))}
          />
          <button
            type="button"
            class="small"
            aria-label={`Remove condition ${at + 1}`}
            onClick={() => change(filters.filter((_, place) => place !== at))}
          >
            ✕
          </button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => change([...filters, first])}>
        + Condition
      </button>
    </fieldset>
  )
}
