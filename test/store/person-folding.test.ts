/**
 * Tests that pending changes of a person are applied when processing is idle. Readers see no difference, wherever it
 * happens, and a quiet machine becomes idle.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { cpSync } from 'node:fs'
import t, { type Test } from 'tap'
import { ProcessingLoop } from '../../src/engine/front/processing-loop.ts'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { PROCESS_CALLS } from '../../src/engine/threads/processing/process-calls.ts'
import type { ProcessResult, ProcessTask } from '../../src/engine/threads/tasks.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { refuseDamage } from '../../src/store/faults.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { FOLDED_PERSONS_MAX } from '../../src/store/identity/limits.ts'
import { loadPerson } from '../../src/store/identity/person-records.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { readStanding } from '../../src/store/lmdb/event-state.ts'
import { EVENTS_TABLES, numberInKey } from '../../src/store/lmdb/keys.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog, type SentEvent, threadSettings } from '../fixtures/persons/person-log.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'
import { tableDigests } from '../fixtures/table-digests.ts'
import { eventually } from '../fixtures/timed-command.ts'

const PROJECT = 1
const EVERYTHING_MS = 3_600_000
/** Longer than the loop waits for more work. */
const REST_MS = 4000
const PEOPLE = Array.from({ length: 12 }, (_, index) => `person-${index}`)
/** Every value that a delta may hold, and names that JavaScript objects treat specially. */
const NAMES = ['plan', 'größe', '7', '__proto__', 'seen', '$browser']

t.setTimeout(300_000)

function eventOf(dice: Dice): SentEvent {
  const name = dice.chance(0.1) ? dice.pick(['$identify', '$create_alias']) : 'seen'
  const values = (): object =>
    Object.fromEntries(dice.some(NAMES, 0.3).map((key) => [key, dice.below(5)]))
  return {
    event: name,
    distinct_id: dice.pick(PEOPLE),
    properties: {
      $browser: dice.pick(['x', 'y']),
      $current_url: `https://x.example/${dice.below(20)}`,
      $set: values(),
      ...(dice.chance(0.3) ? { $set_once: values() } : {}),
      ...(dice.chance(0.3) ? { $unset: dice.some(NAMES, 0.3) } : {}),
      ...(name === '$identify' ? { $anon_distinct_id: dice.pick(PEOPLE) } : {}),
      ...(name === '$create_alias' ? { alias: dice.pick(PEOPLE) } : {}),
    },
  }
}

function commandOf(dice: Dice): PersonCommand {
  const person = dice.between(1, 12)
  return dice.pick<PersonCommand>([
    { kind: 'set_properties', person, set: { plan: 'by hand' } },
    { kind: 'delete_property', person, key: 'plan' },
    { kind: 'split_person', person, mainDistinctId: null },
    { kind: 'merge_persons', into: person, from: dice.between(1, 12) },
    { kind: 'delete_person', person, deletesEvents: false },
  ])
}

/** A store without persons in memory, and a reader that reads it all the time. */
class World {
  readonly processor: LogProcessor
  readonly decisions: DecisionSourceReader
  readonly reader: EventReader

  constructor(t: Test, from: string, dataDir: string) {
    cpSync(`${from}/log`, `${dataDir}/log`, { recursive: true })
    const settings = threadSettings(dataDir)
    const onDamage = refuseDamage
    const store = new ProcessingWriter({ dataDir, onDamage, personCacheBytesMax: 0 })
    const log = new LogReader(settings)
    this.processor = new LogProcessor({ settings, log, store, onDamage, commitEvents: 1 })
    this.decisions = new DecisionSourceReader(dataDir)
    this.reader = new EventReader({ dataDir })
    t.teardown(async () => {
      await this.decisions.close()
      await this.reader.close()
    })
  }

  /** Runs one commit. Returns false if nothing was left. */
  step(): boolean {
    const { processed, last } = this.processor.run(EVERYTHING_MS, false, 1)
    return processed < last
  }

  /** Returns decisions, persons and timelines of all persons. */
  facts(): readonly unknown[] {
    this.decisions.refresh()
    return PEOPLE.map((id) => {
      const { number, properties: stored } = this.decisions.person(PROJECT, id)
      const again = this.decisions.person(PROJECT, id).properties
      const properties = stored?.all() ?? null
      if (again !== stored) throw new Error('the same person is read once')
      const person = number === 0 ? null : this.reader.persons().person(PROJECT, number)
      const wanted = { projectId: PROJECT, person: number, eventNames: [], crucialKeys: ['plan'] }
      const line = this.reader.propertiesTimeline({ ...wanted, fromMs: 0, toMs: 2e12 })
      // The prototype of an object depends on how it was created.
      return JSON.parse(JSON.stringify([id, number, properties, person, line]))
    })
  }
}

t.test('folding persons at any point changes no answer', async (t) => {
  let folded = 0
  for (const seed of [1, 2]) {
    const dice = new Dice(seed)
    const dir = t.testdir({ [seed]: { log: {}, plain: {}, folding: {} } })
    const folder = `${dir}/${seed}`
    const log = new PersonLog(t, `${folder}/log`)
    for (let block = 0; block < 120; block++) {
      if (dice.chance(0.05)) log.append(PROJECT, commandOf(dice))
      log.send(
        PROJECT,
        dice.list(dice.between(1, 3), () => eventOf(dice)),
      )
    }
    const plain = new World(t, `${folder}/log`, `${folder}/plain`)
    const folding = new World(t, `${folder}/log`, `${folder}/folding`)
    const differences = new Differences()
    let hasMore = true
    for (let step = 1; hasMore; step++) {
      hasMore = plain.step()
      differences.equal(
        folding.step(),
        hasMore,
        `seed ${seed}, step ${step}: there is more to fold`,
      )
      if (dice.chance(0.3)) {
        // Read before and after, because cached data of readers must not outlive the stored data.
        folding.facts()
        folded += folding.processor.fold()
      }
      if (dice.chance(0.5)) {
        differences.same(folding.facts(), plain.facts(), `seed ${seed}, step ${step}: the facts`)
      }
    }
    t.strictSame(differences.list(), [], 'both stores say the same after every step')
    while (folding.processor.mayFold) folded += folding.processor.fold()
    t.strictSame(folding.facts(), plain.facts())
    await plain.processor.close()
    await folding.processor.close()
    t.strictSame(await tableDigests(`${folder}/folding`), await tableDigests(`${folder}/plain`))
    t.equal(await deltasIn(`${folder}/folding`), 0)
  }
  t.ok(folded > 20, `${folded} persons were folded`)
})

t.test('a quiet loop folds persons, lets events go first, and becomes idle', async (t) => {
  const dataDir = t.testdir()
  const log = new PersonLog(t, dataDir)
  await grow(log, 20, 3)
  const processor = openProcessor(threadSettings(dataDir), refuseDamage)
  const results: ProcessResult[] = []
  const live = { watch() {}, take: () => [] } as never
  const run = async (_name: string, [task]: readonly [ProcessTask]): Promise<ProcessResult> =>
    PROCESS_CALLS.process.run({ processor, live, abandon: async () => {} }, task)
  const front = { isBusy: true }
  const loop = new ProcessingLoop({
    pool: { run: run as never },
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
    disk: { isExhausted: false, isBelowFloor: () => false },
    lagMsMax: 10_000,
    front,
    onResult: (result) => results.push(result),
    onFailure: (cause) => t.error(cause),
  })
  const folded = (): number => results.reduce((sum, { folded = 0 }) => sum + folded, 0)
  loop.start()
  await pause(REST_MS)
  t.equal(folded(), 0, 'a busy front end is not disturbed')
  t.equal(await deltasIn(dataDir), 60)
  front.isBusy = false
  await eventually(async () => folded() === 20)
  t.equal(await deltasIn(dataDir), 0)
  await eventually(async () => results.at(-1)?.mayFold === false)
  const runs = results.length
  await pause(REST_MS)
  t.equal(results.length, runs, 'nothing wakes the loop')
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'person 1', properties: { $browser: 'new' } }])
  loop.committed(5, 1000, 1)
  await eventually(async () => results.at(-1)?.processed === 5)
  await loop.finish(5000)
  await processor.close()
})

t.test('nothing is written if no person has deltas', async (t) => {
  const dataDir = t.testdir()
  const log = new PersonLog(t, dataDir)
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'ann', properties: { $browser: 'x' } }])
  log.process()
  await log.reopen()
  const processor = openProcessor(threadSettings(dataDir), refuseDamage)
  const before = await tableDigests(dataDir)
  t.ok(processor.mayFold, 'the loop has not checked yet')
  t.equal(processor.fold(), 0)
  t.notOk(processor.mayFold)
  await processor.close()
  t.strictSame(await tableDigests(dataDir), before)
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  t.equal(readStanding(environment.tables.state).folds, 0)
  await environment.close()
})

t.test(
  'a process that is killed while it folds leaves the store unchanged, and the next process folds',
  async (t) => {
    const dataDir = t.testdir()
    const persons = FOLDED_PERSONS_MAX * 8
    const log = new PersonLog(t, dataDir)
    await grow(log, persons, 2)
    const wanted = await tableDigests(dataDir)
    const deltas = await deltasIn(dataDir)
    t.equal(deltas, persons * 2)
    const dice = new Dice(5)
    const left = new Set<number>()
    for (let round = 0; round < 6 && (await deltasIn(dataDir)) > 0; round++) {
      const script = `
      const { openProcessor } = await import(${sourceText('engine/processor/open-processor')})
      const settings = ${JSON.stringify(threadSettings(dataDir))}
      const processor = openProcessor(settings, (error) => { throw error })
      while (processor.mayFold) {
        processor.fold()
        process.stdout.write('.')
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
      await processor.close()`
      const child = spawn(process.execPath, [...SCRIPT_WORDS, script])
      const ended = new Promise((resolve) => child.on('exit', resolve))
      child.stderr.pipe(process.stderr)
      child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), dice.below(40)))
      await ended
      left.add(await deltasIn(dataDir))
      t.strictSame(await tableDigests(dataDir), wanted)
    }
    t.ok(left.size > 1, `the loop stopped with ${[...left].join(', ')} of ${deltas} deltas`)
    const processor = openProcessor(threadSettings(dataDir), refuseDamage)
    const counts: number[] = []
    while (processor.mayFold) counts.push(processor.fold())
    t.ok(
      Math.max(...counts) <= FOLDED_PERSONS_MAX,
      `${counts.join()} persons were folded at a time`,
    )
    await processor.close()
    t.equal(await deltasIn(dataDir), 0)
    t.strictSame(await tableDigests(dataDir), wanted)
  },
)

/** Creates persons with a number of deltas each. */
async function grow(log: PersonLog, persons: number, deltas: number): Promise<void> {
  for (let round = 0; round <= deltas; round++) {
    for (let first = 0; first < persons; first += 256) {
      const count = Math.min(256, persons - first)
      const properties = { $browser: `browser ${round}` }
      log.send(
        PROJECT,
        Array.from({ length: count }, (_, index) => {
          return { event: 'seen', distinct_id: `person ${first + index}`, properties }
        }),
      )
    }
    log.process()
    await log.reopen()
  }
}

/** Returns the number of deltas of all persons together. */
async function deltasIn(dataDir: string): Promise<number> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  let count = 0
  for (const key of environment.tables.persons.getKeys({})) {
    const person = loadPerson(environment.tables, numberInKey(key, 0), numberInKey(key, 4))
    if (person !== null && person.deltas !== '') count += person.deltas.split('\n').length
  }
  await environment.close()
  return count
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
