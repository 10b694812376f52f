/**
 * Decides whether a user may change a flag, and whether a user may give roles access to it. Every user may read and
 * create flags. Source: docs/compatibility/organization.md, "Roles and role access".
 */
import type { Flag } from '../flags/types.ts'
import { FLAG_ACCESS_LEVELS, type FlagAccessLevel, isAdministrator } from './levels.ts'

const [{ number: MAY_ONLY_VIEW }, { number: MAY_ALWAYS_EDIT }] = FLAG_ACCESS_LEVELS

/** The facts about the requesting user that rights depend on. */
export interface FlagEditor {
  readonly userId: number
  /** The number of one of `USER_LEVELS`. */
  readonly level: number
  /** The organization's level for users without a role. Null if it was never set. */
  readonly defaultLevel: FlagAccessLevel | null
  /** The level of each role that the user has. */
  readonly roleLevels: readonly FlagAccessLevel[]
  /**
   * Returns whether one of the user's roles has a role access entry for the flag. It is called only if the other facts
   * do not decide.
   */
  hasRoleAccess(flag: OwnedFlag): boolean
}

/** The facts about the flag that rights depend on. */
export type OwnedFlag = Pick<Flag, 'id' | 'projectId' | 'createdById'>

/** Returns whether the user may change the flag. Answers show it as `can_edit`. */
export function canEditFlag(editor: FlagEditor, flag: OwnedFlag): boolean {
  if (isCreator(editor, flag) || isAdministrator(editor.level)) return true
  const { defaultLevel, roleLevels } = editor
  // If the organization lets everybody edit, roles cannot restrict that.
  if (defaultLevel === MAY_ALWAYS_EDIT) return true
  if (roleLevels.length === 0) return defaultLevel !== MAY_ONLY_VIEW
  if (roleLevels.includes(MAY_ALWAYS_EDIT)) return true
  return editor.hasRoleAccess(flag)
}

/** Returns whether the user may add and remove role access entries of the flag. */
export function canWriteRoleAccess(editor: FlagEditor, flag: OwnedFlag): boolean {
  if (isCreator(editor, flag) || isAdministrator(editor.level)) return true
  return editor.defaultLevel !== MAY_ONLY_VIEW || editor.roleLevels.includes(MAY_ALWAYS_EDIT)
}

function isCreator({ userId }: FlagEditor, { createdById }: OwnedFlag): boolean {
  return createdById !== null && createdById === userId
}
