/** The list of experiments, with their states and their conclusions. */
import {
  Choice,
  Dialog,
  Empty,
  Form,
  go,
  inProjectPath,
  List,
  listOf,
  may,
  Page,
  pageOf,
  pageQuery,
  post,
  query,
  Search,
  setQuery,
  Tabs,
} from '../kit.ts'
import { StateBadge } from './experiment/badge.tsx'
import { useHoldoutField } from './experiment/holdouts.ts'
import { savedIn, useMetricFields, useSavedField } from './experiment/metric-fields.ts'
import { CONCLUSIONS, type Experiment, equalVariants, metricOf } from './experiment/words.ts'

const STATES = [
  ['', 'All'],
  ['draft', 'Drafts'],
  ['running', 'Running'],
  ['paused', 'Paused'],
  ['stopped', 'Ended'],
  ['archived', 'Archived'],
] as const

const ORDERS = [
  ['', 'Newest first'],
  ['-start_date', 'Last started first'],
  ['-updated_at', 'Last changed first'],
  ['name', 'By name'],
] as const

/** The page "Experiments". */
export default function ExperimentsPage() {
  const [state = '', search = '', order = ''] = ['state', 'search', 'order'].map((name) => query.value.get(name) ?? '')
  const controls = (
    <>
      <Search label="Name" />
      <Choice
        label="Order"
        isQuiet
        value={order}
        options={ORDERS}
        change={(chosen) => setQuery({ order: chosen || null, offset: null })}
      />
      {may('experiment_saved_metric:read') && <a href={pageOf('/experiments/metrics')}>Saved metrics</a>}
      {may('experiment_holdout:read') && <a href={pageOf('/experiments/holdouts')}>Holdouts</a>}
      {may('experiment:write') && <NewExperiment />}
    </>
  )
  const isArchived = state === 'archived'
  return (
    <Page title="Experiments" aside={controls}>
      <List
        title="All experiments"
        label="Experiments"
        route="project/experiments/"
        values={{
          search,
          ...(state !== '' && !isArchived && { status: state as 'draft' }),
          ...(isArchived && { archived: true }),
          ...(order !== '' && { order: order as 'name' }),
          ...pageQuery(),
        }}
        aside={<Tabs label="State" tabs={STATES} parameter="state" without={['offset']} />}
        open={({ id }) => go(inProjectPath(`/experiments/${id}`))}
        none={<NoExperiment isNarrowed={`${search}${state}` !== ''} />}
        columns={[
          ['Experiment', (one) => <Name experiment={one} />],
          ['State', (one) => <StateBadge experiment={one} />],
          ['Variants', variantsOf, 'minor'],
          ['Started', 'start_date', 'minor number day'],
          ['Ended', 'end_date', 'minor number day'],
          ['Conclusion', conclusionOf, 'minor'],
          ['Owner', ({ created_by: owner }) => owner?.first_name || owner?.email || '–', 'minor'],
        ]}
      />
    </Page>
  )
}

function NoExperiment({ isNarrowed }: { isNarrowed: boolean }) {
  if (isNarrowed) return <Empty title="No experiment matches the search and the state." />
  return (
    <Empty title="No experiments yet.">
      An experiment gives each person one variant of a feature, and tells you which variant is better. Create one with
      “New experiment”.
    </Empty>
  )
}

function Name({ experiment: { name, feature_flag_key: key } }: { experiment: Experiment }) {
  return (
    <>
      <b>{name}</b>
      <div class="quiet cut">{key}</div>
    </>
  )
}

function variantsOf({ parameters }: Experiment): string {
  return (parameters.feature_flag_variants ?? []).map(({ key }) => key).join(', ')
}

function conclusionOf({ conclusion }: Experiment): string {
  return CONCLUSIONS.find(([one]) => one === conclusion)?.[1] ?? '–'
}

/** The button and the dialog that create an experiment. A parameter of the URL opens the dialog. */
function NewExperiment() {
  const close = () => setQuery({ new: null }, { replace: true })
  return (
    <>
      <button type="button" class="primary" onClick={() => setQuery({ new: '1' })}>
        New experiment
      </button>
      {query.value.has('new') && (
        <Dialog title="New experiment" close={close}>
          <NewExperimentForm />
        </Dialog>
      )}
    </>
  )
}

function NewExperimentForm() {
  const { event, ...metricFields } = useMetricFields()
  const savedField = useSavedField()
  const holdoutField = useHoldoutField(null)
  return (
    <Form
      action="Create experiment"
      fields={{
        name: { label: 'Name', isRequired: true },
        key: {
          label: 'Flag key',
          isRequired: true,
          hint: 'The name in your code. If a flag with variants has this key, the experiment uses it.',
        },
        variants: {
          label: 'New variants',
          value: 'test',
          isRequired: true,
          hint: 'Separated by commas. They are compared with “control”, which is what people see today.',
        },
        saved: savedField,
        event: { ...event, hint: 'You can also add it later.' },
        ...metricFields,
        effect: {
          label: 'Smallest change that matters, in %',
          type: 'number',
          value: '10',
          hint: 'The page of the experiment uses it to say how long it takes.',
        },
        holdout: holdoutField,
      }}
      submit={async ({ name, key, variants, effect, holdout, ...metric }) => {
        const savedId = savedIn(metric)
        const keys = ['control', ...listOf(variants).filter((one) => one !== 'control')]
        const body = {
          name,
          feature_flag_key: key,
          parameters: {
            feature_flag_variants: equalVariants(keys),
            ...(effect !== '' && { minimum_detectable_effect: Number(effect) }),
          },
          ...(savedId !== null && { saved_metrics_ids: [{ id: savedId }] }),
          metrics: savedId !== null || metric.event === '' ? [] : [metricOf(metric)],
          ...(holdout !== '' && { holdout_id: Number(holdout) }),
        }
        const { id } = await post('project/experiments/', {}, body as never)
        go(inProjectPath(`/experiments/${id}`))
      }}
    >
      <p class="quiet">The experiment starts as a draft. Nobody gets a variant before you launch it.</p>
    </Form>
  )
}
