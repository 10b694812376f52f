/** The form fields that describe a metric. */
import type { Suggestion } from '../../kit.ts'

const KINDS = [
  ['conversion', 'Share of persons who do it'],
  ['count', 'How often each person does it'],
  ['sum', 'Sum of a property for each person'],
] as const

const GOALS = [
  ['increase', 'More is better'],
  ['decrease', 'Less is better'],
] as const

/** Returns the form fields that describe a metric. `events` are the events that a field suggests. */
export function metricFields(events: readonly Suggestion[]) {
  return {
    event: {
      label: 'Event that shows success',
      options: events,
      picks: true,
      placeholder: 'Choose an event',
      hint: 'You can also add it later.',
    },
    kind: { kind: 'choice', label: 'What is compared', options: KINDS, value: 'conversion' },
    property: {
      label: 'Property',
      hint: 'A property of the event with a number, such as revenue.',
      isShown: ({ kind }: { readonly kind: string }) => kind === 'sum',
    },
    goal: { kind: 'choice', label: 'Goal', options: GOALS, value: 'increase' },
  } as const
}
