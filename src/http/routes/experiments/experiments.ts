/** The routes of experiments. Source: docs/compatibility/experiments.md, "Fields". */
import { given } from '../../../base/json.ts'
import type { ExperimentStep } from '../../../rules/experiments/edit/experiment-changes.ts'
import {
  EXPERIMENT_ORDERS,
  type ExperimentFilter,
  LISTED_STATUSES,
} from '../../../rules/experiments/edit/experiment-list.ts'
import { countedGroupType } from '../../../rules/experiments/edit/flag-of-experiment.ts'
import type { ExperimentView } from '../../../rules/experiments/edit/stored-experiment.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
import {
  type AnyRoute,
  type Call,
  done,
  inAnyProject,
  inProject,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { ask } from '../organization/organization-services.ts'
import { COHORT } from '../persons/cohorts.ts'
import {
  changedExperiment,
  type ExperimentCall,
  type ExperimentServices,
  experimentInPath,
  placeInPath,
  presentExperiment,
  refuseGroupsIfMixed,
  requireFlagEdit,
  requireKeyEdit,
  visibleExperiment,
} from './experiment-access.ts'
import { copyToProject } from './experiment-copies.ts'
import {
  COPIED,
  COPIED_TO_PROJECT,
  ENDED,
  EXPERIMENT,
  EXPERIMENT_CHANGES,
  EXPERIMENT_DRAFT,
  SHIPPED,
} from './experiment-schemas.ts'
import { createExposureCohort } from './exposure-cohort.ts'

const BASE = '/api/projects/:project_id/experiments/'
const READER = inProject('experiment:read')
const WRITER = inProject('experiment:write')
const ORDERS = EXPERIMENT_ORDERS.flatMap((name) => [name, `-${name}`] as const)

const collection = collectionOf<ExperimentServices>(BASE, READER, WRITER)
const route = routesOf<ExperimentServices>(BASE, READER, WRITER)

/** The routes of experiments. */
export const EXPERIMENT_RESOURCE: Resource<ExperimentServices> = {
  name: 'Experiments',
  sentence: 'Comparisons of the variants of a flag.',
  segments: { id: is.about(is.WHOLE, 'Number of the experiment.') },
  routes: [
    ...collection({
      name: 'Experiment',
      noun: 'an experiment',
      one: ':id/',
      schema: EXPERIMENT,
      list: {
        says: 'Lists experiments, newest first.',
        query: {
          search: is.about(is.TEXT, 'Part of the name.'),
          status: is.about(
            is.choice(...LISTED_STATUSES),
            'A paused experiment is a running one whose flag is off. complete means stopped.',
          ),
          archived: is.about(is.BOOLEAN, 'If true, return only archived experiments.'),
          created_by_id: is.about(is.WHOLE, 'Number of the user who created the experiments.'),
          feature_flag_id: is.about(is.WHOLE, 'Number of the flag.'),
          order: is.about(
            is.choice(...ORDERS),
            'The member to sort by. A leading - means descending.',
          ),
        },
        items: (call, page) =>
          ask(call, 'listExperiments', {
            projectId: call.projectId,
            filter: filterOf(call, call.query()),
            page,
          }),
        show: presentExperiment,
      },
      find: experimentInPath,
      show: presentExperiment,
      get: {
        read: async (call) => presentExperiment(call, await visibleExperiment(call)),
      },
      create: {
        says: 'Creates an experiment as a draft, and its flag if there is none. With a start date, the experiment is launched.',
        body: EXPERIMENT_DRAFT,
        errors: ['does_not_exist'],
        async make(call) {
          const input = call.body()
          requireKeyEdit(call, input.feature_flag_key)
          const flag = flagByKey(call, input.feature_flag_key)
          refuseGroupsIfMixed(call, flag, input.parameters)
          return changedExperiment(call, { action: 'create', input })
        },
      },
      patch: {
        body: EXPERIMENT_CHANGES,
        errors: ['does_not_exist'],
        async change(call, view) {
          const input = call.body()
          requireFlagEdit(call, view)
          const { id, fields } = view.experiment
          // A launched experiment already counts what it counts, so only drafts are checked.
          if (fields.start_date === null) {
            refuseGroupsIfMixed(call, flagOf(call, view), input.parameters)
          }
          return changedExperiment(call, { action: 'change', id, input })
        },
      },
      removeInstead: 'An experiment cannot be deleted this way. Send PATCH with {"deleted": true}.',
    }),
    step('launch', 'Launches a draft: switches its flag on and starts to count.'),
    step('pause', 'Switches the flag of a running experiment off. Nobody gets a variant any more.'),
    step(
      'resume',
      'Switches the flag of a paused experiment on. Each user gets the same variant as before.',
    ),
    step('reset', 'Makes an experiment a draft again. Its flag stays as it is.'),
    step('archive', 'Hides an experiment that has ended from the list.'),
    step('unarchive', 'Shows an archived experiment in the list again.'),
    route('POST', ':id/end/', 'endExperiment', 'Ends a running experiment. Its flag stays on.', {
      body: ENDED,
      answers: { 200: done(EXPERIMENT) },
      handle: (call) => taken(call, () => ({ step: 'end', ...call.body() })),
    }),
    route(
      'POST',
      ':id/ship_variant/',
      'shipExperimentVariant',
      'Serves one variant to everybody. It ends the experiment if it is running.',
      {
        body: SHIPPED,
        answers: { 200: done(EXPERIMENT) },
        handle: (call) =>
          taken(call, () => {
            const { variant_key: variant, release_to_everyone: all = true, ...ending } = call.body()
            return { step: 'ship', variant, toEveryone: all, ...ending }
          }),
      },
    ),
    route('POST', ':id/duplicate/', 'duplicateExperiment', 'Copies an experiment as a draft.', {
      body: COPIED,
      answers: { 201: done(EXPERIMENT) },
      async handle(call) {
        const view = await visibleExperiment(call)
        const { feature_flag_key: key, name } = call.body()
        requireFlagEdit(call, view)
        if (key !== undefined) requireKeyEdit(call, key)
        const { id, fields } = view.experiment
        const known = key === undefined ? flagOf(call, view) : flagByKey(call, key)
        const groupType = known === null ? countedGroupType(fields, flagOf(call, view)) : null
        refuseGroupsIfMixed(call, known, { aggregation_group_type_index: groupType })
        const copy = { action: 'duplicate', id, feature_flag_key: key, name } as const
        return presentExperiment(call, await changedExperiment(call, copy))
      },
    }),
    route(
      'POST',
      ':id/copy_to_project/',
      'copyExperimentToProject',
      'Copies an experiment as a draft to another project, with its flag and its saved metrics.',
      {
        who: inAnyProject('experiment:write'),
        body: COPIED_TO_PROJECT,
        answers: { 201: done(EXPERIMENT) },
        errors: ['unique'],
        handle: (call) => copyToProject(call, () => call.body()),
      },
    ),
    route(
      'POST',
      ':id/create_exposure_cohort_for_experiment/',
      'createExposureCohort',
      'Creates a static cohort of the persons who were exposed to an experiment until now.',
      {
        answers: { 201: done(is.object({ cohort: COHORT })) },
        errors: ['query_too_large', 'query_timeout'],
        async handle(call) {
          const cohort = await createExposureCohort(call, await visibleExperiment(call))
          return { cohort: withWireTimes(cohort) }
        },
      },
    ),
  ],
}

/** Returns the route for a step in the life of an experiment, such as its launch. The request has no body. */
function step(
  name: Exclude<ExperimentStep['step'], 'end' | 'ship'>,
  summary: string,
): AnyRoute<ExperimentServices> {
  return route('POST', `:id/${name}/`, `${name}Experiment`, summary, {
    answers: { 200: done(EXPERIMENT) },
    handle: (call) => taken(call, () => ({ step: name })),
  })
}

/**
 * Makes a step in the life of the experiment named in the path, such as its launch. Returns the JSON of the experiment
 * after the step.
 */
async function taken(call: ExperimentCall, wanted: () => ExperimentStep) {
  const view = await visibleExperiment(call)
  const step = wanted()
  requireFlagEdit(call, view)
  if (step.step === 'launch') refuseGroupsIfMixed(call, flagOf(call, view))
  const { id } = placeInPath(call)
  return presentExperiment(call, await changedExperiment(call, { action: 'step', id, step }))
}

function flagByKey({ services, projectId }: ExperimentCall, key: string): Flag | null {
  return services.flags.flagByKey(projectId, key)
}

/** Returns the flag of an experiment, or null if it was removed permanently. */
function flagOf({ services, projectId }: ExperimentCall, { experiment }: ExperimentView) {
  return services.flags.flagById(projectId, experiment.fields.flag_id)
}

type ListQuery = {
  readonly search?: string
  readonly status?: (typeof LISTED_STATUSES)[number]
  readonly archived?: boolean
  readonly created_by_id?: number
  readonly feature_flag_id?: number
  readonly order?: (typeof ORDERS)[number]
}

function filterOf(
  {
    services,
    projectId,
    nowMs,
  }: Pick<Call<ExperimentServices>, 'services' | 'projectId' | 'nowMs'>,
  { search, status, archived, created_by_id, feature_flag_id, order }: ListQuery,
): ExperimentFilter {
  const isOff = status === 'running' || status === 'paused'
  const flags = isOff ? services.flags.flagsOf(projectId) : []
  const name = order?.replace('-', '') as (typeof EXPERIMENT_ORDERS)[number] | undefined
  return {
    ...given({
      search,
      status,
      isArchived: archived,
      createdById: created_by_id,
      flagId: feature_flag_id,
      order:
        name === undefined
          ? undefined
          : { by: name, isDescending: order?.startsWith('-') === true },
    }),
    flagsOff: flags.filter(({ active, experiments }) => !active && experiments).map(({ id }) => id),
    nowMs,
  }
}
