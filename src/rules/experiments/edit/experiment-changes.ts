/**
 * Applies requests to experiments. The result is a new experiment, a changed one, or a step of its life (launch, pause,
 * resume, end, ship, reset, archive). The functions are pure; the store makes the change, together with the change of
 * the flag. Source: docs/compatibility/experiments.md, "Changing experiments".
 */
import { fieldText, invalidInput, ServiceError } from '../../../base/errors.ts'
import { given, isObject, isSameJson, type JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import { parseTimestamp } from '../../capture/timestamp.ts'
import type { Flag } from '../../flags/types.ts'
import { readExposure, readStats } from '../../queries/experiments/read-experiment.ts'
import { QueryFields } from '../../queries/query-fields.ts'
import {
  countedGroupType,
  draftFilters,
  launchedWith,
  requireSameGroupType,
  requireSameVariants,
  shippedFilters,
  variantsOfFlag,
} from './flag-of-experiment.ts'
import {
  EXPERIMENT_AHEAD_MS_MAX,
  EXPERIMENT_MEMBER_UNITS_MAX,
  RUNNING_CHANGES_MAX,
} from './limits.ts'
import { checkMetrics, METRIC_LISTS } from './metric-fields.ts'
import {
  type LinkContext,
  linksIn,
  linkType,
  requireMetricRoom,
  type SavedMetricDraft,
  type SavedMetricInput,
} from './saved-metrics.ts'
import {
  countedKey,
  type Experiment,
  type ExperimentFields,
  type Holdout,
  type HoldoutFields,
  type RunningChange,
  statusOf,
} from './stored-experiment.ts'

/**
 * The members of a request body. If a member is absent, its value stays as it is. A new experiment gets the default.
 */
export interface ExperimentInput {
  readonly name?: string | undefined
  readonly description?: string | null | undefined
  readonly type?: ExperimentFields['type'] | undefined
  readonly feature_flag_key?: string | undefined
  readonly holdout_id?: number | null | undefined
  readonly exposure_criteria?: JsonObject | null | undefined
  readonly parameters?: JsonObject | null | undefined
  readonly metrics?: readonly unknown[] | null | undefined
  readonly metrics_secondary?: readonly unknown[] | null | undefined
  readonly metrics_guard?: readonly unknown[] | null | undefined
  readonly saved_metrics_ids?: unknown
  readonly stats_config?: JsonObject | null | undefined
  readonly start_date?: string | null | undefined
  readonly end_date?: string | null | undefined
  readonly archived?: boolean | undefined
  readonly deleted?: boolean | undefined
  readonly conclusion?: ExperimentFields['conclusion'] | undefined
  readonly conclusion_comment?: string | null | undefined
}

/** The members of a body that creates an experiment. */
export interface ExperimentDraft extends ExperimentInput {
  readonly name: string
  readonly feature_flag_key: string
}

/** The judgment of a person when an experiment ends. */
export type Ending = Pick<ExperimentInput, 'conclusion' | 'conclusion_comment'>

/** A step in the life of an experiment. */
export type ExperimentStep =
  | { readonly step: 'launch' | 'pause' | 'resume' | 'reset' | 'archive' | 'unarchive' }
  | ({ readonly step: 'end' } & Ending)
  | ({
      readonly step: 'ship'
      readonly variant: string
      /** True if everybody gets the variant. False if the conditions of the flag stay as they are. */
      readonly toEveryone: boolean
    } & Ending)

/** A change of an experiment, a holdout or a saved metric. Its result is the id of this object. */
export type ExperimentCommand =
  | {
      readonly action: 'create'
      readonly input: ExperimentDraft
    }
  | { readonly action: 'change'; readonly id: number; readonly input: ExperimentInput }
  | { readonly action: 'step'; readonly id: number; readonly step: ExperimentStep }
  | {
      readonly action: 'duplicate'
      readonly id: number
      readonly feature_flag_key?: string | undefined
      readonly name?: string | undefined
    }
  | {
      /** Creates the copy of an experiment of another project. */
      readonly action: 'copy'
      readonly input: ExperimentDraft
      /** The name of the copy. If it is absent, the copy gets the name of `input` with an addition. */
      readonly name?: string | undefined
      /**
       * The request body that creates the flag of the copy if no flag has its key. Null if a flag already had this key
       * when the command was made.
       */
      readonly flag: JsonObject | null
      /** The saved metrics of the copy. If the project has no saved metric with the same name, it is created. */
      readonly savedMetrics: readonly {
        readonly draft: SavedMetricDraft
        readonly metadata: JsonObject
      }[]
    }
  | {
      readonly action: 'set_exposure_cohort'
      readonly id: number
      readonly cohortId: number
      /**
       * The cohort that the new cohort replaces. Null if there was none. If the experiment has another cohort by now,
       * the command is refused.
       */
      readonly formerId: number | null
      /**
       * The start of the experiment when the members of the cohort were found. If the start was changed since then, the
       * command is refused, because other persons may be exposed.
       */
      readonly startDate: string | null
    }
  | { readonly action: 'create_holdout'; readonly fields: HoldoutFields }
  | {
      readonly action: 'change_holdout'
      readonly id: number
      readonly fields: Partial<HoldoutFields>
    }
  | { readonly action: 'delete_holdout'; readonly id: number }
  | { readonly action: 'create_saved_metric'; readonly input: SavedMetricDraft }
  | {
      readonly action: 'change_saved_metric'
      readonly id: number
      readonly input: SavedMetricInput
    }
  | { readonly action: 'delete_saved_metric'; readonly id: number }

/** The data that a change depends on. */
export interface ChangeContext extends LinkContext {
  /** The flag of the experiment. */
  readonly flag: Flag
  /**
   * The holdout named in the body. Null if the body removes the holdout. Undefined if the body does not mention it.
   */
  readonly holdout?: Holdout | null | undefined
  readonly userId: number | null
  /** Returns a new UUID. */
  readonly uuid: () => string
}

/** The changes that a request makes to an experiment and its flag. */
export interface ExperimentChange {
  readonly fields: Partial<ExperimentFields>
  readonly isDeleted?: boolean | undefined
  /**
   * The body of the request that changes the flag, with the reason for the activity log. Null: the flag stays as it is.
   */
  readonly flag: JsonObject | null
}

/** Returns the fields of a new experiment. Throws 400 if the body is invalid or the flag cannot have an experiment. */
export function newExperiment(
  name: string,
  input: ExperimentInput,
  context: Omit<ChangeContext, 'holdout'>,
): ExperimentFields {
  const empty: ExperimentFields = {
    name,
    description: null,
    type: 'product',
    flag_id: context.flag.id,
    holdout_id: null,
    exposure_criteria: { filterTestAccounts: true },
    parameters: {},
    variants: null,
    metrics: [],
    metrics_secondary: [],
    metrics_guard: [],
    saved_metrics: [],
    stats_config: null,
    start_date: null,
    end_date: null,
    archived: false,
    conclusion: null,
    conclusion_comment: null,
    running_changes: [],
  }
  const fields = { ...empty, ...readFields(input, empty, context) }
  requireMetricRoom(fields)
  requireDates(fields, context.nowMs)
  requireArchivable(fields)
  const variants = variantsOfFlag(context.flag)
  requireBaseline(
    fields.stats_config,
    variants.map(({ key }) => key),
  )
  return { ...fields, ...(fields.start_date === null ? {} : launchedWith(context.flag)) }
}

/**
 * Returns the change that the body of a PATCH makes. A `start_date` launches a draft, and an `end_date` stops the
 * experiment. Throws 400.
 */
export function changedExperiment(
  before: Experiment,
  input: ExperimentInput,
  context: ChangeContext,
): ExperimentChange {
  const { flag, holdout, nowMs } = context
  const { feature_flag_key: key, parameters, deleted: isDeleted } = input
  const old = before.fields
  const counted = countedKey(old, flag)
  if (key !== undefined && key !== flag.key && key !== counted) {
    throw invalidInput(
      'feature_flag_key',
      'may not change. Duplicate the experiment to use another flag',
    )
  }
  const fields: Partial<ExperimentFields> = readFields(input, old, context)
  const after: ExperimentFields = { ...old, ...fields }
  if ([...METRIC_LISTS, 'saved_metrics' as const].some((list) => fields[list] !== undefined)) {
    requireMetricRoom(after)
  }
  const wasDraft = statusOf(old) === 'draft'
  if (!wasDraft && after.start_date === null) {
    throw invalidInput('start_date', 'may not be removed. Reset the experiment with `reset/`')
  }
  if (!wasDraft && after.holdout_id !== old.holdout_id) {
    throw invalidInput('holdout_id', 'may not change after the launch. Reset the experiment first')
  }
  requireDates(after, nowMs)
  if (after.archived !== old.archived || statusOf(after) !== statusOf(old)) requireArchivable(after)
  const isDeleting = !before.isDeleted && isDeleted === true
  const isRestoring = before.isDeleted && isDeleted === false
  if (isRestoring && flag.deleted) {
    const detail = `The flag \`${flag.key}\` is deleted. Restore it before its experiment.`
    throw new ServiceError('invalid_input', detail, { attr: 'deleted' })
  }
  if (old.variants !== null && isObject(parameters)) {
    requireSameVariants(parameters, old.variants)
    requireSameGroupType(parameters, countedGroupType(old, flag))
  }
  const filters = wasDraft ? draftFilters(flag, parameters ?? undefined, holdout) : null
  const isLaunching = wasDraft && after.start_date !== null
  const isStarting = statusOf(after) === 'running' && statusOf(old) !== 'running'
  if (isStarting) requireFlag(flag)
  if (statusOf(after) === 'running' && (isStarting || isRestoring) && counted !== flag.key) {
    const detail = `The flag of the experiment is now called \`${flag.key}\`, but its result is counted under \`${counted}\`. Rename the flag back, or send an \`end_date\`.`
    throw new ServiceError('invalid_input', detail, { attr: 'feature_flag_key' })
  }
  // Somebody may have removed the variants from the flag of a draft. The draft can then still be renamed or deleted, so
  // the variants are read only if they are needed.
  const isComparing = isLaunching || isObject(parameters) || isObject(input.stats_config)
  const changed = filters === null ? flag : { ...flag, filters }
  const variants = old.variants ?? (isComparing ? variantsOfFlag(changed) : null)
  if (variants !== null) {
    requireBaseline(
      after.stats_config,
      variants.map(({ key: name }) => name),
    )
  }
  const spoiled = statusOf(old) === 'running' ? spoilingChanges(old, after) : []
  return {
    fields: {
      ...fields,
      ...(isLaunching ? launchedWith(changed) : {}),
      ...(isDeleting && after.start_date !== null ? { flag_key: counted } : {}),
      ...(spoiled.length === 0 ? {} : { running_changes: withChanges(old, spoiled, context) }),
    },
    isDeleted,
    flag:
      filters === null && !isLaunching
        ? null
        : given({
            filters: filters ?? undefined,
            active: isLaunching ? true : undefined,
            note: `${isLaunching ? 'Launch' : 'Change'} of ${named(before)}.`,
          }),
  }
}

/** Returns the change that a step makes. Throws 400 if the experiment is not in the state that the step needs. */
export function stepOf(
  before: Experiment,
  wanted: ExperimentStep,
  context: ChangeContext,
): ExperimentChange {
  const { fields } = before
  const { flag, nowMs } = context
  switch (wanted.step) {
    case 'launch': {
      if (fields.start_date !== null)
        throw refused('The experiment was already launched. To start it again, reset it first.')
      requireFlag(flag)
      requireBaseline(
        fields.stats_config,
        variantsOfFlag(flag).map(({ key }) => key),
      )
      return {
        fields: { start_date: timeText(nowMs), ...launchedWith(flag) },
        flag: { active: true, note: `Launch of ${named(before)}.` },
      }
    }
    case 'pause':
    case 'resume':
      return pausedOrResumed(before, wanted.step === 'pause', context)
    case 'end':
      requireRunning(fields)
      return { fields: { end_date: timeText(nowMs), ...endingOf(wanted) }, flag: null }
    case 'ship': {
      if (fields.start_date === null)
        throw refused('The experiment was not launched yet. Launch it first.')
      requireFlag(flag)
      const filters = shippedFilters(flag, wanted.variant, wanted.toEveryone)
      const end = fields.end_date === null ? { end_date: timeText(nowMs) } : {}
      return {
        fields: { ...end, ...endingOf(wanted) },
        flag: {
          filters,
          active: true,
          note: `Variant ${wanted.variant} of ${named(before)} for all.`,
        },
      }
    }
    case 'reset':
      if (fields.start_date === null) throw refused('The experiment is a draft already.')
      return {
        fields: {
          start_date: null,
          end_date: null,
          archived: false,
          conclusion: null,
          conclusion_comment: null,
          variants: null,
          group_type_index: null,
          exposure_cohort: null,
          flag_key: null,
          running_changes: [],
        },
        flag: null,
      }
    case 'archive':
      if (fields.archived) throw refused('The experiment is archived already.')
      requireArchivable({ ...fields, archived: true })
      return { fields: { archived: true }, flag: null }
    case 'unarchive':
      if (!fields.archived) throw refused('The experiment is not archived.')
      return { fields: { archived: false }, flag: null }
  }
}

/** Returns the body that creates a copy of an experiment as a draft. */
export function duplicateOf(
  { fields }: Experiment,
  flagKey: string,
  name: string,
): ExperimentDraft {
  const { description, type, holdout_id, exposure_criteria, parameters, stats_config } = fields
  const { metrics, metrics_secondary, metrics_guard, variants, saved_metrics: links = [] } = fields
  const copy = (list: readonly JsonObject[]) => list.map(({ uuid: _, ...others }) => others)
  return {
    name,
    feature_flag_key: flagKey,
    description,
    type,
    holdout_id,
    exposure_criteria,
    parameters: variants === null ? parameters : { ...parameters, feature_flag_variants: variants },
    metrics: copy(metrics),
    metrics_secondary: copy(metrics_secondary),
    metrics_guard: copy(metrics_guard),
    saved_metrics_ids: links.map(({ saved_metric: id, metadata }) => ({ id, metadata })),
    stats_config,
  }
}

/**
 * Returns the list of changes of a running experiment with new ones added. If there are more than
 * `RUNNING_CHANGES_MAX`, the oldest ones are left out.
 */
export function withChanges(
  { running_changes: before }: Pick<ExperimentFields, 'running_changes'>,
  changes: readonly RunningChange['change'][],
  { userId, nowMs }: Pick<ChangeContext, 'userId' | 'nowMs'>,
): readonly RunningChange[] {
  const at = timeText(nowMs)
  const added = changes.map((change) => ({ at, userId, change }))
  return [...before, ...added].slice(-RUNNING_CHANGES_MAX)
}

/** Reads the members of a body. A member that is absent in the body is absent in the result. Throws 400. */
function readFields(
  input: ExperimentInput,
  before: ExperimentFields,
  context: LinkContext & Pick<ChangeContext, 'uuid'>,
): Partial<ExperimentFields> {
  const { name, description, type, holdout_id, exposure_criteria, parameters } = input
  const { stats_config, start_date, end_date, archived, conclusion, conclusion_comment } = input
  for (const attr of ['exposure_criteria', 'parameters', 'stats_config'] as const) {
    // The schema of the route accepts any `exposure_criteria` and `parameters`, so their type is checked here.
    const value: unknown = input[attr] ?? null
    if (value !== null && !isObject(value)) throw invalidInput(attr, 'must be an object or null')
    const units = JSON.stringify(value).length
    if (units <= EXPERIMENT_MEMBER_UNITS_MAX) continue
    throw invalidInput(attr, `may have at most ${EXPERIMENT_MEMBER_UNITS_MAX} characters of JSON`)
  }
  if (exposure_criteria !== undefined) {
    checkMember('exposure_criteria', exposure_criteria, readExposure)
  }
  if (stats_config !== undefined) checkMember('stats_config', stats_config, readStats)
  const { saved_metrics: known = [] } = before
  const saved_metrics =
    input.saved_metrics_ids === undefined
      ? undefined
      : linksIn(input.saved_metrics_ids, known, context)
  const linked = (saved_metrics ?? known).map(({ saved_metric: id }) => context.savedMetric(id))
  const taken = new Set(linked.map((one) => one?.fields.metric['uuid']))
  return given({
    name,
    description,
    type,
    holdout_id,
    exposure_criteria,
    parameters: parameters === undefined ? undefined : parametersOf(parameters ?? {}),
    ...metricsOf(input, before, taken, context),
    saved_metrics,
    stats_config,
    start_date: momentOf('start_date', start_date),
    end_date: momentOf('end_date', end_date),
    archived,
    conclusion,
    conclusion_comment,
  })
}

/**
 * Returns the parameters without the variants and the group type, which are stored in the flag and, after the launch,
 * in other fields of the experiment.
 */
function parametersOf({
  feature_flag_variants: _,
  aggregation_group_type_index: __,
  ...others
}: JsonObject): JsonObject {
  for (const name of [
    'minimum_detectable_effect',
    'recommended_sample_size',
    'recommended_running_time',
  ]) {
    const value = others[name] ?? null
    const isFine = value === null || (typeof value === 'number' && value >= 0)
    if (!isFine) throw invalidInput('parameters', `needs a number, at least 0, as \`${name}\``)
  }
  return others
}

/**
 * Reads the lists of metrics of a body. A metric without a UUID, or with the UUID of another metric of the experiment,
 * gets a new UUID. `taken` are the UUIDs of the saved metrics that the experiment uses. If the body names a saved
 * metric with the same UUID as a metric in a list of the experiment, the metric in the list gets a new UUID. This also
 * happens in lists that the body does not contain.
 */
function metricsOf(
  input: ExperimentInput,
  before: ExperimentFields,
  taken: Set<unknown>,
  { uuid, nowMs }: Pick<ChangeContext, 'uuid' | 'nowMs'>,
): Partial<Pick<ExperimentFields, (typeof METRIC_LISTS)[number]>> {
  const read: { [List in (typeof METRIC_LISTS)[number]]?: readonly JsonObject[] } = {}
  const saved = input.saved_metrics_ids === undefined ? new Set() : new Set(taken)
  for (const list of METRIC_LISTS) {
    if (input[list] !== undefined) continue
    const own = before[list].map((metric) =>
      saved.has(metric['uuid']) ? { ...metric, uuid: uuid() } : metric,
    )
    for (const metric of own) taken.add(metric['uuid'])
    if (!isSameJson(own, before[list])) read[list] = own
  }
  for (const list of METRIC_LISTS) {
    const found = input[list]
    if (found === undefined) continue
    checkMetrics(found ?? [], list, nowMs)
    // `checkMetrics` has checked that the metrics are objects.
    read[list] = (found ?? []).map((one) => {
      const metric = one as JsonObject
      const own = metric['uuid']
      const isOwn = typeof own === 'string' && own !== '' && !taken.has(own)
      const id = isOwn ? own : uuid()
      taken.add(id)
      return { kind: 'ExperimentMetric', ...metric, uuid: id }
    })
  }
  return read
}

/**
 * Throws 400 if a query could not read a member of an experiment, so that every stored experiment has a result. `read`
 * is the function with which a query reads this member.
 */
function checkMember(
  attr: 'exposure_criteria' | 'stats_config',
  value: JsonObject | null,
  read: (fields: QueryFields) => unknown,
): void {
  try {
    read(new QueryFields({ [attr]: value }))
  } catch (error) {
    if (error instanceof ServiceError) {
      throw new ServiceError('invalid_input', error.message, { attr })
    }
    throw error
  }
}

function requireBaseline(config: JsonObject | null, keys: readonly string[]): void {
  const baseline = config?.['baseline_variant_key'] ?? null
  if (baseline === null || (typeof baseline === 'string' && keys.includes(baseline))) return
  throw invalidInput('stats_config', `needs one of ${keys.join(', ')} as \`baseline_variant_key\``)
}

function momentOf(attr: string, text: string | null | undefined): string | null | undefined {
  if (typeof text !== 'string') return text
  const timeMs = parseTimestamp(text)
  if (timeMs !== null) return timeText(timeMs)
  throw invalidInput(attr, 'must be a time such as 2024-05-01T12:00:00Z')
}

function requireDates({ start_date: start, end_date: end }: ExperimentFields, nowMs: number): void {
  for (const [attr, text] of [
    ['start_date', start],
    ['end_date', end],
  ] as const) {
    if (text === null || Date.parse(text) <= nowMs + EXPERIMENT_AHEAD_MS_MAX) continue
    throw invalidInput(attr, 'must not be in the future')
  }
  if (end === null) return
  if (start === null) throw invalidInput('end_date', 'needs a `start_date`')
  if (Date.parse(end) > Date.parse(start)) return
  throw new ServiceError('invalid_input', fieldText('end_date', 'must be after `start_date`'), {
    attr: 'end_date',
  })
}

function requireArchivable(fields: ExperimentFields): void {
  if (!fields.archived || statusOf(fields) === 'stopped') return
  throw new ServiceError('invalid_input', 'End the experiment before you archive it.', {
    attr: 'archived',
  })
}

function requireFlag({ key, deleted: isDeleted }: Flag): void {
  if (!isDeleted) return
  throw refused(`The flag \`${key}\` is deleted. Restore it first, or duplicate the experiment.`)
}

function requireRunning(fields: ExperimentFields): void {
  if (fields.start_date === null)
    throw refused('The experiment was not launched yet. Launch it first.')
  if (fields.end_date !== null) throw refused('The experiment has already ended.')
}

function pausedOrResumed(
  before: Experiment,
  isPause: boolean,
  context: ChangeContext,
): ExperimentChange {
  const { flag } = context
  requireRunning(before.fields)
  requireFlag(flag)
  if (flag.active !== isPause) {
    throw refused(isPause ? 'The experiment is paused already.' : 'The experiment is not paused.')
  }
  const change = isPause ? 'paused' : 'resumed'
  return {
    fields: { running_changes: withChanges(before.fields, [change], context) },
    flag: { active: !isPause, note: `The experiment was ${change}: ${named(before)}.` },
  }
}

function endingOf({ conclusion, conclusion_comment }: Ending): Partial<ExperimentFields> {
  return given({ conclusion, conclusion_comment })
}

function spoilingChanges(
  before: ExperimentFields,
  after: ExperimentFields,
): RunningChange['change'][] {
  const isOther = (name: keyof ExperimentFields) => !isSameJson(before[name], after[name])
  const changes: RunningChange['change'][] = []
  const linksOf = ({ saved_metrics: links = [] }: ExperimentFields) =>
    links.map((link) => [link.saved_metric, linkType(link)])
  const hasOtherLinks = !isSameJson(linksOf(before), linksOf(after))
  if (METRIC_LISTS.some(isOther) || hasOtherLinks) changes.push('metrics')
  for (const name of ['exposure_criteria', 'stats_config', 'start_date'] as const) {
    if (isOther(name)) changes.push(name)
  }
  return changes
}

function named({ id, fields }: Experiment): string {
  return `experiment ${id} "${fields.name}"`
}

function refused(detail: string): ServiceError {
  return new ServiceError('invalid_input', detail)
}
