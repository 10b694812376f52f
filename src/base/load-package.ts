/**
 * Loads packages that are not ES modules. An `import` of such a package searches its source for the names that it
 * exports, which takes up to 20 ms for each package and thread. A package that is loaded with this function can also
 * wait until it is needed.
 */
import { createRequire } from 'node:module'

/** Returns the exports of a package. It is loaded at the first call in a thread. Throws if it is not installed. */
export const loadPackage: (name: string) => unknown = createRequire(import.meta.url)
