/**
 * Who may change a flag, and who may say which roles may. Reading and creating flags is everybody's
 * right. Source: docs/compatibility/organization.md, "Roles and role access".
 */
import type { Flag } from '../flags/types.ts'
import { FLAG_ACCESS_LEVELS, type FlagAccessLevel, isAdministrator } from './levels.ts'

const [{ number: MAY_ONLY_VIEW }, { number: MAY_ALWAYS_EDIT }] = FLAG_ACCESS_LEVELS

/** What rights depend on, of the user who asks. */
export interface FlagEditor {
  readonly userId: number
  /** Number of one of `USER_LEVELS`. */
  readonly level: number
  /** The organization's level for those without a role; null when nobody has set it. */
  readonly defaultLevel: FlagAccessLevel | null
  /** The level of each role that the user has. */
  readonly roleLevels: readonly FlagAccessLevel[]
  /** Whether one of these roles has a role access entry for the flag. Asked only when it decides. */
  hasRoleAccess(flag: OwnedFlag): boolean
}

/** What rights depend on, of the flag. */
export type OwnedFlag = Pick<Flag, 'id' | 'projectId' | 'createdById'>

/** Whether the user may change the flag: the field `can_edit`. */
export function canEditFlag(editor: FlagEditor, flag: OwnedFlag): boolean {
  if (isCreator(editor, flag) || isAdministrator(editor.level)) return true
  const { defaultLevel, roleLevels } = editor
  // Where somebody has said that all may edit, roles take nothing away.
  if (defaultLevel === MAY_ALWAYS_EDIT) return true
  if (roleLevels.length === 0) return defaultLevel !== MAY_ONLY_VIEW
  if (roleLevels.includes(MAY_ALWAYS_EDIT)) return true
  return editor.hasRoleAccess(flag)
}

/** Whether the user may give roles access to the flag, and take it from them. */
export function canWriteRoleAccess(editor: FlagEditor, flag: OwnedFlag): boolean {
  if (isCreator(editor, flag) || isAdministrator(editor.level)) return true
  return editor.defaultLevel !== MAY_ONLY_VIEW || editor.roleLevels.includes(MAY_ALWAYS_EDIT)
}

function isCreator({ userId }: FlagEditor, { createdById }: OwnedFlag): boolean {
  return createdById !== null && createdById === userId
}
