/**
 * The shapes of the organization, its users, projects and keys, and of the requests about them. The store keeps the
 * data.
 */
import type { JsonObject } from '../../base/json.ts'
import type { FlagAccessLevel, ProjectLevel, UserLevel } from './levels.ts'
import type { Project as IngestProject, PersonalKeyAccess } from './project-directory.ts'

/** The organization. A store has exactly one. */
export interface Organization {
  /** The UUID of the organization. */
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
  /** The access level that users without a role have for flags. Null if it was never set. */
  readonly flagAccess: FlagAccessSetting | null
}

/** The access level that users without a role have for flags, and who set it. */
export interface FlagAccessSetting {
  readonly level: FlagAccessLevel
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** The owner of personal keys. An inactive user has no roles, and the keys of that user grant no access. */
export interface User {
  readonly id: number
  readonly uuid: string
  readonly email: string
  readonly firstName: string
  readonly distinctId: string
  readonly level: UserLevel
  readonly isActive: boolean
  readonly createdAtMs: number
}

/** The kinds of events that browsers capture automatically, unless the page configures the SDK otherwise. */
export interface BrowserCapture {
  /** True if clicks, changes and submits are not captured. */
  readonly isAutocaptureOff: boolean
  readonly areExceptionsCaptured: boolean
  readonly areWebVitalsCaptured: boolean
}

/** The settings of a new project. */
export const DEFAULT_BROWSER_CAPTURE: BrowserCapture = {
  isAutocaptureOff: false,
  areExceptionsCaptured: false,
  areWebVitalsCaptured: false,
}

/** The daily limits of a project, counted from midnight UTC. Null or absent means no limit. */
export interface DailyMaxima {
  readonly dailyEventsMax?: number | null
  readonly dailyBytesMax?: number | null
}

/** Lists of objects that a project stores as clients sent them. */
export interface ProjectLists {
  /** Filters that exclude the team's own events. */
  readonly testAccountFilters: readonly JsonObject[]
  /** Rules that normalize paths: each has a pattern and a replacement for its matches. */
  readonly pathCleaningFilters: readonly JsonObject[]
  /** Rules that determine the channel of a session. They are applied before the built-in rules. */
  readonly customChannelTypeRules: readonly JsonObject[]
}

/** The lists of a new project, and of a project that was stored before these lists existed. */
export const EMPTY_LISTS: ProjectLists = {
  testAccountFilters: [],
  pathCleaningFilters: [],
  customChannelTypeRules: [],
}

/** A project and its settings. */
export interface Project extends IngestProject, BrowserCapture, ProjectLists, DailyMaxima {
  readonly name: string
  /** The time zone of the project, as a name of the IANA time zone database. */
  readonly timezone: string
  readonly createdAtMs: number
  /** The number of the partition to which the project belongs in a cluster. It never changes. Absent means 0. */
  readonly partition?: number
  /** True if only its own members, and administrators of the organization, may use the project. */
  readonly isPrivate?: boolean
}

/** The level of a user in one project, which takes the place of the level in the organization. */
export interface ProjectMembership {
  readonly projectId: number
  readonly userId: number
  readonly level: ProjectLevel
  readonly joinedAtMs: number
  readonly updatedAtMs: number
}

/** The projects that a user may use. */
export interface ProjectAccess {
  readonly projectIds: readonly number[] | 'all'
  /**
   * The levels of the user in those projects where the user is a member. They replace the user's level in the
   * organization.
   */
  readonly projectLevels: ReadonlyMap<number, ProjectLevel>
}

/** The stored form of any key. The key itself is not stored. */
interface HashedKey {
  readonly id: number
  readonly label: string
  /** The SHA-256 of the key. */
  readonly hash: Buffer
  readonly lastFour: string
  readonly createdAtMs: number
  readonly revokedAtMs: number | null
  /** The time at which the text of the key was last replaced. The key kept its rights. */
  readonly rolledAtMs: number | null
}

/** A personal key as it is stored. */
export interface PersonalKey extends HashedKey {
  readonly userId: number
  /** The scopes, such as `event:read`. `*` means all scopes. */
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  readonly expiresAtMs: number | null
}

/** A key that servers use to read the flag definitions of one project. It belongs to no user. */
export interface SecretKey extends HashedKey {
  readonly projectId: number
}

/** The properties of a new personal key. */
export interface KeyRequest {
  /** The text of the key. By default it is generated. */
  readonly text?: string
  readonly label?: string
  /** The user who owns the key. The default is the owner who was created when Tenrec first started. */
  readonly userId?: number
  /** The scopes of the key. The default is `*`. */
  readonly scopes?: readonly string[]
  /** The projects of the key. The default is all projects. */
  readonly projectIds?: readonly number[] | 'all'
  readonly expiresAtMs?: number
}

/** The properties of a personal key that can be changed. */
export type KeyChanges = Pick<KeyRequest, 'label' | 'scopes' | 'projectIds'>

/** A new project secret key. */
export interface SecretKeyRequest {
  readonly projectId: number
  /** The text of the key. By default it is generated. */
  readonly text?: string
  readonly label?: string
}

/** A key with its text, which cannot be shown again. */
export interface NewKey<Key> {
  readonly text: string
  readonly key: Key
}

/** The properties of a new project. */
export interface ProjectRequest extends ProjectChanges {
  readonly name: string
  /** The partition, from 0 to `PARTITION_MAX`. It is only allowed in a cluster. The default is 0. */
  readonly partition?: number
}

/** Changes of a project. A setting that is left out stays as it is or, for a new project, gets its default. */
export interface ProjectChanges extends Partial<BrowserCapture & ProjectLists>, DailyMaxima {
  readonly name?: string
  /** The project key. By default it is generated. */
  readonly apiKey?: string
  readonly isIpAnonymized?: boolean
  readonly areGroupTypesClosed?: boolean
  readonly isPrivate?: boolean
  readonly timezone?: string
}

/** The access that a personal key grants, and its user. */
export interface PersonalKeyGrant extends PersonalKeyAccess {
  /** The number of the key. */
  readonly keyId: number
  readonly userId: number
  /** The user, who is active. */
  readonly user: User
  /** The scopes of the key that its user may use at their level in the organization. */
  readonly scopes: readonly string[]
  /** All scopes of the key, including those that its user may not use, for example because the user is a viewer. */
  readonly keyScopes: readonly string[]
  /** The projects of the key that its user may use. */
  readonly projectIds: readonly number[] | 'all'
  /** All projects of the key, including those that its user may not use. */
  readonly keyProjectIds: readonly number[] | 'all'
  readonly projectLevels: ReadonlyMap<number, ProjectLevel>
  /** The time at which the key expires. Null if it never does. */
  readonly expiresAtMs: number | null
}

/** A new user. */
export interface UserRequest {
  readonly email: string
  readonly firstName?: string
  /** The level of the user. The default is the lowest level. */
  readonly level?: UserLevel
  /** The distinct_id for which the user's own flags are decided. The default is the user's uuid. */
  readonly distinctId?: string
}

/** An invitation to create. */
export interface InviteRequest {
  readonly email: string
  readonly firstName?: string
  readonly level: UserLevel
  /** The user who sends the invitation. */
  readonly createdById: number
  /**
   * The scopes and the expiry time of the new user's key. They cannot exceed the scopes and the expiry time of the key
   * with which the invitation is made.
   */
  readonly scopes: readonly string[]
  readonly keyExpiresAtMs: number | null
}

/** An invitation as it is stored. */
export interface Invite extends Required<InviteRequest> {
  /** The number of the invitation, in the order of creation. */
  readonly number: number
  /** The UUID of the invitation. */
  readonly id: string
  /** The SHA-256 of the code with which the invitation is accepted. */
  readonly hash: Buffer
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

/** An invitation with its code, which cannot be shown again. */
export interface NewInvite {
  readonly text: string
  readonly invite: Invite
}

/** The data with which an invitation is accepted. */
export interface InviteAcceptance {
  readonly code: string
  /** The first name of the user. The default is the name in the invitation. */
  readonly firstName?: string | undefined
  /** The hash of the password of the new user. Without it, the user gets a personal key. */
  readonly passwordHash?: string | undefined
}

/**
 * The user who accepted an invitation, and the key that was created. The key is null if the user chose a password
 * instead.
 */
export interface AcceptedInvite {
  readonly user: User
  readonly made: NewKey<PersonalKey> | null
}

/** The error text if a user sends a password to accept an invitation that allows none; see `mayHavePassword`. */
export const LIMITED_INVITE =
  'This invitation gives limited rights, so it comes with a personal key instead of a password. Accept it without `password`.'

/**
 * Returns whether an invited user may log in with a password. A user who logs in with a password has all rights of the
 * level, without a time limit. A password is therefore allowed only if the invitation grants all scopes without an
 * expiry time.
 */
export function mayHavePassword({
  scopes,
  keyExpiresAtMs,
}: Pick<Invite, 'scopes' | 'keyExpiresAtMs'>): boolean {
  return scopes.includes('*') && keyExpiresAtMs === null
}

/** Changes of a user. Members that are left out stay as they are. */
export interface UserChanges extends Partial<UserRequest> {
  readonly isActive?: boolean
}
