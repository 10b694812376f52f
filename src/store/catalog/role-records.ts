/**
 * Roles, their members and their access to flags, as values and as bytes; they stand beside the users in
 * the environment `flags` (project-records.ts). Every value is MessagePack with a checksum.
 *
 * | table       | key                                   | value                                   |
 * |-------------|---------------------------------------|-----------------------------------------|
 * | roles       | number u32, in order of creation      | `Role`                                  |
 * | role_access | project u32, flag u32, entry u32      | `RoleAccess`                            |
 * | state       | `role`, `role_access`                 | the last number given (`number`)        |
 */
import type { FlagAccessLevel } from '../../rules/access/flag-permissions.ts'

/** Tables of roles. */
export const ROLE_TABLES = ['roles', 'role_access'] as const
/** One of `ROLE_TABLES`. */
export type RoleTable = (typeof ROLE_TABLES)[number]

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

/** A role from its record. */
export function decodeRole(record: Record<string, unknown>): Role {
  return record as unknown as Role
}

/** A role access entry from its record. */
export function decodeRoleAccess(record: Record<string, unknown>): RoleAccess {
  return record as unknown as RoleAccess
}
