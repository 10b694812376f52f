/**
 * Describes experiments in words: their state, what a result means and what to do about it, and what is wrong with an
 * experiment.
 */
import type { components } from '../../base/api-types.d.ts'

type Shapes = components['schemas']

/** An experiment in the form of the API. */
export type Experiment = Shapes['Experiment']
/** The result of one metric. */
export type MetricResult = Shapes['ExperimentMetricResult']
/** The result of one variant, compared with the baseline. */
export type VariantResult = Shapes['ExperimentVariantResult']
/** The answer to a query about an experiment. */
export type Answer = Shapes['QueryAnswer']
/** A metric in the form in which it is stored. */
export type Metric = Readonly<Record<string, unknown>>

/** For each list of metrics of an experiment, its heading. */
export const LISTS = [
  ['metrics', 'Primary: it decides'],
  ['metrics_secondary', 'Secondary: good to know'],
  ['metrics_guard', 'Guard: it must not become worse'],
] as const

/** The name of a list of metrics. */
export type ListName = (typeof LISTS)[number][0]

/**
 * For each list that can contain saved metrics, the `type` of an experiment's references to the saved metrics in it.
 */
export const LINK_TYPES = { metrics: 'primary', metrics_secondary: 'secondary' } as const

/** A metric of an experiment. */
export interface ListedMetric {
  readonly metric: Metric
  /** The number of the saved metric. Null for a metric of the experiment itself. */
  readonly savedId: number | null
}

/** Returns the metrics in a list of an experiment: its own metrics, and then the saved ones, as in its results. */
export function metricsIn(experiment: Experiment, list: ListName): readonly ListedMetric[] {
  const type: string | undefined = { ...LINK_TYPES, metrics_guard: undefined }[list]
  const links = experiment.saved_metrics.filter(({ metadata }) => metadata.type === type)
  return [
    ...experiment[list].map((metric) => ({ metric, savedId: null })),
    ...links.map(({ saved_metric: savedId, name, query }) => ({
      metric: { name, ...query },
      savedId,
    })),
  ]
}

/** The states of an experiment in words. */
export type State = 'Draft' | 'Running' | 'Paused' | 'Ended'

/** Returns the state of an experiment. */
export function stateOf({
  status,
  feature_flag: flag,
}: Pick<Experiment, 'status' | 'feature_flag'>): State {
  if (status === 'draft') return 'Draft'
  if (status === 'stopped') return 'Ended'
  return flag?.active === false ? 'Paused' : 'Running'
}

/** For each conclusion that an experiment can have, the words for it. */
export const CONCLUSIONS = [
  ['won', 'A variant won'],
  ['lost', 'The control is better'],
  ['inconclusive', 'No difference was found'],
  ['stopped_early', 'Stopped early'],
  ['invalid', 'Not valid'],
] as const

/** Formats a share as `12.3 %`. */
function shareText(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

/** Formats a relative change as `+12.3 %` or `−3.1 %`. */
export function changeText(lift: number): string {
  const text = (Math.abs(lift) * 100).toFixed(1)
  const sign = text === '0.0' ? '±' : lift > 0 ? '+' : '−'
  return `${sign}${text} %`
}

const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 2 })
const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

/** Returns true if the value of a metric is a share of persons. */
function isShareMetric({ metric_type: type, threshold = null }: Metric): boolean {
  return type === 'funnel' || type === 'retention' || threshold !== null
}

/** Formats the value that a metric has for a variant. */
export function valueText(metric: Metric, mean: number | null | undefined): string {
  if (mean == null) return '–'
  return isShareMetric(metric) ? shareText(mean) : NUMBER.format(mean)
}

function eventOf(source: unknown, label: (event: string) => string): string {
  const { event, id, math, math_property: property } = (source ?? {}) as Metric
  const name =
    typeof event === 'string'
      ? label(event)
      : id === undefined
        ? 'any event'
        : `action ${String(id)}`
  if (math === 'sum' || math === 'avg' || math === 'min' || math === 'max')
    return `${String(math)} of ${String(property)} of ${name}`
  if (math === 'unique_session') return `sessions with ${name}`
  return name
}

/**
 * Returns the name of a metric. If it has none, the name is made from its events. `label` returns the readable name of
 * an event.
 */
export function metricName(metric: Metric, label: (event: string) => string): string {
  const { name, metric_type: type } = metric
  if (typeof name === 'string' && name !== '') return name
  const steps = Array.isArray(metric['series']) ? metric['series'] : []
  switch (type) {
    case 'funnel':
      return `Conversion to ${steps.map((step) => eventOf(step, label)).join(', then ')}`
    case 'ratio':
      return `${eventOf(metric['numerator'], label)} per ${eventOf(metric['denominator'], label)}`
    case 'retention':
      return `Return to ${eventOf(metric['completion_event'], label)}`
    default:
      return `${eventOf(metric['source'], label)} per person`
  }
}

/** Formats a probability. It is never shown as 0 or 100 %, because no result is certain. */
export function chanceText(chance: number | null | undefined): string {
  if (chance == null) return '–'
  if (chance > 0.99) return '> 99 %'
  return chance < 0.01 ? '< 1 %' : `${WHOLE.format(chance * 100)} %`
}

/** Whether a sentence contains good news, bad news, or neither. */
export type Mood = 'good' | 'bad' | 'open'

/** The meaning of a result in sentences: which variant is ahead, by how much, how sure that is, and what to do. */
export interface Verdict {
  readonly mood: Mood
  readonly headline: string
  readonly howMuch: string
  readonly howSure: string
  readonly whatToDo: string
}

/**
 * Returns the variant that is ahead. Among the variants that are certainly better, it is the one with the largest gain.
 * If no variant is certainly better, it is the one with the largest gain among all variants with enough data.
 */
function leaderOf(variants: readonly VariantResult[], goal: unknown): VariantResult | undefined {
  const sign = goal === 'decrease' ? -1 : 1
  const gain = (one: VariantResult) =>
    sign * (one.always_valid?.lift?.estimate ?? one.always_valid?.difference?.estimate ?? 0)
  const better = variants.filter(({ verdict }) => verdict === 'better')
  const known =
    better.length > 0 ? better : variants.filter(({ verdict }) => verdict !== 'not_enough_data')
  return known.toSorted((a, b) => gain(b) - gain(a))[0]
}

/** Returns the confidence interval of a variant in words: `between −4.0 % and +9.1 %`. */
export function intervalText({ always_valid: interval }: VariantResult): string {
  const { lift, difference } = interval ?? {}
  if (lift) return `between ${changeText(lift.low)} and ${changeText(lift.high)}`
  if (difference)
    return `between ${NUMBER.format(difference.low)} and ${NUMBER.format(difference.high)}`
  return 'not known yet'
}

/** Returns the meaning of the result of a metric. `isOver` is true if the experiment has ended. */
export function verdictOf(
  { metric, baseline, variant_results: variants }: MetricResult,
  alpha: number,
  isOver: boolean,
): Verdict {
  const { key: control } = baseline
  const leader = leaderOf(variants, (metric as Metric)['goal'])
  if (leader === undefined) return notEnough(variants[0], isOver)
  const lift = leader.always_valid?.lift?.estimate
  const from = valueText(metric as Metric, baseline.mean)
  const to = valueText(metric as Metric, leader.mean)
  const change = lift == null ? '' : `, a change of ${changeText(lift)}`
  const howMuch = `“${leader.key}” has ${to} and “${control}” has ${from}${change}. The true change is ${intervalText(leader)}.`
  const wrong = `At most ${WHOLE.format(alpha * 100)} of 100 such statements are wrong, however often you look.`
  if (leader.verdict === 'better') {
    return {
      mood: 'good',
      headline: `“${leader.key}” is better than “${control}”`,
      howMuch,
      howSure: `You can rely on it. ${wrong}`,
      whatToDo: isOver
        ? `Ship “${leader.key}”, if you have not done so.`
        : `Ship “${leader.key}”, or wait if you need to know the size of the change more exactly.`,
    }
  }
  if (leader.verdict === 'worse') {
    return {
      mood: 'bad',
      headline: `“${control}” is better`,
      howMuch,
      howSure: `You can rely on it. ${wrong}`,
      whatToDo: isOver
        ? `Ship “${control}”, if you have not done so.`
        : `Ship “${control}”. It ends the experiment.`,
    }
  }
  const chance = leader.chance_to_be_better
  const lead =
    chance == null
      ? 'No variant is ahead for certain.'
      : `The chance that “${leader.key}” is better is ${chanceText(chance)}. That alone is no reason to stop.`
  return {
    mood: 'open',
    headline: 'No decision yet',
    howMuch,
    howSure: lead,
    whatToDo: openAdvice(leader, isOver),
  }
}

function openAdvice(leader: VariantResult, isOver: boolean): string {
  if (isOver) {
    return 'The experiment ended without a change that you can rely on. Choose by other reasons, or run it again with more persons.'
  }
  const { minimum_detectable_effect: detectable } = leader
  const shown =
    detectable == null
      ? ''
      : ` With the persons so far, a change of ${shareText(detectable)} would probably show.`
  return `Wait.${shown}`
}

function notEnough(variant: VariantResult | undefined, isOver: boolean): Verdict {
  const isEmpty = variant?.not_enough_data === 'no_exposures' || variant?.number_of_samples === 0
  return {
    mood: 'open',
    headline: isEmpty ? 'Nobody is counted yet' : 'Too few persons to tell',
    howMuch: isEmpty
      ? 'A person is counted once code has asked for the flag and got a variant.'
      : 'Each variant needs at least 50 persons, and 5 of them must have done what the metric counts.',
    howSure: 'Nothing can be said yet.',
    whatToDo: isOver ? 'Run the experiment again with more persons.' : 'Wait for more persons.',
  }
}

/**
 * Returns a sentence about when the experiment will have the planned number of persons. A decision may be possible
 * before that.
 */
export function endText(
  variants: readonly VariantResult[],
  state: State,
  isDecided: boolean,
): string {
  if (state === 'Ended') return 'The experiment has ended.'
  const needed = Math.max(0, ...variants.map(({ needed_persons: persons }) => persons ?? 0))
  if (needed === 0) {
    return 'No size is planned. Set the smallest change that matters, and this page says how long it takes.'
  }
  if (isDecided)
    return `It is decided. You need not wait for the planned ${WHOLE.format(needed)} persons.`
  const plan = `The plan needs ${WHOLE.format(needed)} persons for each comparison`
  const left = variants.map(({ days_left: days }) => days).filter((days) => days != null)
  if (left.length === 0) return `${plan}. How long that takes is known once persons are counted.`
  const days = Math.ceil(Math.max(...left))
  if (days === 0) return `${plan}. This number is reached.`
  return `${plan}. At the present pace, that takes about ${WHOLE.format(days)} more ${days === 1 ? 'day' : 'days'}.`
}

/** Returns the state of a guard metric in sentences. */
export function guardOf({ metric, variant_results: variants }: MetricResult): Verdict {
  const { goal, tolerance } = metric as Metric
  const accepted = typeof tolerance === 'number' ? tolerance : 0
  const sign = goal === 'decrease' ? -1 : 1
  const worst = (one: VariantResult) => {
    const lift = one.always_valid?.lift
    if (!lift) return null
    const [low, high] = sign > 0 ? [lift.low, lift.high] : [-lift.high, -lift.low]
    return { low, high }
  }
  const limit = `It may become worse by at most ${shareText(accepted)}.`
  const bounds = variants.map((one) => ({
    key: one.key,
    ends: worst(one),
    words: intervalText(one),
  }))
  const broken = bounds.find(({ ends }) => ends !== null && ends.high < -accepted)
  if (broken !== undefined) {
    return {
      mood: 'bad',
      headline: `Worse than accepted with “${broken.key}”`,
      howMuch: `The true change is ${broken.words}. ${limit}`,
      howSure: 'You can rely on it.',
      whatToDo: `Pause the experiment or do not ship “${broken.key}”.`,
    }
  }
  const isSafe =
    bounds.length > 0 && bounds.every(({ ends }) => ends !== null && ends.low >= -accepted)
  const known = bounds.map(({ key, words }) => `“${key}”: ${words}`).join(', ')
  return {
    mood: isSafe ? 'good' : 'open',
    headline: isSafe ? 'Not worse than accepted' : 'No harm is shown so far',
    howMuch: `${known}. ${limit}`,
    howSure: isSafe ? 'You can rely on it.' : 'It may still be worse than accepted.',
    whatToDo: isSafe ? 'Nothing.' : 'Wait.',
  }
}

/** A line of the check list of an experiment. */
export interface Finding {
  readonly mood: Mood
  readonly words: string
}

/** For each kind of change that can spoil a result, the words for it. */
const CHANGES: Readonly<Record<string, string>> = {
  variants: 'the variants of the flag were changed',
  conditions: 'the conditions of the flag were changed',
  holdout: 'the holdout was changed',
  flag: 'the settings of the flag were changed',
  paused: 'the flag was switched off',
  resumed: 'the flag was switched on again',
  metrics: 'the metrics were changed',
  exposure_criteria: 'the rule for who is counted was changed',
  stats_config: 'the settings of the statistics were changed',
  start_date: 'the start was changed',
}

/** If at least this share of the persons has seen several variants, the reader is told. */
const SEVERAL_SHARE = 0.01

/**
 * Returns the lines of the check list: what is right and what is wrong with an experiment. `day` returns the day of a
 * moment for readers.
 */
export function findingsOf(
  experiment: Experiment,
  exposures: Answer | undefined,
  results: readonly MetricResult[],
  day: (time: string) => string,
): readonly Finding[] {
  const findings: Finding[] = []
  if (metricsIn(experiment, 'metrics').length === 0) {
    findings.push({
      mood: 'bad',
      words: 'There is no primary metric, so nothing decides about the experiment.',
    })
  }
  if (stateOf(experiment) === 'Paused') {
    findings.push({
      mood: 'open',
      words: 'The flag is off. Nobody gets a variant, and nobody new is counted.',
    })
  }
  if (exposures !== undefined && experiment.start_date !== null)
    findings.push(...exposureFindings(exposures))
  const isShort = results.some(({ variant_results: variants }) =>
    variants.some(({ verdict }) => verdict === 'not_enough_data'),
  )
  if (isShort)
    findings.push({ mood: 'open', words: 'Some metrics have too few persons to be compared.' })
  const changes = experiment.changed_while_running
  for (const { at, change } of changes) {
    findings.push({
      mood: 'bad',
      words: `On ${day(at)}, ${CHANGES[change] ?? change} while the experiment ran.`,
    })
  }
  if (changes.length === 0 && experiment.start_date !== null) {
    findings.push({ mood: 'good', words: 'Nothing was changed while the experiment ran.' })
  }
  return findings
}

function exposureFindings(exposures: Answer): readonly Finding[] {
  const { exposed_persons: persons = {}, persons_in_several_variants: several = 0 } = exposures
  const { sample_ratio_mismatch: ratio, sample_ratio: check } = exposures
  const total = Object.values(persons).reduce((sum, count) => sum + count, 0)
  if (total === 0 && several === 0) {
    const words =
      'Nobody is counted yet. Check that code asks for the flag and sends $feature_flag_called.'
    return [{ mood: 'open', words }]
  }
  const findings: Finding[] = []
  if (check?.is_mismatch === true) {
    const parts = Object.entries(ratio?.expected ?? {}).map(([key, expected]) => {
      return `“${key}” has ${WHOLE.format(persons[key] ?? 0)} persons instead of ${WHOLE.format(expected)}`
    })
    const words = `The variants do not have their shares of persons: ${parts.join(', ')}. Do not trust the result before you know why.`
    findings.push({ mood: 'bad', words })
  } else if (check?.is_mismatch === false) {
    findings.push({ mood: 'good', words: 'Each variant has its share of the persons.' })
  }
  if (several > 0) {
    const share = several / (total + several)
    const mood = share > SEVERAL_SHARE ? 'bad' : 'good'
    findings.push({
      mood,
      words: `${WHOLE.format(several)} persons (${shareText(share)}) had several variants${exposures.persons_set_aside === 0 ? ' and count for their first one' : ' and do not count'}.${mood === 'bad' ? ' Check that persons keep their ID.' : ''}`,
    })
  } else {
    findings.push({ mood: 'good', words: 'Nobody had several variants.' })
  }
  return findings
}

/**
 * Returns the variants of a new experiment. They have equal shares in whole percent. If 100 cannot be divided evenly,
 * the first variants get one percent more.
 */
export function equalVariants(
  keys: readonly string[],
): readonly { key: string; rollout_percentage: number }[] {
  const each = Math.floor(100 / keys.length)
  const rest = 100 - each * keys.length
  return keys.map((key, at) => ({ key, rollout_percentage: at < rest ? each + 1 : each }))
}

/** The values of the form fields that describe a metric. */
export interface MetricFields {
  readonly kind: string
  readonly event: string
  readonly property: string
  readonly goal: string
  readonly tolerance?: string
}

/** Returns the metric that the values of the form fields describe. */
export function metricOf({ kind, event, property, goal, tolerance = '' }: MetricFields): Metric {
  const node = { kind: 'EventsNode', event }
  const common = { goal, ...(tolerance !== '' && { tolerance: Number(tolerance) / 100 }) }
  if (kind === 'conversion') return { metric_type: 'funnel', series: [node], ...common }
  const math = kind === 'sum' ? { math: 'sum', math_property: property } : { math: 'total' }
  return { metric_type: 'mean', source: { ...node, ...math }, ...common }
}

/** The members of the metrics that forms can describe. */
const DESCRIBED = [
  'metric_type',
  'goal',
  'series',
  'source',
  'kind',
  'event',
  'math',
  'math_property',
]

/**
 * Returns the values of the form fields that describe a metric. It is the inverse of `metricOf`. Returns null for a
 * metric with options that the fields do not have.
 */
export function fieldsOf({ uuid: _, kind: __, ...stored }: Metric): MetricFields | null {
  const metric: Metric = { goal: 'increase', ...stored }
  const isConversion = metric['metric_type'] === 'funnel'
  const { series, source } = metric
  const node = (isConversion ? (series as readonly unknown[])[0] : source) as Metric | undefined
  const { event, math, math_property: property = '' } = node ?? {}
  const fields = {
    kind: isConversion ? 'conversion' : math === 'sum' ? 'sum' : 'count',
    event: String(event),
    property: String(property),
    goal: String(metric['goal']),
  }
  const described = metricOf(fields)
  // The order of members does not matter. The first comparison ignores members that are not in `DESCRIBED`. The second
  // one finds them, because they make the JSON text longer.
  const isSame =
    JSON.stringify(described, DESCRIBED) === JSON.stringify(metric, DESCRIBED) &&
    JSON.stringify(described).length === JSON.stringify(metric).length
  return isSame ? fields : null
}
