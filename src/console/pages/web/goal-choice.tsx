/** The choice of a goal on the page "Web". The URL contains the number of its action: `goal=7`. */
import { query as address, Choice, setQuery, useGoals } from '../../kit.ts'

/** So many goals have a button of their own. The others share a menu. */
const BUTTONS = 3

/** Returns the number of the chosen goal, or null. */
export function chosenGoal(): number | null {
  const given = address.value.get('goal') ?? ''
  return /^\d{1,15}$/.test(given) ? Number(given) : null
}

/**
 * The buttons of the goals. A click chooses a goal, and a second click on the same button removes it. Nothing is shown
 * if the project has no goals.
 */
export function GoalChoice() {
  const goals = useGoals()
  const chosen = chosenGoal()
  if (goals === undefined || (goals.length === 0 && chosen === null)) return null
  const isGone = chosen !== null && !goals.some(({ id }) => id === chosen)
  const all = isGone ? [...goals, { id: chosen, name: 'deleted' }] : goals
  // A goal that was chosen in the menu takes the place of the last button.
  const last = all.findIndex(({ id }, at) => at >= BUTTONS && id === chosen)
  const shown = last < 0 ? all.slice(0, BUTTONS) : [...all.slice(0, BUTTONS - 1), ...all.slice(last, last + 1)]
  const others = all.filter((goal) => !shown.includes(goal))
  return (
    <fieldset class="row goals">
      <legend class="unseen">Goal</legend>
      {shown.map(({ id, name }) => (
        <button
          key={id}
          type="button"
          class="small"
          aria-pressed={id === chosen}
          title={`Goal: ${name}`}
          onClick={() => setQuery({ goal: id === chosen ? null : String(id) })}
        >
          {name}
        </button>
      ))}
      {others.length > 0 && (
        <Choice<string>
          label="Other goals"
          isQuiet
          value=""
          options={[['', 'Other goals'], ...others.map(({ id, name }) => [String(id), name ?? ''] as const)]}
          change={(id) => setQuery({ goal: id })}
        />
      )}
    </fieldset>
  )
}
