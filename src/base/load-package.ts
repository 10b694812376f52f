/**
 * Loads packages that are no ES modules. An import of one searches its text for the names that it exports,
 * which takes up to 20 ms for each of them, again in each thread; and what is loaded this way can wait until
 * it is needed.
 */
import { createRequire } from 'node:module'

/** The exports of a package by its name, loaded at the first call in a thread. Throws when it is not there. */
export const loadPackage: (name: string) => unknown = createRequire(import.meta.url)
