/**
 * Tests flag patterns and version ranges that RE2 reads differently from upstream. They are evaluated as upstream
 * evaluates them, or refused with a reason.
 *
 * @lane quick
 */
import t from 'tap'
import { patternRefusal } from '../../../src/base/pattern/pattern.ts'
import { flagFaults, uncheckedPatterns } from '../../../src/rules/flags/flag-faults.ts'
import { flagPropertyTest } from '../../../src/rules/flags/flag-property-test.ts'

const MAIL = '\\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}\\b'

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
    ['^a{,}$', '', true],
    ['^a{,}$', 'aaa', true],
    ['^a{,}$', 'a{,}', false],
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
    // Explicit classes contain no letters of other scripts, and blanks of other kinds are not the plain space.
    ['\\b[a-z_]+\\b', 'café', false],
    ['\\b[a-z_]+\\b', 'café quiz', true],
    ['^\\b[a-z_]+\\b$', 'quiz', true],
    ['^\\b[^a-z_]+\\b$', 'é', true],
    ['(?i)^\\b[A-Z_]+\\b$', 'Qué', false],
    ['(?i)^\\b[A-Z_]+\\b$', 'Que', true],
    ['\\b[A-z]+$', 'é', false],
    [MAIL, 'josé@example.com', false],
    [MAIL, 'jose@example.com', true],
    [MAIL, 'quiz@xyz.com', true],
    [MAIL, 'josé quiz@xyz.com', true],
    ['\\b[[:word:]]+\\b', 'é', false],
    ['^[[:^alpha:]]\\b', 'é', true],
    ['\\b[!-~]+\\b', 'é', false],
    ['\\b[[:ascii:]]+', 'é', false],
    ['^[[:ascii:]]+\\b', '–a', false],
    ['\\bfoo bar\\b', 'foo\u00a0bar', false],
    ['\\bfoo bar\\b', 'foo bar', true],
    ['\\bfoo\\sbar\\b', 'foo\u00a0bar', true],
    ['^\\d+\\b$', '\u0663\u0664', true],
    ['^[0-9]+\\b$', '\u0663\u0664', false],
    ['^[0-9]+\\b$', '0123456789', true],
    // The Kelvin sign and the long s are ASCII letters in another case.
    ['(?i)\\bk\\b', '\u212a', true],
    ['(?i)\\bs\\b', '\u017f', true],
    ['(?i)^\\b[a-z_]+\\b$', '\u212ai\u017fs', true],
    ['\\bk\\b', '\u212a', false],
    ['\\bs\\b|\\(?i\\)|[(?i)]', '\u017f', false],
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
    ['^[\\w-.]+@', /"\\\\w-\." within brackets, .* hyphen last/],
    ['[\\p{L}-z]', /not a range/],
    ['[\\pL-z]', /not a range/],
    ['[\\d-\\w]', /not a range/],
    ['\\<script\\>', /^has \\<, which finds the edge of a word\. Write < /],
    ['a\\>', /^has \\>/],
    ['\\b{start}a', /^has \\b\{/],
    ['a\\B{end}', /^has \\B\{/],
    ['a\\0', /^has \\0/],
    ['a\\012', /^has \\0/],
    ['(a)\\12', /refers back/],
    ['[\\12]', /refers back/],
    ['\\b(the|quick|brown|fox|jumps|over|the|lazy|dog|_)\\b', /nearly all letters/],
    ['\\b(0|1|2|3|4|5|6|7|8|9)\\b', /nearly all letters or all digits/],
    ['(a(?i)b)c', /has \(\?i\) within a group\. Write \(\?i:\.\.\.\)/],
    ['(?P<n>x|(?i-s)b)', /has \(\?i-s\) within/],
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
    '[\\w-]',
    '[-\\w]',
    '[\\w\\-.]',
    '[a-z-9]',
    '[[:alpha:]-z]',
    '[<>]',
    '[\\<\\>]',
    '\\b{2}a',
    '(?i)(a)b',
    'a(?i)b|c',
    '(?:a(?i)b)c',
    '(a(?i:b))c',
    '(a[(?i)]b)c',
    '\\b{,2}a',
    '\\b(the|quick|brown|fox|jumps|over|the|lazy|dog)\\b',
  ]
  for (const pattern of taken) t.equal(patternRefusal(pattern, 'unicode'), null, pattern)
})

t.test('the ranges of tilde and caret accept a wildcard as the last of three parts', async (t) => {
  const rows: readonly (readonly [
    operator: string,
    range: string,
    version: string,
    passes: boolean,
  ])[] = [
    ['tilde', '1.2.x', '1.2.9', true],
    ['tilde', '1.2.*', '1.3.0', false],
    ['tilde', '1.x.x', '1.9.0', true],
    ['tilde', '1.X.*', '2.0.0', false],
    ['tilde', '1.2.x', '1.2.3-rc', false],
    ['caret', '1.2.x', '1.9.0', true],
    ['caret', '1.2.*', '1.1.9', false],
    ['caret', '0.2.x', '0.2.7', true],
    ['caret', '0.2.x', '0.3.0', false],
    ['caret', '0.0.x', '0.0.9', true],
    ['caret', '0.0.x', '0.1.0', false],
    ['caret', '0.x.x', '0.9.9', true],
    ['caret', '0.x.x', '1.0.0', false],
    ['tilde', '1.x', '1.0.0', false],
    ['tilde', '1.x.3', '1.9.3', false],
    ['tilde', 'x.x.x', '1.0.0', false],
    ['caret', '1.2.x-rc', '1.2.3', false],
    ['eq', '1.2.x', '1.2.0', false],
  ]
  const wrong = rows.filter(
    ([operator, range, version, passes]) =>
      flagPropertyTest(`semver_${operator}`, range, 'UTC')(version) !== passes,
  )
  t.strictSame(wrong, [])
})

t.test('a value that is not a version is refused where a version is needed', async (t) => {
  const reasonOf = (operator: string, value: unknown) => {
    const filter = { key: 'app', type: 'person', operator: `semver_${operator}`, value }
    return flagFaults({ groups: [{ properties: [filter] }] })[0]?.reason ?? null
  }
  const refused: readonly (readonly [operator: string, value: unknown])[] = [
    ['eq', 'latest'],
    ['neq', ''],
    ['gt', '>=1.2.0'],
    ['gte', '1.2.x'],
    ['lt', ['1.2.3']],
    ['lte', true],
    ['tilde', '~1.2.3'],
    ['tilde', '1.x'],
    ['caret', '^1.2.3'],
    ['wildcard', '>=1.2.0, <2.0.0'],
    ['wildcard', '1.2.3 || 2.0.0'],
    ['wildcard', '1.*.3'],
    ['wildcard', '1.2.3.4'],
  ]
  for (const [operator, value] of refused) {
    const what = JSON.stringify([operator, value])
    t.match(reasonOf(operator, value), /which is not a version\. Use one such as/, what)
  }
  t.match(reasonOf('gt', null), /has no version/)
  for (const [operator, value] of [
    ['eq', '1'],
    ['eq', 'v1.2.3-rc.1+b'],
    ['gt', 3],
    ['gt', 2.5],
    ['tilde', '1.2.x'],
    ['caret', '3.08'],
    ['wildcard', '*'],
    ['wildcard', '1.2'],
  ] as const) {
    t.equal(reasonOf(operator, value), null, `${operator} ${value}`)
  }
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

t.test('the patterns of a flag are found in all of its conditions', async (t) => {
  const filterOf = (value: string) => ({ key: 'path', operator: 'regex', value })
  const condition = (value: string) => ({ properties: [filterOf(value)] })
  const whole = { groups: [condition('^a'), condition('^b')], super_groups: [condition('^c')] }
  t.strictSame(uncheckedPatterns(whole), ['^a', '^b', '^c'])
  // Filters without `groups` are a single condition themselves.
  t.strictSame(uncheckedPatterns(condition('^d')), ['^d'])
  flagFaults(whole)
  t.strictSame(uncheckedPatterns(whole), [], 'they are compiled now')
})
