/**
 * The two keys of `tenrec dev`. They are in the documents, so everybody knows them: a test may name them, and
 * nobody else may have them. Stores refuse them unless they are opened for `tenrec dev`.
 */

/** The project key of `tenrec dev`. */
export const DEVELOPMENT_PROJECT_KEY = 'phc_tenrec_dev'
/** The personal key of `tenrec dev`. */
export const DEVELOPMENT_PERSONAL_KEY = 'phx_tenrec_dev'

/** Whether a key is one of those that everybody knows. */
export function isDevelopmentKey(text: string): boolean {
  return text === DEVELOPMENT_PROJECT_KEY || text === DEVELOPMENT_PERSONAL_KEY
}
