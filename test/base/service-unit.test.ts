/**
 * Tests the files of systemd/: the unit has the documented properties, and the example names every setting.
 * docs/OPERATIONS.md contains the steps that .ci/try-systemd runs, and docs/CLUSTER.md those that .ci/try-cluster runs.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CONFIG_VARIABLE, SETTING_NAMES, SETTINGS } from '../../src/config/settings-table.ts'

interface Entry {
  readonly comment: string
  readonly variable: string
  readonly value: string
}

/** The paragraphs of the example that end with a commented assignment. */
function readExample(): readonly Entry[] {
  const entries: Entry[] = []
  for (const paragraph of readFileSync('systemd/tenrec.env.example', 'utf8').split(/\n\n+/)) {
    const lines = paragraph.split('\n').filter((line) => line !== '')
    const assignment = /^#([A-Z_]+)=(.*)$/.exec(lines.at(-1) ?? '')
    if (assignment === null) continue
    const [, variable = '', value = ''] = assignment
    const comment = lines
      .slice(0, -1)
      .map((line) => line.replace(/^# ?/, ''))
      .join(' ')
    entries.push({ comment, variable, value })
  }
  return entries
}

/** Maps each directive to its values, over all sections of the unit. */
function readUnit(): ReadonlyMap<string, readonly string[]> {
  const directives = new Map<string, string[]>()
  for (const line of readFileSync('systemd/tenrec.service', 'utf8').split('\n')) {
    const match = /^([A-Za-z]+)=(.*)$/.exec(line)
    if (match === null) continue
    const [, name = '', value = ''] = match
    directives.set(name, [...(directives.get(name) ?? []), value])
  }
  return directives
}

t.test('the example names every setting once, in the order of the table', async (t) => {
  t.strictSame(
    readExample().map(({ variable }) => variable),
    [CONFIG_VARIABLE, ...SETTING_NAMES.map((name) => SETTINGS[name].variable)],
  )
})

t.test('the example describes each setting as the table does', async (t) => {
  const byVariable = new Map(readExample().map((entry) => [entry.variable, entry]))
  for (const name of SETTING_NAMES) {
    const { variable, sentence } = SETTINGS[name]
    const comment = byVariable.get(variable)?.comment ?? ''
    t.ok(comment.startsWith(sentence.replaceAll('`', '')), `${variable}: ${comment}`)
  }
})

t.test('every value of the example is allowed', async (t) => {
  const byVariable = new Map(readExample().map((entry) => [entry.variable, entry]))
  for (const name of SETTING_NAMES) {
    const { variable, kind } = SETTINGS[name]
    t.not(kind.parse(byVariable.get(variable)?.value), undefined, variable)
  }
})

t.test('every setting is commented out', async (t) => {
  const lines = readFileSync('systemd/tenrec.env.example', 'utf8').split('\n')
  t.strictSame(
    lines.filter((line) => line !== '' && !line.startsWith('#')),
    [],
  )
})

t.test('the unit waits for readiness, has a watchdog, and does not restart in vain', async (t) => {
  const unit = readUnit()
  t.strictSame(unit.get('Type'), ['notify'])
  t.strictSame(unit.get('WatchdogSignal'), ['SIGKILL'])
  t.strictSame(unit.get('RestartPreventExitStatus'), ['2 78'])
  const seconds = (name: string) => Number(unit.get(name)?.[0])
  t.ok(seconds('WatchdogSec') >= 20, 'longer than a temporary stall')
  t.ok(seconds('TimeoutStopSec') > 10, 'longer than the stop, which takes at most 10 s')
})

t.test('the unit allows large headers and the code generation of the engine', async (t) => {
  const unit = readUnit()
  t.ok(unit.get('Environment')?.includes('UWS_HTTP_MAX_HEADERS_SIZE=65536'))
  t.notOk(unit.has('MemoryDenyWriteExecute'), 'V8 writes the code that it runs')
})

t.test('the keys for the first start are where the settings look for them', async (t) => {
  const names = SETTING_NAMES.map((name) => SETTINGS[name]).filter(({ isSecret }) => isSecret)
  const expected = names.map(({ fileKey }) => fileKey.replaceAll('_', '-'))
  const loaded = (readUnit().get('LoadCredential') ?? []).map((value) => value.split(':')[0])
  t.strictSame(loaded, expected)
})

t.test('the command of the Debian package has the settings of the service', async (t) => {
  const folder = t.testdir({
    'tenrec.env': [
      '# TENREC_HOST=no',
      'TENREC_DATA_DIR=/srv/old',
      'TENREC_DATA_DIR="/srv/a b"  ',
      "TENREC_PUBLIC_URL='http://x/?$HOME'",
      'TENREC_PORT=81',
      'TENREC_$(touch bad)=1',
      'LANG=C',
    ].join('\n'),
  })
  const script = readFileSync('.ci/debian-tenrec', 'utf8')
    .replace('/etc/tenrec/tenrec.env', '$FILE')
    .replace(/^exec node .*$/m, 'env; echo "words: $*"')
  const run = (
    file: string,
    own: Readonly<Record<string, string>>,
    ...words: readonly string[]
  ) => {
    const env = { PATH: process.env['PATH'] ?? '', FILE: join(folder, file), ...own }
    const out = execFileSync('sh', ['-c', script, 'tenrec', ...words], { cwd: folder, env })
    const lines = out.toString().split('\n')
    return lines.filter((line) => /^(TENREC_|LANG=|words)/.test(line)).sort()
  }
  t.strictSame(run('tenrec.env', { TENREC_PORT: '82' }, 'event', 'list'), [
    'TENREC_DATA_DIR=/srv/a b',
    'TENREC_PORT=82',
    'TENREC_PUBLIC_URL=http://x/?$HOME',
    'words: event list',
  ])
  t.strictSame(readdirSync(folder), ['tenrec.env'], 'nothing in the file is run')
  const usual = readUnit()
    .get('Environment')
    ?.find((line) => line.startsWith('TENREC_DATA_DIR='))
  t.strictSame(run('none', {}), [usual, 'words: '], 'the directory of the unit')
  t.strictSame(run('none', {}, 'serve', '--config', 'x'), ['words: serve --config x'])
  t.strictSame(run('none', { TENREC_CONFIG: 'x' }), ['TENREC_CONFIG=x', 'words: '])
  const built = readFileSync('.ci/build-deb', 'utf8')
  t.match(built, 'install -m 0755 .ci/debian-tenrec "$root/usr/bin/tenrec"')
})

/** The reference sections of docs/OPERATIONS.md. The sections before them are the installation steps. */
const FIRST_REFERENCE = 'Exit codes'
/** Other ways to install, which this trial does not run: `.ci/try-image` tests the image, `.ci/run` the file. */
const OTHER_WAYS = ['Install as one file', 'Install as an image']

/** `[heading, language, number below the heading]` of every code block of the steps that can be run. */
function readWay(): readonly string[] {
  const blocks: string[] = []
  const counts = new Map<string, number>()
  let heading = ''
  let isInside = false
  for (const line of readFileSync('docs/OPERATIONS.md', 'utf8').split('\n')) {
    if (line.startsWith('## ')) heading = line.slice(3)
    if (heading === FIRST_REFERENCE) break
    const isOther = OTHER_WAYS.includes(heading) || line === '```text' || line === '```json'
    if (line.startsWith('```') && !isInside && !isOther) {
      const key = `${heading} ${line.slice(3)}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
      blocks.push(`${key} ${counts.get(key)}`)
    }
    if (line.startsWith('```')) isInside = !isInside
  }
  return blocks
}

t.test('the trial of the installation runs each of its blocks', async (t) => {
  const script = readFileSync('.ci/try-systemd', 'utf8')
  const named = new Set<string>()
  for (const [, heading = '', number = '1'] of script.matchAll(
    /^ *way '?([^'\n]+?)'?(?: (\d))?$/gm,
  )) {
    named.add(`${heading} sh ${number}`)
  }
  const BLOCK = /block (?:'([^']+)'|([A-Z]\w*)) ([a-z]+)(?: (\d))?[ ;]/g
  for (const [, quoted = '', plain = '', language = '', number = '1'] of script.matchAll(BLOCK)) {
    named.add(`${quoted}${plain} ${language} ${number}`)
  }
  t.strictSame([...named].sort(), [...readWay()].sort())
})

t.test('the trial of a cluster runs each block for systemd', async (t) => {
  const page = readFileSync('docs/CLUSTER.md', 'utf8')
  const section = page.split(/^##+ /m).find((part) => part.startsWith('Under systemd')) ?? ''
  const script = readFileSync('.ci/try-cluster', 'utf8')
  for (const [language, calls] of [
    ['sh', /^ *way "?\$?\w+"? (\d)$/gm],
    ['ini', /^ *block 'Under systemd' ini (\d)/gm],
  ] as const) {
    const blocks = [...section.matchAll(new RegExp(`^\`\`\`${language}$`, 'gm'))]
    const named = new Set([...script.matchAll(calls)].map(([, number]) => Number(number)))
    const all = blocks.map((_, index) => index + 1)
    t.ok(all.length > 1)
    t.strictSame([...named].sort(), all, language)
  }
})
