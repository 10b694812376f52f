/** The holdouts of the project: shares of all people who are kept out of experiments. */
import { Ask, Empty, exact, List, may, Page, pageQuery, patch, post, remove, say } from '../kit.ts'
import type { Holdout } from './experiment/holdouts.ts'
import { ToExperiments, Users, useExperiments } from './experiment/users.tsx'

/** The page "Holdouts". */
export default function HoldoutsPage() {
  const experiments = useExperiments()
  const usersOf = (id: number) => experiments?.filter((one) => one.holdout_id === id) ?? []
  const canWrite = may('experiment_holdout:write')
  return (
    <>
      <ToExperiments />
      <Page title="Holdouts" aside={canWrite && <Edit label="New holdout" />}>
        <List
          title="All holdouts"
          label="Holdouts"
          route="project/experiment_holdouts/"
          values={pageQuery()}
          none={
            <Empty title="No holdouts yet.">
              A holdout keeps the same share of all people out of every experiment that uses it. Compare them with
              everybody else later, to see what all your changes together have brought.
            </Empty>
          }
          columns={[
            ['Name', 'name'],
            ['Kept out', (holdout) => `${exact(shareOf(holdout))} %`, 'number'],
            ['Description', 'description', 'minor'],
            ['Used by', ({ id }) => <Users experiments={usersOf(id)} isKnown={experiments !== undefined} />],
            ['Created', 'created_at', 'minor number ago'],
            [
              '',
              (holdout) =>
                canWrite && (
                  <span class="row">
                    <Edit label="Edit" holdout={holdout} />
                    <Delete holdout={holdout} count={usersOf(holdout.id).length} />
                  </span>
                ),
            ],
          ]}
        />
      </Page>
    </>
  )
}

function shareOf({ filters }: Holdout): number {
  return filters[0]?.rollout_percentage ?? 0
}

/** A button with a form that creates a holdout, or changes an existing one. */
function Edit({ label, holdout }: { label: string; holdout?: Holdout }) {
  return (
    <Ask
      label={label}
      title={holdout ? 'Edit the holdout' : 'New holdout'}
      action={holdout ? 'Save holdout' : 'Create holdout'}
      fields={{
        name: { label: 'Name', value: holdout?.name ?? '', isRequired: true },
        share: {
          label: 'Share of all people who are kept out, in %',
          type: 'number',
          value: String(holdout ? shareOf(holdout) : 10),
          isRequired: true,
          hint: holdout && 'A change applies at once to all experiments with this holdout that have not ended.',
        },
        description: { label: 'Description', type: 'area', value: holdout?.description ?? '' },
      }}
      submit={async ({ name, share, description }) => {
        const filters = [{ rollout_percentage: Number(share) }]
        const body = { name, description: description === '' ? null : description, filters }
        if (holdout) await patch('project/experiment_holdouts/{id}/', { id: holdout.id }, body)
        else await post('project/experiment_holdouts/', {}, body)
        say(`The holdout “${name}” is saved.`)
      }}
    />
  )
}

function Delete({ holdout: { id, name }, count }: { holdout: Holdout; count: number }) {
  return (
    <Ask
      label="Delete"
      title={`Delete the holdout “${name}”?`}
      submit={() => remove('project/experiment_holdouts/{id}/', { id })}
    >
      {count === 0
        ? 'No experiment uses it.'
        : 'Its people then get variants like everybody else, also in experiments that are running.'}
    </Ask>
  )
}
