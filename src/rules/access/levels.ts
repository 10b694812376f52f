/**
 * The levels of permissions, one table for each kind. Parsing, schemas, commands, texts and checks are derived from
 * these tables. Source: PostHog's API description, sections 2.2 and 2.4.
 */

/** One level of a kind of permission. */
export interface Level<Number extends number = number, Name extends string = string> {
  /** The number that clients read and write, and that is stored. */
  readonly number: Number
  /** The name that commands use. */
  readonly name: Name
  /** The text for descriptions. */
  readonly title: string
}

/** A kind of permission: its levels in ascending order. Each level includes the levels before it. */
export type Levels = readonly [Level, ...Level[]]

/** The levels of users in the organization. The viewer is a level of Tenrec. */
export const USER_LEVELS = [
  { number: 0, name: 'viewer', title: 'viewer, who changes nothing' },
  { number: 1, name: 'member', title: 'member' },
  { number: 8, name: 'admin', title: 'administrator' },
  { number: 15, name: 'owner', title: 'owner' },
] as const satisfies Levels

/** The levels of users in one project. The editor of a project has the same rights as a member of the organization. */
export const PROJECT_LEVELS = [
  { number: 0, name: 'viewer', title: 'viewer, who changes nothing' },
  { number: 1, name: 'editor', title: 'editor' },
  { number: 8, name: 'admin', title: 'administrator of the project' },
] as const satisfies Levels

/** The levels of access to flags that a role, or the organization's default, grants: view flags, or edit all flags. */
export const FLAG_ACCESS_LEVELS = [
  { number: 21, name: 'view', title: 'view' },
  { number: 37, name: 'edit', title: 'edit' },
] as const satisfies Levels

/** The level of a new user, unless another one is chosen. */
export const NEW_USER_LEVEL: UserLevel = USER_LEVELS[1].number

/** The number of one of `USER_LEVELS`. */
export type UserLevel = (typeof USER_LEVELS)[number]['number']
/** The number of one of `PROJECT_LEVELS`. */
export type ProjectLevel = (typeof PROJECT_LEVELS)[number]['number']
/** The number of one of `FLAG_ACCESS_LEVELS`. */
export type FlagAccessLevel = (typeof FLAG_ACCESS_LEVELS)[number]['number']

/** Returns the numbers of a kind in ascending order. */
export function levelNumbers<Kind extends Levels>(kind: Kind): readonly Kind[number]['number'][] {
  return kind.map(({ number }) => number)
}

/** Returns the number of a level by its name. Returns undefined for an unknown name. */
export function levelNamed<Kind extends Levels>(
  kind: Kind,
  name: string,
): Kind[number]['number'] | undefined {
  return kind.find((level) => level.name === name)?.number
}

/** Returns the name of a level by its number. Returns the number as text if it is unknown. */
export function levelName(kind: Levels, number: number): string {
  return kind.find((level) => level.number === number)?.name ?? String(number)
}

/** Returns whether a level has the rights of an administrator. Owners have them too. */
export function isAdministrator(level: number): boolean {
  return level >= USER_LEVELS[2].number
}

/** Returns whether a level is the level of owners. */
export function isOwner(level: number): boolean {
  return level >= USER_LEVELS[3].number
}

/** Returns whether a level is the level of viewers, who may read everything and change nothing. */
export function isViewer(level: number): boolean {
  return level < USER_LEVELS[1].number
}
