/** The limits of store/catalog: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Entries that are kept, some 30 MB; the oldest make room. */
export const AUDIT_ENTRIES_MAX = 100_000
/** Bytes of keys and values in one part of a whole catalogue, unless a single value is larger. More: another part. */
export const CATALOGUE_PART_BYTES_MAX = 512 * 1024
/** Flags that may change at once for lists to be changed; with more, they are made anew. */
export const FLAG_CHANGES_READ_MAX = 128
/** Flags of one project, deleted ones too. A further one: 400 `invalid_input`. */
export const FLAGS_MAX = 10_000
/** UTF-16 units of the JSON of all filters of a project: they are in memory. Beyond: 400 `invalid_input`. */
export const FLAG_FILTERS_UNITS_MAX = 32 * 1024 * 1024
/** Scopes of a key. More: 400 `invalid_input`. */
export const KEY_SCOPES_MAX = 100
/** Characters of the label of a key. Longer: 400 `max_length`. */
export const KEY_LABEL_CHARACTERS_MAX = 200
/** Keys of each kind that are not revoked. A further one is refused. */
export const KEYS_MAX = 10_000
/** Revoked keys that stay to be seen; beyond, the oldest are forgotten. */
export const REVOKED_KEYS_MAX = 1000
/** Projects of the organization. A further one: 400 `invalid_input`. */
export const PROJECTS_MAX = 10_000
/** Test account filters of a project, rules for its paths, rules for its channels: each list. More: 400 `invalid_input`. */
export const PROJECT_LIST_ITEMS_MAX = 100
/** Bytes of the JSON of such a list. More: 400 `invalid_input`. */
export const PROJECT_LIST_BYTES_MAX = 64 * 1024
/** Deleted definitions of events of a project. A further one: 400 `invalid_input`. */
export const DELETED_DEFINITIONS_MAX = 10_000
/** Roles of the organization. A further one is refused. */
export const ROLES_MAX = 500
/** Members of a role. A further one is refused. */
export const ROLE_MEMBERS_MAX = 1000
/** Role access entries of all flags. A further one is refused. */
export const ROLE_ACCESS_MAX = 10_000
/** Users, inactive ones too. A further one is refused. */
export const USERS_MAX = 5000
/** Invitations that wait. A further one is refused. */
export const INVITES_MAX = 1000
/** How long an invitation can be accepted, milliseconds. Later: 400 `invalid_input`. */
export const INVITE_MS_MAX = 7 * 86_400_000
/** Characters of an e-mail address. Longer: 400 `invalid_input`. */
export const EMAIL_CHARACTERS_MAX = 254
/** Characters of a first name. Longer: 400 `max_length`. */
export const FIRST_NAME_CHARACTERS_MAX = 150
/** Characters of a user's distinct_id. Longer: 400 `invalid_input`. */
export const USER_DISTINCT_ID_CHARACTERS_MAX = 200
/** Sessions of the console of one user. With a further one, the one that was unused longest ends. */
export const SESSIONS_OF_USER_MAX = 50
/** Milliseconds for which the code of a login link can be used. */
export const LOGIN_CODE_MS_MAX = 600_000
/** Codes of login links that wait to be used. With a further one, the oldest is void. */
export const LOGIN_CODES_MAX = 100
