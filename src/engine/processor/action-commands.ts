/** Carries out commands that create and change actions, on the processing thread (see command-runner.ts). */
import { timeText } from '../../base/time.ts'
import type { Actor } from '../../rules/access/user.ts'
import { type ActionRecord, actionView } from '../../rules/filters/actions.ts'
import type { CommandResult, PersonCommand } from '../../rules/persons/commands.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'

/** The stored actions, and the data of the log record, which a command needs. */
export interface ActionStep {
  readonly persons: Pick<ReturnType<ProcessingWriter['persons']>, 'actions'>
  readonly actor: Actor
  readonly atMs: number
}

/** A command about actions. */
export type ActionCommand = Extract<
  PersonCommand,
  { readonly kind: 'create_action' | 'update_action' }
>

/** Carries out one command. The next commit stores its changes. */
export function runActionCommand(step: ActionStep, command: ActionCommand): CommandResult {
  const { actions } = step.persons
  const action =
    command.kind === 'create_action'
      ? created(step, command.action)
      : changed(actions.action(command.id), command.changes)
  if (action === null) return { kind: 'not_found' }
  actions.put(action)
  return { kind: 'done', action: actionView(action) }
}

function created(
  { persons, actor, atMs }: ActionStep,
  draft: Extract<ActionCommand, { kind: 'create_action' }>['action'],
): ActionRecord {
  return {
    ...draft,
    id: persons.actions.nextId(),
    isDeleted: false,
    createdAt: timeText(atMs),
    createdBy: { id: actor.userId, first_name: actor.firstName, email: actor.email },
  }
}

function changed(
  action: ActionRecord | null,
  { deleted, ...changes }: Extract<ActionCommand, { kind: 'update_action' }>['changes'],
): ActionRecord | null {
  if (action === null || action.isDeleted) return null
  return { ...action, ...changes, isDeleted: deleted ?? false }
}
