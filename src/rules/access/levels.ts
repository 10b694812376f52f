/**
 * The levels of permissions, each kind in one table: what is parsed, offered by schemas and commands, said
 * in texts and checked derives from it. Source: interface description, sections 2.2 and 2.4.
 */

/** One step of a kind of permission. */
export interface Level<Number extends number = number, Name extends string = string> {
  /** As clients write and see it, and as it is stored. */
  readonly number: Number
  /** As commands call it. */
  readonly name: Name
  /** What it is, in descriptions. */
  readonly title: string
}

/** A kind of permission: its levels, ascending; each includes what stands before it. */
export type Levels = readonly [Level, ...Level[]]

/** What a user may do in the organization. */
export const USER_LEVELS = [
  { number: 1, name: 'member', title: 'member' },
  { number: 8, name: 'admin', title: 'administrator' },
  { number: 15, name: 'owner', title: 'owner' },
] as const satisfies Levels

/** What a role, or the organization's default, lets people do with flags: look at them, change all of them. */
export const FLAG_ACCESS_LEVELS = [
  { number: 21, name: 'view', title: 'view' },
  { number: 37, name: 'edit', title: 'edit' },
] as const satisfies Levels

/** Number of one of `USER_LEVELS`. */
export type UserLevel = (typeof USER_LEVELS)[number]['number']
/** Number of one of `FLAG_ACCESS_LEVELS`. */
export type FlagAccessLevel = (typeof FLAG_ACCESS_LEVELS)[number]['number']

/** The numbers of a kind, ascending. */
export function levelNumbers<Kind extends Levels>(kind: Kind): readonly Kind[number]['number'][] {
  return kind.map(({ number }) => number)
}

/** The number of a level by its name; undefined for a name that is none. */
export function levelNamed<Kind extends Levels>(
  kind: Kind,
  name: string,
): Kind[number]['number'] | undefined {
  return kind.find((level) => level.name === name)?.number
}

/** The name of a level by its number; the number itself for one that is none. */
export function levelName(kind: Levels, number: number): string {
  return kind.find((level) => level.number === number)?.name ?? String(number)
}

/** Whether a level is that of an administrator or owner. */
export function isAdministrator(level: number): boolean {
  return level >= USER_LEVELS[1].number
}

/** Whether a level is that of an owner. */
export function isOwner(level: number): boolean {
  return level >= USER_LEVELS[2].number
}
