/** The routes of holdouts. Source: docs/compatibility/experiments.md, "Holdouts". */
import { invalidInput } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import type { Holdout } from '../../../rules/experiments/edit/stored-experiment.ts'
import { inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { ask } from '../organization/organization-services.ts'
import {
  changeExperiment,
  type ExperimentCall,
  type ExperimentServices,
  placeInPath,
  presentHoldout,
} from './experiment-access.ts'
import { HOLDOUT, HOLDOUT_CHANGES, HOLDOUT_DRAFT } from './experiment-schemas.ts'

const UNKNOWN = 'The project has no such holdout.'

const collection = collectionOf<ExperimentServices>(
  '/api/projects/:project_id/experiment_holdouts/',
  inProject('experiment_holdout:read'),
  inProject('experiment_holdout:write'),
)

/** The routes of holdouts. */
export const HOLDOUT_RESOURCE: Resource<ExperimentServices> = {
  name: 'Experiment holdouts',
  sentence: 'Shares of all persons who are kept out of experiments.',
  segments: { id: is.about(is.WHOLE, 'Number of the holdout.') },
  routes: collection({
    name: 'ExperimentHoldout',
    noun: 'a holdout',
    one: ':id/',
    schema: HOLDOUT,
    list: {
      says: 'Lists holdouts, newest first.',
      items: (call) => ask(call, 'listHoldouts', { projectId: call.projectId }),
      show: presentHoldout,
    },
    find: holdoutInPath,
    show: presentHoldout,
    get: {},
    create: {
      body: HOLDOUT_DRAFT,
      async make(call) {
        const { name, description = null, filters } = call.body()
        const fields = { name, description, percentage: percentageIn(filters) }
        const id = await changeExperiment(call, { action: 'create_holdout', fields })
        return holdoutOf(call, id)
      },
    },
    patch: {
      says: 'Updates a holdout, and the flags of the experiments that use it.',
      body: HOLDOUT_CHANGES,
      async change(call, { id }) {
        const { name, description, filters } = call.body()
        const percentage = filters === undefined ? undefined : percentageIn(filters)
        const fields = given({ name, description, percentage })
        await changeExperiment(call, { action: 'change_holdout', id, fields })
        return holdoutOf(call, id)
      },
    },
    remove: {
      says: 'Removes a holdout, also from the flags of the experiments that use it.',
      async run(call) {
        const { id } = await holdoutInPath(call)
        await changeExperiment(call, { action: 'delete_holdout', id })
      },
    },
  }),
}

async function holdoutInPath(call: ExperimentCall): Promise<Holdout> {
  return existing(await ask(call, 'getHoldout', placeInPath(call)), UNKNOWN)
}

async function holdoutOf(call: ExperimentCall, id: number): Promise<Holdout> {
  const { projectId } = call
  return existing(await ask(call, 'getHoldout', { projectId, id }), UNKNOWN)
}

/** Returns the percentage in the filters of a request's body. Throws 400 `invalid_input`. */
function percentageIn(
  filters: readonly {
    readonly rollout_percentage: number
    readonly properties?: readonly unknown[]
  }[],
): number {
  const [filter, ...others] = filters
  if (filter === undefined || others.length > 0) {
    throw invalidInput('filters', 'needs exactly one entry')
  }
  const { rollout_percentage: percentage, properties = [] } = filter
  if (properties.length > 0) {
    throw invalidInput('filters', 'may not have `properties`: a holdout is a share of all persons')
  }
  if (percentage >= 0 && percentage <= 100) return percentage
  throw invalidInput('filters', 'needs a number from 0 to 100 as `rollout_percentage`')
}
