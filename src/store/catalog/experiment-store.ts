/**
 * Experiments, holdouts and saved metrics. `ExperimentStore` reads them. `ExperimentWriter` changes them within the
 * transaction that changes flags, because an experiment and its flag change together or not at all. The records are
 * `Experiment`, `Holdout` and `SavedMetric` as JSON; see saved-table.ts for the keys. The numbers of the experiments of
 * a flag are in the record of the flag (flag-records.ts).
 */
import { randomUUID } from 'node:crypto'
import { invalidInput } from '../../base/errors.ts'
import { isSameJson, type JsonObject } from '../../base/json.ts'
import type { Page, PageRequest } from '../../base/pages.ts'
import {
  changedExperiment,
  duplicateOf,
  type ExperimentChange,
  type ExperimentCommand,
  type ExperimentDraft,
  newExperiment,
  stepOf,
  withChanges,
} from '../../rules/experiments/edit/experiment-changes.ts'
import {
  type ExperimentFilter,
  listedExperiments,
} from '../../rules/experiments/edit/experiment-list.ts'
import {
  countedGroupType,
  draftFilters,
  flagBodyOf,
  holdoutFilters,
  requireFlagOfExperiments,
  requireSameGroupType,
  runningChangesOfFlag,
  variantsIn,
  variantsOfFlag,
} from '../../rules/experiments/edit/flag-of-experiment.ts'
import {
  EXPERIMENT_NAME_CHARACTERS_MAX,
  EXPERIMENTS_MAX,
  HOLDOUTS_MAX,
  SAVED_METRICS_MAX,
} from '../../rules/experiments/edit/limits.ts'
import {
  changedSavedMetric,
  listedSavedMetrics,
  newSavedMetric,
  type SavedMetricContext,
  type SavedMetricDraft,
  type SavedMetricInput,
} from '../../rules/experiments/edit/saved-metrics.ts'
import {
  type Experiment,
  type ExperimentFields,
  type ExperimentView,
  type Holdout,
  type HoldoutFields,
  isRunning,
  type SavedMetric,
  type SavedMetricFields,
} from '../../rules/experiments/edit/stored-experiment.ts'
import { groupTypeOf } from '../../rules/flags/group-type.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { ListRequest } from '../../rules/saved/lists.ts'
import type { SavedPlace } from '../../rules/saved/saved.ts'
import { demand } from './checks.ts'
import { PAGE_EXPERIMENTS_UNITS_MAX } from './limits.ts'
import { type SavedEnvironment, SavedTable } from './saved-table.ts'

const UNKNOWN = 'The project has no such experiment.'
const UNKNOWN_HOLDOUT = 'The project has no such holdout.'
const UNKNOWN_METRIC = 'The project has no such saved metric.'

/**
 * Reads experiments, holdouts and saved metrics. Deleted experiments can still be read. If an experiment does not
 * exist, the result is null.
 */
export class ExperimentStore {
  readonly #tables: ExperimentTables

  constructor(environment: SavedEnvironment) {
    this.#tables = new ExperimentTables(environment)
  }

  /**
   * Returns a page of experiments. A page may end early, because the number of UTF-16 code units on it is limited.
   * Reads every experiment of the project.
   */
  list({ projectId, filter, page }: ListRequest<ExperimentFilter>): Page<ExperimentView> {
    const found = listedExperiments(this.#tables.experiments.all(projectId), filter)
    return limitedPage(found, page, (experiment) => this.#tables.viewOf(experiment))
  }

  /**
   * Throws 400 if the experiments of a flag forbid a change of the flag: if the change deletes the flag of a running
   * experiment, or renames a flag although results are counted under its key.
   */
  requireFlag(before: Flag, after: Flag): void {
    requireFlagOfExperiments(before, after, this.#tables.ofFlag(before))
  }

  get({ projectId, id }: SavedPlace): ExperimentView | null {
    const experiment = this.#tables.experiments.get(projectId, id)
    return experiment && this.#tables.viewOf(experiment)
  }

  /** Returns all holdouts of a project, newest first. */
  holdouts(projectId: number): readonly Holdout[] {
    return this.#tables.holdouts.all(projectId).reverse()
  }

  holdout({ projectId, id }: SavedPlace): Holdout | null {
    return this.#tables.holdouts.get(projectId, id)
  }

  /**
   * Returns a page of the saved metrics whose name or description contains `filter`, in the order of their names. A
   * page may end early, because the number of UTF-16 code units on it is limited. Reads every saved metric of the
   * project.
   */
  savedMetrics({ projectId, filter, page }: ListRequest<string>): Page<SavedMetric> {
    const found = listedSavedMetrics(this.#tables.savedMetrics.all(projectId), filter)
    return limitedPage(found, page, (metric) => metric)
  }

  savedMetric({ projectId, id }: SavedPlace): SavedMetric | null {
    return this.#tables.savedMetrics.get(projectId, id)
  }
}

/** Returns the items of a page. It ends early if their JSON is longer than `PAGE_EXPERIMENTS_UNITS_MAX`. */
function limitedPage<Item, Shown>(
  found: readonly Item[],
  { offset, limit }: PageRequest,
  show: (item: Item) => Shown,
): Page<Shown> {
  const results: Shown[] = []
  let units = 0
  for (const item of found.slice(offset, offset + limit)) {
    const shown = show(item)
    units += JSON.stringify(shown).length
    if (units > PAGE_EXPERIMENTS_UNITS_MAX && results.length > 0) break
    results.push(shown)
  }
  return { count: found.length, results }
}

/** How an experiment reads and changes flags, within the transaction that changes the experiment. */
export interface FlagWrites {
  flagById(id: number): Flag | null
  flagByKey(key: string): Flag | null
  /** Creates a flag from the body of a POST request. Throws 400. */
  create(body: JsonObject): Flag
  /**
   * Changes a flag by the body of a PATCH request. The running experiments of the flag record the change, except the
   * experiment `causeId`, which causes it. Throws 400.
   */
  update(id: number, body: JsonObject, causeId: number | null): Flag
  /** Stores in the flag `id` which experiments use it. */
  link(id: number, experiments: readonly number[]): void
}

/** By whom and when a change is made. */
interface WriteContext {
  readonly projectId: number
  readonly userId: number | null
  readonly nowMs: number
}

/** Changes experiments, holdouts and saved metrics. Use it only within a transaction. */
export class ExperimentWriter {
  readonly #tables: ExperimentTables
  readonly #context: WriteContext

  constructor(environment: SavedEnvironment, context: WriteContext) {
    this.#tables = new ExperimentTables(environment)
    this.#context = context
  }

  /** Carries out a command. Throws 400 and 404 `not_found`. */
  run(command: ExperimentCommand, flags: FlagWrites): { readonly id: number } {
    switch (command.action) {
      case 'create':
        return this.#create(command.input, flags)
      case 'change': {
        const { input } = command
        const before = this.#experiment(command.id)
        const holdout = input.holdout_id === undefined ? undefined : this.#named(input.holdout_id)
        const facts = this.#facts(flagOf(before, flags))
        const change = changedExperiment(before, input, { ...facts, holdout })
        return this.#apply(before, change, flags)
      }
      case 'step': {
        const before = this.#experiment(command.id)
        demand(!before.isDeleted, 'not_found', UNKNOWN)
        const change = stepOf(before, command.step, this.#facts(flagOf(before, flags)))
        return this.#apply(before, change, flags)
      }
      case 'duplicate':
        return this.#duplicate(command, flags)
      case 'copy':
        return this.#copy(command, flags)
      case 'set_exposure_cohort':
        return this.#setExposureCohort(command)
      case 'create_holdout':
        return this.#tables.holdouts.add(
          this.#context.projectId,
          this.#context.userId,
          command.fields,
        )
      case 'change_holdout':
        return this.#changeHoldout(command.id, command.fields, flags)
      case 'delete_holdout':
        return this.#deleteHoldout(command.id, flags)
      case 'create_saved_metric':
        return this.#createSavedMetric(command.input)
      case 'change_saved_metric':
        return this.#changeSavedMetric(command.id, command.input)
      case 'delete_saved_metric':
        return this.#deleteSavedMetric(command.id)
    }
  }

  /** Checks a change of a flag against its experiments, and records it in those that are running. Throws 400. */
  flagChanges(before: Flag, after: Flag, causeId: number | null): void {
    const found = this.#tables.ofFlag(before)
    requireFlagOfExperiments(before, after, found)
    const changes = runningChangesOfFlag(before, after)
    if (changes.length === 0) return
    for (const experiment of found) {
      if (experiment.id === causeId || !isRunning(experiment)) continue
      const running_changes = withChanges(experiment.fields, changes, this.#context)
      this.#tables.experiments.change(experiment, { fields: { running_changes } })
    }
  }

  /**
   * `flagBody` is the body of the request that creates the flag. If it is null, a new flag gets the variants in the
   * parameters of the experiment. If a flag with the key exists already, the experiment uses that flag.
   */
  #create(
    input: ExperimentDraft,
    flags: FlagWrites,
    flagBody: JsonObject | null = null,
  ): Experiment {
    const { name, feature_flag_key: key, holdout_id: holdoutId = null } = input
    const holdout = this.#named(holdoutId)
    const isLaunched = (input.start_date ?? null) !== null
    const parameters = input.parameters ?? {}
    const known = flags.flagByKey(key)
    const flag =
      known === null
        ? flags.create(flagBody ?? flagBodyOf({ name, key, isLaunched }, parameters, holdout))
        : this.#adopt(known, parameters, holdout, isLaunched, flags)
    const fields = newExperiment(name, input, this.#facts(flag))
    const { projectId, userId } = this.#context
    const experiment = this.#tables.experiments.add(projectId, userId, fields)
    flags.link(flag.id, [...(flag.experiments ?? []), experiment.id])
    return experiment
  }

  /**
   * Prepares an existing flag for a new experiment: sets the holdout, and activates the flag if the experiment is
   * launched. Returns the changed flag. Throws 400 if the experiment names other variants than the flag has.
   */
  #adopt(
    flag: Flag,
    parameters: JsonObject,
    holdout: Holdout | null,
    isLaunched: boolean,
    flags: FlagWrites,
  ): Flag {
    const variants = variantsOfFlag(flag)
    const wanted = variantsIn(parameters)
    const keys = (list: readonly { readonly key: string }[]) =>
      list.map(({ key }) => key).join(', ')
    if (wanted !== null && keys(wanted) !== keys(variants)) {
      const what = `names other variants than the flag \`${flag.key}\` has, which are ${keys(variants)}. Leave \`feature_flag_variants\` out to use them, or choose a key that no flag has`
      throw invalidInput('parameters', what)
    }
    requireSameGroupType(parameters, groupTypeOf(flag.filters) ?? null)
    const filters = draftFilters(flag, undefined, holdout ?? undefined)
    if (filters === null && !(isLaunched && !flag.active)) return flag
    const body = {
      ...(filters === null ? {} : { filters }),
      ...(isLaunched ? { active: true } : {}),
    }
    return flags.update(flag.id, body, null)
  }

  #duplicate(
    { id, feature_flag_key, name }: Extract<ExperimentCommand, { action: 'duplicate' }>,
    flags: FlagWrites,
  ): Experiment {
    const source = this.#experiment(id)
    demand(!source.isDeleted, 'not_found', UNKNOWN)
    const key = feature_flag_key ?? flagOf(source, flags).key
    const copy = duplicateOf(source, key, name ?? this.#nameOfCopy(source.fields.name))
    // If a flag with this key exists already, the copy of the experiment uses that flag and its variants. The copy must
    // then name no variants itself.
    const { feature_flag_variants: _, ...parameters } = copy.parameters ?? {}
    const isKnown = flags.flagByKey(key) !== null
    const variants = source.fields.variants ?? variantsOfFlag(flagOf(source, flags))
    const flagOfSource = flags.flagById(source.fields.flag_id)
    const groupType = countedGroupType(source.fields, flagOfSource)
    const own = isKnown
      ? parameters
      : {
          ...parameters,
          feature_flag_variants: variants,
          aggregation_group_type_index: groupType,
        }
    return this.#create({ ...copy, parameters: own }, flags)
  }

  #copy(
    { input, name, flag, savedMetrics }: Extract<ExperimentCommand, { action: 'copy' }>,
    flags: FlagWrites,
  ): Experiment {
    const saved_metrics_ids = savedMetrics.map(({ draft, metadata }) => {
      return { id: this.#savedMetricLike(draft).id, metadata }
    })
    const copy = { ...input, name: name ?? this.#nameOfCopy(input.name), saved_metrics_ids }
    return this.#create(copy, flags, flag)
  }

  /**
   * Returns the saved metric that has the name of a draft, or creates it. Throws 400 if the existing metric has another
   * query than the draft.
   */
  #savedMetricLike(draft: SavedMetricDraft): SavedMetric {
    const wanted = draft.name.toLowerCase()
    const found = this.#tables.savedMetrics
      .all(this.#context.projectId)
      .find(({ fields }) => fields.name.toLowerCase() === wanted)
    if (found === undefined) return this.#createSavedMetric(draft)
    const { uuid } = found.fields.metric
    const detail = `The target has another saved metric with the name ${JSON.stringify(draft.name)}. Rename one of them.`
    const isSame = isSameJson({ ...(draft.query as JsonObject), uuid }, found.fields.metric)
    demand(isSame, 'unique', detail, 'saved_metrics_ids')
    return found
  }

  #setExposureCohort({
    id,
    cohortId,
    formerId,
    startDate,
  }: Extract<ExperimentCommand, { action: 'set_exposure_cohort' }>): Experiment {
    const before = this.#experiment(id)
    demand(!before.isDeleted, 'not_found', UNKNOWN)
    const { exposure_cohort: known = null } = before.fields
    const detail = `The experiment already has the cohort ${known}. Delete that cohort first.`
    demand(known === formerId, 'invalid_input', detail)
    const moved = 'The start of the experiment was changed while the cohort was made. Try again.'
    demand(before.fields.start_date === startDate, 'invalid_input', moved)
    return this.#tables.experiments.change(before, { fields: { exposure_cohort: cohortId } })
  }

  /** Returns a name that no other experiment has, for the copy of an experiment. */
  #nameOfCopy(name: string): string {
    const taken = new Set(
      this.#tables.experiments
        .all(this.#context.projectId)
        .filter(({ isDeleted }) => !isDeleted)
        .map(({ fields }) => fields.name),
    )
    for (let number = 1; ; number++) {
      const addition = number === 1 ? ' (copy)' : ` (copy ${number})`
      const room = EXPERIMENT_NAME_CHARACTERS_MAX - addition.length
      const copy = `${[...name].slice(0, room).join('')}${addition}`
      if (!taken.has(copy)) return copy
    }
  }

  #apply(
    before: Experiment,
    { fields, isDeleted, flag: body }: ExperimentChange,
    flags: FlagWrites,
  ): Experiment {
    const flag = flagOf(before, flags)
    if (body !== null) flags.update(flag.id, body, before.id)
    const after = this.#tables.experiments.change(before, { fields, isDeleted })
    if (after.isDeleted !== before.isDeleted) {
      const others = (flag.experiments ?? []).filter((id) => id !== after.id)
      flags.link(flag.id, after.isDeleted ? others : [...others, after.id])
    }
    return after
  }

  #changeHoldout(id: number, fields: Partial<HoldoutFields>, flags: FlagWrites): Holdout {
    const before = this.#holdout(id)
    const after = this.#tables.holdouts.change(before, { fields })
    if (after.fields.percentage !== before.fields.percentage) this.#spreadHoldout(id, after, flags)
    return after
  }

  #deleteHoldout(id: number, flags: FlagWrites): Holdout {
    const before = this.#holdout(id)
    for (const experiment of this.#spreadHoldout(id, null, flags)) {
      this.#tables.experiments.change(experiment, { fields: { holdout_id: null } })
    }
    this.#tables.holdouts.remove(before)
    return before
  }

  /**
   * Writes a changed or removed holdout into the flags of all experiments that use the holdout. Returns these
   * experiments, as they are afterward.
   */
  #spreadHoldout(id: number, holdout: Holdout | null, flags: FlagWrites): readonly Experiment[] {
    const { projectId } = this.#context
    const using = () =>
      this.#tables.experiments.all(projectId).filter(({ fields }) => fields.holdout_id === id)
    for (const experiment of using()) {
      const flag = flags.flagById(experiment.fields.flag_id)
      // An experiment that has ended keeps its result. Its flag stays as it is, because it may serve another purpose by
      // now.
      if (flag === null || flag.deleted || experiment.fields.end_date !== null) continue
      const filters = { ...flag.filters, ...holdoutFilters(holdout) }
      flags.update(flag.id, { filters, note: `Change of holdout ${id}.` }, null)
    }
    // Read the experiments again, because the changes of their flags may have been recorded in them.
    return using()
  }

  #createSavedMetric(input: SavedMetricDraft): SavedMetric {
    const { projectId, userId } = this.#context
    const fields = newSavedMetric(input, this.#savedMetricContext(null))
    return this.#tables.savedMetrics.add(projectId, userId, fields)
  }

  /** Changes a saved metric. Running experiments that use it record the change, because it changes their results. */
  #changeSavedMetric(id: number, input: SavedMetricInput): SavedMetric {
    const before = this.#savedMetric(id)
    const fields = changedSavedMetric(before, input, this.#savedMetricContext(id))
    const after = this.#tables.savedMetrics.change(before, { fields })
    if (isSameJson(before.fields.metric, after.fields.metric)) return after
    for (const experiment of this.#usersOf(id).filter(isRunning)) {
      const running_changes = withChanges(experiment.fields, ['metrics'], this.#context)
      this.#tables.experiments.change(experiment, { fields: { running_changes } })
    }
    return after
  }

  /**
   * Deletes a saved metric. Throws 400 if an experiment that is not deleted uses the metric. The metric is removed from
   * deleted experiments.
   */
  #deleteSavedMetric(id: number): SavedMetric {
    const before = this.#savedMetric(id)
    const users = this.#usersOf(id)
    const others = users.filter(({ isDeleted }) => !isDeleted)
    const [first] = others
    const more = others.length > 1 ? ` and ${others.length - 1} more` : ''
    const named = `experiment ${first?.id} (${JSON.stringify(first?.fields.name)})${more}`
    const detail = `The saved metric cannot be deleted, because ${named} uses it. Remove it from \`saved_metrics_ids\` first.`
    demand(first === undefined, 'invalid_input', detail)
    for (const experiment of users) {
      const { saved_metrics: links = [] } = experiment.fields
      const saved_metrics = links.filter((link) => link.saved_metric !== id)
      this.#tables.experiments.change(experiment, { fields: { saved_metrics } })
    }
    this.#tables.savedMetrics.remove(before)
    return before
  }

  /** Returns the experiments that use a saved metric, also deleted ones. */
  #usersOf(id: number): readonly Experiment[] {
    return this.#tables.experiments
      .all(this.#context.projectId)
      .filter(({ fields: { saved_metrics: links = [] } }) => {
        return links.some((link) => link.saved_metric === id)
      })
  }

  #savedMetricContext(ownId: number | null): SavedMetricContext {
    const { projectId, nowMs } = this.#context
    const others = this.#tables.savedMetrics.all(projectId).filter(({ id }) => id !== ownId)
    return { others, nowMs, uuid: randomUUID }
  }

  #facts(flag: Flag) {
    const { projectId, userId, nowMs } = this.#context
    return {
      flag,
      userId,
      nowMs,
      uuid: randomUUID,
      savedMetric: (id: number) => this.#tables.savedMetrics.get(projectId, id),
      linkId: () => this.#tables.nextLink(),
    }
  }

  #experiment(id: number): Experiment {
    const found = this.#tables.experiments.get(this.#context.projectId, id)
    demand(found !== null, 'not_found', UNKNOWN)
    return found
  }

  #holdout(id: number): Holdout {
    const found = this.#tables.holdouts.get(this.#context.projectId, id)
    demand(found !== null, 'not_found', UNKNOWN_HOLDOUT)
    return found
  }

  #savedMetric(id: number): SavedMetric {
    const found = this.#tables.savedMetrics.get(this.#context.projectId, id)
    demand(found !== null, 'not_found', UNKNOWN_METRIC)
    return found
  }

  /** Returns the holdout with the number `id` from a request, or null if `id` is null. Throws 400 `does_not_exist`. */
  #named(id: number | null): Holdout | null {
    return id === null
      ? null
      : this.#tables.holdouts.named(this.#context.projectId, id, 'holdout_id')
  }
}

/** The tables of experiments, holdouts and saved metrics. */
class ExperimentTables {
  readonly experiments: SavedTable<ExperimentFields>
  readonly holdouts: SavedTable<HoldoutFields>
  readonly savedMetrics: SavedTable<SavedMetricFields>
  /** Returns a new number, which identifies one use of a saved metric by an experiment. */
  readonly nextLink: () => number

  constructor(environment: SavedEnvironment) {
    this.nextLink = () => environment.nextNumber('saved_metric_link')
    this.savedMetrics = new SavedTable(environment, {
      table: 'saved_metrics',
      number: 'saved_metric',
      countMax: SAVED_METRICS_MAX,
    })
    this.experiments = new SavedTable(environment, {
      table: 'experiments',
      number: 'experiment',
      countMax: EXPERIMENTS_MAX,
    })
    this.holdouts = new SavedTable(environment, {
      table: 'holdouts',
      number: 'holdout',
      countMax: HOLDOUTS_MAX,
    })
  }

  /** Returns the experiments of a flag that are not deleted. */
  ofFlag({ projectId, experiments = [] }: Flag): readonly Experiment[] {
    return experiments
      .map((id) => this.experiments.get(projectId, id))
      .filter((experiment) => experiment !== null)
  }

  viewOf(experiment: Experiment): ExperimentView {
    const { projectId, fields } = experiment
    const { holdout_id: id, saved_metrics: links = [] } = fields
    return {
      experiment,
      holdout: id === null ? null : this.holdouts.get(projectId, id),
      savedMetrics: links
        .map((link) => this.savedMetrics.get(projectId, link.saved_metric))
        .filter((metric) => metric !== null),
    }
  }
}

/**
 * Returns the flag of an experiment. Throws 400 if the flag is gone: a deleted flag is removed permanently when a new
 * flag gets its key.
 */
function flagOf({ fields }: Experiment, flags: FlagWrites): Flag {
  const flag = flags.flagById(fields.flag_id)
  const detail =
    'The flag of the experiment was removed. Duplicate the experiment with another flag.'
  demand(flag !== null, 'invalid_input', detail, 'feature_flag_key')
  return flag
}
