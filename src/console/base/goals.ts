/** The goals of the project: its actions with the tag `goal`. */
import { useGet } from './loaded.ts'

/** The tag of actions that are goals. */
export const GOAL_TAG = 'goal'
/** The most actions among which goals are looked for. */
const ACTIONS_MAX = 1000

/** Returns the actions that are goals, or undefined while they load. */
export function useGoals() {
  const { data } = useGet('project/actions/', { limit: ACTIONS_MAX })
  return data?.results.filter(({ tags }) => tags.includes(GOAL_TAG))
}
