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
import type { Role, RoleAccess } from '../../rules/access/roles.ts'


/** A role from its record. */
export function decodeRole(record: Record<string, unknown>): Role {
  return record as unknown as Role
}

/** A role access entry from its record. */
export function decodeRoleAccess(record: Record<string, unknown>): RoleAccess {
  return record as unknown as RoleAccess
}
