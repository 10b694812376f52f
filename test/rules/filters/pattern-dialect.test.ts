/**
 * Tests flag patterns and version ranges that RE2 reads differently from upstream. They are evaluated as upstream
 * evaluates them, or refused with a reason.
 *
 * @lane quick
 */
import t from 'tap'
import { patternRefusal } from '../../../src/base/pattern/pattern.ts'
import { flagPropertyTest } from '../../../src/rules/flags/flag-property-test.ts'

function isFound(pattern: string, text: string): boolean {
  return flagPropertyTest('regex', pattern, 'UTC')(text)
}

t.test('patterns are evaluated as upstream evaluates them', async (t) => {
  const rows: readonly (readonly [pattern: string, text: string, found: boolean])[] = [
    ['^[^\\W\\d_]+$', 'José', true],
    ['^[^\\W\\d_]+$', 'Łukasz', true],
    ['^[^\\W\\d_]+$', '漢字', true],
    ['^[^\\W\\d_]+$', 'a1', false],
    ['^[^\\W\\d_]+$', 'a b', false],
    ['^[\\W]+$', '–€ ', true],
    ['^[\\W]+$', 'é', false],
    ['^[\\Wa]+$', 'a-\u{1f600}', true],
    ['^a{,2}$', '', true],
    ['^a{,2}$', 'aa', true],
    ['^a{,2}$', 'aaa', false],
    ['^a{,2}$', 'a{,2}', false],
    ['^[{,2}]+$', '{,2}', true],
    ['^a\\{,2}$', 'a{,2}', true],
    ['\\bfoo\\b', 'a foo b', true],
    ['\\bfoo\\b', 'éfoo', false],
    ['\\bfoo\\b', 'fooé', false],
    ['\\bfoo\\b', 'é foo–', true],
    ['\\bfoo\\b', '漢字foo漢字', false],
    ['\\bfoo_bar\\b', 'ñ foo_bar', true],
    ['\\bfoo_bar\\b', 'ñfoo_bar', false],
    ['\\Bfoo', 'éfoo', true],
    ['^\\w+\\b$', 'José', true],
    ['\\bx\\s+y\\b', 'x\u00a0y', true],
    ['[\\b]', 'b', false],
  ]
  const wrong = rows.filter(([pattern, text, found]) => isFound(pattern, text) !== found)
  t.strictSame(wrong, [])
})

t.test('patterns that cannot keep their meaning are refused with a replacement', async (t) => {
  const refused: readonly (readonly [pattern: string, part: RegExp])[] = [
    ['\\bсервер\\b', /^has \\b or \\B next to characters outside ASCII, .*\[\^\\p\{L\}\]/],
    ['café\\b', /outside ASCII/],
    ['\\b\\p{L}+', /outside ASCII/],
    ['\\b\\x{e9}', /outside ASCII/],
    ['[a-z&&[^aeiou]]', /combines classes/],
    ['[\\w--\\d]', /combines classes/],
    ['[a~~b]', /combines classes/],
    ['[a[bc]]', /combines classes/],
  ]
  for (const [pattern, part] of refused)
    t.match(patternRefusal(pattern, 'unicode') ?? '', part, pattern)
  const taken = [
    '[[:alpha:]_]',
    '[a&b]',
    '[a-]',
    '[-a]',
    '[\\[a]',
    '[\\-\\-]',
    '\\\\b é',
    '[]a]',
    '[^]a]',
  ]
  for (const pattern of taken) t.equal(patternRefusal(pattern, 'unicode'), null, pattern)
})

t.test('version ranges accept x, and invalid ranges are refused', async (t) => {
  const rows: readonly (readonly [range: string, version: string, passes: boolean])[] = [
    ['1.2.x', '1.2.9', true],
    ['1.2.x', '1.3.0', false],
    ['1.2.X', '1.2.0', true],
    ['1.x', '1.9.3', true],
    ['1.x', '2.0.0', false],
    ['1.x.x', '1.9.3', true],
    ['1.x.*', '1.9.3', true],
    ['x', '7.0.0', true],
    ['X', '7.0.0', true],
    ['1.2.*', '1.2.9', true],
    ['1.x.3', '1.9.3', false],
    ['1.2.3.x', '1.2.3', false],
    ['1-rc', '1.2.3', false],
    ['1.2-rc', '1.2.3', false],
    ['1+b', '1.2.3', false],
    ['1.2.3-rc', '1.2.4', true],
    ['1.2', '1.9.0', true],
  ]
  const wrong = rows.filter(
    ([range, version, passes]) =>
      flagPropertyTest('semver_wildcard', range, 'UTC')(version) !== passes,
  )
  t.strictSame(wrong, [])
})
