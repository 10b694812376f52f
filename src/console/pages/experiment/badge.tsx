/** A badge with the state of an experiment. */
import { type Experiment, stateOf } from './words.ts'

/** Shows the state of an experiment. */
export function StateBadge({ experiment }: { experiment: Experiment }) {
  const state = stateOf(experiment)
  const look = { Draft: 'off', Running: '', Paused: 'bad', Ended: 'off' }[state]
  return <span class={`badge ${look}`}>{state}</span>
}
