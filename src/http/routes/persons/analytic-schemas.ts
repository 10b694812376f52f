/** What questions about people behind a number of a chart say, and the pages that answer them. */

import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import {
  ANY,
  about,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  NUMBER,
  named,
  nullable,
  object,
  pageParameters,
  TEXT,
  TEXT_OR_NUMBER,
  TIME,
  UUID,
  WHOLE,
} from '../../server/schema.ts'
import { FILTERS, RANGE, SERIES } from './question-schemas.ts'

const NAMES = list(TEXT)
const ACTOR_MEMBERS = {
  properties: JSON_OBJECT,
  matched_recordings: list(ANY),
  value_at_data_point: nullable(NUMBER),
}
const PERSON_ACTOR = named(
  'PersonActor',
  object(
    {
      type: choice('person'),
      id: UUID,
      uuid: UUID,
      created_at: TIME,
      is_identified: BOOLEAN,
      name: TEXT,
      distinct_ids: NAMES,
      ...ACTOR_MEMBERS,
    },
    { distinct_ids_count: WHOLE },
  ),
)
const GROUP_ACTOR = named(
  'GroupActor',
  object({
    type: choice('group'),
    id: TEXT,
    group_key: TEXT,
    group_type_index: WHOLE,
    created_at: nullable(TIME),
    ...ACTOR_MEMBERS,
  }),
)
const ACTOR = named('Actor', { anyOf: [PERSON_ACTOR, GROUP_ACTOR] })
const PEOPLE = named('People', object({ people: list(ACTOR), count: WHOLE }))
/** A page of people. */
export const ACTOR_PAGE = named(
  'ActorPage',
  object({ results: list(PEOPLE), next: nullable(TEXT) }, { total: WHOLE }),
)
/** A page of people behind a point of a chart. */
export const CHART_ACTOR_PAGE = named(
  'ChartActorPage',
  object(
    {
      results: list(PEOPLE),
      next: nullable(TEXT),
      initial: about(TEXT, 'Address of the first page.'),
      missing_persons: about(WHOLE, 'People of the page who do not exist any more.'),
      is_cached: BOOLEAN,
      last_refresh: TIME,
    },
    { total: about(WHOLE, 'People of all pages, with include_total.') },
  ),
)
/** A page of people with the periods in which they appear. */
export const RETENTION_PAGE = named(
  'RetentionPage',
  object(
    {
      result: list(object({ person: ACTOR, appearances: list(WHOLE) })),
      next: nullable(TEXT),
      missing_persons: WHOLE,
    },
    { total: WHOLE, totals: about(list(WHOLE), 'How many of them appear in each period.') },
  ),
)

const SHARED = {
  events: about(list(SERIES), 'The series that are events.'),
  actions: about(list(SERIES), 'The series that are actions.'),
  properties: about(FILTERS, 'Tests for all series.'),
  ...RANGE,
  filter_test_accounts: about(BOOLEAN, 'Adds the filters of the project.'),
  include_total: about(BOOLEAN, 'Says how many people there are on all pages.'),
  search: about(TEXT, 'Part of an e-mail address, name or distinct_id.'),
}
const PAGE = pageParameters(PAGE_ROWS_MAX)
const TARGET = {
  entity_id: about(TEXT_OR_NUMBER, 'The event or action whose people are meant.'),
  entity_type: about(choice('events', 'actions'), 'Which of both.'),
  entity_math: about(TEXT, 'How the chart counts that series.'),
  entity_order: about(WHOLE, 'Its number among the series.'),
  math_property: about(TEXT, 'The property that is added up and the like.'),
  math_group_type_index: about(WHOLE, 'The group type that is counted.'),
}
const BREAKDOWN = {
  breakdown: about(TEXT_OR_NUMBER, 'A property or cohort that splits the chart; or a list.'),
  breakdowns: about(list(JSON_OBJECT), 'Several, each with property and type.'),
  breakdown_type: about(TEXT, 'What is split: event, person, group or cohort.'),
  breakdown_group_type_index: about(WHOLE, 'The group type of that property.'),
  breakdown_value: about(TEXT_OR_NUMBER, 'The value that is asked for.'),
  breakdown_histogram_bin_count: about(WHOLE, 'Says that the value is a range of numbers.'),
}
const FUNNEL = {
  ...SHARED,
  ...BREAKDOWN,
  funnel_step: about(WHOLE, 'How far people came; negative for those who stopped there.'),
  funnel_custom_steps: about(list(WHOLE), 'Exact numbers of steps.'),
  funnel_order_type: about(choice('ordered', 'strict', 'unordered'), 'Order of the steps.'),
  funnel_window_interval: about(WHOLE, 'How long an attempt may take: a number of units.'),
  funnel_window_interval_unit: about(TEXT, 'Minute, hour, day, week or month.'),
  funnel_window_days: about(WHOLE, 'The same in days; goes before both.'),
  exclusions: about(list(JSON_OBJECT), 'Series that end an attempt.'),
  funnel_viz_type: about(TEXT, 'With trends the period in which attempts begin counts.'),
  entrance_period_start: about(TEXT, 'First moment of that period.'),
  drop_off: about(TEXT, 'Those who did not convert.'),
  funnel_from_step: about(WHOLE, 'The step from which they count.'),
  funnel_to_step: about(WHOLE, 'The step up to which they count.'),
  aggregation_group_type_index: about(WHOLE, 'Groups of this type instead of persons.'),
  breakdown_attribution_type: about(TEXT, 'Which value stands for a person.'),
  breakdown_attribution_value: about(WHOLE, 'The step that decides.'),
  funnel_step_breakdown: about(TEXT_OR_NUMBER, 'The value of the breakdown; or a list.'),
}
const CORRELATION = {
  ...FUNNEL,
  funnel_correlation_type: about(TEXT, 'Events, event_with_properties or properties.'),
  funnel_correlation_person_entity: about(SERIES, 'The event in between.'),
  funnel_correlation_person_converted: about(BOOLEAN, 'Whether the people converted.'),
  funnel_correlation_property_values: about(FILTERS, 'What the people are like.'),
  funnel_correlation_person_limit: about(WHOLE, 'People of a page, 100 when absent.'),
  funnel_correlation_person_offset: about(WHOLE, 'People to pass over.'),
}
const PATHS = {
  ...SHARED,
  include_event_types: about(NAMES, 'Kinds of events: $pageview, $screen, custom_event.'),
  include_custom_events: about(NAMES, 'Further events by name.'),
  exclude_events: about(NAMES, 'Items that are taken away.'),
  path_groupings: about(NAMES, 'Patterns that become one item.'),
  local_path_cleaning_filters: about(list(JSON_OBJECT), 'Patterns and their aliases.'),
  start_point: about(TEXT, 'Item with which paths begin.'),
  end_point: about(TEXT, 'Item with which paths end.'),
  step_limit: about(WHOLE, 'Items of a path, 5 when absent.'),
  path_start_key: about(TEXT, 'Position and item, such as 1_/about.'),
  path_end_key: about(TEXT, 'The item that must follow.'),
  path_dropoff_key: about(TEXT, 'The item with which paths must end.'),
  funnel_paths: about(TEXT, 'Which part of a funnel paths are about.'),
  funnel_filter: about(JSON_OBJECT, 'That funnel.'),
  ...PAGE,
}

/** Parameters of a trend. */
export const TRENDS_QUERY = object({}, { ...SHARED, ...TARGET, ...BREAKDOWN, ...PAGE })
/** Parameters of a lifecycle. */
export const LIFECYCLE_QUERY = object(
  {
    target_date: about(TEXT, 'A moment of the period.'),
    lifecycle_type: about(TEXT, 'New, returning, resurrecting or dormant, in lower case.'),
  },
  { ...SHARED, ...PAGE },
)
/** Parameters of a retention. */
export const RETENTION_QUERY = object(
  {},
  {
    target_entity: about(SERIES, 'The event that begins; $pageview when absent.'),
    returning_entity: about(SERIES, 'The event that shows a return.'),
    retention_type: about(TEXT, 'With retention_first_time only the first one counts.'),
    period: about(choice('Hour', 'Day', 'Week', 'Month'), 'How long a period is.'),
    total_intervals: about(WHOLE, 'Periods of the range, 11 when absent.'),
    selected_interval: about(WHOLE, 'The period of the cohort, from 0.'),
    ...SHARED,
    ...PAGE,
  },
)
/** Parameters of a stickiness. */
export const STICKINESS_QUERY = object(
  {},
  { ...SHARED, ...TARGET, stickiness_days: about(WHOLE, 'In how many periods.'), ...PAGE },
)
/** Parameters of a funnel. */
export const FUNNEL_QUERY = object({}, { ...FUNNEL, ...PAGE })
/** Parameters of a correlation. */
export const CORRELATION_QUERY = object({}, CORRELATION)
/** Parameters of paths. */
export const PATH_QUERY = object({}, PATHS)
