/**
 * Imports into servers that are busy, limited or not Tenrec at all: an import waits, stops or reports, and never counts
 * an event as sent that is not stored.
 *
 * @lane quick
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { runCommand as run } from '../fixtures/command-line.ts'
import { serveImports, stopImportServers } from '../fixtures/import-server.ts'

t.teardown(stopImportServers)

function fileWith(directory: string, events: number): string {
  const file = join(directory, 'events.ndjson')
  const lines = Array.from({ length: events }, (_, index) => {
    return `{"event":"e${index}","distinct_id":"d","timestamp":"2024-05-01T00:00:00Z"}\n`
  })
  writeFileSync(file, lines.join(''))
  return file
}

t.test('an import waits while a server is busy, limited or restarting', async (t) => {
  const file = fileWith(t.testdir({}), 3)
  const busy = [429, 503, 502, 504, 500, 408, 425].map((status) => ({ status, text: 'busy' }))
  const past = { status: 429, retryAfter: '-1' }
  const { accepted, target } = await serveImports([...busy, past])
  t.match(await run('import', file, ...target), { exitCode: 0, err: /3 events sent\n/ })
  t.strictSame(
    accepted.map(({ length }) => length),
    [3],
    'each event is sent once',
  )
})

t.test(
  'a refused event in the middle is reported, while the server is busy in between',
  async (t) => {
    const file = fileWith(t.testdir({}), 4)
    const { accepted, target } = await serveImports([
      { status: 413, text: 'too large' },
      { status: 429 },
      { status: 200 },
      { status: 403, text: 'firewall' },
      { status: 503 },
      { status: 406, text: 'unusable' },
    ])
    const { exitCode, err } = await run('import', file, ...target)
    t.equal(exitCode, 3)
    t.match(err, /ndjson:3: left out: the daemon answered 406: unusable\n/)
    t.match(err, /3 events sent, 1 left out/)
    t.strictSame(
      accepted.map(({ length }) => length),
      [2, 1],
    )
  },
)

t.test('events beyond a daily limit do not count as sent', async (t) => {
  const file = fileWith(t.testdir({}), 20_001)
  const limited = '{"status":1,"quota_limited":["events"]}'
  const { target } = await serveImports([{ status: 200 }, { status: 200, text: limited }])
  const first = await run('import', file, ...target)
  t.match(first, { exitCode: 1, err: /daily limit of the project is reached.*--resume/ })
  const next = await serveImports([])
  t.match(await run('import', file, '--resume', ...next.target), {
    exitCode: 0,
    err: /10,001 events sent\n/,
  })
})

t.test('a server that is not Tenrec does not count as one that stored the events', async (t) => {
  const file = fileWith(t.testdir({}), 3)
  for (const text of ['<!doctype html><title>Shop</title>', '', '[]', '{"ok":true}']) {
    const { target } = await serveImports([{ status: 200, text }])
    t.match(await run('import', file, ...target), { exitCode: 1, err: /Check --base-url/ }, text)
  }
  const { target } = await serveImports([{ status: 404, text: 'no such page' }])
  t.match(await run('import', file, ...target), { exitCode: 1, err: /answered 404: no such page/ })
})

t.test('a line with many events is sent in several requests', async (t) => {
  const root = t.testdir({ 'page.json': '', 'page.json.imported': '7\n' })
  const results = Array.from({ length: 25_000 }, (_, index) => {
    const text = index < 3 ? 'x'.repeat(900_000) : ''
    return { event: `e${index}`, distinct_id: 'd', timestamp: 1714566605, properties: { text } }
  })
  const line = '{"event":"last","distinct_id":"d","timestamp":1714566605}'
  writeFileSync(join(root, 'page.json'), `${JSON.stringify({ results })}\n${line}\n`)
  const { accepted, target } = await serveImports()
  // Notes of earlier imports may be among the files that a shell expands.
  const files = [join(root, 'page.json.imported'), join(root, 'page.json')]
  t.match(await run('import', ...files, ...target), { exitCode: 0, err: /25,001 events sent\n/ })
  t.strictSame(
    accepted.flat().map(({ event }) => event),
    [...results.map(({ event }) => event), 'last'],
    'in the order of the line',
  )
  t.ok(accepted.length > 3 && accepted.every((batch) => batch.length <= 10_000))
})
