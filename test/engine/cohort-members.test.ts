/**
 * Many members of a static cohort reach the log in several commands.
 *
 * @lane quick
 */
import t from 'tap'
import { addMembers } from '../../src/engine/front/cohort-members.ts'
import { COHORT_CHANGES_MAX } from '../../src/engine/front/limits.ts'
import type { CommandResult, PersonCommand } from '../../src/rules/persons/commands.ts'

const ACTOR = { userId: 1, firstName: 'Owner', email: 'owner@members.example' }

/** Commands that are only noted. The result is that of the function. */
function noted(resultOf: (count: number) => CommandResult['kind']) {
  const commands: PersonCommand[] = []
  const run = (_: number, __: unknown, command: PersonCommand): Promise<CommandResult> => {
    commands.push(command)
    return Promise.resolve({ kind: resultOf(commands.length) } as CommandResult)
  }
  return { commands, run }
}

function membersOf(count: number) {
  const distinctIds = Uint32Array.from({ length: count }, (_, index) => index + 1)
  return { projectId: 1, cohortId: 7, actor: ACTOR, distinctIds }
}

t.test('every person is added once, in commands of a limited size', async (t) => {
  const { commands, run } = noted(() => 'done')
  const count = 2 * COHORT_CHANGES_MAX + 1
  t.equal(await addMembers({ run }, membersOf(count)), true)
  const added = commands.map((command) => ('added' in command ? command.added : []))
  t.strictSame(
    added.map(({ length }) => length),
    [COHORT_CHANGES_MAX, COHORT_CHANGES_MAX, 1],
  )
  t.strictSame(added.flat(), [...membersOf(count).distinctIds])
  t.match(commands[0], {
    kind: 'set_cohort_members',
    id: 7,
    revision: null,
    removed: [],
    end: null,
  })
})

t.test('nothing more is written for a cohort that was deleted meanwhile', async (t) => {
  const { commands, run } = noted((count) => (count === 1 ? 'done' : 'not_found'))
  t.equal(await addMembers({ run }, membersOf(3 * COHORT_CHANGES_MAX)), false)
  t.equal(commands.length, 2)
})

t.test('a cohort without members needs no command', async (t) => {
  const { commands, run } = noted(() => 'done')
  t.equal(await addMembers({ run }, membersOf(0)), true)
  t.strictSame(commands, [])
})
