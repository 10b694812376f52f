/**
 * The two keys of `tenrec dev`. The documentation contains them, so they are public. Tests may use them. Only a store
 * that was opened for `tenrec dev` accepts these keys.
 */

/** The project key of `tenrec dev`. */
export const DEVELOPMENT_PROJECT_KEY = 'phc_tenrec_dev'
/** The personal key of `tenrec dev`. */
export const DEVELOPMENT_PERSONAL_KEY = 'phx_tenrec_dev'

/** Returns whether a key is one of the two public keys of `tenrec dev`. */
export function isDevelopmentKey(text: string): boolean {
  return text === DEVELOPMENT_PROJECT_KEY || text === DEVELOPMENT_PERSONAL_KEY
}
