/** The choice of a goal on the page "Web". The URL contains the number of its action: `goal=7`. */
import { query as address, Choice, setQuery, useGoals } from '../../kit.ts'

/** Returns the number of the chosen goal, or null. */
export function chosenGoal(): number | null {
  const given = address.value.get('goal') ?? ''
  return /^\d{1,15}$/.test(given) ? Number(given) : null
}

/** The menu in which the reader chooses a goal. It is hidden if the project has no goals. */
export function GoalChoice() {
  const goals = useGoals()
  const chosen = chosenGoal()
  if (goals === undefined || (goals.length === 0 && chosen === null)) return null
  const isGone = chosen !== null && !goals.some(({ id }) => id === chosen)
  const all = isGone ? [...goals, { id: chosen, name: 'deleted' }] : goals
  return (
    <Choice<string>
      label="Goal"
      isQuiet
      value={String(chosen ?? '')}
      options={[['', 'No goal'], ...all.map(({ id, name }) => [String(id), `Goal: ${name}`] as const)]}
      change={(id) => setQuery({ goal: id })}
    />
  )
}
