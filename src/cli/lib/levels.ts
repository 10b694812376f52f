/** Reads permission levels, such as `admin`, by their names. */
import { UsageError } from '../../base/errors.ts'
import { type Levels, levelNamed } from '../../rules/access/levels.ts'
import type { CommandInput } from './command.ts'

/** Returns the names of all levels of a kind for use in a sentence, such as `member, admin or owner`. */
export function choicesText(kind: Levels): string {
  const names = kind.map(({ name }) => name)
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

/** Returns the number of the level in `--level`, or undefined without the option. Throws `UsageError`. */
export function levelOption<Kind extends Levels>(
  input: CommandInput,
  kind: Kind,
): Kind[number]['number'] | undefined {
  const text = input.text('level')
  const level = text === undefined ? undefined : levelNamed(kind, text)
  if (text === undefined || level !== undefined) return level
  const allowed = kind.map(({ name }) => name).join(', ')
  throw new UsageError(`--level: ${JSON.stringify(text)} is none of ${allowed}.`)
}
