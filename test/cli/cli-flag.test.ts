/**
 * `tenrec flag ...` on a data directory: its changes, its refusals and its explanations.
 *
 * @lane quick
 */
import t from 'tap'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { runCommand as run } from '../fixtures/command-line.ts'

type Tap = { testdir(): string }

/** A store with one project, and a function that runs commands on it. */
async function store(t: Tap): Promise<{
  readonly path: string
  run(...words: readonly string[]): Promise<{ exitCode: number; out: string; err: string }>
}> {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  const projects = new ProjectStore(path)
  projects.bootstrap({ projectKey: 'phc_cli_flag', personalKey: 'phx_cli_flag_test_personal_key' })
  await projects.close()
  dir.release()
  return { path, run: (...words) => run(...words, '--data-dir', path) }
}

function jsonLines(out: string): readonly Record<string, unknown>[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

t.test('a flag is created, shown, changed and deleted', async (t) => {
  const { path, run } = await store(t)
  const created = await run('flag', 'create', 'beta', '--name', 'New page', '--json')
  t.equal(created.exitCode, 0)
  t.match(jsonLines(created.out), [
    { id: 1, key: 'beta', active: true, version: 1, filters: { groups: [{ properties: [] }] } },
  ])
  const set = await run('flag', 'set', 'beta', '--rollout', '25', '--tags', 'Web,web', '--json')
  t.match(jsonLines(set.out), [
    { version: 2, tags: ['web'], filters: { groups: [{ rollout_percentage: 25 }] } },
  ])
  const listed = await run('flag', 'list')
  t.match(listed.out, /^id +key +active +status/)
  t.match(listed.out, /beta/)
  t.equal((await run('flag', 'show', 'beta', '--json')).out, set.out)
  t.match(jsonLines((await run('flag', 'set', 'beta', '--key', 'gamma', '--json')).out), [
    { key: 'gamma' },
  ])
  t.equal((await run('flag', 'delete', 'gamma')).exitCode, 0)
  t.equal((await run('flag', 'list')).out, '')
  const flags = new FlagStore(path)
  const entries = [...(flags.activity(1, null, 0, 10)?.entries ?? [])]
  await flags.close()
  t.match(
    entries.map((entry) => JSON.parse(entry) as unknown),
    [
      { activity: 'deleted', user: { is_system: true } },
      { activity: 'updated' },
      { activity: 'updated' },
      { activity: 'created' },
    ],
  )
})

t.test('the command refuses the same changes as the private API', async (t) => {
  const { run } = await store(t)
  await run('flag', 'create', 'taken')
  const cases: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['flag', 'create', 'taken'], 1, /key/],
    [['flag', 'create', 'not a key'], 1, /key/],
    [['flag', 'create', 'x', '--filters', '{}'], 1, /groups|condition/],
    [['flag', 'create', 'x', '--filters', 'no json'], 2, /--filters is not valid JSON/],
    [['flag', 'create', 'x', '--rollout', '101'], 2, /not a number from 0 to 100/],
    [['flag', 'create', 'x', '--rollout', '5', '--filters', '{}'], 2, /cannot be combined/],
    [['flag', 'set', 'taken'], 2, /nothing to change/],
    [['flag', 'set', 'taken', '--active', 'perhaps'], 2, /--active/],
    [['flag', 'show', 'unknown'], 1, /There is no flag "unknown"/],
    [['flag', 'explain', 'unknown', '--distinct-id', 'a'], 1, /There is no flag/],
    [['flag', 'explain', 'taken'], 2, /--distinct-id is missing/],
    [['flag', 'list', '--project', '7'], 1, /There is no project 7/],
  ]
  for (const [words, exitCode, message] of cases) {
    const outcome = await run(...words)
    t.equal(outcome.exitCode, exitCode, words.join(' '))
    t.match(outcome.err, message)
  }
})

t.test(
  'an explanation names the condition that decided and says why the others did not match',
  async (t) => {
    const { run } = await store(t)
    const filters = {
      groups: [
        { properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] },
        { properties: [], rollout_percentage: 10 },
        { properties: [], rollout_percentage: 80, variant: 'test' },
        { properties: [], rollout_percentage: 100 },
      ],
      multivariate: {
        variants: [
          { key: 'control', rollout_percentage: 50 },
          { key: 'test', rollout_percentage: 50 },
        ],
      },
      payloads: { test: '{"a":1}' },
    }
    await run('flag', 'create', 'beta-feature', '--filters', JSON.stringify(filters))
    const explain = ['flag', 'explain', 'beta-feature', '--distinct-id', 'user-1']
    const told = await run(...explain)
    t.match(told.out, /^beta-feature is test: Matched condition set 3\npayload \{"a":1\}\n/)
    t.match(told.out, /condition 1: filter 1 did not match: .*"plan"/)
    t.match(told.out, /condition 2: .*rollout of 10 % excludes .*, hash 72\.6491 %/)
    t.match(told.out, /condition 3: matched \(rollout 80 %, hash 72\.6491 %\)/)
    t.match(told.out, /condition 4: not reached/)
    const pro = await run(...explain, '--person-properties', '{"plan":"pro"}', '--json')
    t.match(jsonLines(pro.out), [
      { enabled: true, variant: 'control', condition_index: 0, reason: 'condition_match' },
    ])
    await run('flag', 'set', 'beta-feature', '--active', 'false')
    t.match((await run(...explain)).out, /is not active/)
  },
)
