/**
 * The page of an experiment: which variant is ahead, by how much, how sure that is, what to do next, and what is wrong
 * with the experiment.
 */
import {
  Ask,
  ago,
  askQueryWhole,
  Card,
  Chart,
  Empty,
  eventLabel,
  exact,
  Got,
  may,
  Page,
  pageId,
  pageOf,
  patch,
  percent,
  post,
  Shown,
  say,
  Table,
  time,
  useListRows,
  useLoaded,
} from '../kit.ts'
import { StateBadge } from './experiment/badge.tsx'
import { useHoldoutField } from './experiment/holdouts.ts'
import { Interval, scaleOf } from './experiment/interval.tsx'
import { savedIn, useMetricFields, useSavedField } from './experiment/metric-fields.ts'
import { Steps } from './experiment/steps.tsx'
import {
  type Answer,
  CONCLUSIONS,
  chanceText,
  type Experiment,
  endText,
  findingsOf,
  guardOf,
  LINK_TYPES,
  LISTS,
  type ListedMetric,
  type ListName,
  type Metric,
  type MetricResult,
  metricName,
  metricOf,
  metricsIn,
  stateOf,
  type VariantResult,
  type Verdict,
  valueText,
  verdictOf,
} from './experiment/words.ts'

const EVERY_MS = 60_000
const COHORTS_MAX = 1000
const SIGNS = { good: '✓', bad: '✕', open: '–' } as const
/** The page "Experiment". */
export default function ExperimentPage() {
  return (
    <Got route="project/experiments/{id}/" values={{ id: Number(pageId.value) }}>
      {(experiment) => <ExperimentView experiment={experiment} />}
    </Got>
  )
}

/** The results of an experiment. They are computed again every minute. */
function useResults(experiment: Experiment) {
  const { id, metrics_guard: guards, updated_at: version } = experiment
  const isEmpty = [...metricsIn(experiment, 'metrics'), ...metricsIn(experiment, 'metrics_secondary')].length === 0
  const isStarted = experiment.start_date !== null
  const options = { everyMs: isStarted && experiment.end_date === null ? EVERY_MS : 0 }
  const query = { kind: 'ExperimentQuery', experiment_id: id }
  const results = useLoaded<Answer | null>(
    `result ${id} ${version}`,
    async (signal) => (isStarted && !isEmpty ? askQueryWhole(query, signal) : null),
    options,
  )
  const exposures = useLoaded<Answer | null>(
    `exposures ${id} ${version}`,
    async (signal) => (isStarted ? askQueryWhole({ ...query, kind: 'ExperimentExposureQuery' }, signal) : null),
    options,
  )
  const guarded = useLoaded<readonly MetricResult[]>(
    `guards ${id} ${version}`,
    async (signal) => {
      if (!isStarted) return []
      const answers = guards.map((metric) => askQueryWhole({ ...query, metric }, signal))
      // The cast is safe: the answer to a query about a single metric has the same members as `MetricResult`.
      return (await Promise.all(answers)) as unknown as readonly MetricResult[]
    },
    options,
  )
  return { results, exposures, guarded }
}

function ExperimentView({ experiment }: { experiment: Experiment }) {
  const { results, exposures, guarded } = useResults(experiment)
  const { primary_metrics: primary = [], secondary_metrics: secondary = [], alpha = 0.05 } = results.data ?? {}
  const all = [...primary, ...secondary]
  const findings = findingsOf(experiment, exposures.data ?? undefined, all, (at) => time(at, 'day'))
  const isStarted = experiment.start_date !== null
  return (
    <Page title={experiment.name} aside={<Steps experiment={experiment} />}>
      <About experiment={experiment} />
      {!isStarted && <Draft experiment={experiment} />}
      {isStarted && (
        <div class="results">
          <Shown of={results}>{() => <Answers experiment={experiment} results={primary} alpha={alpha} />}</Shown>
        </div>
      )}
      <div class="split even">
        <div>
          <Card title="Check list">
            <ul class="findings">
              {findings.map(({ mood, words }) => (
                <li key={words} class={mood}>
                  <span aria-hidden="true">{SIGNS[mood]}</span> {words}
                </li>
              ))}
            </ul>
          </Card>
          <Plan experiment={experiment} />
        </div>
        <div>
          {isStarted && (
            <Card title="Persons in the experiment">
              <Shown of={exposures}>
                {(answer) => answer && <Exposures answer={answer} experiment={experiment} />}
              </Shown>
            </Card>
          )}
        </div>
      </div>
      <Metrics experiment={experiment} results={all} guards={guarded.data ?? []} />
    </Page>
  )
}

function About({ experiment }: { experiment: Experiment }) {
  const { description, feature_flag_key: key, feature_flag: flag, start_date: start, end_date: end } = experiment
  const { conclusion, conclusion_comment: comment, created_by: author, created_at: at } = experiment
  const judged = CONCLUSIONS.find(([one]) => one === conclusion)?.[1]
  const since = start === null ? `Created ${ago(at)}` : `Started ${time(start, 'day')}`
  return (
    <>
      <p class="about row">
        <StateBadge experiment={experiment} />
        {experiment.archived && <span class="badge off">Archived</span>}
        {judged && <span class="badge">{judged}</span>}
        <span>Flag {flag === null ? key : <a href={pageOf(`/flags/${flag.id}`)}>{key}</a>}</span>
        <span class="quiet">
          {since}
          {end !== null && `, ended ${time(end, 'day')}`}
          {author !== null && `, by ${author.first_name || author.email}`}
        </span>
      </p>
      {description && <p class="about">{description}</p>}
      {comment && <p class="about quiet">{comment}</p>}
    </>
  )
}

/** Shows what must be done before the experiment can be launched. */
function Draft({ experiment: { feature_flag_key: key } }: { experiment: Experiment }) {
  return (
    <div class="notice empty">
      <h3>This is a draft. Nobody gets a variant yet.</h3>
      <ol>
        <li>
          Let your code ask for the flag <code>{key}</code>, and show each person the variant that it gets.
        </li>
        <li>Choose the metric that decides, below.</li>
        <li>Launch the experiment.</li>
      </ol>
    </div>
  )
}

interface AnswersProps {
  readonly experiment: Experiment
  readonly results: readonly MetricResult[]
  readonly alpha: number
}

/** The verdict on each primary metric. */
function Answers({ experiment, results, alpha }: AnswersProps) {
  const state = stateOf(experiment)
  return results.map((result, at) => {
    const name = metricName(result.metric, eventLabel)
    const verdict = verdictOf(result, alpha, state === 'Ended')
    return (
      <Card key={`${at} ${name}`} title={name}>
        <Said verdict={verdict} />
        <Variants result={result} label={name} />
        <p class="quiet">{endText(result.variant_results, state, verdict.mood !== 'open')}</p>
      </Card>
    )
  })
}

function Said({ verdict: { mood, headline, howMuch, howSure, whatToDo } }: { verdict: Verdict }) {
  return (
    <div class="verdict">
      <h3 class={{ good: 'better', bad: 'worse', open: '' }[mood]}>{headline}</h3>
      <p>{howMuch}</p>
      <p>{howSure}</p>
      <p>
        <b>What to do:</b> {whatToDo}
      </p>
    </div>
  )
}

interface Row {
  readonly key: string
  readonly persons: number
  readonly mean: number | null
  readonly result: VariantResult | null
}

/** A table of the variants of a metric. The interval of each variant is drawn as a picture. */
function Variants({ result, label }: { result: MetricResult; label: string }) {
  const { metric, baseline, variant_results: variants } = result
  const scale = scaleOf(variants)
  const isLessBetter = metric['goal'] === 'decrease'
  const rows: readonly Row[] = [
    { key: baseline.key, persons: baseline.number_of_samples, mean: baseline.mean, result: null },
    ...variants.map((one) => ({ key: one.key, persons: one.number_of_samples, mean: one.mean, result: one })),
  ]
  return (
    <Table
      label={label}
      keyOf={({ key }) => key}
      rows={rows}
      columns={[
        ['Variant', 'key'],
        ['Persons', ({ persons }) => exact(persons), 'number'],
        ['Value', ({ mean }) => valueText(metric, mean), 'number'],
        [
          'Change',
          ({ result: one }) =>
            one === null ? (
              <span class="quiet">the others are compared with it</span>
            ) : (
              <Interval variant={one} scale={scale} isLessBetter={isLessBetter} />
            ),
        ],
        ['Chance to be better', ({ result: one }) => chanceText(one?.chance_to_be_better), 'minor number'],
      ]}
    />
  )
}

/** A chart of how many persons have seen each variant, over time. */
function Exposures({ answer, experiment }: { answer: Answer; experiment: Experiment }) {
  const { timeseries = [], exposed_persons: persons = {}, aggregation_group_type_index: group } = answer
  const shown = timeseries.filter(({ variant }) => variant in persons)
  const days = shown[0]?.days ?? []
  const total = Object.values(persons).reduce((sum, count) => sum + count, 0)
  const ofGroups = group !== undefined && (
    <p class="notice">
      This experiment counts groups: where this page says “persons”, it means groups. Exposures that it leaves out,
      because they have no group: {exact(answer.exposures_without_group ?? 0)}.
    </p>
  )
  if (total === 0) {
    return (
      <>
        {ofGroups}
        <Empty title="Nobody is counted yet.">Persons appear here when code asks for the flag.</Empty>
      </>
    )
  }
  return (
    <>
      {ofGroups}
      <p>
        <b>{exact(total)}</b> persons:{' '}
        {Object.entries(persons)
          .map(([key, count]) => `${key} ${exact(count)} (${percent(count / total, 0)})`)
          .join(', ')}
        .
      </p>
      <Chart
        label="Persons in the experiment"
        labels={days.map((day) => time(`${day}T12:00:00Z`, 'day').replace(/ \d{4}$/, ''))}
        days={days}
        lines={shown.map(({ variant, exposure_counts: counts }) => ({ label: variant, data: counts }))}
        isOpen={experiment.end_date === null}
      />
      {group === undefined && <ExposureCohort experiment={experiment} />}
    </>
  )
}

/** A link to the cohort of the persons in the experiment, or a button that creates it. */
function ExposureCohort({ experiment: { id, exposure_cohort: cohortId } }: { experiment: Experiment }) {
  const cohorts = useListRows('cohort:read', 'project/cohorts/', { limit: COHORTS_MAX })
  const cohort = cohorts?.find((one) => one.id === cohortId)
  if (cohort) {
    return (
      <p class="below">
        Saved as the cohort{' '}
        <a href={pageOf(`/cohorts?id=${cohort.id}`)}>
          <bdi>{cohort.name}</bdi>
        </a>
        .
      </p>
    )
  }
  if (!cohorts || !may('cohort:write') || !may('experiment:write')) return null
  return (
    <p class="below">
      <Ask
        label="Save as cohort"
        title="Save these persons as a cohort?"
        isDangerous={false}
        submit={async () => {
          await post('project/experiments/{id}/create_exposure_cohort_for_experiment/', { id })
          say('The cohort is saved.')
        }}
      >
        The cohort keeps the persons who got a variant until now, in all variants. It does not change later.
      </Ask>
    </p>
  )
}

/** Shows the plan of the experiment: its variants, their shares, and how many persons are needed. */
function Plan({ experiment }: { experiment: Experiment }) {
  const { feature_flag_variants: variants = [], minimum_detectable_effect: effect } = experiment.parameters
  const isChangeable = may('experiment:write') && stateOf(experiment) !== 'Ended'
  const planned = effect == null ? 'not set' : `${exact(effect)} %`
  return (
    <Card title="Plan" aside={isChangeable && <ChangePlan experiment={experiment} />}>
      <p>Variants: {variants.map(({ key, rollout_percentage: share }) => `${key} ${exact(share)} %`).join(', ')}.</p>
      <p>Smallest change that matters: {planned}.</p>
      {experiment.holdout && (
        <p>
          Kept out: the people of the holdout{' '}
          <a href={pageOf('/experiments/holdouts')}>
            <bdi>{experiment.holdout.name}</bdi>
          </a>
          .
        </p>
      )}
    </Card>
  )
}

function ChangePlan({ experiment }: { experiment: Experiment }) {
  const { id, name, description, parameters } = experiment
  const { feature_flag_variants: _, minimum_detectable_effect: effect, ...others } = parameters
  const isDraft = stateOf(experiment) === 'Draft'
  const holdoutField = useHoldoutField(experiment.holdout_id, isDraft)
  return (
    <Ask
      label="Change"
      title="Change the experiment"
      action="Save"
      fields={{
        name: { label: 'Name', value: name, isRequired: true },
        description: { label: 'Description', value: description ?? '', type: 'area' },
        effect: {
          label: 'Smallest change that matters, in %',
          type: 'number',
          value: effect == null ? '' : String(effect),
        },
        holdout: holdoutField,
      }}
      submit={async ({ effect: chosen, holdout, ...words }) => {
        const planned = chosen === '' ? {} : { minimum_detectable_effect: Number(chosen) }
        const kept = isDraft ? { holdout_id: holdout === '' ? null : Number(holdout) } : {}
        await patch('project/experiments/{id}/', { id }, { ...words, ...kept, parameters: { ...others, ...planned } })
        say('The experiment is saved.')
      }}
    />
  )
}

interface MetricsProps {
  readonly experiment: Experiment
  readonly results: readonly MetricResult[]
  readonly guards: readonly MetricResult[]
}

/**
 * All metrics of the experiment, in their lists. The results of secondary metrics and of guards are shown here. The
 * results of primary metrics have cards of their own.
 */
function Metrics({ experiment, results, guards }: MetricsProps) {
  const ofUuid = (found: readonly MetricResult[], metric: Metric) =>
    found.find((one) => one.metric['uuid'] === metric['uuid'])
  const isEditor = may('experiment:write')
  const lists = LISTS.map(([list, heading]) => [list, heading, metricsIn(experiment, list)] as const)
  const filled = lists.filter(([, , listed]) => listed.length > 0)
  return (
    <Card title="Metrics" aside={isEditor && <AddMetric experiment={experiment} />}>
      {filled.length === 0 && <p class="none">No metrics yet. Add the event that shows success.</p>}
      {filled.map(([list, heading, listed]) => (
        <section key={list} class="metrics" aria-label={heading}>
          <h3 class="quiet">{heading}</h3>
          {listed.map((one) => {
            const { metric, savedId } = one
            const name = metricName(metric, eventLabel)
            const secondary = list === 'metrics_secondary' ? ofUuid(results, metric) : undefined
            const guard = list === 'metrics_guard' ? ofUuid(guards, metric) : undefined
            return (
              <div key={String(metric['uuid'])} class="below">
                <p class="row">
                  <b>{name}</b>
                  {savedId !== null && (
                    <a class="badge" href={pageOf('/experiments/metrics')}>
                      Saved metric
                    </a>
                  )}
                  {isEditor && <RemoveMetric experiment={experiment} list={list} listed={one} name={name} />}
                </p>
                {guard && <Said verdict={guardOf(guard)} />}
                {secondary && <Variants result={secondary} label={name} />}
              </div>
            )
          })}
        </section>
      ))}
    </Card>
  )
}

function saveMetrics({ id }: Experiment, changes: object) {
  return patch('project/experiments/{id}/', { id }, changes as never)
}

/** Returns the references of an experiment to saved metrics, in the form in which they are sent. */
function linksOf({ saved_metrics: links }: Experiment) {
  return links.map(({ saved_metric: id, metadata }) => ({ id, metadata }))
}

function AddMetric({ experiment }: { experiment: Experiment }) {
  const { event, ...others } = useMetricFields()
  const links = linksOf(experiment)
  const savedField = useSavedField(links.map(({ id }) => id))
  return (
    <Ask
      label="Add a metric"
      title="Add a metric"
      action="Add metric"
      fields={{
        list: { kind: 'choice', label: 'Role', options: LISTS, value: 'metrics' },
        saved: savedField,
        event: { ...event, isRequired: true },
        ...others,
        tolerance: {
          label: 'Accepted change for the worse, in %',
          type: 'number',
          value: '0',
          isShown: ({ list }: { readonly list: string }) => list === 'metrics_guard',
        },
      }}
      submit={async ({ tolerance, ...metric }) => {
        const list = metric.list as ListName
        const id = savedIn(metric)
        const link = { id, metadata: { type: LINK_TYPES[list as 'metrics'] } }
        const added = metricOf(list === 'metrics_guard' ? { ...metric, tolerance } : metric)
        const changes = id === null ? { [list]: [...experiment[list], added] } : { saved_metrics_ids: [...links, link] }
        await saveMetrics(experiment, changes)
        say('The metric is added.')
      }}
    >
      {stateOf(experiment) === 'Running' && (
        <p class="quiet">The experiment runs. Metrics that are chosen after a look at the results prove less.</p>
      )}
    </Ask>
  )
}

interface RemoveProps {
  readonly experiment: Experiment
  readonly list: ListName
  readonly listed: ListedMetric
  readonly name: string
}

function RemoveMetric({ experiment, list, listed: { metric, savedId }, name }: RemoveProps) {
  const changes =
    savedId === null
      ? { [list]: experiment[list].filter((one) => one['uuid'] !== metric['uuid']) }
      : { saved_metrics_ids: linksOf(experiment).filter(({ id }) => id !== savedId) }
  return (
    <Ask label="Remove" title={`Remove “${name}”?`} submit={() => saveMetrics(experiment, changes)}>
      The events stay. You can add the metric again.
    </Ask>
  )
}
