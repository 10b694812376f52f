/**
 * The shapes of roles: their members, and the flags that they may change. The store keeps the data. Source:
 * docs/compatibility/organization.md, "Roles and role access".
 */
import type { FlagAccessLevel } from './levels.ts'
import type { User } from './organization.ts'

/** The membership of a user in a role. */
export interface RoleMembership {
  /** The UUID of the membership. */
  readonly id: string
  readonly userId: number
  readonly joinedAtMs: number
  readonly updatedAtMs: number
}

/** A role with all its memberships, in the order of joining. */
export interface Role {
  /** The number of the record, which is never reused. */
  readonly number: number
  /** The UUID of the role, which clients use. */
  readonly id: string
  readonly name: string
  readonly level: FlagAccessLevel
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly memberships: readonly RoleMembership[]
}

/** One flag that a role may change. */
export interface RoleAccess {
  readonly id: number
  readonly projectId: number
  readonly flagId: number
  readonly roleNumber: number
  readonly addedAtMs: number
  readonly updatedAtMs: number
}

/** A new role. */
export interface RoleRequest {
  readonly name: string
  /** The level of the role. The default is the level that the organization has set, or else the highest level. */
  readonly level?: FlagAccessLevel
  readonly createdById: number | null
}

/** The properties of a role that can be changed. */
export interface RoleChanges {
  readonly name?: string
  readonly level?: FlagAccessLevel
}

/** A flag, identified by the numbers of its project and of the flag. */
export interface FlagNumbers {
  readonly projectId: number
  readonly flagId: number
}

/**
 * A role as clients see it: with the users who have it, and with the flags that it may change, in the order in which
 * they were added.
 */
export interface RoleView {
  readonly role: Omit<Role, 'memberships'>
  readonly createdBy: User | null
  readonly members: readonly RoleMember[]
  readonly flags: readonly FlagNumbers[]
}

/** A user who has a role. */
export interface RoleMember extends Omit<RoleMembership, 'userId'> {
  readonly user: User
}

/** A role access entry, which allows a role to change a flag, together with the role. */
export interface RoleAccessView extends Omit<RoleAccess, 'roleNumber'> {
  readonly role: RoleView
}
