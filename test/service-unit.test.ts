/**
 * The files of systemd/: the unit keeps its promises, the example names every setting; and the way of
 * docs/OPERATIONS.md is the one that .ci/try-systemd goes.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { CONFIG_VARIABLE, SETTING_NAMES, SETTINGS } from '../src/config/settings-table.ts'

interface Entry {
  readonly comment: string
  readonly variable: string
  readonly value: string
}

/** The paragraphs of the example that end in a commented assignment. */
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

/** Directive -> its values, over all sections of the unit. */
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

t.test('the example says of each setting what the table says', async (t) => {
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

t.test('the unit waits for readiness, watches, and does not repeat what cannot help', async (t) => {
  const unit = readUnit()
  t.strictSame(unit.get('Type'), ['notify'])
  t.strictSame(unit.get('WatchdogSignal'), ['SIGKILL'])
  t.strictSame(unit.get('RestartPreventExitStatus'), ['2 78'])
  const seconds = (name: string) => Number(unit.get(name)?.[0])
  t.ok(seconds('WatchdogSec') >= 20, 'longer than a stall that passes')
  t.ok(seconds('TimeoutStopSec') > 10, 'longer than the stop, which takes at most 10 s')
})

t.test('the unit lets headers be large and the engine compile', async (t) => {
  const unit = readUnit()
  t.ok(unit.get('Environment')?.includes('UWS_HTTP_MAX_HEADERS_SIZE=65536'))
  t.notOk(unit.has('MemoryDenyWriteExecute'), 'V8 writes the code that it runs')
})

t.test('the keys for the first start are found where the settings look', async (t) => {
  const names = SETTING_NAMES.map((name) => SETTINGS[name]).filter(({ isSecret }) => isSecret)
  const expected = names.map(({ fileKey }) => fileKey.replaceAll('_', '-'))
  const loaded = (readUnit().get('LoadCredential') ?? []).map((value) => value.split(':')[0])
  t.strictSame(loaded, expected)
})

/** The parts of docs/OPERATIONS.md that are looked up; what comes before them is the way. */
const FIRST_REFERENCE = 'Exit codes'

/** `[heading, language, number below the heading]` of every block of the way that can be run. */
function readWay(): readonly string[] {
  const blocks: string[] = []
  const counts = new Map<string, number>()
  let heading = ''
  let isInside = false
  for (const line of readFileSync('docs/OPERATIONS.md', 'utf8').split('\n')) {
    if (line.startsWith('## ')) heading = line.slice(3)
    if (heading === FIRST_REFERENCE) break
    if (line.startsWith('```') && !isInside && line !== '```text' && line !== '```json') {
      const key = `${heading} ${line.slice(3)}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
      blocks.push(`${key} ${counts.get(key)}`)
    }
    if (line.startsWith('```')) isInside = !isInside
  }
  return blocks
}

t.test('the trial of the way runs each of its blocks', async (t) => {
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
