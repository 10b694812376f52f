/**
 * Holds the newest state of a data file that may be in use, for those who read its pages by themselves:
 * what they meet then is neither changed nor used again.
 */
import type { Environment, PinnedEnvironment } from './environment.ts'
import { PIN_ATTEMPTS_MAX } from './limits.ts'
import { type LmdbState, newestState } from './lmdb-walk.ts'

/** A state, and what holds it: release it soon. */
export interface PinnedState {
  readonly state: LmdbState
  readonly pin: PinnedEnvironment
}

/** Null when the file changes too often. `file`: the data file of the environment. */
export function pinNewest(environment: Environment, file: string): PinnedState | null {
  for (let attempt = 0; attempt < PIN_ATTEMPTS_MAX; attempt++) {
    const state = newestState(file)
    environment.refresh()
    const pin = environment.pin()
    // A commit in between: the state that was pinned may be another, or the page was read half written.
    if (newestState(file).meta.equals(state.meta)) return { state, pin }
    pin.release()
  }
  return null
}
