/** Levels of permissions as commands take them: by name. */
import { UsageError } from '../../base/errors.ts'
import { type Levels, levelNamed } from '../../rules/access/levels.ts'

/** The names of a kind as a sentence lists them: `member, admin or owner`. */
export function choicesText(kind: Levels): string {
  const names = kind.map(({ name }) => name)
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

/** The number of the level that `--level` names. Throws `UsageError`. */
export function parseLevel<Kind extends Levels>(kind: Kind, text: string): Kind[number]['number'] {
  const level = levelNamed(kind, text)
  if (level !== undefined) return level
  const allowed = kind.map(({ name }) => name).join(', ')
  throw new UsageError(`--level: ${JSON.stringify(text)} is none of ${allowed}`)
}
