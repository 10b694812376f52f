/** Declares style sheets as modules, because TypeScript files import them for the bundler. */
declare module '*.css'
