/** The parameters that select events for a list or an export. docs/compatibility/events.md, "Reading events". */
import { ServiceError } from '../../base/errors.ts'
import { given } from '../../base/json.ts'
import type { EventCriteria } from '../../rules/events/event-queries.ts'
import { LIST_OPERATORS, OPERATORS_WITHOUT_VALUE } from '../../rules/filters/operator-names.ts'
import { timeParameter } from '../server/input.ts'
import type { Call } from '../server/route.ts'
import type { Schema, TypeOf } from '../server/schema.ts'
import * as is from '../server/schema.ts'
import { FILTERS_MAX } from './limits.ts'

const SCALARS = ['string', 'number', 'boolean', 'null']

const KEY: Schema<string> = { type: 'string', minLength: 1 }
const VALUE: Schema = { type: [...SCALARS, 'array'], items: { type: SCALARS } }
/** The parameter `properties` of the event list. It tests properties of the event or of its person. */
export const EVENT_FILTERS = is.named(
  'EventFilters',
  is.refused(
    is.list(
      is.object(
        { key: KEY },
        {
          value: VALUE,
          operator: is.choice(...LIST_OPERATORS),
          type: is.choice('event', 'person'),
          negation: is.about(is.BOOLEAN, 'Inverts the operator.'),
        },
      ),
      FILTERS_MAX,
    ),
    `\`properties\` must be a JSON list of at most ${FILTERS_MAX} filters, for example [{"key":"plan","value":"pro"}].`,
  ),
)

/** The query parameters that select events. */
export const EVENT_CRITERIA = {
  event: is.about(is.TEXT, 'Return only events with this name.'),
  distinct_id: is.about(is.TEXT, 'Return only events with this distinct_id.'),
  person_id: is.about(
    is.refused(is.CLIENT_UUID, '`person_id` must be a UUID.'),
    'Return only events that belong to this person now.',
  ),
  after: is.about(is.TEXT, 'Return only events with a later timestamp.'),
  before: is.about(is.TEXT, 'Return only events with an earlier timestamp.'),
  properties: is.about(EVENT_FILTERS, 'Filters that must all match.'),
}
type EventCall = Pick<Call, 'request' | 'projectId'>
type Filters = Partial<
  Pick<TypeOf<ReturnType<typeof is.options<typeof EVENT_CRITERIA>>>, keyof typeof EVENT_CRITERIA>
>

/** Returns the criteria for the events that a request asks for. Throws 400. */
export function criteriaOf({ request, projectId }: EventCall, filters: Filters): EventCriteria {
  const { event, distinct_id: distinctId, person_id: personId, properties } = filters
  requireValues(properties)
  const afterMs = timeParameter(request, 'after') ?? undefined
  const beforeMs = timeParameter(request, 'before') ?? undefined
  return { projectId, ...given({ event, distinctId, personId, afterMs, beforeMs, properties }) }
}

function requireValues(filters: TypeOf<typeof EVENT_FILTERS> = []): void {
  for (const { operator, value } of filters) {
    const isMissing = value === undefined || value === null
    if (!isMissing || OPERATORS_WITHOUT_VALUE.includes(operator)) continue
    const detail =
      'Each filter in `properties` needs a value, except with the operators `is_set` and `is_not_set`.'
    throw new ServiceError('invalid_input', detail, { attr: 'properties' })
  }
}
