/** Schemas of what questions say: tests on properties, series of events, ranges of days, pages. */
import {
  ANY,
  about,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  named,
  nullable,
  object,
  openObject,
  ref,
  TEXT,
  TEXT_OR_NUMBER,
  WHOLE,
} from '../../server/schema.ts'

const TYPES = ['person', 'event', 'group', 'cohort', 'static-cohort', 'element', 'flag'] as const

/** A test on one property. */
export const PROPERTY_FILTER = named(
  'PropertyFilter',
  about(
    openObject(
      { key: TEXT_OR_NUMBER },
      {
        value: ANY,
        operator: nullable(TEXT),
        type: nullable(choice(...TYPES)),
        group_type_index: nullable(WHOLE),
        negation: nullable(BOOLEAN),
      },
    ),
    'A test on one property.',
  ),
)

const FILTER_GROUP = named(
  'FilterGroup',
  about(
    object({
      type: choice('AND', 'OR'),
      values: list({ anyOf: [ref('FilterGroup'), PROPERTY_FILTER] }),
    }),
    'Tests of which all or any must hold.',
  ),
)

/** Tests on properties. */
export const FILTERS = named('Filters', {
  anyOf: [list(PROPERTY_FILTER), FILTER_GROUP, JSON_OBJECT],
})

/** Events that a question counts. */
export const SERIES = named(
  'Series',
  about(
    openObject(
      {},
      {
        id: nullable(TEXT_OR_NUMBER),
        order: nullable(WHOLE),
        math: nullable(TEXT),
        math_property: nullable(TEXT),
        math_group_type_index: nullable(WHOLE),
        properties: FILTERS,
      },
    ),
    'Events of one name, or those of an action.',
  ),
)

/** Parameters of a range of days. */
export const RANGE = {
  date_from: about(TEXT, 'Where the range begins: a day, a moment, or -7d and the like.'),
  date_to: about(TEXT, 'Where it ends, the last day included.'),
  interval: about(choice('hour', 'day', 'week', 'month'), 'How long a period is.'),
}
