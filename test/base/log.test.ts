/**
 * Tests the lines of the program log, in the systemd journal and elsewhere.
 *
 * @lane quick
 */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const PROGRAM = `
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) log[level](level)
`
/** Texts that contain terminal control sequences, or look like a line of the log. */
const INJECTION = `
  const text = 'a\\n[00:00:00.000] INFO: forged\\r\\u001b[2J\\u009b1A\\u2028b'
  log.warn({ name: text, event: text, err: new Error(text) }, text)
`

/** Returns the output of a program with `JOURNAL_STREAM` set to its stdout, or to something else. */
function linesOf(journalStream: string, program = PROGRAM, format = 'json'): readonly string[] {
  const text = `
    import { createLogger } from ${sourceText('base/log')}
    const log = createLogger({ level: 'trace', format: '${format}' })
    ${program}`
  const script = `exec 3>&1; export JOURNAL_STREAM=${journalStream}; exec "$@"`
  const words = [process.execPath, ...SCRIPT_WORDS, text]
  const child = spawnSync('sh', ['-c', script, 'sh', ...words], { encoding: 'utf8' })
  return child.stdout.trim().split('\n')
}

function messageOf(line: string): string {
  return (JSON.parse(line) as { readonly msg: string }).msg
}

t.test('in the journal each line begins with the priority of its level', async (t) => {
  const lines = linesOf('$(stat -L -c %d:%i /proc/self/fd/3)')
  const rows = lines.map((line) => [line.slice(0, 3), messageOf(line.slice(3))])
  t.strictSame(rows, [
    ['<7>', 'trace'],
    ['<7>', 'debug'],
    ['<6>', 'info'],
    ['<4>', 'warn'],
    ['<3>', 'error'],
    ['<2>', 'fatal'],
  ])
})

t.test('elsewhere a line is JSON from its first byte', async (t) => {
  const lines = linesOf('1:1')
  t.equal(lines.length, 6)
  for (const line of lines) t.ok(messageOf(line))
})

t.test('the stack trace of an error names the sources', async (t) => {
  const map = { version: 3, sources: ['run.ts'], names: [], mappings: 'AAAA' }
  const root = t.testdir({ 'main.js.map': JSON.stringify(map) })
  const [line = ''] = linesOf(
    '1:1',
    `const err = new Error('no')
     err.stack = 'Error: no\\n    at ${root}/main.js:1:1'
     log.error({ err }, 'failed')`,
  )
  const { err } = JSON.parse(line) as { readonly err: { readonly stack: string } }
  t.equal(err.stack, `Error: no\n    at ${root}/run.ts:1:1`)
})

t.test('texts in a line neither begin a new line nor control a terminal', async (t) => {
  const [line = '', ...others] = linesOf('1:1', INJECTION)
  t.strictSame(others, [], 'JSON has one line')
  t.match(messageOf(line), /^a\n.*forged/)
  const pretty = linesOf('1:1', INJECTION, 'pretty')
  t.match(pretty[0], /WARN.*: a\\u000a\[00:00:00.000\] INFO: forged\\u000d\\u001b\[2J/)
  for (const shown of pretty.slice(1))
    t.match(shown, /^ /, 'only the first line starts in the first column')
  t.notMatch(pretty.join(''), /[\p{Cc}\u2028]/u)
})
