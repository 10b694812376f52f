/**
 * Roles, memberships and role access entries as clients write and see them. Source: interface
 * description, sections 2.4 and 2.5; docs/COMPATIBILITY.md, "Roles and role access".
 */

import { timeText } from '../../base/time.ts'
import {
  FLAG_ACCESS_LEVELS,
  type FlagAccessLevel,
  levelNumbers,
} from '../../rules/access/levels.ts'
import { type UserFacts, type UserSummary, userSummary } from '../../rules/access/user.ts'
import { missingField, type ReadField, readChoiceField, readTextField } from './body-fields.ts'

const NAME_CHARACTERS_MAX = 200
const SEPARATOR = ', '

/** A role of the API. Interface description, section 2.4. */
export interface RoleBody {
  readonly id: string
  readonly name: string
  readonly feature_flags_access_level: number
  readonly created_at: string
  readonly created_by: UserSummary | null
  /** E-mail addresses in order of joining. */
  readonly members: string
  /** Keys of the flags that the role may change, in the order in which they were added. */
  readonly associated_flags: string
}

/** What is known of a role. */
export interface RoleFacts {
  readonly role: {
    readonly id: string
    readonly name: string
    readonly level: number
    readonly createdAtMs: number
  }
  readonly createdBy: UserFacts | null
  readonly members: readonly { readonly user: { readonly email: string } }[]
}

/** A membership of the API. */
export interface RoleMembershipBody {
  readonly id: string
  readonly role_id: string
  readonly user: UserSummary
  readonly joined_at: string
  readonly updated_at: string
}

/** What is known of a membership. */
export interface RoleMembershipFacts {
  readonly id: string
  readonly user: UserFacts
  readonly joinedAtMs: number
  readonly updatedAtMs: number
}

/** The fields of a role in a body. */
export interface RoleFields {
  readonly name?: string
  readonly level?: FlagAccessLevel
}

/** The body of a role. */
export function roleBody(
  { role, createdBy, members }: RoleFacts,
  flagKeys: readonly string[],
): RoleBody {
  return {
    id: role.id,
    name: role.name,
    feature_flags_access_level: role.level,
    created_at: timeText(role.createdAtMs),
    created_by: createdBy === null ? null : userSummary(createdBy),
    members: members.map(({ user }) => user.email).join(SEPARATOR),
    associated_flags: flagKeys.join(SEPARATOR),
  }
}

/** The body of a membership. */
export function roleMembershipBody(
  roleId: string,
  { id, user, joinedAtMs, updatedAtMs }: RoleMembershipFacts,
): RoleMembershipBody {
  return {
    id,
    role_id: roleId,
    user: userSummary(user),
    joined_at: timeText(joinedAtMs),
    updated_at: timeText(updatedAtMs),
  }
}

/** The body of a role access entry. Interface description, section 2.5. */
export function roleAccessBody<FlagBody extends object>(
  access: { readonly id: number; readonly addedAtMs: number; readonly updatedAtMs: number },
  flag: FlagBody,
  role: RoleBody,
) {
  return {
    id: access.id,
    feature_flag: flag,
    role,
    added_at: timeText(access.addedAtMs),
    updated_at: timeText(access.updatedAtMs),
  }
}

/** Reads the fields of a role. Throws 400 with the field as `attr`. */
export function readRoleFields(read: ReadField, isNameRequired: boolean): RoleFields {
  const name = readTextField(read, 'name', NAME_CHARACTERS_MAX)
  if (name === undefined && isNameRequired) throw missingField('name')
  const attr = 'feature_flags_access_level'
  const level = readChoiceField(read, attr, levelNumbers(FLAG_ACCESS_LEVELS))
  return { ...(name === undefined ? {} : { name }), ...(level === undefined ? {} : { level }) }
}
