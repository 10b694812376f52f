/** The last step of the setup. It shows the most frequent events as buttons. A click on one makes the event a goal. */
import { act, Button, GOAL_TAG, may, pageOf, post, type Shapes, useGet } from '../../kit.ts'

const OFFERED_MAX = 5
const ROWS_MAX = 1000

/** Offers the most frequent events that are not goals yet. */
export function FirstGoals({ goals }: { goals: readonly Shapes['Action'][] }) {
  const { data } = useGet('project/event_definitions/', { limit: ROWS_MAX } as never)
  const taken = goals.flatMap(({ steps }) => steps.map(({ event }) => event))
  const own = (data?.results ?? []).filter(({ name }) => !name.startsWith('$') && !taken.includes(name))
  const offered = may('action:write') ? own.toSorted((a, b) => b.count - a.count).slice(0, OFFERED_MAX) : []
  const make = (name: string) =>
    act(post('project/actions/', {}, { name, tags: [GOAL_TAG], steps: [{ event: name }] }), 'The goal is added.')
  return (
    <>
      <span class="row">
        {offered.map(({ name }) => (
          <Button key={name} press={() => make(name)} aria-label={`Make a goal of ${name}`}>
            <bdi>{name}</bdi>
          </Button>
        ))}
      </span>
      The <a href={pageOf('/settings')}>settings</a> can also make a page a goal.
    </>
  )
}
