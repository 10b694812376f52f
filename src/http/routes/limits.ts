/** The limits of http/routes: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Steps of an action. More: 400 `invalid_input`. */
export const STEPS_MAX = 100
/** Tags of an action. More: 400 `invalid_input`. */
export const TAGS_MAX = 100
/** Persons that one request may add. More: 400 `invalid_input`. */
export const MEMBERS_MAX = 100_000
/** Longer than what events can have, so that a name is never cut short here. */
export const TEXT_UNITS_MAX = 400
/** Names with a rule of their own in one project. More: 400 `invalid_input`. */
export const NAMED_RULES_MAX = 100
/** Erasures of a project that may be at work; a further one is refused with 429. */
export const ERASURES_RUNNING_MAX = 100
/** Filters of one request. More: 400 `invalid_input`. */
export const FILTERS_MAX = 100
/** UTF-16 units of a page, about, which is made on the main thread: it ends there, with `next`. */
export const PAGE_FLAG_UNITS_MAX = 256 * 1024
/** A larger limit is taken for this one: an entry may hold two whole flags. */
export const PAGE_FLAG_CHANGES_MAX = 100
/** Number of a page. A larger one is taken for this one. */
export const PAGES_MAX = 1_000_000_000
/** Entries of a page of activity. A larger limit is taken for this one. */
export const PAGE_ACTIVITY_MAX = 1000
/** Series of one request. More: 400 `invalid_input`. */
export const SERIES_MAX = 100
/** Persons that one request may merge into another. */
export const MERGED_PERSONS_MAX = 1000
/** Persons that one request may name to be deleted. */
export const DELETED_PERSONS_MAX = 1000
/** Of them, how many the log is told of at a time: other changes wait for it, too. */
export const DELETED_PERSONS_AT_ONCE_MAX = 100
/** Bytes on their way to the disk from which on large bodies wait: small ones share their next flush. */
export const CAPTURE_WAITING_BYTES_MAX = 64 * 1024 * 1024
/** UTF-8 bytes from which on a distinct_id is cut to its first 200 code points. */
export const DISTINCT_ID_BYTES_MAX = 200
/** Entries of lists of keys and contexts. Further ones: ignored. */
export const FLAG_LIST_ENTRIES_MAX = 10_000
/** Queries whose heads are remembered, how many of each, and how long their texts may be. */
export const FLAG_HEADS_KNOWN_MAX = 200
/** Of these, for one query. A further one: the oldest is forgotten. */
export const FLAG_HEADS_OF_QUERY_MAX = 16
/** UTF-16 units of a head or query that is remembered. Longer: read each time. */
export const FLAG_KNOWN_UNITS_MAX = 200
/** One file of a larger size is not served. */
export const SDK_FILE_BYTES_MAX = 2 * 1024 * 1024
/** Files beyond that number are not served. All of them may be in memory, each in three encodings. */
export const SDK_FILES_MAX = 64
/** Name of a cohort or an action; a longer one is 400 `max_length`. */
export const NAME_UNITS_MAX = 400
/** Description of a cohort or an action; a longer one is 400. */
export const DESCRIPTION_UNITS_MAX = 1000
/** One tag of an action; a longer one is 400. */
export const TAG_UNITS_MAX = 255
/** One text of a step of an action, such as a selector; a longer one is 400. */
export const STEP_TEXT_UNITS_MAX = 1000
/** Days for which a rule of retention keeps events; more is 400. */
export const RETENTION_DAYS_MAX = 36_500
/** Milliseconds after which the insights of a dashboard that are left come without a result. */
export const DASHBOARD_RESULTS_MS_MAX = 20_000
/** Bytes of the results of a dashboard, from which on the insights that are left have none. */
export const DASHBOARD_RESULTS_BYTES_MAX = 8 * 1024 * 1024
/** Results that shared pages keep for each other. A further one: that which was asked for longest ago is forgotten. */
export const SHARED_RESULTS_MAX = 1000
/** Bytes of all of them. More: as above. */
export const SHARED_RESULTS_BYTES_MAX = 32 * 1024 * 1024
/** How long they are kept, milliseconds. Older ones are computed anew. */
export const SHARED_RESULT_AGE_MS_MAX = 30_000
/** Names that one stream of events shows. Further ones are 400. */
export const STREAM_NAMES_MAX = 100
/** Streams of events that a session of the console has in a project, such as one for each tab. A further one ends the oldest. */
export const LIVE_STREAMS_OF_SESSION_MAX = 5
/** Characters that are kept of the user agent that begins a session of the console. */
export const USER_AGENT_CHARACTERS_MAX = 300
/** Characters of the code of a login link or an invitation. Longer: 400 `invalid_input`. */
export const LOGIN_CODE_CHARACTERS_MAX = 64
/** Events of one answer of `GET /_dev/events`, and the largest `count`. The answer ends there, with `has_more`. */
export const DEVELOPMENT_EVENTS_MAX = 10_000
/** Bytes of events of one answer of `GET /_dev/events`, unless it is a single event. The answer ends there, with `has_more`. */
export const DEVELOPMENT_ANSWER_BYTES_MAX = 16 * 1024 * 1024
/** Milliseconds that `GET /_dev/events` may wait. A longer `wait`: 400 `invalid_input`. */
export const DEVELOPMENT_WAIT_MS_MAX = 60_000
/** Requests to `GET /_dev/events` that wait at a time. A further one: 429 `throttled`. */
export const DEVELOPMENT_WAITS_MAX = 200
