/** Declares style sheets as modules, because they are imported for the bundler. */
declare module '*.css'
