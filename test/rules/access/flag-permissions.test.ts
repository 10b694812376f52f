/**
 * Tests who may edit a flag and who may choose the roles that may edit it. Every combination is compared with a plain
 * table.
 *
 * @lane quick
 */
import t from 'tap'
import {
  canEditFlag,
  canWriteRoleAccess,
  type FlagEditor,
} from '../../../src/rules/access/flag-permissions.ts'
import type { FlagAccessLevel } from '../../../src/rules/access/levels.ts'
import { Differences } from '../../fixtures/differences.ts'

const FLAG = { id: 5, projectId: 1, createdById: 7 }

interface Case {
  readonly level: number
  readonly isCreator: boolean
  readonly defaultLevel: FlagAccessLevel | null
  readonly roleLevels: readonly FlagAccessLevel[]
  readonly hasEntry: boolean
}

function* allCases(): Generator<Case> {
  for (const level of [1, 8, 15])
    for (const isCreator of [false, true])
      for (const defaultLevel of [null, 21, 37] as const)
        for (const roleLevels of [[], [21], [37], [21, 21], [21, 37]] as const)
          for (const hasEntry of [false, true])
            yield { level, isCreator, defaultLevel, roleLevels, hasEntry }
}

function editorOf({ level, isCreator, defaultLevel, roleLevels, hasEntry }: Case): FlagEditor {
  return {
    userId: isCreator ? 7 : 8,
    level,
    defaultLevel,
    roleLevels,
    hasRoleAccess: () => roleLevels.length > 0 && hasEntry,
  }
}

/**
 * Maps `level creator default roles entry` to whether the member may edit and may write role access, for members who
 * did not create the flag.
 */
const MEMBERS: Readonly<Record<string, readonly [boolean, boolean]>> = {
  'unset none': [true, true],
  'unset view': [false, true],
  'unset view+entry': [true, true],
  'unset edit': [true, true],
  'unset edit+entry': [true, true],
  '21 none': [false, false],
  '21 view': [false, false],
  '21 view+entry': [true, false],
  '21 edit': [true, true],
  '21 edit+entry': [true, true],
  '37 none': [true, true],
  '37 view': [true, true],
  '37 view+entry': [true, true],
  '37 edit': [true, true],
  '37 edit+entry': [true, true],
}

function rowOf({ defaultLevel, roleLevels, hasEntry }: Case): string {
  const roles = roleLevels.length === 0 ? 'none' : roleLevels.includes(37) ? 'edit' : 'view'
  const entry = hasEntry && roles !== 'none' ? '+entry' : ''
  return `${defaultLevel ?? 'unset'} ${roles}${entry}`
}

t.test('every combination of level, creator, default, roles and entries', async (t) => {
  let count = 0
  const differences = new Differences()
  for (const one of allCases()) {
    const isAbove = one.level >= 8 || one.isCreator
    const [mayEdit, mayShare] = isAbove ? [true, true] : (MEMBERS[rowOf(one)] ?? [])
    const editor = editorOf(one)
    differences.equal(canEditFlag(editor, FLAG), mayEdit, `edit ${JSON.stringify(one)}`)
    differences.equal(canWriteRoleAccess(editor, FLAG), mayShare, `share ${JSON.stringify(one)}`)
    count++
  }
  t.strictSame(differences.list(), [], 'every combination is that of the table')
  t.equal(count, 180)
})

t.test('a flag without a creator belongs to nobody', async (t) => {
  const editor = editorOf({
    level: 1,
    isCreator: false,
    defaultLevel: 21,
    roleLevels: [],
    hasEntry: false,
  })
  t.equal(canEditFlag(editor, { ...FLAG, createdById: null }), false)
  t.equal(canWriteRoleAccess(editor, { ...FLAG, createdById: null }), false)
})
