/** The goals of the project. A goal is an action that has the tag `goal`. */
import { useGet } from './loaded.ts'

/** The tag that makes an action a goal. */
export const GOAL_TAG = 'goal'
/** At most this many actions are read to find the goals among them. */
const ACTIONS_MAX = 1000

/** Returns the actions that are goals. Returns undefined while they load. */
export function useGoals() {
  const { data } = useGet('project/actions/', { limit: ACTIONS_MAX })
  return data?.results.filter(({ tags }) => tags.includes(GOAL_TAG))
}
