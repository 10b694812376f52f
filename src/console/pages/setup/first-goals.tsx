/** The last step of the setup: the events that most visitors send, as buttons that make goals of them. */
import { act, Button, GOAL_TAG, may, pageOf, post, type Shapes, useGet } from '../../kit.ts'

const OFFERED_MAX = 5
const ROWS_MAX = 1000

/** Offers the most frequent events that are no goals yet. */
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
