/**
 * Tests that processing is a function of the log: two machines with different clocks, random numbers and speeds, one of
 * them killed repeatedly, end with the same tables.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import t from 'tap'
import { DailySalts } from '../../src/engine/front/daily-salts.ts'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import type { DeadLetterCommand } from '../../src/rules/events/dead-letters.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { readProcessedPosition } from '../../src/store/directory/data-dir.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import { Dice } from '../fixtures/dice.ts'
import { PersonLog, type SentEvent, threadSettings } from '../fixtures/persons/person-log.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'
import { uuidOf } from '../fixtures/stored-events.ts'
import { tableDigests } from '../fixtures/table-digests.ts'

const HOUR_MS = 3_600_000
const FIRST_MS = Date.UTC(2024, 0, 1)
const PEOPLE = ['ann', 'bob', 'cat', 'dan', 'eve', 'fay', 'gus', 'hal']
const NAMES = [
  'seen',
  'bought',
  '$identify',
  '$create_alias',
  '$merge_dangerously',
  '$groupidentify',
]
const ALL_LETTERS = { after: 0, through: 0xffff_ffff }

t.setTimeout(400_000)

function eventOf(dice: Dice, uuids: number): SentEvent {
  const name = dice.pick(NAMES)
  const other = dice.pick(PEOPLE)
  const isCookieless = dice.chance(0.05)
  return {
    // Often one that was sent before: a retry, or an event that was erased meanwhile.
    uuid: dice.chance(0.7) ? uuidText(dice.below(uuids)) : undefined,
    event: name,
    distinct_id: isCookieless
      ? '$posthog_cookieless'
      : dice.chance(0.05)
        ? null
        : dice.pick(PEOPLE),
    timestamp: new Date(FIRST_MS + dice.below(100) * HOUR_MS).toISOString(),
    properties: {
      $set: { plan: dice.below(4), email: `${dice.pick(PEOPLE)}@x.example` },
      $set_once: { first: dice.below(9) },
      $unset: dice.some(['plan', 'email'], 0.1),
      $groups: { company: other },
      $group_type: 'company',
      $group_key: other,
      $group_set: { size: dice.below(9) },
      $browser: dice.pick(['x', 'y']),
      $current_url: `https://x.example/${dice.below(20)}`,
      ...(name === '$identify' ? { $anon_distinct_id: other } : { alias: other }),
      ...(dice.chance(0.2) ? { $process_person_profile: false } : {}),
      ...(isCookieless ? { $cookieless_mode: true, $raw_user_agent: 'x', $host: 'x.example' } : {}),
    },
  }
}

function uuidText(number: number): string {
  return Buffer.from(uuidOf(number))
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** A command, and the number of erasures it stands for. */
function commandOf(dice: Dice, jobs: number): PersonCommand {
  const person = dice.between(1, 12)
  const criteria = { afterMs: null, beforeMs: null, personId: null, distinctId: null }
  const beforeMs = FIRST_MS + dice.below(60) * HOUR_MS
  return dice.pick<() => PersonCommand>([
    () => ({ kind: 'set_properties', person, set: { plan: 'by hand' } }),
    () => ({ kind: 'delete_property', person, key: 'plan' }),
    () => ({ kind: 'split_person', person, mainDistinctId: dice.pick([null, 'ann', 'bob']) }),
    () => ({ kind: 'merge_persons', into: person, from: dice.between(1, 12) }),
    () => ({ kind: 'delete_person', person, deletesEvents: dice.chance(0.5) }),
    () => ({ kind: 'erase_events', criteria: { ...criteria, event: dice.pick(NAMES) } }),
    () => ({
      kind: 'erase_events',
      criteria: { ...criteria, event: null, beforeMs, distinctId: dice.pick(PEOPLE) },
    }),
    () => ({
      kind: 'run_retention',
      rules: [{ event: null, afterMs: null, beforeMs }],
      oldestThrough: dice.below(100),
      arrivedThroughMs: null,
    }),
    () => ({ kind: 'finish_erasure', job: dice.between(1, Math.max(1, jobs)) }),
    () => ({
      kind: 'set_flag_overrides',
      distinctIds: dice.some(PEOPLE),
      flagKeys: ['a'],
      identifier: dice.pick(PEOPLE),
    }),
  ])()
}

/** Fills a log with every kind of entry, over some weeks, with a clock that was wrong for a while. */
function fill(log: PersonLog, dice: Dice, requests: number): void {
  let atMs = FIRST_MS
  for (let request = 0; request < requests; request++) {
    atMs += dice.below(4 * HOUR_MS)
    const isClockWrong = request > requests / 3 && request < requests / 3 + 5
    const arrivedAtMs = isClockWrong ? atMs - 40 * 24 * HOUR_MS : atMs
    const projectId = dice.between(1, 2)
    if (dice.chance(0.12)) log.append(projectId, commandOf(dice, request / 40), arrivedAtMs)
    else if (dice.chance(0.03)) {
      const kind = dice.pick(['replay_dead_letters', 'drop_dead_letters'] as const)
      const command: DeadLetterCommand = { kind, ...ALL_LETTERS, through: dice.pick([5, 1e9]) }
      log.append(0, command, arrivedAtMs)
    } else if (dice.chance(0.05)) {
      log.sendText(projectId, dice.pick(['{"event":', '[]', '{}']), uuidOf(request), arrivedAtMs)
    } else {
      const events = dice.list(dice.between(1, 6), () => eventOf(dice, 1 + request))
      log.send(projectId, events, arrivedAtMs)
    }
  }
  log.sendText(1, '{"event":', uuidOf(requests), atMs)
  // Sent by a front end when everything is erased: each job has an end.
  for (let job = 1; job <= requests; job++) {
    for (const projectId of [1, 2]) log.append(projectId, { kind: 'finish_erasure', job }, atMs)
  }
}

interface Pace {
  readonly commitEvents: number
  readonly budgetMs: number
  readonly personCacheBytesMax?: number
  /** Erasures and merges wait until everything is processed. */
  readonly isLazy: boolean
}

async function follow(
  from: string,
  to: string,
  pace: Pace,
): Promise<Readonly<Record<string, string>>> {
  copy(from, to)
  const onDamage = (error: Error): never => {
    throw error
  }
  const settings = threadSettings(to)
  const { commitEvents, budgetMs, personCacheBytesMax, isLazy } = pace
  const store = new ProcessingWriter({
    dataDir: to,
    onDamage,
    segmentRowsTarget: 64,
    tableEntriesMax: 50,
    ...(personCacheBytesMax === undefined ? {} : { personCacheBytesMax }),
  })
  const log = new LogReader(settings)
  const processor = new LogProcessor({ settings, log, store, onDamage, commitEvents })
  const isShort = (result: { processed: number; last: number }): boolean =>
    isLazy && result.processed < result.last
  let result = processor.run(budgetMs, isLazy)
  while (!result.isIdle) result = processor.run(budgetMs, isShort(result))
  await processor.close()
  return tableDigests(to)
}

/** The log, and the daily secrets, which no log contains. */
function copy(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  cpSync(`${from}/log`, `${to}/log`, { recursive: true })
  const salts = new DailySalts(from)
  for (let day = 0; day < 150; day++) salts.saltOf(dayText(FIRST_MS + (day - 45) * 24 * HOUR_MS))
  cpSync(`${from}/cookieless`, `${to}/cookieless`, { recursive: true })
}

function dayText(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 'yyyy-mm-dd'.length)
}

t.test('every table is a function of the log', async (t) => {
  for (const seed of [1, 2]) {
    const dir = t.testdir({ [seed]: { first: {} } })
    const first = `${dir}/${seed}/first`
    fill(new PersonLog(t, first), new Dice(seed), 200)
    const usual = { commitEvents: 200, budgetMs: 500, isLazy: false }
    const wanted = await follow(first, `${dir}/${seed}/usual`, usual)
    t.equal(readProcessedPosition(`${dir}/${seed}/usual`), 200 + 2 * 200 + 1)
    for (const table of ['dropped_events', 'dropped_counts', 'dead_letters', 'deletion_jobs']) {
      t.notMatch(wanted[table], /^0 /, `there is something in ${table}`)
    }
    const paces: Readonly<Record<string, Pace>> = {
      'a commit for each event': { commitEvents: 1, budgetMs: 1, isLazy: false },
      'one for all, erased at the end': { commitEvents: 1e9, budgetMs: 1e9, isLazy: true },
      'some each, forgotten': {
        commitEvents: 9,
        budgetMs: 5,
        personCacheBytesMax: 0,
        isLazy: false,
      },
    }
    for (const [name, pace] of Object.entries(paces)) {
      const found = await follow(first, `${dir}/${seed}/${pace.commitEvents}`, pace)
      t.strictSame(found, wanted, `${name}, seed ${seed}`)
    }
  }
})

t.test('the tables are equal after kills, with other clocks and random numbers', async (t) => {
  const dir = t.testdir({ first: {} })
  fill(new PersonLog(t, `${dir}/first`), new Dice(11), 200)
  const usual = { commitEvents: 200, budgetMs: 500, isLazy: false }
  const wanted = await follow(`${dir}/first`, `${dir}/usual`, usual)
  const killed = `${dir}/killed`
  copy(`${dir}/first`, killed)
  const dice = new Dice(12)
  let kills = 0
  let isDone = false
  for (let round = 0; !isDone && round < 80; round++) {
    const script = `
      const [offsetMs, seed] = ${JSON.stringify([dice.below(2e12) - 1e12, dice.below(1e9)])}
      const now = Date.now
      Date.now = () => now() + offsetMs
      Math.random = () => (seed % 1000) / 1000
      const { openProcessor } = await import(${sourceText('engine/processor/open-processor')})
      const { DailySalts } = await import(${sourceText('engine/front/daily-salts')})
      // Days are over here that are not there.
      DailySalts.prototype.forget = () => undefined
      const settings = ${JSON.stringify(threadSettings(killed))}
      const choices = { commitEvents: ${dice.between(1, 60)} }
      const processor = openProcessor(settings, (error) => { throw error }, choices)
      process.stdout.write('open')
      while (!processor.run(20).isIdle);
      await processor.close()`
    const child = spawn(process.execPath, [...SCRIPT_WORDS, script])
    const ended = new Promise<number | null>((resolve) => child.on('exit', resolve))
    child.stderr.pipe(process.stderr)
    const afterMs = 3 + dice.below(40) + round * 12
    child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), afterMs))
    isDone = (await ended) === 0
    if (!isDone) kills++
  }
  t.ok(isDone, 'processing came to the end at last')
  t.ok(kills > 3, `the process was killed ${kills} times`)
  t.strictSame(await tableDigests(killed), wanted)
})
