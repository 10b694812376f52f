/** The routes about dead letters, for administrators. docs/compatibility/events.md, "Dead letters". */
import type { DeadLetterCommand, DeadLetterCommands } from '../../rules/events/dead-letters.ts'
import { type AnyRoute, done } from '../server/route.ts'
import * as is from '../server/schema.ts'
import {
  type OrganizationServices,
  organizationRoutes,
} from './organization/organization-services.ts'

/** The highest number that a letter can have. */
const NUMBER_MAX = 0xffff_ffff

/** What these routes work with. */
export interface DeadLetterServices extends OrganizationServices {
  readonly letters: DeadLetterCommands
}

function letterNumber(name: string, sentence: string) {
  const number = is.nullable({ ...is.WHOLE, minimum: 0, maximum: NUMBER_MAX })
  const detail = `${name} must be the number of a dead letter, from 0 to ${NUMBER_MAX}`
  return is.about(is.refused(number, detail), sentence)
}

const RANGE = is.named(
  'DeadLetterRange',
  is.openObject(
    {},
    {
      after: letterNumber('after', 'Only letters with a higher number.'),
      through: letterNumber('through', 'Only letters up to this number.'),
    },
  ),
)
const OUTCOME = is.namedObject('DeadLetterOutcome', {
  done: is.about(is.WHOLE, 'Letters that are gone.'),
  failed: is.about(is.WHOLE, 'Letters that could not be processed this time either.'),
  skipped: is.about(is.WHOLE, 'Commands, which are not replayed.'),
  last: is.about(is.WHOLE, 'The last letter that was looked at: `after` of the next request.'),
  newest: is.about(is.WHOLE, 'The newest letter at the beginning; what failed again is newer.'),
  has_more: is.BOOLEAN,
})

const route = organizationRoutes<DeadLetterServices>('dead_letters/')

/** Processing dead letters again, and giving them up. */
export const DEAD_LETTER_ROUTES: readonly AnyRoute<DeadLetterServices>[] = [
  letterRoute('replay', 'replay_dead_letters', 'Processes dead letters again.'),
  letterRoute('drop', 'drop_dead_letters', 'Gives dead letters up.'),
]

function letterRoute(name: 'replay' | 'drop', kind: DeadLetterCommand['kind'], summary: string) {
  return route('POST', `${name}/`, `${name}DeadLetters`, summary, {
    body: RANGE,
    answers: { 200: done(OUTCOME) },
    async handle(call) {
      const { after, through } = call.body()
      const range = { kind, after: after ?? 0, through: through ?? NUMBER_MAX }
      const { hasMore, ...outcome } = await call.services.letters.deadLetters(call.actor, range)
      return { ...outcome, has_more: hasMore }
    },
  })
}
