/** The persons who were exposed to an experiment, as members of a cohort. Source: docs/EXPERIMENTS.md, "Who counts". */
import type { ExperimentDefinition } from '../../experiments/experiment-definition.ts'
import { firstIdOfPersons } from '../owner-bits.ts'
import { QueryFields } from '../query-fields.ts'
import type { QueryShard } from '../query-kind.ts'
import { planExposures } from './experiment-plan.ts'
import { exposedPersons } from './exposed-persons.ts'

/**
 * Returns the smallest distinct ID number of each person who was exposed to a variant, or to several. The persons of a
 * holdout and distinct ids without a person are left out. The list is empty if the experiment has not started. Throws
 * the errors of `planExposures` and of `EventScanner.scan`.
 */
export function exposedMembers(
  experiment: ExperimentDefinition,
  shard: QueryShard,
): Uint32Array<ArrayBuffer> {
  const exposing: ExperimentDefinition = { ...experiment, holdout: null }
  const query = new QueryFields({ experiment_id: experiment.id }, 'query')
  const { exposure } = planExposures(query, { ...shard.context, experiment: () => exposing })
  if (exposure === null) return new Uint32Array(0)
  const { count, persons } = exposedPersons(exposure, shard)
  const owners = shard.scanner.owners(shard.context.projectId)
  const firstIds = firstIdOfPersons(owners)
  return Uint32Array.from(persons.subarray(0, count))
    .filter((person) => person < owners.firstPersonless)
    .map((person) => firstIds[person] ?? 0)
    .filter((distinctId) => distinctId !== 0)
}
