/**
 * Roles, who has them and which flags they may change. Shapes only: the store keeps them. Source:
 * docs/compatibility/organization.md, "Roles and role access".
 */
import type { FlagAccessLevel } from './levels.ts'
import type { User } from './organization.ts'

/** Somebody in a role. */
export interface RoleMembership {
  /** UUID. */
  readonly id: string
  readonly userId: number
  readonly joinedAtMs: number
  readonly updatedAtMs: number
}

/** A role with everybody who has it, in order of joining. */
export interface Role {
  /** The key of the record; never given again. */
  readonly number: number
  /** UUID; what clients know. */
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
  /** Default: what the organization has set, else the highest. */
  readonly level?: FlagAccessLevel
  readonly createdById: number | null
}

/** What can be changed of a role. */
export interface RoleChanges {
  readonly name?: string
  readonly level?: FlagAccessLevel
}

/** A flag by the numbers of its project and itself. */
export interface FlagNumbers {
  readonly projectId: number
  readonly flagId: number
}

/** A role with what stands elsewhere: users by name, flags by number in order of being added. */
export interface RoleView {
  readonly role: Omit<Role, 'memberships'>
  readonly createdBy: User | null
  readonly members: readonly RoleMember[]
  readonly flags: readonly FlagNumbers[]
}

/** Somebody who has a role. */
export interface RoleMember extends Omit<RoleMembership, 'userId'> {
  readonly user: User
}

/** A role access entry with its role. */
export interface RoleAccessView extends Omit<RoleAccess, 'roleNumber'> {
  readonly role: RoleView
}
