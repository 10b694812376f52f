/** The limits of http/routes, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of steps of an action. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const STEPS_MAX = 100
/**
 * The largest number of tags of an action. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const TAGS_MAX = 100
/**
 * The largest number of persons that one request can add to a cohort. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const MEMBERS_MAX = 100_000
/**
 * The largest number of UTF-16 units in an event name or a condition of an erasure or a retention rule. A longer one is
 * answered 400. Names of events and distinct IDs are never longer, so no useful condition is refused.
 */
export const TEXT_UNITS_MAX = 400
/**
 * The largest number of retention rules for single event names in one project. More are answered 400 `invalid_input`.
 * @user Erasure and retention
 */
export const NAMED_RULES_MAX = 100
/**
 * The largest number of erasures of a project that can run at a time. A further one is answered 429.
 * @user Erasure and retention
 */
export const ERASURES_RUNNING_MAX = 100
/**
 * The largest number of filters in `properties` of one request for events. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const FILTERS_MAX = 100
/**
 * The approximate number of UTF-16 units at which a page of flags ends, because the main thread builds the page. A page
 * has at least one flag, and `next` leads to the rest.
 * @user Flags
 */
export const PAGE_FLAG_UNITS_MAX = 256 * 1024
/**
 * The largest number of entries on a page of the activity of flags, because an entry may contain two whole flags. A
 * larger `limit` is treated as this one.
 * @user Flags
 */
export const PAGE_FLAG_CHANGES_MAX = 100
/** The highest page number. A higher one is treated as this one. */
export const PAGES_MAX = 1_000_000_000
/**
 * The largest number of entries on a page of the activity of persons. A larger `limit` is treated as this one.
 * @user Persons and groups
 */
export const PAGE_ACTIVITY_MAX = 1000
/**
 * The largest number of series in `events` of one request for the properties timeline of a person. More are answered
 * 400 `invalid_input`.
 * @user Persons and groups
 */
export const SERIES_MAX = 100
/**
 * The largest number of persons that one request can merge into another person. More are answered 400 `invalid_input`.
 * @user Persons and groups
 */
export const MERGED_PERSONS_MAX = 1000
/**
 * The largest number of persons that one request can delete. More are answered 400 `invalid_input`.
 * @user Persons and groups
 */
export const DELETED_PERSONS_MAX = 1000
/**
 * The largest number of persons that are deleted in one step. A request with more persons is carried out in several
 * steps, so that other changes need not wait for all of them.
 */
export const DELETED_PERSONS_AT_ONCE_MAX = 100
/**
 * If this many bytes of accepted events wait to be written to the disk, large bodies have to wait, too. Small bodies
 * are still accepted for the next write.
 */
export const CAPTURE_WAITING_BYTES_MAX = 64 * 1024 * 1024
/**
 * A `distinct_id` of a flag request with at most this many UTF-8 bytes is used unchanged. A longer one is cut off after
 * 200 code points.
 */
export const DISTINCT_ID_BYTES_MAX = 200
/**
 * The largest number of entries in the lists of flag keys and of evaluation contexts of a flag request. Further entries
 * are ignored.
 */
export const FLAG_LIST_ENTRIES_MAX = 10_000
/**
 * The largest number of query strings of flag requests whose parsed form is cached. Beyond it, the cache is cleared.
 */
export const FLAG_HEADS_KNOWN_MAX = 200
/**
 * The largest number of combinations of content type, encoding and client that are cached for one query string of flag
 * requests. Further ones are parsed each time.
 */
export const FLAG_HEADS_OF_QUERY_MAX = 16
/**
 * The largest number of UTF-16 units in the query string of a flag request whose parsed form is cached. The same limit
 * applies to its content type and encoding together. Longer ones are parsed each time.
 */
export const FLAG_KNOWN_UNITS_MAX = 200
/** The largest number of bytes in one file of the SDK. A larger file is not served. */
export const SDK_FILE_BYTES_MAX = 2 * 1024 * 1024
/**
 * The largest number of files of the SDK that are served. Further files are not served. The number is limited because
 * all files may be in memory, each in three encodings.
 */
export const SDK_FILES_MAX = 64
/**
 * The largest number of UTF-16 units in the name of a cohort or an action. A longer name is answered 400.
 * @user Cohorts, actions and filters
 */
export const NAME_UNITS_MAX = 400
/**
 * The largest number of UTF-16 units in the description of a cohort or an action. A longer description is answered 400.
 * @user Cohorts, actions and filters
 */
export const DESCRIPTION_UNITS_MAX = 1000
/**
 * The largest number of UTF-16 units in a tag of an action. A longer tag is answered 400.
 * @user Cohorts, actions and filters
 */
export const TAG_UNITS_MAX = 255
/**
 * The largest number of UTF-16 units in a text of a step of an action, such as a selector. A longer text is answered
 * 400.
 * @user Cohorts, actions and filters
 */
export const STEP_TEXT_UNITS_MAX = 1000
/**
 * The largest number of days for which a retention rule can keep events. A higher number is answered 400.
 * @user Erasure and retention
 */
export const RETENTION_DAYS_MAX = 36_500
/**
 * The time for computing all insights of a dashboard. Insights that are not computed by then come with an error instead
 * of a result.
 * @user Insights, dashboards and annotations
 */
export const DASHBOARD_RESULTS_MS_MAX = 20_000
/**
 * The largest number of bytes of the results of a dashboard. Beyond it, the remaining insights come with an error
 * instead of a result.
 * @user Insights, dashboards and annotations
 */
export const DASHBOARD_RESULTS_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of results that shared pages cache. Beyond it, the result that was not used for the longest time
 * is evicted.
 */
export const SHARED_RESULTS_MAX = 1000
/**
 * The largest number of bytes of the results that shared pages cache. Beyond it, the results that were not used for the
 * longest time are evicted.
 */
export const SHARED_RESULTS_BYTES_MAX = 32 * 1024 * 1024
/** The time for which shared pages cache a result. After it, the result is computed again. */
export const SHARED_RESULT_AGE_MS_MAX = 30_000
/**
 * The largest number of event names that one live stream can show. More are answered 400 `invalid_input`.
 * @user Console and live events
 */
export const STREAM_NAMES_MAX = 100
/**
 * The largest number of live streams of one console session in a project, such as one for each tab. A further one ends
 * the oldest.
 * @user Console and live events
 */
export const LIVE_STREAMS_OF_SESSION_MAX = 5
/** The largest number of characters of the user agent that a console session keeps. The rest is cut off. */
export const USER_AGENT_CHARACTERS_MAX = 300
/**
 * The largest number of characters in the code of a login link or an invitation. A longer code is answered 400
 * `invalid_input`.
 * @user Console and live events
 */
export const LOGIN_CODE_CHARACTERS_MAX = 64
/** The largest number of characters of an e-mail address in a login. A longer one belongs to no user. */
export const EMAIL_TEXT_CHARACTERS_MAX = 254
/**
 * The largest number of characters of a password. A longer one is answered 400.
 * @user Console and live events
 */
export const PASSWORD_CHARACTERS_MAX = 200
/**
 * The largest number of characters of the page to which a login with OpenID Connect returns. A longer one is answered
 * 400 `invalid_input`.
 */
export const PAGE_CHARACTERS_MAX = 4000
/**
 * The largest number of characters of the query with which an identity provider sends the browser back. A longer one is
 * answered 400 `invalid_input`.
 */
export const PROVIDER_QUERY_CHARACTERS_MAX = 16_384
/** For this time after a login with a link, the user may set another password without the current one. */
export const LINK_PASSWORD_MS_MAX = 3_600_000
/**
 * The largest number of events in one answer of `GET /_dev/events`, and the highest `count`. The answer ends there,
 * with `has_more`.
 * @user Events
 */
export const DEVELOPMENT_EVENTS_MAX = 10_000
/**
 * The largest number of bytes of events in one answer of `GET /_dev/events`, unless it has a single event. The answer
 * ends there, with `has_more`.
 * @user Events
 */
export const DEVELOPMENT_ANSWER_BYTES_MAX = 16 * 1024 * 1024
/**
 * The time that `GET /_dev/events` can wait. A longer `wait` is answered 400 `invalid_input`.
 * @user Events
 */
export const DEVELOPMENT_WAIT_MS_MAX = 60_000
/**
 * The largest number of requests to `GET /_dev/events` that can wait at a time. A further one is answered 429
 * `throttled`.
 * @user Events
 */
export const DEVELOPMENT_WAITS_MAX = 200
/**
 * The largest number of projects to which one request copies a flag. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const COPY_TARGETS_MAX = 100
