/** Lines of the log, as the journal of systemd and everybody else get them. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const LOG = fileURLToPath(new URL('../src/base/log.ts', import.meta.url))
const LOADER = fileURLToPath(new URL('../.ci/loader.mjs', import.meta.url))
const PROGRAM = `
  import { createLogger } from ${JSON.stringify(LOG)}
  const log = createLogger({ level: 'trace', format: 'json' })
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) log[level](level)
`

/** What the program above writes when `JOURNAL_STREAM` names its stdout, or something else. */
function linesOf(journalStream: string): readonly string[] {
  const script = `exec 3>&1; export JOURNAL_STREAM=${journalStream}; exec "$@"`
  const program = [process.execPath, '--import', LOADER, '--input-type=module', '-e', PROGRAM]
  const child = spawnSync('sh', ['-c', script, 'sh', ...program], { encoding: 'utf8' })
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

t.test('anywhere else a line is JSON from its first byte', async (t) => {
  const lines = linesOf('1:1')
  t.equal(lines.length, 6)
  for (const line of lines) t.ok(messageOf(line))
})
