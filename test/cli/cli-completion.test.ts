/**
 * Compares shell completion and the manual page with the table of commands. The programs that read them are run: bash,
 * and also zsh, fish, man and mandoc if they are installed.
 *
 * @lane quick
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { allCommands } from '../../src/cli/commands.ts'
import { allOptions } from '../../src/cli/lib/command-options.ts'
import { SETTING_NAMES, SETTINGS } from '../../src/config/settings-table.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { Differences } from '../fixtures/differences.ts'

const COMMANDS = await allCommands()

function has(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}

/** Returns the output of a program. Throws if the program fails. */
function readFrom(program: string, words: readonly string[], env = process.env): string {
  return execFileSync(program, words, { encoding: 'utf8', env })
}

/** Returns the exit status of a program that checks a file. */
function complaints(program: string, words: readonly string[]) {
  return spawnSync(program, words, { encoding: 'utf8' })
}

async function print(...words: readonly string[]): Promise<string> {
  const { exitCode, out, err } = await runCommand(...words)
  if (exitCode !== 0 || err !== '') throw new Error(err)
  return out
}

async function writeScript(t: Test, shell: string): Promise<string> {
  const path = join(t.testdir(), `tenrec.${shell}`)
  writeFileSync(path, await print('completion', shell))
  return path
}

/** Asks bash for the completions of each of these lines. The last word is the one under the cursor. */
function completeInBash(path: string, lines: readonly (readonly string[])[]): readonly string[][] {
  const script = [
    'set -u',
    `. '${path}'`,
    ...lines.map((words) => {
      const list = words.map((word) => `'${word}'`).join(' ')
      return `COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _tenrec; echo "\${COMPREPLY[*]-}"`
    }),
  ].join('\n')
  const output = readFrom('bash', ['--norc', '-c', script])
  return output.split('\n').map((line) => line.split(' ').filter((word) => word !== ''))
}

t.test('bash completes every command and every option', async (t) => {
  const path = await writeScript(t, 'bash')
  const firsts = new Set(COMMANDS.map(({ name }) => name.split(' ')[0]))
  const grouped = COMMANDS.filter(({ name }) => name.includes(' '))
  const lines = [
    ['tenrec', ''],
    ...COMMANDS.map(({ name }) => ['tenrec', ...name.split(' '), '--']),
    ...grouped.map(({ name }) => ['tenrec', name.split(' ')[0] ?? '', '']),
  ]
  const offered = completeInBash(path, lines)
  t.strictSame([...(offered[0] ?? [])].sort(), [...firsts].sort())
  const differences = new Differences()
  for (const [index, command] of COMMANDS.entries()) {
    const flags = allOptions(command).map(({ flag }) => flag)
    differences.same(offered[index + 1], flags, command.name)
  }
  for (const [index, { name }] of grouped.entries()) {
    const second = name.split(' ')[1] ?? ''
    differences.ok(offered[index + 1 + COMMANDS.length]?.includes(second), name)
  }
  t.strictSame(differences.list(), [], 'every command and its options are offered')
})

t.test('bash completes values and leaves file names to its own completion', async (t) => {
  const path = await writeScript(t, 'bash')
  const offered = completeInBash(path, [
    ['tenrec', 'serve', '--durability', ''],
    ['tenrec', 'serve', '--durability', 'fs'],
    ['tenrec', 'serve', '--data-dir', ''],
    ['tenrec', 'project', 'cr'],
    ['tenrec', 'completion', ''],
    ['tenrec', 'help', 'ser'],
    ['tenrec', 'nothing', ''],
    ['tenrec', 'serve', '--get'],
    ['tenrec', 'serve', '--no-get'],
    ['tenrec', 'backup', 'li'],
    ['tenrec', 'key', 'create', '--scopes', 'event:'],
  ])
  t.strictSame(offered.slice(0, 11), [
    ['fsync', 'commit', 'replicated'],
    ['fsync'],
    [],
    ['create'],
    ['--help', 'bash', 'zsh', 'fish'],
    ['serve'],
    [],
    ['--get-capture'],
    ['--no-get-capture'],
    ['list'],
    ['event:read', 'event:write'],
  ])
})

for (const shell of ['zsh', 'fish']) {
  t.test(`the script for ${shell} is valid and contains every option`, async (t) => {
    const path = await writeScript(t, shell)
    const text = await print('completion', shell)
    const differences = new Differences()
    for (const command of COMMANDS) {
      for (const word of command.name.split(' ')) differences.ok(text.includes(word), word)
      for (const { flag } of allOptions(command)) {
        const written = shell === 'fish' ? `-l ${flag.slice(2)} ` : `'${flag}:`
        differences.ok(text.includes(written), `${command.name} ${flag}`)
      }
    }
    t.strictSame(differences.list(), [], 'the script names every command and every option')
    if (!has(shell)) return
    const checked = spawnSync(shell, ['-n', path], { encoding: 'utf8' })
    t.equal(checked.status, 0, checked.stderr)
  })
}

t.test(
  'fish offers the same completions as bash',
  { skip: has('fish') ? false : 'no fish here' },
  async (t) => {
    const path = await writeScript(t, 'fish')
    const complete = (line: string): readonly string[] => {
      const script = `source '${path}'; complete -C '${line}'`
      const output = readFrom('fish', ['--no-config', '-c', script])
      const words = output.split('\n').map((row) => row.split('\t')[0] ?? '')
      return words.filter((word) => word !== '').sort()
    }
    t.strictSame(complete('tenrec project cr'), ['create'])
    t.strictSame(complete('tenrec serve --durability '), ['commit', 'fsync'])
    const create = COMMANDS.find(({ name }) => name === 'project create')
    const flags = create === undefined ? [] : allOptions(create).map(({ flag }) => flag)
    t.strictSame(complete('tenrec project create --'), [...flags].sort())
  },
)

t.test('an unknown shell is refused, and the message lists the known ones', async (t) => {
  const { exitCode, err } = await runCommand('completion', 'tcsh')
  t.equal(exitCode, 2)
  t.match(err, /bash, zsh, fish/)
})

const STRUCK = new RegExp(`.${String.fromCharCode(8)}`, 'gu')

/** Returns the page as a reader sees it. */
function rendered(path: string): string {
  const program = has('mandoc') ? 'mandoc' : 'man'
  const words = program === 'mandoc' ? ['-T', 'utf8', '-O', 'width=400', path] : ['-l', path]
  const env = { ...process.env, MANWIDTH: '400', MANPAGER: 'cat', LC_ALL: 'C.UTF-8' }
  const output = readFrom(program, words, env)
  // On such a terminal bold letters are printed twice, and hyphens may be other characters.
  return output.replace(STRUCK, '').replace(/[\u2010\u2212]/gu, '-')
}

t.test(
  'the manual page contains every command, option and setting and has no errors',
  async (t) => {
    const text = await print('man')
    const path = join(t.testdir(), 'tenrec.1')
    writeFileSync(path, text)
    t.match(text, /^\.TH TENREC 1 \d{4}-\d\d-\d\d /)
    t.notMatch(text, /[^\x20-\x7e\n]/, 'only ASCII')
    t.notMatch(text, /^\.(?!TH|SH|SS|TP|PP|BR?\b|I\b|RI\b)/m, 'only known requests')
    const plain = text.replaceAll('\\-', '-').replaceAll(/\\f[BIR]/g, '')
    const differences = new Differences()
    for (const command of COMMANDS) {
      differences.ok(plain.includes(`.SS "tenrec ${command.name}`), command.name)
      const start = plain.indexOf(`.SS "tenrec ${command.name}`)
      const end = plain.indexOf('\n.S', start + 1)
      const section = plain.slice(start, end < 0 ? undefined : end)
      for (const { flag } of allOptions(command)) {
        if (flag.startsWith('--no-')) continue
        const isNamed = new RegExp(`${flag}(?![\\w-])`).test(section)
        differences.ok(isNamed, `${command.name} ${flag}`)
      }
    }
    for (const name of SETTING_NAMES) {
      const { flag, variable } = SETTINGS[name]
      differences.ok(plain.includes(variable), variable)
      if (flag === null) continue
      differences.ok(new RegExp(`^--${flag}( |$)`, 'm').test(plain), `--${flag}`)
    }
    t.strictSame(differences.list(), [], 'the page has every command, option and setting')
    if (has('mandoc')) {
      const lint = complaints('mandoc', ['-T', 'lint', '-W', 'warning', path])
      t.equal(lint.stdout, '')
      t.equal(lint.status, 0)
    }
    if (has('groff')) {
      const words = ['-man', '-ww', '-z', '-T', 'utf8', path]
      t.equal(complaints('groff', words).stderr, '')
    }
    if (!has('mandoc') && !has('man')) return
    const shown = rendered(path)
    t.match(shown, 'events, persons and feature flags in one process')
    const names = COMMANDS.map(({ name }) => name)
    t.strictSame(
      names.filter((name) => !shown.includes(`tenrec ${name}`)),
      [],
      'the page shows every command',
    )
    t.match(shown, /^ *--durability \S+$/m)
  },
)

t.test('both commands are listed in the help', async (t) => {
  const help = await print('help')
  t.match(help, /^ {2}completion /m)
  t.match(help, /^ {2}man /m)
  t.ok(linesOf(await runCommand('version', '--json')).length === 1)
})
