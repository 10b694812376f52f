/**
 * The releases of Node that Tenrec is tested with. The release is checked before anything else is loaded or written. An
 * untested release may lack features that the program needs, and the program would fail later with an unrelated error.
 *
 * This file imports no other source file and uses no syntax that an old Node cannot read.
 */

/** A major version of Node, and its first minor version that has all features that Tenrec needs. */
interface NodeLine {
  readonly major: number
  readonly minorMin: number
}

/** The supported releases. `engines.node` in package.json names the same ones. */
const NODE_LINES: readonly NodeLine[] = [
  { major: 20, minorMin: 19 },
  { major: 22, minorMin: 0 },
  { major: 24, minorMin: 0 },
  { major: 26, minorMin: 0 },
]

/** Returns the supported releases as `engines.node` in package.json names them. */
export function nodeRange(): string {
  return NODE_LINES.map(({ major, minorMin }) => `^${major}.${minorMin}.0`).join(' || ')
}

/** Returns a sentence that says why Tenrec does not run on a version of Node such as `18.20.4`, or null if it runs. */
export function nodeObstacle(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isSupported = NODE_LINES.some((line) => major === line.major && minor >= line.minorMin)
  if (isSupported) return null
  return (
    `Node.js ${version} is not supported. Tenrec runs on Node.js 20 (20.19 or newer), 22, 24 and 26. ` +
    'Install one of these. Nothing was changed.'
  )
}
