/**
 * Every limit is in the `limits.ts` of its folder and on exactly one of two pages: docs/LIMITS.md or
 * docs/limits-internal.md.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

/** The names of all constants that `limits.ts` files export. */
function exportedLimits(): readonly string[] {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  return files
    .filter((path) => path.endsWith('/limits.ts'))
    .flatMap((path) => [
      ...readFileSync(join('src', path), 'utf8').matchAll(/^export const (\w+)/gm),
    ])
    .map(([, name = '']) => name)
}

t.test('both pages of limits are current and list every limit once', async (t) => {
  const command = ['--require', './.ci/loader.cjs', '.ci/list-limits.mjs']
  // Fails with the names of limits that are not in a `limits.ts`.
  const output = execFileSync(process.execPath, command, { encoding: 'utf8' })
  const pages = Object.entries(JSON.parse(output) as Record<string, string>)
  t.strictSame(
    pages.map(([path]) => path),
    ['docs/LIMITS.md', 'docs/limits-internal.md'],
  )
  for (const [path, text] of pages) {
    t.equal(readFileSync(path, 'utf8'), text, `${path} is current (npm run docs writes it)`)
  }
  const listed = pages.flatMap(([, text]) => [...text.matchAll(/^\| `([^`]+)`/gm)])
  const names = listed.map(([, name = '']) => name).sort()
  t.strictSame(names, [...exportedLimits()].sort(), 'every limit is on exactly one page')
  t.ok(names.length > 250, 'the limits were found')
  const doubled = names.filter((name, index) => name === names[index - 1])
  t.strictSame(doubled, [], 'a name is in one folder only')
})
