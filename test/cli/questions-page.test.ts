/**
 * Every request in docs/QUESTIONS.md is answered, and every command prints its output, as shown on the page.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

const PAGE = readFileSync(new URL('../../docs/QUESTIONS.md', import.meta.url), 'utf8')

/** The code blocks of the page in their order, with the language of each. */
const BLOCKS = [...PAGE.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => {
  return { language, text: text ?? '' }
})

interface Answer {
  readonly results: unknown
}

t.test('the requests and commands of the page work as shown', async (t) => {
  const daemon = await spawnDaemon({ dataDir: join(t.testdir(), 'data') })
  t.teardown(() => daemon.stop())
  const events =
    BLOCKS.find(({ language }) => language === 'ndjson')
      ?.text.trim()
      .split('\n') ?? []
  const batch = events.map((line): unknown => JSON.parse(line))
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  t.equal((await fetch(`${daemon.url}/batch/`, { method: 'POST', body })).status, 200)
  const ask = async (query: string): Promise<Answer> => {
    const response = await fetch(`${daemon.url}/api/projects/1/query/`, {
      method: 'POST',
      headers: { authorization: `Bearer ${PERSONAL_KEY}`, 'content-type': 'application/json' },
      body: query,
    })
    t.equal(response.status, 200, query)
    return (await response.json()) as Answer
  }
  const counted =
    '{"query": {"kind": "EventsQuery", "select": ["count()"], "after": "2024-05-01", "before": "2024-06-01"}}'
  const areStored = async (): Promise<boolean> =>
    JSON.stringify((await ask(counted)).results) === JSON.stringify([[events.length]])
  t.ok(await eventually(areStored))

  let [requests, commands] = [0, 0]
  for (const [index, { language, text }] of BLOCKS.entries()) {
    if (language === 'json' && text.startsWith('{"query"')) {
      const { results } = await ask(text)
      t.strictSame({ results }, JSON.parse(BLOCKS[index + 1]?.text ?? ''), text)
      requests++
    }
    if (language === 'console') {
      const [line = '', ...printed] = text.split('\n')
      const words = (line.match(/'[^']*'|\S+/g) ?? [])
        .slice(2)
        .map((word) => word.replaceAll("'", ''))
      const remote = ['--base-url', daemon.url, '--personal-key', PERSONAL_KEY]
      const { exitCode, out } = await runCommand(...words, ...remote)
      t.equal(exitCode, 0, line)
      t.equal(out.trimEnd(), printed.join('\n').trimEnd(), line)
      commands++
    }
  }
  t.ok(requests > 10 && commands > 7, 'the page has every kind of question')
})
