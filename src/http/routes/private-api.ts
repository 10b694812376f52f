/** All routes for personal keys as one table. */
import type { Flag } from '../../rules/flags/types.ts'
import type { KeyUser } from '../server/auth.ts'
import type { Route } from '../server/router.ts'
import type { DeadLetterRoutesOptions } from './dead-letters.ts'
import { type DroppedRoutesOptions, droppedRoutes } from './dropped-events.ts'
import { type ErasureRoutesOptions, erasureRoutes } from './erasures.ts'
import { type EventRoutesOptions, eventRoutes } from './events.ts'
import { type FlagRoutesOptions, presentFlag } from './flag-access.ts'
import { flagRoutes } from './flags.ts'
import { organizationApiRoutes } from './organization-api.ts'
import { type PersonApiOptions, personApiRoutes } from './person-api.ts'

/** What all of them work with. */
export type PrivateApiOptions = EventRoutesOptions &
  DroppedRoutesOptions &
  FlagRoutesOptions &
  Omit<DeadLetterRoutesOptions, 'flagBody'> &
  PersonApiOptions &
  ErasureRoutesOptions

/** The routes under `/api/` about what a project or the organization has. */
export function privateRoutes(options: PrivateApiOptions): readonly Route[] {
  const flagBody = (flag: Flag, user: KeyUser): object => {
    const editor = options.directory.flagEditor(user)
    return presentFlag({ options, editor, nowMs: options.clock.now() }, flag, false)
  }
  return [
    ...eventRoutes(options),
    ...droppedRoutes(options),
    ...flagRoutes(options),
    ...organizationApiRoutes({ ...options, flagBody }),
    ...personApiRoutes(options),
    ...erasureRoutes(options),
  ]
}
