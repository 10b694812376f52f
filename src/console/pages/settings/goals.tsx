/** The list of the goals of the project. Goals can be added, renamed and removed here. */
import {
  Ask,
  Empty,
  eventLabel,
  GOAL_TAG,
  List,
  may,
  patch,
  post,
  remove,
  type Shapes,
  say,
  useEventSuggestions,
} from '../../kit.ts'
import { countedBy, goalDraft, goalWords, tagsWithoutGoal } from '../web/goal.ts'

type Action = Shapes['Action']

const KINDS = [
  ['event', 'An event'],
  ['page', 'A view of a page'],
] as const

/** Lists the goals of the project. */
export function Goals() {
  return (
    <List
      title="Goals"
      route="project/actions/"
      values={{ limit: 1000 }}
      choose={({ tags }) => tags.includes(GOAL_TAG)}
      scope="action:write"
      aside={<NewGoal />}
      none={
        <Empty title="No goals yet.">
          A goal is an event or a page that counts as a success. The page Web shows who reaches it.
        </Empty>
      }
      columns={[
        ['Name', (goal) => <Name goal={goal} />],
        ['Counts', (goal) => goalWords(countedBy(goal), eventLabel), 'cut'],
      ]}
      drop={{
        label: 'Remove',
        title: ({ name }) => `Remove the goal “${name}”?`,
        words: 'No event is deleted.',
        submit: removeGoal,
      }}
    />
  )
}

function Name({ goal: { id, name } }: { goal: Action }) {
  if (!may('action:write')) return <bdi>{name}</bdi>
  return (
    <span class="row">
      <bdi class="cut">{name}</bdi>
      <Ask
        label="Rename"
        title="Rename the goal"
        fields={{ name: { label: 'Name', value: name, isRequired: true } }}
        submit={(fields) => patch('project/actions/{action_id}/', { action_id: id }, fields)}
      />
    </span>
  )
}

/**
 * Removes a goal. If its action has other tags, only the tag of goals is removed, because something else may use the
 * action.
 */
async function removeGoal(goal: Action) {
  const place = { action_id: goal.id }
  const tags = tagsWithoutGoal(goal)
  if (tags.length === 0) await remove('project/actions/{action_id}/', place)
  else await patch('project/actions/{action_id}/', place, { tags })
  say(`The goal “${goal.name}” is removed.`)
}

function NewGoal() {
  const events = useEventSuggestions()
  if (!may('action:write')) return null
  return (
    <Ask
      label="Add goal"
      title="Add a goal"
      action="Add goal"
      fields={{
        of: { kind: 'choice', label: 'What counts', options: KINDS, value: 'event' },
        event: { label: 'Event', options: events, isRequired: true, isShown: ({ of }: Chosen) => of === 'event' },
        path: {
          label: 'Path',
          placeholder: '/thank-you',
          isRequired: true,
          hint: 'A * stands for any text, as in /blog/*.',
          isShown: ({ of }: Chosen) => of === 'page',
        },
        name: { label: 'Name', placeholder: 'as the event or the path' },
      }}
      submit={async ({ of, event, path, name }) => {
        const isPage = of === 'page'
        const words = name.trim() || (isPage ? path : eventLabel(event))
        await post('project/actions/', {}, goalDraft(words, isPage ? { of, path } : { of: 'event', event }))
        say(`The goal “${words}” is added. Choose it on the page Web.`)
      }}
    />
  )
}

interface Chosen {
  readonly of: string
}
