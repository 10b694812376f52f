/** The version of this program, from package.json. */
import { readFileSync } from 'node:fs'

/** The version, such as `0.1.0`. */
export const VERSION: string = readVersion()

function readVersion(): string {
  // package.json is in the folder that contains `src` and `dist`.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const match = /"version": "([^"]+)"/.exec(text)
  if (match?.[1] === undefined) throw new Error('package.json names no version')
  return match[1]
}
