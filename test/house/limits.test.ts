/**
 * The limits of all rooms: each stands in the `limits.ts` of its room, and docs/LIMITS.md lists them all.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'

t.test('docs/LIMITS.md is what the rooms say, and no limit stands elsewhere', async (t) => {
  const command = ['--require', './.ci/loader.cjs', '.ci/list-limits.mjs']
  // Fails with the names of those that stand elsewhere.
  const page = execFileSync(process.execPath, command, { encoding: 'utf8' })
  t.equal(readFileSync('docs/LIMITS.md', 'utf8'), page, 'npm run docs makes it anew')
  const names = [...page.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name)
  t.ok(names.length > 250)
  const doubled = names.filter((name, index) => names.indexOf(name) < index)
  t.strictSame(doubled, [], 'a name stands in one room')
})
