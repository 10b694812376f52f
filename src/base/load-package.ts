/**
 * Loads packages that are CommonJS modules. For an `import` of such a package, Node searches the source for the
 * exported names, which takes up to 20 ms for each package and thread. `loadPackage` avoids this search, and the caller
 * can load the package only when it is needed.
 */
import { createRequire } from 'node:module'

/** Returns the exports of a package. It is loaded at the first call in a thread. Throws if it is not installed. */
export const loadPackage: (name: string) => unknown = createRequire(import.meta.url)
