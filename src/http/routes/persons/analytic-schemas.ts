/**
 * The query parameters of the analytic routes, which list the people behind a number in a chart, and the schemas of
 * their answers.
 */

import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import * as is from '../../server/schema.ts'
import { FILTERS, RANGE, SERIES } from './question-schemas.ts'

const NAMES = is.list(is.TEXT)
const ACTOR_MEMBERS = {
  properties: is.JSON_OBJECT,
  matched_recordings: is.list(is.ANY),
  value_at_data_point: is.nullable(is.NUMBER),
}
const PERSON_ACTOR = is.namedObject(
  'PersonActor',
  {
    type: is.choice('person'),
    id: is.UUID,
    uuid: is.UUID,
    created_at: is.TIME,
    is_identified: is.BOOLEAN,
    name: is.TEXT,
    distinct_ids: NAMES,
    ...ACTOR_MEMBERS,
  },
  { distinct_ids_count: is.WHOLE },
)
const GROUP_ACTOR = is.namedObject('GroupActor', {
  type: is.choice('group'),
  id: is.TEXT,
  group_key: is.TEXT,
  group_type_index: is.WHOLE,
  created_at: is.nullable(is.TIME),
  ...ACTOR_MEMBERS,
})
const ACTOR = is.named('Actor', { anyOf: [PERSON_ACTOR, GROUP_ACTOR] })
const PEOPLE = is.namedObject('People', { people: is.list(ACTOR), count: is.WHOLE })
/** A page of people. */
export const ACTOR_PAGE = is.namedObject(
  'ActorPage',
  { results: is.list(PEOPLE), next: is.nullable(is.TEXT) },
  { total: is.WHOLE },
)
/** A page of the people behind a point in a chart. */
export const CHART_ACTOR_PAGE = is.namedObject(
  'ChartActorPage',
  {
    results: is.list(PEOPLE),
    next: is.nullable(is.TEXT),
    initial: is.about(is.TEXT, 'URL of the first page.'),
    missing_persons: is.about(
      is.WHOLE,
      'Number of rows of this page that are not shown because their distinct_id belongs to no person.',
    ),
    is_cached: is.BOOLEAN,
    last_refresh: is.TIME,
  },
  { total: is.about(is.WHOLE, 'Number of people on all pages. Only with include_total.') },
)
/** A page of people. Each row also contains the periods in which the person came back. */
export const RETENTION_PAGE = is.namedObject(
  'RetentionPage',
  {
    result: is.list(is.object({ person: ACTOR, appearances: is.list(is.WHOLE) })),
    next: is.nullable(is.TEXT),
    missing_persons: is.WHOLE,
  },
  {
    total: is.WHOLE,
    totals: is.about(
      is.list(is.WHOLE),
      'The number of people on all pages who appear in each period. Only with include_total.',
    ),
  },
)

const SHARED = {
  events: is.about(is.list(SERIES), 'The series that are events.'),
  actions: is.about(is.list(SERIES), 'The series that are actions.'),
  properties: is.about(FILTERS, 'Filters for all series.'),
  ...RANGE,
  explicit_date: is.about(
    is.BOOLEAN,
    'Use the dates exactly as given. The end of the range is not moved.',
  ),
  filter_test_accounts: is.about(is.BOOLEAN, 'Apply the test account filters of the project.'),
  include_total: is.about(is.BOOLEAN, 'Also return the number of people on all pages.'),
  search: is.about(is.TEXT, 'Part of an e-mail address, name or distinct_id.'),
}
const PAGE = is.pageParameters(PAGE_ROWS_MAX)
const TARGET = {
  entity_id: is.about(is.TEXT_OR_NUMBER, 'The event or action whose people are returned.'),
  entity_type: is.about(
    is.choice('events', 'actions'),
    'Whether entity_id is an event or an action.',
  ),
  entity_math: is.about(is.TEXT, 'How the series is counted in the chart, such as dau or sum.'),
  entity_order: is.about(is.WHOLE, 'Index of the series among the series of the chart.'),
  math_property: is.about(is.TEXT, 'The property that is summed up, averaged and so on.'),
  math_group_type_index: is.about(is.WHOLE, 'Index of the group type whose groups are counted.'),
}
const BREAKDOWN = {
  breakdown: is.about(
    is.TEXT_OR_NUMBER,
    'A property or cohort to break down by, or a list of them.',
  ),
  breakdowns: is.about(is.list(is.JSON_OBJECT), 'Several breakdowns, each with property and type.'),
  breakdown_type: is.about(is.TEXT, 'The kind of breakdown: event, person, group or cohort.'),
  breakdown_group_type_index: is.about(
    is.WHOLE,
    'Number of the group type of the breakdown property.',
  ),
  breakdown_value: is.about(
    is.TEXT_OR_NUMBER,
    'The value of the breakdown whose people are returned. Funnels use funnel_step_breakdown.',
  ),
  breakdown_histogram_bin_count: is.about(
    is.WHOLE,
    'If given, breakdown_value is a range of numbers, such as [10,17.5].',
  ),
}
const FUNNEL = {
  ...SHARED,
  ...BREAKDOWN,
  funnel_step: is.about(
    is.WHOLE,
    'The step that people reached. Negative for people who dropped off before that step.',
  ),
  funnel_custom_steps: is.about(
    is.list(is.WHOLE),
    'Finds people who have done exactly this many steps.',
  ),
  funnel_order_type: is.about(
    is.choice('ordered', 'strict', 'unordered'),
    'The required order of the steps.',
  ),
  funnel_window_interval: is.about(
    is.WHOLE,
    'The length of the conversion window, as a number of units.',
  ),
  funnel_window_interval_unit: is.about(
    is.TEXT,
    'Unit of the conversion window: minute, hour, day, week or month.',
  ),
  funnel_window_days: is.about(
    is.WHOLE,
    'The conversion window in days. It takes precedence over `funnel_window_interval`.',
  ),
  exclusions: is.about(is.list(is.JSON_OBJECT), 'Events that must not happen between two steps.'),
  funnel_viz_type: is.about(
    is.TEXT,
    'With trends, the funnel is computed for each period in which attempts begin.',
  ),
  entrance_period_start: is.about(is.TEXT, 'Start of the period in which the attempts begin.'),
  drop_off: is.about(is.TEXT, 'If true, returns the people who did not convert.'),
  funnel_from_step: is.about(
    is.WHOLE,
    'With drop_off or entrance_period_start: people must have done more steps than this number.',
  ),
  funnel_to_step: is.about(
    is.WHOLE,
    'People who have done more steps than this number have converted.',
  ),
  aggregation_group_type_index: is.about(
    is.WHOLE,
    'Number of the group type whose groups are counted instead of persons.',
  ),
  breakdown_attribution_type: is.about(
    is.TEXT,
    'Which value of the breakdown is attributed to a person.',
  ),
  breakdown_attribution_value: is.about(
    is.WHOLE,
    'With the attribution step: the step whose value counts.',
  ),
  funnel_step_breakdown: is.about(
    is.TEXT_OR_NUMBER,
    'The value of the breakdown whose people are returned. Several values as a list.',
  ),
}
const CORRELATION = {
  ...FUNNEL,
  funnel_correlation_type: is.about(
    is.TEXT,
    'What the people have in common: events, event_with_properties or properties.',
  ),
  funnel_correlation_person_entity: is.about(
    SERIES,
    'The event that people have between the steps.',
  ),
  funnel_correlation_person_converted: is.about(
    is.BOOLEAN,
    'True for people who converted, false for people who dropped off.',
  ),
  funnel_correlation_property_values: is.about(FILTERS, 'The properties that the people have.'),
  funnel_correlation_person_limit: is.about(is.WHOLE, 'People per page. The default is 100.'),
  funnel_correlation_person_offset: is.about(is.WHOLE, 'Number of people to skip.'),
}
const PATHS = {
  ...SHARED,
  include_event_types: is.about(NAMES, 'Kinds of events: $pageview, $screen, custom_event.'),
  include_custom_events: is.about(NAMES, 'Names of further events to include.'),
  exclude_events: is.about(NAMES, 'Items to leave out.'),
  path_groupings: is.about(NAMES, 'Patterns of items that are merged into one item.'),
  local_path_cleaning_filters: is.about(
    is.list(is.JSON_OBJECT),
    'Patterns of paths, and the aliases that replace them.',
  ),
  start_point: is.about(is.TEXT, 'Cuts paths, so that they begin with this item.'),
  end_point: is.about(is.TEXT, 'Cuts paths, so that they end with this item.'),
  step_limit: is.about(is.WHOLE, 'Number of items in a path. The default is 5.'),
  path_start_key: is.about(
    is.TEXT,
    'Finds people whose path goes on after this position and item, such as 1_/about.',
  ),
  path_end_key: is.about(
    is.TEXT,
    'Finds people whose path has this position and item, such as 2_/pay.',
  ),
  path_dropoff_key: is.about(
    is.TEXT,
    'Finds people whose path ends at this position and item, such as 3_/pay.',
  ),
  funnel_paths: is.about(
    is.TEXT,
    'Which part of the paths counts: before, between or after steps of the funnel.',
  ),
  funnel_filter: is.about(is.JSON_OBJECT, 'The funnel, with its step in funnel_step.'),
  ...PAGE,
}

/** The query parameters of the route that lists the people behind a number in a trend chart. */
export const TRENDS_QUERY = is.options({ ...SHARED, ...TARGET, ...BREAKDOWN, ...PAGE })
/** The query parameters of the route that lists the people behind a number in a lifecycle chart. */
export const LIFECYCLE_QUERY = is.object(
  {
    target_date: is.about(is.TEXT, 'A time within the period whose people are returned.'),
    lifecycle_type: is.about(
      is.TEXT,
      'The status of the people in that period: new, returning, resurrecting or dormant.',
    ),
  },
  { ...SHARED, ...PAGE },
)
/** The query parameters of the route that lists the people behind a number in a retention chart. */
export const RETENTION_QUERY = is.options({
  target_entity: is.about(SERIES, 'The event with which people start. The default is $pageview.'),
  returning_entity: is.about(SERIES, 'The event that counts as a return.'),
  retention_type: is.about(
    is.TEXT,
    'With retention_first_time, people start only with the first such event that they ever sent.',
  ),
  period: is.about(is.choice('Hour', 'Day', 'Week', 'Month'), 'The length of a period.'),
  total_intervals: is.about(is.WHOLE, 'Number of periods in the range. The default is 11.'),
  selected_interval: is.about(is.WHOLE, 'Index of the period in which the people started, from 0.'),
  appears_in: is.about(is.WHOLE, 'Return only people who came back this many periods later.'),
  ...SHARED,
  ...PAGE,
})
/** The query parameters of the route that lists the people behind a number in a stickiness chart. */
export const STICKINESS_QUERY = is.options({
  ...SHARED,
  ...TARGET,
  stickiness_days: is.about(is.WHOLE, 'Finds people with events in exactly this many periods.'),
  ...PAGE,
})
/** The query parameters of the route that lists the people of a funnel step. */
export const FUNNEL_QUERY = is.options({ ...FUNNEL, ...PAGE })
/** The query parameters of the route that lists people of a funnel who have an event or a property in common. */
export const CORRELATION_QUERY = is.options(CORRELATION)
/** The query parameters of the route that lists the people who followed a path. */
export const PATH_QUERY = is.options(PATHS)
