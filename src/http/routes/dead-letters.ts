/** The routes about dead letters, for administrators. docs/COMPATIBILITY.md, "Dead letters". */
import { ServiceError } from '../../base/errors.ts'
import type { DeadLetterCommand, DeadLetterCommands } from '../../rules/events/dead-letters.ts'
import type { Answer } from '../server/respond.ts'
import { json, type Route } from '../server/router.ts'
import type { ReadField } from '../shapes/body-fields.ts'
import {
  fieldsOf,
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openOrganizationAccess,
  requireAdministrator,
} from './organization-access.ts'

const PATH = '/api/organizations/:org_id/dead_letters/'
/** The highest number that a letter can have. */
const NUMBER_MAX = 0xffff_ffff

/** What these routes work with. */
export interface DeadLetterRoutesOptions extends OrganizationRoutesOptions {
  readonly letters: DeadLetterCommands
}

/** Processing dead letters again, and giving them up. */
export function deadLetterRoutes(options: DeadLetterRoutesOptions): readonly Route[] {
  const route = (name: string, kind: DeadLetterCommand['kind']): Route => ({
    method: 'POST',
    path: `${PATH}${name}/`,
    handler(request) {
      const access = openOrganizationAccess(request, options, 'organization:write')
      requireAdministrator(access)
      return carryOut(access, options.letters, kind)
    },
  })
  return [route('replay', 'replay_dead_letters'), route('drop', 'drop_dead_letters')]
}

async function carryOut(
  { request, user }: OrganizationAccess,
  letters: DeadLetterCommands,
  kind: DeadLetterCommand['kind'],
): Promise<Answer> {
  const read = fieldsOf(request)
  const after = readNumber(read, 'after') ?? 0
  const through = readNumber(read, 'through') ?? NUMBER_MAX
  const actor = { userId: user.id, firstName: user.firstName, email: user.email }
  const outcome = await letters.deadLetters(actor, { kind, after, through })
  return json({
    done: outcome.done,
    failed: outcome.failed,
    skipped: outcome.skipped,
    last: outcome.last,
    newest: outcome.newest,
    has_more: outcome.hasMore,
  })
}

function readNumber(read: ReadField, name: string): number | null {
  const value = read(name)
  if (value === undefined || value === null) return null
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= NUMBER_MAX) {
    return value
  }
  const detail = `${name} must be the number of a dead letter, from 0 to ${NUMBER_MAX}`
  throw new ServiceError('invalid_input', detail, { attr: name })
}
