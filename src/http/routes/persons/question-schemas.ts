/** The schemas that several kinds of questions use: tests on properties, series of events, and ranges of days. */
import * as is from '../../server/schema.ts'
import { DESCRIPTION_UNITS_MAX, NAME_UNITS_MAX } from '../limits.ts'

const TYPES = [
  'person',
  'event',
  'group',
  'cohort',
  'static-cohort',
  'element',
  'flag',
  'behavioral',
] as const

/** A test on one property. */
export const PROPERTY_FILTER = is.named(
  'PropertyFilter',
  is.about(
    is.openObject(
      { key: is.TEXT_OR_NUMBER },
      {
        value: is.ANY,
        operator: is.nullable(is.TEXT),
        type: is.nullable(is.choice(...TYPES)),
        group_type_index: is.nullable(is.WHOLE),
        negation: is.nullable(is.BOOLEAN),
      },
    ),
    'A filter on one property.',
  ),
)

const FILTER_GROUP = is.named(
  'FilterGroup',
  is.about(
    is.object({
      type: is.choice('AND', 'OR'),
      values: is.list({ anyOf: [is.ref('FilterGroup'), PROPERTY_FILTER] }),
    }),
    'Filters of which all or any must match.',
  ),
)

/** Tests on several properties, as a list or as a tree. */
export const FILTERS = is.named('Filters', {
  anyOf: [is.list(PROPERTY_FILTER), FILTER_GROUP, is.JSON_OBJECT],
})

/** The events that are counted. */
export const SERIES = is.named(
  'Series',
  is.about(
    is.openObject(
      {},
      {
        id: is.nullable(is.TEXT_OR_NUMBER),
        order: is.nullable(is.WHOLE),
        math: is.nullable(is.TEXT),
        math_property: is.nullable(is.TEXT),
        math_group_type_index: is.nullable(is.WHOLE),
        properties: FILTERS,
      },
    ),
    'Events with one name, or events of an action.',
  ),
)

/** The name and the description of an action or a cohort in the body of a request. */
export const SAVED_NAMES = {
  name: { ...is.units(NAME_UNITS_MAX), trim: true, minLength: 1 } as is.Schema<string>,
  description: is.units(DESCRIPTION_UNITS_MAX),
}

/** The parameters of a range of days. */
export const RANGE = {
  date_from: is.about(
    is.TEXT,
    'Start of the range: a day, a time, or a relative date such as -7d.',
  ),
  date_to: is.about(is.TEXT, 'End of the range. The last day is included.'),
  interval: is.about(is.choice('hour', 'day', 'week', 'month'), 'The length of a period.'),
}
