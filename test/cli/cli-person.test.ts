/**
 * `tenrec person` with and without a running daemon, and `tenrec event why`.
 *
 * @lane quick
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { type Outcome, runCommand as run, runAnswering } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { send } from '../fixtures/exact-client.ts'
import { eventInput, openWriter, uuidOf } from '../fixtures/stored-events.ts'

function rows(outcome: Outcome): readonly Record<string, unknown>[] {
  const lines = outcome.out.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

async function capture(url: string, ...events: readonly object[]): Promise<void> {
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch: events })
  const { status } = await send(`${url}/batch/`, { method: 'POST', body })
  if (status !== 200) throw new Error(`the batch was refused with ${status}`)
}

async function untilListed(dataDir: string, distinctId: string): Promise<void> {
  for (let attempt = 0; attempt < 3000; attempt++) {
    const listed = await run('person', 'list', '--data-dir', dataDir, '--distinct-id', distinctId)
    if (listed.out !== '') return
    await sleep(20)
  }
  throw new Error(`nobody has the id ${distinctId}`)
}

t.test('persons are listed, shown, merged, split and deleted', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  const ann = { event: 'a', distinct_id: 'ann', properties: { $set: { email: 'ann@x.example' } } }
  await capture(
    daemon.url,
    ann,
    { event: 'a', distinct_id: 'bob' },
    { event: 'a', distinct_id: '2' },
  )
  await untilListed(dataDir, '2')
  const beside = ['--data-dir', dataDir]
  const remote = [...beside, '--base-url', daemon.url, '--personal-key', PERSONAL_KEY]

  for (const where of [beside, remote]) {
    const listed = rows(await run('person', 'list', '--json', ...where))
    t.strictSame(listed.map(({ name }) => name).sort(), ['2', 'ann@x.example', 'bob'])
    const found = rows(await run('person', 'list', '--search', 'ANN@', '--json', ...where))
    t.equal(found.length, 1)
    t.equal(rows(await run('person', 'list', '--limit', '1', '--json', ...where)).length, 1)
    const [shown] = rows(await run('person', 'show', 'ann', '--json', ...where))
    t.match(shown, { name: 'ann@x.example', distinct_ids: ['ann'] })
    for (const name of [String(shown?.['id']), String(shown?.['uuid']).toUpperCase()]) {
      t.strictSame(rows(await run('person', 'show', name, '--json', ...where)), [shown])
    }
    const nobody = await run('person', 'show', 'nobody', ...where)
    t.match(nobody, { exitCode: 1, out: '', err: 'tenrec: There is no such person.\n' })
  }
  const table = await run('person', 'list', ...beside)
  t.match(table.out, /^id +uuid +name +created_at +distinct_ids$/m)
  t.match((await run('person', 'show', 'ann', ...beside)).out, /^ {2}"name": "ann@x.example",$/m)

  const unasked = await run('person', 'merge', 'ann', 'bob', ...beside)
  t.match(unasked, { exitCode: 2, out: '', err: /cannot be undone.*--dry-run.*--yes/ })
  const dry = await run('person', 'merge', 'ann', 'bob', '--dry-run', '--json', ...beside)
  t.match(dry, { exitCode: 0, err: /Nothing was changed/ })
  const both = rows(await run('person', 'list', '--json', ...beside))
  t.equal(both.length, 3, 'no persons were merged')
  for (const [answer, exitCode] of [
    ['', 1],
    ['no', 1],
  ] as const) {
    const asked = await runAnswering(answer, 'person', 'merge', 'ann', 'bob', ...beside)
    t.match(asked, { exitCode, out: '', err: /Nothing was changed/ })
    t.match(
      asked.err,
      /ann@x\.example .*: 1 properties, 1 ids: ann\nreceives everything of\n *bob .*: bob\n/,
    )
  }
  t.equal(rows(await run('person', 'list', '--json', ...beside)).length, 3)
  const merged = await runAnswering('y', 'person', 'merge', 'ann', 'bob', '--json', ...beside)
  t.match(merged, { exitCode: 0 })
  t.strictSame(rows(dry), rows(merged), 'a dry run shows the result')
  t.match(rows(merged), [{ name: 'ann@x.example', distinct_ids: ['ann', 'bob'] }])
  const again = await run('person', 'merge', 'ann', 'bob', '--yes', ...beside)
  t.match(again, { exitCode: 1, err: /itself/ })
  const alone = await run('person', 'merge', 'ann', 'nobody', '--yes', ...beside)
  t.match(alone, { exitCode: 1, err: /FROM: nobody/ })
  const wrong = await run('person', 'split', 'ann', '--keep', 'z', ...beside)
  t.match(wrong, { exitCode: 1, err: /answered 400: `main_distinct_id`/ })
  const split = await run('person', 'split', 'ann', '--keep', 'bob', '--json', ...beside)
  t.match(rows(split), [{ distinct_ids: ['bob'], properties: { email: 'ann@x.example' } }])
  const deleted = await run('person', 'delete', 'bob', ...beside)
  t.match(deleted, { exitCode: 0, out: '', err: /^Deleted person [0-9a-f-]{36}\.\n$/ })
  t.match(await run('person', 'show', 'bob', ...beside), { exitCode: 1 })
  t.match(await run('person', 'delete', 'bob', ...remote), { exitCode: 1 })

  const foreign = [...beside, '--base-url', daemon.url, '--personal-key', 'phx_other']
  t.match(await run('person', 'delete', '2', ...foreign), { exitCode: 1, err: /answered 401/ })
  const keyless = await run('person', 'delete', '2', ...beside, '--base-url', daemon.url)
  t.match(
    keyless,
    { exitCode: 1, err: /--personal-key/ },
    'a stored key is sent only to its own daemon',
  )
  rmSync(join(dataDir, 'credentials.json'))
  t.match(await run('person', 'delete', '2', ...beside), { exitCode: 1, err: /--base-url/ })
  await daemon.stop()
  t.match(await run('person', 'delete', '2', ...remote), { exitCode: 1, err: /daemon running/ })
  t.equal(rows(await run('person', 'list', '--json', ...beside)).length, 2, 'the daemon is stopped')
})

t.test('invalid use of the person commands is refused', async (t) => {
  for (const [words, message] of [
    [['person'], /list, show, merge, split, delete/],
    [['person', 'show'], /PERSON is missing/],
    [['person', 'merge', 'a'], /FROM is missing/],
    [['person', 'list', '--limit', 'x'], /not a number/],
    [['person', 'split', 'a', '--keep='], /--keep needs/],
    [['event', 'why', 'x'], /not a UUID/],
  ] as const) {
    t.match(await run(...words), { exitCode: 2, out: '', err: message })
  }
})

async function initialized(t: Test): Promise<string> {
  const dataDir = join(t.testdir(), 'data')
  const { exitCode, err } = await run('init', '--data-dir', dataDir)
  if (exitCode !== 0) throw new Error(err)
  return dataDir
}

async function appendToLog(dataDir: string, uuid: Uint8Array, projectId = 1): Promise<number> {
  const log = new LogAppender({ dataDir, processed: 0 })
  const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(64))
  const header = { projectId, flags: 0, arrivedAtMs: 1, sentAtMs: Number.NaN, address: '' }
  writer.add(header, new ParsedEvents(['{"event":""}'], [uuid]))
  const sequence = log.append([writer.finish()], 0)
  await log.close()
  return sequence
}

t.test('event why reports the outcome of an event', async (t) => {
  const dataDir = await initialized(t)
  const why = async (number: number, ...words: readonly string[]) => {
    const uuid = formatUuid(uuidOf(number), 0)
    const outcome = await run('event', 'why', uuid, '--json', '--data-dir', dataDir, ...words)
    return { exitCode: outcome.exitCode, row: rows(outcome)[0] }
  }
  t.match(await why(1), { exitCode: 1, row: { fate: 'unknown' } })
  const sequence = await appendToLog(dataDir, uuidOf(5))
  t.match(await why(5), { exitCode: 0, row: { fate: 'waiting', block: sequence } })
  t.match(await why(5, '--project', '2'), { exitCode: 1, row: { fate: 'unknown' } })

  const writer = openWriter(t, dataDir)
  const warn = (number: number, type: 'message_size_too_large' | 'ignored_invalid_timestamp') => {
    const details = { uuid: formatUuid(uuidOf(number), 0), distinct_id: `d${number}` }
    writer.addWarning(1, 1_700_000_000_000, { type, details })
  }
  writer.add(eventInput({ uuid: uuidOf(1), name: 'bought', distinctId: 'ann' }))
  warn(1, 'ignored_invalid_timestamp')
  warn(2, 'message_size_too_large')
  const raw = Buffer.from(`{"uuid":"${formatUuid(uuidOf(3), 0).toUpperCase()}"}`)
  writer.addDeadLetter({ projectId: 1, step: 'process', reason: 'Error: odd', raw })
  writer.commit(sequence)

  t.match(await why(1), {
    exitCode: 0,
    row: {
      fate: 'stored',
      event: 'bought',
      distinct_id: 'ann',
      because: /duplicates/,
      warnings: ['ignored_invalid_timestamp'],
    },
  })
  t.match(await why(2), {
    exitCode: 0,
    row: { fate: 'skipped', because: 'properties_too_large', warning: 'message_size_too_large' },
  })
  t.match(await why(3), {
    exitCode: 0,
    row: { fate: 'dead_letter', step: 'process', letter: 1, because: /Error: odd/ },
  })
  t.match(await why(5), { exitCode: 0, row: { fate: 'skipped', because: /no name/ } })
  t.match(await why(3, '--project', '2'), { exitCode: 1, row: { fate: 'unknown' } })
  const text = await run('event', 'why', formatUuid(uuidOf(1), 0), '--data-dir', dataDir)
  t.match(text.out, /^fate +stored$/m)
})
