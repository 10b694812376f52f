/** The saved metrics of the project, which several experiments can use. */
import {
  Ask,
  counted,
  Empty,
  eventLabel,
  List,
  may,
  Page,
  pageQuery,
  patch,
  post,
  query,
  remove,
  Search,
  say,
} from '../kit.ts'
import { type SavedMetric, useMetricFields } from './experiment/metric-fields.ts'
import { ToExperiments, Users, useExperiments } from './experiment/users.tsx'
import { fieldsOf, type MetricFields, metricName, metricOf } from './experiment/words.ts'

/** The page "Saved metrics". */
export default function SavedMetricsPage() {
  const experiments = useExperiments()
  const usersOf = (id: number) =>
    experiments?.filter((one) => one.saved_metrics.some((link) => link.saved_metric === id)) ?? []
  const search = query.value.get('search') ?? ''
  const canWrite = may('experiment_saved_metric:write')
  const controls = (
    <>
      <Search label="Name or description" />
      {canWrite && <Edit label="New saved metric" />}
    </>
  )
  return (
    <>
      <ToExperiments />
      <Page title="Saved metrics" aside={controls}>
        <List
          title="All saved metrics"
          label="Saved metrics"
          route="project/experiment_saved_metrics/"
          values={{ search, ...pageQuery() }}
          none={
            <Empty title={search ? 'No saved metric matches the search.' : 'No saved metrics yet.'}>
              A saved metric has a name, and several experiments can use it. If you change it, the results of all of
              them change.
            </Empty>
          }
          columns={[
            ['Name', 'name'],
            ['What is compared', ({ query: metric }) => metricName({ ...metric, name: '' }, eventLabel), 'minor'],
            ['Description', 'description', 'minor'],
            ['Experiments', ({ id }) => experiments && usersOf(id).length, 'number'],
            ['Used by', ({ id }) => <Users experiments={usersOf(id)} isKnown={experiments !== undefined} />, 'minor'],
            [
              '',
              (metric) =>
                canWrite && (
                  <span class="row">
                    <Edit label="Edit" saved={metric} count={usersOf(metric.id).length} />
                    <Delete saved={metric} count={usersOf(metric.id).length} />
                  </span>
                ),
            ],
          ]}
        />
      </Page>
    </>
  )
}

interface EditProps {
  readonly label: string
  /** The saved metric to change. If absent, the form creates one. */
  readonly saved?: SavedMetric
  /** How many experiments use it. */
  readonly count?: number
}

/** A button with a form that creates a saved metric, or changes an existing one. */
function Edit({ label, saved, count = 0 }: EditProps) {
  const { event, kind, property, goal } = useMetricFields()
  const before = saved && fieldsOf(saved.query)
  const fields = {
    name: { label: 'Name', value: saved?.name ?? '', isRequired: true },
    ...(before !== null && {
      event: { ...event, value: before?.event ?? '', isRequired: true },
      kind: { ...kind, value: before?.kind ?? kind.value },
      property: { ...property, value: before?.property ?? '' },
      goal: { ...goal, value: before?.goal ?? goal.value },
    }),
    description: { label: 'Description', type: 'area', value: saved?.description ?? '' },
  } as const
  return (
    <Ask
      label={label}
      title={saved ? 'Edit the saved metric' : 'New saved metric'}
      action={saved ? 'Save metric' : 'Create metric'}
      fields={fields}
      submit={async ({ name, description, ...metric }) => {
        const more = before !== null && { query: metricOf(metric as unknown as MetricFields) }
        const body = { name, description: description === '' ? null : description, ...more }
        if (saved) await patch('project/experiment_saved_metrics/{id}/', { id: saved.id }, body as never)
        else await post('project/experiment_saved_metrics/', {}, body as never)
        say(`The saved metric “${name}” is saved.`)
      }}
    >
      {count > 0 && <p class="quiet">The results of {counted(count, 'experiment')} change with the metric.</p>}
      {before === null && <p class="quiet">This form cannot show all options of the metric. They stay as they are.</p>}
    </Ask>
  )
}

function Delete({ saved: { id, name }, count }: { saved: SavedMetric; count: number }) {
  return (
    <Ask
      label="Delete"
      title={`Delete the saved metric “${name}”?`}
      action={count === 0 ? 'Delete' : null}
      submit={() => remove('project/experiment_saved_metrics/{id}/', { id })}
    >
      {count === 0
        ? 'No experiment uses it.'
        : `${counted(count, 'experiment')} ${count === 1 ? 'uses' : 'use'} it. Remove it there first.`}
    </Ask>
  )
}
