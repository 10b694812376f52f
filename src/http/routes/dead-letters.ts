/** The routes of dead letters, for administrators. docs/compatibility/events.md, "Dead letters". */
import type { FateQueries } from '../../engine/threads/call-table.ts'
import type { DeadLetterCommand, DeadLetterCommands } from '../../rules/events/dead-letters.ts'
import { LETTER_BODY_BYTES_MAX } from '../../rules/events/limits.ts'
import { type AnyRoute, byAdministrators, done, inOrganization } from '../server/route.ts'
import * as is from '../server/schema.ts'
import { answerPage } from './formats.ts'
import {
  listing,
  type OrganizationServices,
  organizationRoutes,
} from './organization/organization-services.ts'

/** The largest number that a dead letter can have. */
const NUMBER_MAX = 0xffff_ffff

/** The services that the dead letter routes need. */
export interface DeadLetterServices extends OrganizationServices {
  readonly letters: DeadLetterCommands
  readonly queries: OrganizationServices['queries'] & Pick<FateQueries, 'listLetters'>
}

function letterNumber(name: string, sentence: string) {
  const number = is.nullable({ ...is.WHOLE, minimum: 0, maximum: NUMBER_MAX })
  const detail = `\`${name}\` must be the number of a dead letter, from 0 to ${NUMBER_MAX}.`
  return is.about(is.refused(number, detail), sentence)
}

const LETTER = is.namedObject('DeadLetter', {
  number: is.WHOLE,
  stored_at: is.TIME,
  project: is.about(is.nullable(is.WHOLE), 'The project number, or null if it is not known.'),
  step: is.about(is.choice('read', 'process', 'command'), 'The step that failed.'),
  reason: is.TEXT,
  bytes: is.about(is.WHOLE, 'Length of the accepted body in bytes.'),
  body: is.about(
    is.nullable(is.TEXT),
    `The first ${LETTER_BODY_BYTES_MAX} bytes of the event or command as it was sent. Null if the dead letter is a block of the log, or if the project stores no IP addresses, because the body may contain one.`,
  ),
})
const RANGE = is.named(
  'DeadLetterRange',
  is.openObject(
    {},
    {
      after: letterNumber('after', 'Return only dead letters with a higher number.'),
      through: letterNumber('through', 'Return only dead letters up to this number.'),
    },
  ),
)
const OUTCOME = is.namedObject('DeadLetterOutcome', {
  done: is.about(
    is.WHOLE,
    'The number of dead letters that were removed, because they were processed or discarded.',
  ),
  failed: is.about(is.WHOLE, 'The number of dead letters that failed again.'),
  skipped: is.about(is.WHOLE, 'The number of skipped commands. Commands are never replayed.'),
  last: is.about(
    is.WHOLE,
    'The member `number` of the last examined dead letter. Pass it as `after` in the next request.',
  ),
  newest: is.about(
    is.WHOLE,
    'The member `number` of the newest dead letter when the request began. Dead letters that fail again get a higher number.',
  ),
  has_more: is.BOOLEAN,
})

const route = organizationRoutes<DeadLetterServices>('dead_letters/')

/** The routes that list dead letters, process them again, and drop them. */
export const DEAD_LETTER_ROUTES: readonly AnyRoute<DeadLetterServices>[] = [
  route('GET', '', 'listDeadLetters', 'Lists dead letters, newest first.', {
    // Dead letters show data that was sent to any project, so only administrators may read them.
    who: byAdministrators(inOrganization('organization:read')),
    ...listing(LETTER),
    respond: (call) =>
      answerPage(call, ({ limit, offset }, wish) =>
        call.services.queries.listLetters(limit, offset, wish),
      ),
  }),
  letterRoute('replay', 'replay_dead_letters', 'Processes dead letters again.'),
  letterRoute('drop', 'drop_dead_letters', 'Discards dead letters.'),
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
