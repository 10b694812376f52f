/** Limits of the command line. */
/** Of what a command names, kept in its audit entry; the rest is cut off. */
export const OBJECT_ID_CHARACTERS_MAX = 200
