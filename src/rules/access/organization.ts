/**
 * The organization, its users, projects and keys, and what can be asked about them. Shapes only:
 * the store keeps them.
 */
import type { JsonObject } from '../../base/json.ts'
import type { FlagAccessLevel, UserLevel } from './levels.ts'
import type { Project as IngestProject, PersonalKeyAccess } from './project-directory.ts'

/** The one organization. */
export interface Organization {
  /** UUID. */
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
  /** What those without a role may do with flags; null when nobody has set it. */
  readonly flagAccess: FlagAccessSetting | null
}

/** The organization's default for flags. */
export interface FlagAccessSetting {
  readonly level: FlagAccessLevel
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** Who owns personal keys. An inactive user has no roles, and the keys open nothing. */
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

/** What browsers capture by themselves, unless the page itself tells the SDK otherwise. */
export interface BrowserCapture {
  /** Clicks, changes and submits are not captured. */
  readonly isAutocaptureOff: boolean
  readonly areExceptionsCaptured: boolean
  readonly areWebVitalsCaptured: boolean
}

/** What a new project says. */
export const DEFAULT_BROWSER_CAPTURE: BrowserCapture = {
  isAutocaptureOff: false,
  areExceptionsCaptured: false,
  areWebVitalsCaptured: false,
}

/** What a project may have in a day, from midnight UTC on; null or absent: as much as comes. */
export interface DailyMaxima {
  readonly dailyEventsMax?: number | null
  readonly dailyBytesMax?: number | null
}

/** Lists of objects that a project keeps as clients sent them. */
export interface ProjectLists {
  /** Filters that leave out the team's own events. */
  readonly testAccountFilters: readonly JsonObject[]
  /** Rules that make paths alike: a pattern, and what stands in the place of its matches. */
  readonly pathCleaningFilters: readonly JsonObject[]
  /** Rules that name the channel of a session before the common ones. */
  readonly customChannelTypeRules: readonly JsonObject[]
}

/** What a new project has of them, and one of before there was such a list. */
export const EMPTY_LISTS: ProjectLists = {
  testAccountFilters: [],
  pathCleaningFilters: [],
  customChannelTypeRules: [],
}

/** A project and its settings. */
export interface Project extends IngestProject, BrowserCapture, ProjectLists, DailyMaxima {
  readonly name: string
  /** Name of the IANA time zone database. */
  readonly timezone: string
  readonly createdAtMs: number
  /** In a cluster: the partition of events that it belongs to, for ever. Absent: 0. */
  readonly partition?: number
}

/** What is kept of any key: not the key. */
interface HashedKey {
  readonly id: number
  readonly label: string
  /** SHA-256 of the key. */
  readonly hash: Buffer
  readonly lastFour: string
  readonly createdAtMs: number
  readonly revokedAtMs: number | null
  /** When the key was last replaced by another with the same rights. */
  readonly rolledAtMs: number | null
}

/** A personal key as it is kept. */
export interface PersonalKey extends HashedKey {
  readonly userId: number
  /** Such as `event:read`; `*` for all. */
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  readonly expiresAtMs: number | null
}

/** A key with which servers read the flag definitions of one project; it is nobody's. */
export interface SecretKey extends HashedKey {
  readonly projectId: number
}

/** What a new personal key may do. */
export interface KeyRequest {
  /** The key itself; default: generated. */
  readonly text?: string
  readonly label?: string
  /** Whose key it is; default: the owner's of the first start. */
  readonly userId?: number
  /** Default: `*`. */
  readonly scopes?: readonly string[]
  /** Default: all. */
  readonly projectIds?: readonly number[] | 'all'
  readonly expiresAtMs?: number
}

/** What of a personal key can be changed. */
export type KeyChanges = Pick<KeyRequest, 'label' | 'scopes' | 'projectIds'>

/** A new project secret key. */
export interface SecretKeyRequest {
  readonly projectId: number
  /** The key itself; default: generated. */
  readonly text?: string
  readonly label?: string
}

/** A key with its text, which cannot be had again. */
export interface NewKey<Key> {
  readonly text: string
  readonly key: Key
}

/** What a new project may have. */
export interface ProjectRequest extends ProjectChanges {
  readonly name: string
  /** Only in a cluster, from 0 to `PARTITION_MAX`. Default: 0. */
  readonly partition?: number
}

/** What can be changed of a project; what is left out stays, or gets its default. */
export interface ProjectChanges extends Partial<BrowserCapture & ProjectLists>, DailyMaxima {
  readonly name?: string
  /** Default: generated. */
  readonly apiKey?: string
  readonly isIpAnonymized?: boolean
  readonly areGroupTypesClosed?: boolean
  readonly timezone?: string
}

/** What a personal key opens, and for whom. */
export interface PersonalKeyGrant extends PersonalKeyAccess {
  /** Number of the key. */
  readonly keyId: number
  readonly userId: number
  /** Active. */
  readonly user: User
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  /** Null: never. */
  readonly expiresAtMs: number | null
}

/** A new user. */
export interface UserRequest {
  readonly email: string
  readonly firstName?: string
  /** Default: the lowest. */
  readonly level?: UserLevel
  /** Under which the user's own flags are decided; default: the user's uuid. */
  readonly distinctId?: string
}

/** Whom somebody invites. */
export interface InviteRequest {
  readonly email: string
  readonly firstName?: string
  readonly level: UserLevel
  /** Who invites. */
  readonly createdById: number
  /** What the key of the new user may do, and until when: no more than the one that invites. */
  readonly scopes: readonly string[]
  readonly keyExpiresAtMs: number | null
}

/** An invitation as it is kept. */
export interface Invite extends Required<InviteRequest> {
  /** In the order of being made. */
  readonly number: number
  /** UUID. */
  readonly id: string
  /** SHA-256 of the code. */
  readonly hash: Buffer
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

/** An invitation with its code, which cannot be had again. */
export interface NewInvite {
  readonly text: string
  readonly invite: Invite
}

/** Who accepted an invitation, with the key that was made. */
export interface AcceptedInvite extends NewKey<PersonalKey> {
  readonly user: User
}

/** What can be changed of a user; what is left out stays. */
export interface UserChanges extends Partial<UserRequest> {
  readonly isActive?: boolean
}
