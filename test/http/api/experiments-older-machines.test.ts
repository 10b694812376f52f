/**
 * Experiments that count groups are refused while a cluster has machines of an older version.
 *
 * @lane quick
 */
import t from 'tap'
import { refusal } from '../../../src/base/refusals.ts'
import { refuseGroupsIfMixed } from '../../../src/http/routes/experiments/experiment-access.ts'

const BY_GROUP = { filters: { groups: [], aggregation_group_type_index: 0 } }
const BY_PERSON = { filters: { groups: [] } }
const busy = { code: refusal('machines_older').code }

t.test('an older machine would count persons where this one counts groups', async (t) => {
  const mixed = { services: { mixedRefusal: () => refusal('machines_older') } }
  const index = { aggregation_group_type_index: 0 }
  t.throws(() => refuseGroupsIfMixed(mixed, BY_GROUP), busy, 'the flag is decided for groups')
  t.throws(() => refuseGroupsIfMixed(mixed, null, index), busy, 'a new flag')
  t.throws(() => refuseGroupsIfMixed(mixed, BY_PERSON, index), busy, 'a changed flag')
  t.doesNotThrow(() => refuseGroupsIfMixed(mixed, BY_PERSON))
  t.doesNotThrow(() => refuseGroupsIfMixed(mixed, null, { aggregation_group_type_index: null }))
  const alike = { services: { mixedRefusal: () => null } }
  t.doesNotThrow(() => refuseGroupsIfMixed(alike, BY_GROUP, index))
})
