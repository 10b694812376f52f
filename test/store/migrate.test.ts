/**
 * Tests `tenrec migrate`: its answer for each format, and the way steps are run, with steps made by the tests.
 *
 * @lane quick
 */
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { migrateAndReport } from '../../src/cli/commands/migrate.ts'
import {
  DataDir,
  FORMAT_VERSION,
  readFormat,
  requireStore,
} from '../../src/store/directory/data-dir.ts'
import { lockDataDir } from '../../src/store/directory/data-dir-lock.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { readStanding, storeNumber } from '../../src/store/lmdb/event-state.ts'
import {
  type Migration,
  planMigration,
  runMigration,
} from '../../src/store/maintenance/migrations.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'

/** A new store that is marked with this format. */
async function storeOf(t: Test, format: number): Promise<string> {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  dir.release()
  writeFileSync(join(path, 'format'), `tenrec ${format}\n`)
  return path
}

/** Steps from 0 to the current format that record the format they run on. */
function steps(runs: string[], failing: number | null = null): readonly Migration[] {
  return Array.from({ length: FORMAT_VERSION }, (_, from) => ({
    from,
    sentence: `Writes ${from + 1}.`,
    run: async (path) => {
      runs.push(`${from} with the mark ${readFormat(path)}`)
      if (from === failing) throw new OperatorError('the step was cut short')
    },
  }))
}

t.test('the current format needs no step, with and without a dry run', async (t) => {
  const path = await storeOf(t, FORMAT_VERSION)
  for (const words of [[], ['--dry-run']]) {
    const { exitCode, out } = await runCommand('migrate', ...words, '--data-dir', path)
    t.equal(exitCode, 0)
    t.match(out, /There is nothing to do/)
  }
  const [row] = linesOf(await runCommand('migrate', '--json', '--data-dir', path))
  t.strictSame(row, {
    format: FORMAT_VERSION,
    current_format: FORMAT_VERSION,
    steps: [],
    is_dry_run: false,
  })
})

t.test('a newer format is refused with both solutions', async (t) => {
  const path = await storeOf(t, FORMAT_VERSION + 1)
  const { exitCode, err } = await runCommand('migrate', '--dry-run', '--data-dir', path)
  t.equal(exitCode, 78)
  t.match(err, /newer version/)
  t.match(err, /tenrec restore/)
  t.equal(readFormat(path), FORMAT_VERSION + 1)
})

t.test('a format that no step reads is refused with the way through an export', async (t) => {
  const path = await storeOf(t, 1)
  for (const words of [[], ['--dry-run']]) {
    const { exitCode, err } = await runCommand('migrate', ...words, '--data-dir', path)
    t.equal(exitCode, 78)
    t.match(err, /tenrec export/)
    t.match(err, /tenrec import/)
  }
  t.equal(readFormat(path), 1, 'no file was changed')
  await t.rejects(DataDir.open(path), /tenrec migrate --dry-run/)
})

t.test('a missing store or a damaged format mark is reported', async (t) => {
  const empty = await runCommand('migrate', '--data-dir', t.testdir())
  t.equal(empty.exitCode, 1)
  t.match(empty.err, /no store/)
  const path = await storeOf(t, 1)
  writeFileSync(join(path, 'format'), 'something else\n')
  const damaged = await runCommand('migrate', '--data-dir', path)
  t.equal(damaged.exitCode, 78)
  t.match(damaged.err, /format is damaged/)
})

t.test('steps run in order, and each writes the mark of its format', async (t) => {
  const path = await storeOf(t, 0)
  const runs: string[] = []
  const plan = planMigration(path, steps(runs))
  t.equal(plan.format, 0)
  t.strictSame(
    plan.steps.map(({ from }) => from),
    [0, 1, 2, 3, 4, 5, 6],
  )
  const announced: number[] = []
  await runMigration(plan, ({ from }) => announced.push(from))
  t.strictSame(
    runs,
    [0, 1, 2, 3, 4, 5, 6].map((from) => `${from} with the mark ${from}`),
  )
  t.strictSame(announced, [0, 1, 2, 3, 4, 5, 6])
  t.equal(readFileSync(join(path, 'format'), 'utf8'), `tenrec ${FORMAT_VERSION}\n`)
  const dir = await DataDir.open(path)
  dir.release()
})

t.test('an interrupted migration continues with the unfinished step', async (t) => {
  const path = await storeOf(t, 0)
  const runs: string[] = []
  await t.rejects(
    runMigration(planMigration(path, steps(runs, 1)), () => {}),
    /cut short/,
  )
  t.equal(readFormat(path), 1)
  await runMigration(planMigration(path, steps(runs)), () => {})
  t.strictSame(runs.slice(2), [
    '1 with the mark 1',
    '2 with the mark 2',
    '3 with the mark 3',
    '4 with the mark 4',
    '5 with the mark 5',
    '6 with the mark 6',
  ])
  t.equal(readFormat(path), FORMAT_VERSION)
})

t.test('an open or damaged store is not migrated', async (t) => {
  const path = await storeOf(t, 0)
  const runs: string[] = []
  const plan = planMigration(path, steps(runs))
  const release = await lockDataDir(path, 'daemon')
  await t.rejects(
    runMigration(plan, () => {}),
    /in use by the process/,
  )
  release()
  truncateSync(join(path, 'events', 'data.mdb'), 100)
  await t.rejects(
    runMigration(plan, () => {}),
    /data\.mdb is damaged/,
  )
  t.strictSame(runs, [])
  t.equal(readFormat(path), 0)
})

t.test('the command lists the steps, and a dry run executes none', async (t) => {
  const path = await storeOf(t, 1)
  const runs: string[] = []
  const written = { out: '', err: '' }
  const io = {
    out: (text: string) => {
      written.out += text
    },
    err: (text: string) => {
      written.err += text
    },
  }
  const dry = { isDry: true, isJson: false }
  t.equal(await migrateAndReport(io, path, dry, steps(runs)), 0)
  t.match(
    written.out,
    /^1 to 2: Writes 2\.\n2 to 3: Writes 3\.\n3 to 4: Writes 4\.\n4 to 5: Writes 5\.\n5 to 6: Writes 6\.\n6 to 7: Writes 7\.\nNothing was changed/,
  )
  t.strictSame(runs, [])
  t.equal(readFormat(path), 1)
  t.equal(await migrateAndReport(io, path, { isDry: false, isJson: true }, steps(runs)), 0)
  t.equal(
    written.err,
    '1 to 2: Writes 2.\n2 to 3: Writes 3.\n3 to 4: Writes 4.\n4 to 5: Writes 5.\n5 to 6: Writes 6.\n6 to 7: Writes 7.\n',
  )
  t.match(
    written.out,
    /"steps":\[\{"from":1,"to":2,"does":"Writes 2\."\},\{"from":2,"to":3,"does":"Writes 3\."\},\{"from":3,"to":4,"does":"Writes 4\."\},\{"from":4,"to":5,"does":"Writes 5\."\},\{"from":5,"to":6,"does":"Writes 6\."\},\{"from":6,"to":7,"does":"Writes 7\."\}\],"is_dry_run":false\}\n$/,
  )
  t.equal(runs.length, 6)
  t.equal(readFormat(path), FORMAT_VERSION)
})

for (const format of [3, 4, 5, 6]) {
  t.test(`a store of format ${format} is read unchanged, and a start marks it`, async (t) => {
    const path = await storeOf(t, format)
    t.equal(requireStore(path, 'events'), path)
    t.equal(readFormat(path), format, 'commands do not change it')
    const dir = await DataDir.open(path)
    dir.release()
    t.equal(readFormat(path), FORMAT_VERSION, 'older versions refuse it')
  })
}

t.test('an older store records only the position of processing', async (t) => {
  const events = new Environment({ dataDir: t.testdir(), name: 'events', tables: ['state'] })
  const table = events.table('state')
  events.write(() => storeNumber(table, 'position', 7))
  t.strictSame(readStanding(table), { position: 7, folds: 0, done: 0, dropped: 0 })
  await events.close()
})
