/** Selects and orders the experiments of a list. Source: docs/compatibility/experiments.md, "List". */
import { type Experiment, type ExperimentFields, statusOf } from './stored-experiment.ts'

/** The states by which a list can be filtered. `complete` is an older name of `stopped`. */
export const LISTED_STATUSES = ['draft', 'running', 'paused', 'stopped', 'complete', 'all'] as const

/** The members by which a list can be ordered. */
export const EXPERIMENT_ORDERS = [
  'created_at',
  'created_by',
  'updated_at',
  'name',
  'start_date',
  'end_date',
  'duration',
  'status',
] as const

type Order = (typeof EXPERIMENT_ORDERS)[number]

/** The filter of a list. An absent member accepts any value. */
export interface ExperimentFilter {
  readonly search?: string
  readonly status?: (typeof LISTED_STATUSES)[number]
  /** If true, only archived experiments are listed. Otherwise only experiments that are not archived are listed. */
  readonly isArchived?: boolean
  readonly createdById?: number
  readonly flagId?: number
  /** Only experiments that were launched and count the groups of the type with this index are listed. */
  readonly groupTypeIndex?: number
  /** The ids of the flags that are off. A running experiment whose flag is off is paused. */
  readonly flagsOff: readonly number[]
  readonly order?: { readonly by: Order; readonly isDescending: boolean }
  readonly nowMs: number
}

const STATUS_RANKS = { draft: 0, running: 1, stopped: 2 }

/** Returns the experiments of a list, newest first unless the filter gives another order. */
export function listedExperiments(
  experiments: readonly Experiment[],
  filter: ExperimentFilter,
): Experiment[] {
  const { search = '', isArchived = false, createdById, flagId, flagsOff } = filter
  const { groupTypeIndex } = filter
  const off = new Set(flagsOff)
  const wanted = search.toLowerCase()
  const found = experiments.filter(
    ({ fields, isDeleted, createdById: author }) =>
      !isDeleted &&
      fields.archived === isArchived &&
      (createdById ?? author) === author &&
      (flagId ?? fields.flag_id) === fields.flag_id &&
      (groupTypeIndex === undefined || fields.group_type_index === groupTypeIndex) &&
      fields.name.toLowerCase().includes(wanted) &&
      hasStatus(fields, filter.status ?? 'all', off),
  )
  return found.sort(orderOf(filter))
}

function hasStatus(
  fields: ExperimentFields,
  wanted: NonNullable<ExperimentFilter['status']>,
  off: ReadonlySet<number>,
): boolean {
  if (wanted === 'all') return true
  const status = statusOf(fields)
  const isPaused = status === 'running' && off.has(fields.flag_id)
  return (isPaused ? 'paused' : status) === (wanted === 'complete' ? 'stopped' : wanted)
}

function orderOf({ order, nowMs }: ExperimentFilter): (a: Experiment, b: Experiment) => number {
  const newestFirst = (a: Experiment, b: Experiment) => b.createdAtMs - a.createdAtMs || b.id - a.id
  if (order === undefined) return newestFirst
  const sign = order.isDescending ? -1 : 1
  return (a, b) => {
    const left = sortValue(a, order.by, nowMs)
    const right = sortValue(b, order.by, nowMs)
    if (left === right) return newestFirst(a, b)
    return left < right ? -sign : sign
  }
}

/**
 * Returns the value by which an experiment is ordered. If the list is ordered by a time, an experiment without this
 * time counts as earlier than all others.
 */
function sortValue(
  { fields, ...experiment }: Experiment,
  by: Order,
  nowMs: number,
): string | number {
  switch (by) {
    case 'created_at':
      return experiment.createdAtMs
    case 'created_by':
      return experiment.createdById ?? 0
    case 'updated_at':
      return experiment.updatedAtMs
    case 'name':
      return fields.name.toLowerCase()
    case 'start_date':
    case 'end_date':
      return fields[by] === null ? 0 : Date.parse(fields[by])
    case 'duration': {
      if (fields.start_date === null) return -1
      const endMs = fields.end_date === null ? nowMs : Date.parse(fields.end_date)
      return endMs - Date.parse(fields.start_date)
    }
    case 'status':
      return STATUS_RANKS[statusOf(fields)]
  }
}
