/** The limits of store/catalog, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of audit entries that are kept, about 30 MB. Beyond it, the oldest ones are removed.
 * @user Projects, users and keys
 */
export const AUDIT_ENTRIES_MAX = 100_000
/**
 * The number of bytes of keys and values after which a part of a complete copy of the catalogue ends. The record that
 * exceeds this number is the last one of the part.
 */
export const CATALOGUE_PART_BYTES_MAX = 512 * 1024
/**
 * The largest number of flags whose changes are put into the cached lists of flags one by one. If more flags have
 * changed at once, the lists are built again.
 */
export const FLAG_CHANGES_READ_MAX = 128
/**
 * The largest number of flags of one project, including deleted ones. A further one is answered 400 `invalid_input`.
 * The key of a deleted flag can be used again.
 * @user Flags
 */
export const FLAGS_MAX = 10_000
/**
 * The largest number of UTF-16 units of JSON in the filters of all flags of a project. All filters are kept in memory.
 * More units are answered 400 `invalid_input`.
 * @user Flags
 */
export const FLAG_FILTERS_UNITS_MAX = 32 * 1024 * 1024
/**
 * The approximate number of UTF-16 units of JSON on one page of experiments. A page always has at least one row, and
 * `next` leads to the rest.
 * @user Experiments
 */
export const PAGE_EXPERIMENTS_UNITS_MAX = 256 * 1024
/**
 * The largest number of scheduled changes of a project that have not ended. A further one is answered 400
 * `invalid_input`.
 * @user Flags
 */
export const SCHEDULED_WAITING_MAX = 500
/**
 * The largest number of scheduled changes of a project that have ended. Beyond it, the oldest ones are removed.
 * @user Flags
 */
export const SCHEDULED_ENDED_MAX = 500
/**
 * The largest number of scopes of a key. More are answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const KEY_SCOPES_MAX = 100
/** The largest number of characters in the label of a key. A longer label is answered 400. */
export const KEY_LABEL_CHARACTERS_MAX = 200
/**
 * The largest number of keys of each kind that are not revoked. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const KEYS_MAX = 10_000
/** The largest number of revoked keys that stay visible. Beyond it, the oldest ones are removed. */
export const REVOKED_KEYS_MAX = 1000
/**
 * The largest number of projects of the organization. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const PROJECTS_MAX = 10_000
/**
 * The largest number of items in each list of a project: its test account filters, its path cleaning rules and its
 * channel rules. More are answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const PROJECT_LIST_ITEMS_MAX = 100
/**
 * The largest number of bytes of JSON in each list of a project: its test account filters, its path cleaning rules and
 * its channel rules. More are answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const PROJECT_LIST_BYTES_MAX = 64 * 1024
/**
 * The largest number of deleted event definitions of a project. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const DELETED_DEFINITIONS_MAX = 10_000
/**
 * The largest number of roles of the organization. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const ROLES_MAX = 500
/**
 * The largest number of members of a role. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const ROLE_MEMBERS_MAX = 1000
/**
 * The largest number of role access entries of all flags. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const ROLE_ACCESS_MAX = 10_000
/**
 * The largest number of members of all projects together. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const PROJECT_MEMBERS_MAX = 10_000
/**
 * The largest number of users, including inactive ones. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const USERS_MAX = 5000
/**
 * The largest number of invitations that are not accepted yet. A further one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const INVITES_MAX = 1000
/**
 * The time for which an invitation can be accepted. After it, accepting the invitation is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const INVITE_MS_MAX = 7 * 86_400_000
/**
 * The largest number of characters in the email address of a user. A longer address is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const EMAIL_CHARACTERS_MAX = 254
/**
 * The largest number of characters in the first name of a user. A longer name is answered 400 `max_length`.
 * @user Projects, users and keys
 */
export const FIRST_NAME_CHARACTERS_MAX = 150
/**
 * The largest number of characters in the `distinct_id` of a user. A longer one is answered 400 `invalid_input`.
 * @user Projects, users and keys
 */
export const USER_DISTINCT_ID_CHARACTERS_MAX = 200
/**
 * The largest number of console sessions of one user. A further one ends the session that was not used for the longest
 * time.
 * @user Console and live events
 */
export const SESSIONS_OF_USER_MAX = 50
/**
 * The time for which the code of a login link can be used. After it, the code is invalid.
 * @user Console and live events
 */
export const LOGIN_CODE_MS_MAX = 600_000
/**
 * The largest number of login link codes that are not used yet. A further one makes the oldest invalid.
 * @user Console and live events
 */
export const LOGIN_CODES_MAX = 100
