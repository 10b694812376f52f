/** The form fields that describe a metric, or choose a saved one. */
import { type Shapes, useEventSuggestions, useListRows } from '../../kit.ts'

/** A saved metric. */
export type SavedMetric = Shapes['ExperimentSavedMetric']

/** A form offers at most this many saved metrics. */
const OFFERED_MAX = 1000

const KINDS = [
  ['conversion', 'Share of persons who do it'],
  ['count', 'How often each person does it'],
  ['sum', 'Sum of a property for each person'],
] as const

const GOALS = [
  ['increase', 'More is better'],
  ['decrease', 'Less is better'],
] as const

interface Chosen {
  readonly list?: string
  /** The number of a saved metric as text, or an empty text for a new metric. */
  readonly saved?: string
}

/** Returns the number of the saved metric that a form chooses, or null. A guard metric is always a new one. */
export function savedIn({ list, saved = '' }: Chosen): number | null {
  return saved === '' || list === 'metrics_guard' ? null : Number(saved)
}

const isNew = (chosen: Chosen) => savedIn(chosen) === null

/** Returns the form fields that describe a metric. They are hidden while a saved metric is chosen. */
export function useMetricFields() {
  return {
    event: {
      label: 'Event that shows success',
      options: useEventSuggestions(),
      picks: true,
      placeholder: 'Choose an event',
      isShown: isNew,
    },
    kind: {
      kind: 'choice',
      label: 'What is compared',
      options: KINDS,
      value: 'conversion',
      isShown: isNew,
    },
    property: {
      label: 'Property',
      hint: 'A property of the event with a number, such as revenue.',
      isShown: ({ kind, ...chosen }: Chosen & { readonly kind: string }) =>
        kind === 'sum' && isNew(chosen),
    },
    goal: { kind: 'choice', label: 'Goal', options: GOALS, value: 'increase', isShown: isNew },
  } as const
}

/**
 * Returns the form field that chooses a saved metric, by its number as text. It is hidden if the project has none
 * besides the metrics `used`.
 */
export function useSavedField(used: readonly (number | null)[] = []) {
  const all = useListRows('experiment_saved_metric:read', 'project/experiment_saved_metrics/', {
    limit: OFFERED_MAX,
  })
  const others = (all ?? []).filter(({ id }) => !used.includes(id))
  return {
    kind: 'choice',
    label: 'Metric',
    options: [['', 'A new metric'], ...others.map(({ id, name }) => [String(id), name] as const)],
    isShown: ({ list }: Chosen) => others.length > 0 && list !== 'metrics_guard',
  } as const
}
