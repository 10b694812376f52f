/** The routes of saved metrics. Source: docs/compatibility/experiments.md, "Saved metrics". */
import type { SavedMetricInput } from '../../../rules/experiments/edit/saved-metrics.ts'
import type { SavedMetric } from '../../../rules/experiments/edit/stored-experiment.ts'
import { inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { ask } from '../organization/organization-services.ts'
import {
  changeExperiment,
  type ExperimentCall,
  type ExperimentServices,
  placeInPath,
  presentSavedMetric,
} from './experiment-access.ts'
import { SAVED_METRIC, SAVED_METRIC_CHANGES, SAVED_METRIC_DRAFT } from './experiment-schemas.ts'

const UNKNOWN = 'The project has no such saved metric.'

const collection = collectionOf<ExperimentServices>(
  '/api/projects/:project_id/experiment_saved_metrics/',
  inProject('experiment_saved_metric:read'),
  inProject('experiment_saved_metric:write'),
)

/** The routes of saved metrics. */
export const SAVED_METRIC_RESOURCE: Resource<ExperimentServices> = {
  name: 'Experiment saved metrics',
  sentence: 'Metrics that several experiments can use.',
  segments: { id: is.about(is.WHOLE, 'Number of the saved metric.') },
  routes: collection({
    name: 'ExperimentSavedMetric',
    noun: 'a saved metric',
    one: ':id/',
    schema: SAVED_METRIC,
    list: {
      says: 'Lists saved metrics by name.',
      query: { search: is.about(is.TEXT, 'Part of the name or the description.') },
      items: (call, page) => {
        const { search: filter = '' } = call.query()
        return ask(call, 'listSavedMetrics', { projectId: call.projectId, filter, page })
      },
      show: presentSavedMetric,
    },
    find: metricInPath,
    show: presentSavedMetric,
    get: {},
    create: {
      body: SAVED_METRIC_DRAFT,
      errors: ['unique'],
      async make(call) {
        // A machine of an older version has no table for saved metrics, so none is created while such a machine runs.
        const refusal = call.services.mixedRefusal()
        if (refusal !== null) throw refusal
        const { name, description, query, tags } = call.body()
        const input = { name, description, query, tags }
        const id = await changeExperiment(call, { action: 'create_saved_metric', input })
        return metricOf(call, id)
      },
    },
    patch: {
      says: 'Updates a saved metric, and the results of the experiments that use it.',
      body: SAVED_METRIC_CHANGES,
      errors: ['unique'],
      change: (call, { id }) => changed(call, id, call.body()),
    },
    put: {
      says: 'Same as PATCH, but `name` and `query` are required.',
      body: SAVED_METRIC_DRAFT,
      errors: ['unique'],
      change: (call, { id }) => changed(call, id, call.body()),
    },
    remove: {
      says: 'Removes a saved metric that no experiment uses.',
      async run(call) {
        const { id } = await metricInPath(call)
        await changeExperiment(call, { action: 'delete_saved_metric', id })
      },
    },
  }),
}

async function changed(
  call: ExperimentCall,
  id: number,
  { name, description, query, tags }: SavedMetricInput,
): Promise<SavedMetric> {
  const input = { name, description, query, tags }
  await changeExperiment(call, { action: 'change_saved_metric', id, input })
  return metricOf(call, id)
}

function metricInPath(call: ExperimentCall): Promise<SavedMetric> {
  return metricOf(call, placeInPath(call).id)
}

async function metricOf(call: ExperimentCall, id: number): Promise<SavedMetric> {
  const { projectId } = call
  return existing(await ask(call, 'getSavedMetric', { projectId, id }), UNKNOWN)
}
