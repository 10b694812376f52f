/**
 * Tests dead letters: events that could not be processed are kept, and can be processed again or discarded.
 *
 * @lane quick
 */
import t from 'tap'
import { createLogger } from '../../src/base/log.ts'
import { loadSettings } from '../../src/config/settings.ts'
import { startDaemon } from '../../src/daemon.ts'
import { LogBlockWriter, ParsedEvents, seal } from '../../src/rules/capture/log-block.ts'
import type { DeadLetterCommand, DeadLetterOutcome } from '../../src/rules/events/dead-letters.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { DeadLetters } from '../../src/store/rejected/dead-letter-store.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { uuidOf } from '../fixtures/stored-events.ts'

const EVERYTHING = { after: 0, through: 0xffff_ffff }
const REPLAY: DeadLetterCommand = { kind: 'replay_dead_letters', ...EVERYTHING }
const DROP: DeadLetterCommand = { kind: 'drop_dead_letters', ...EVERYTHING }
const ARRIVED_MS = Date.UTC(2024, 0, 15, 12)
const ORIGIN = {
  flags: 0,
  arrivedAtMs: ARRIVED_MS,
  sentAtMs: Number.NaN,
  address: '203.0.113.9',
  uuid: uuidOf(7),
}

function textOf(name: string, more: object = {}): string {
  return JSON.stringify({ event: name, distinct_id: 'ann', properties: {}, ...more })
}

function outcomeOf(log: PersonLog, command: DeadLetterCommand): DeadLetterOutcome {
  const result = log.run(0, command)
  if (result.kind !== 'done' || result.letters === undefined) throw new Error(result.kind)
  return result.letters
}

/** Leaves letters in a store that is closed. */
async function withLetters(
  dataDir: string,
  add: (writer: ProcessingWriter) => void,
): Promise<void> {
  const writer = new ProcessingWriter({ dataDir })
  add(writer)
  writer.commit(writer.readPosition())
  await writer.close()
}

t.test('a failing event is kept with all its data, and others are processed', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [{ event: 'before', distinct_id: 'ann' }])
  log.sendText(1, '{"event":', uuidOf(1))
  log.send(1, [{ event: 'after', distinct_id: 'ann' }])
  log.process()
  const stored = log.reader.listEvents({ projectId: 1, limit: 10 }).results
  t.strictSame(stored.map(({ event }) => event).sort(), ['after', 'before'])
  const [letter, ...others] = [...log.reader.deadLetters()]
  t.match(letter, { number: 1, projectId: 1, step: 'process', reason: /SyntaxError/ })
  t.match(letter?.origin, { ...ORIGIN, address: '203.0.113.7', uuid: Buffer.from(uuidOf(1)) })
  t.equal(others.length, 0)
  const again = outcomeOf(log, REPLAY)
  t.match(again, { done: 0, failed: 1, last: 1, newest: 1, hasMore: false })
  t.match([...log.reader.deadLetters()], [{ number: 2, origin: { arrivedAtMs: ARRIVED_MS } }])
})

t.test('a replay stores an event as it would have been stored, once', async (t) => {
  const dataDir = t.testdir()
  const raw = Buffer.from(textOf('healed', { timestamp: '2024-01-15T11:00:00Z' }))
  const letter = { projectId: 3, step: 'process', reason: 'Error: a fault', raw, origin: ORIGIN }
  await withLetters(dataDir, (writer) => {
    writer.addDeadLetter(letter)
    writer.addDeadLetter(letter)
  })
  const log = new PersonLog(t, dataDir)
  t.match(outcomeOf(log, REPLAY), { done: 2, failed: 0, skipped: 0, last: 2 })
  const events = log.reader.listEvents({ projectId: 3, limit: 10 }).results
  t.match(events, [
    {
      event: 'healed',
      uuid: /^[0-9a-f-]{36}$/,
      timestamp: /^2024-01-15T11:00:00/,
      created_at: /^2024-01-15T12:00:00/,
      properties: { $ip: '203.0.113.9' },
    },
  ])
  t.equal(events.length, 1, 'the second one is a duplicate')
  t.strictSame([...log.reader.deadLetters()], [])
  t.match(outcomeOf(log, REPLAY), { done: 0, failed: 0, hasMore: false })
  t.equal(
    log.reader.persons().list({ projectId: 3, limit: 10, offset: 0, nowMs: Date.now() }).count,
    1,
  )
})

t.test('letters of old versions, blocks and commands are replayed', async (t) => {
  const dataDir = t.testdir()
  const block = new LogBlockWriter(Buffer.alloc(4096))
  const header = { projectId: 2, flags: 0, arrivedAtMs: ARRIVED_MS, sentAtMs: Number.NaN }
  block.add({ ...header, address: '' }, new ParsedEvents([textOf('a'), textOf('b')], [null, null]))
  const bytes = block.finish()
  seal(bytes)
  const uuid = '01900000-0000-7000-8000-00000000000a'
  await withLetters(dataDir, (writer) => {
    const reason = 'Error: x'
    writer.addDeadLetter({
      projectId: 1,
      step: 'process',
      reason,
      raw: Buffer.from(textOf('old', { uuid })),
    })
    writer.addDeadLetter({ projectId: 0, step: 'read', reason, raw: bytes })
    writer.addDeadLetter({ projectId: 0, step: 'read', reason, raw: Buffer.from('no block') })
    writer.addDeadLetter({ projectId: 1, step: 'command', reason, raw: Buffer.from('{}') })
  })
  const log = new PersonLog(t, dataDir)
  t.match(outcomeOf(log, REPLAY), { done: 2, failed: 1, skipped: 1, last: 4 })
  t.match(log.reader.listEvents({ projectId: 1, limit: 10 }).results, [{ event: 'old', uuid }])
  t.equal(log.reader.listEvents({ projectId: 2, limit: 10 }).results.length, 2)
  const left = [...log.reader.deadLetters()].map(({ number }) => number)
  t.strictSame(left, [3, 4], 'what was not replayed stays')
  t.match(outcomeOf(log, { ...DROP, through: 3 }), { done: 1, last: 3 })
  t.match(outcomeOf(log, DROP), { done: 1, last: 4 })
  t.strictSame([...log.reader.deadLetters()], [])
})

t.test('many letters are replayed by several commands, and each only once', async (t) => {
  const dataDir = t.testdir()
  await withLetters(dataDir, (writer) => {
    for (let n = 0; n < 450; n++) {
      const raw = Buffer.from(n % 2 === 0 ? '{"event":' : textOf('x'))
      const origin = { ...ORIGIN, uuid: uuidOf(n) }
      writer.addDeadLetter({ projectId: 1, step: 'process', reason: 'x', raw, origin })
    }
  })
  const log = new PersonLog(t, dataDir)
  let after = 0
  const outcomes: DeadLetterOutcome[] = []
  do {
    const outcome = outcomeOf(log, { ...REPLAY, after, through: 450 })
    outcomes.push(outcome)
    after = outcome.last
  } while (outcomes.at(-1)?.hasMore === true)
  t.equal(outcomes.length, 3)
  t.equal(
    outcomes.reduce((sum, { done }) => sum + done, 0),
    225,
  )
  t.equal(
    outcomes.reduce((sum, { failed }) => sum + failed, 0),
    225,
  )
  t.equal(log.reader.statistics().deadLetters, 225)
})

t.test('above the limits, the oldest letters are removed', async (t) => {
  const environment = new Environment({
    dataDir: t.testdir(),
    name: 'events',
    tables: ['dead_letters', 'state'],
  })
  const open = (lettersMax: number, bytesMax: number) =>
    new DeadLetters(
      environment.table('dead_letters'),
      environment.table('state'),
      lettersMax,
      bytesMax,
    )
  const add = (letters: DeadLetters, bytes: number) => {
    const raw = Buffer.alloc(bytes)
    letters.add({ projectId: 1, step: 'process', reason: 'x', raw }, 0)
    environment.write(() => letters.store())
  }
  const numbers = (letters: DeadLetters) =>
    [...letters.some(0, 0xffff, 1000)].map(({ number }) => number)
  const few = open(3, 1e9)
  for (let n = 0; n < 5; n++) add(few, 10)
  t.strictSame(numbers(few), [3, 4, 5])
  t.match(few.takeCounts(), { count: 3, forgotten: 2 })
  t.match(few.takeCounts(), { count: 3, forgotten: 0 })
  const small = open(100, 5000)
  for (let n = 0; n < 4; n++) add(small, 2000)
  t.strictSame(numbers(small), [8, 9], 'what was there before counts, too')
  add(small, 50_000)
  t.strictSame(numbers(small), [10], 'the newest is kept whatever its size')
  t.ok(small.takeCounts().bytes >= 50_000)
  small.remove(10)
  environment.write(() => small.store())
  t.match(small.takeCounts(), { count: 0, bytes: 0 })
  await environment.close()
})

t.test(
  'letters are replayed and discarded from the command line, through the daemon',
  async (t) => {
    const first = await startDecisions(t)
    await first.stop()
    const { dataDir } = first
    await withLetters(dataDir, (writer) => {
      for (const [index, text] of ['{', textOf('healed'), textOf('given up')].entries()) {
        const origin = { ...ORIGIN, uuid: uuidOf(index) }
        const raw = Buffer.from(text)
        writer.addDeadLetter({ projectId: 1, step: 'process', reason: 'Error: x', raw, origin })
      }
    })
    const settings = loadSettings({
      flags: new Map([
        ['data-dir', dataDir],
        ['port', '0'],
      ]),
      environment: {},
      machine: { coreCount: 2, isTerminal: false },
    })
    const daemon = await startDaemon(settings, {
      log: createLogger({ level: 'fatal', format: 'json' }),
    })
    t.teardown(() => daemon.stop())
    const run = (...words: readonly string[]) =>
      runCommand('dead-letter', ...words, '--data-dir', dataDir)
    const asked = (...words: readonly string[]) =>
      run(...words, '--base-url', daemon.url, '--personal-key', PERSONAL_KEY, '--json')
    const numbers = async () => linesOf(await run('list', '--json')).map(({ number }) => number)
    t.strictSame(await numbers(), [1, 2, 3])
    t.match(linesOf(await run('list', '--after', '1', '--limit', '1', '--raw', '--json')), [
      { number: 2, project: 1, step: 'process', reason: 'Error: x', raw: /healed/ },
    ])
    t.match(await asked('replay'), { exitCode: 2, err: /either --number or --all/ })
    t.strictSame(linesOf(await asked('drop', '--number', '3')), [
      { done: 1, failed: 0, skipped: 0 },
    ])
    const replayed = await asked('replay', '--all')
    t.equal(replayed.exitCode, 1, 'one of them fails again')
    t.strictSame(JSON.parse(replayed.out), { done: 1, failed: 1, skipped: 0 })
    t.strictSame(await numbers(), [4], 'with a number of its own')
    const listed = await send(`${daemon.url}/api/projects/1/events/`, {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    })
    t.match(JSON.parse(listed.body.toString()), { results: [{ event: 'healed' }] })
    const metrics = await (await fetch(`${daemon.url}/metrics`)).text()
    t.match(metrics, /^dead_letters 1$/m)
    t.match(metrics, /^dead_letters_forgotten_total 0$/m)
    const refused = await send(`${daemon.url}/api/organizations/@current/dead_letters/drop/`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      body: '{"after":"1"}',
    })
    t.match(JSON.parse(refused.body.toString()), { code: 'invalid_input', attr: 'after' })
  },
)
