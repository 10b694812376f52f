/**
 * `tenrec flag pull`, `plan`, `apply`, `rehearse` and `schema`, on a data directory and on a daemon.
 *
 * @lane quick
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { runAnswering, runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY } from '../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../fixtures/flags/shared-daemon.ts'

/** A folder with a store of one project, a way to write files into it, and a way to run commands on it. */
async function store(t: Test) {
  const folder = t.testdir()
  const path = join(folder, 'data')
  const dir = await DataDir.open(path)
  const projects = new ProjectStore(path)
  projects.bootstrap({ projectKey: 'phc_files', personalKey: 'phx_files_test_personal_key' })
  await projects.close()
  dir.release()
  return {
    file(name: string, content: string): string {
      const file = join(folder, name)
      writeFileSync(file, content)
      return file
    },
    place: (name: string) => join(folder, name),
    run: (...words: readonly string[]) => runCommand(...words, '--data-dir', path),
    answer: (said: string, ...words: readonly string[]) =>
      runAnswering(said, ...words, '--data-dir', path),
  }
}

const TWO = `
flags:
  # It depends on the flag below, which does not exist yet.
  - key: new-price
    name: New price
    tags: [shop]
    filters:
      groups:
        - properties:
            - { type: flag, flag: new-shop, operator: flag_evaluates_to, value: true }
          rollout_percentage: 50
  - key: new-shop
    filters:
      groups:
        - rollout_percentage: 20
`

t.test('ids in files keep all their digits', async (t) => {
  const { file, run } = await store(t)
  const id = '1234567890123456789'
  const yaml = `
flags:
  - key: guilds
    filters:
      groups:
        - properties:
            - { type: person, key: guild, operator: exact, value: [7, ${id}] }
          rollout_percentage: 100
`
  const json = `{"flags":[{"key":"guilds","filters":{"groups":[{"properties":[{"type":"person","key":"guild","operator":"exact","value":[7,${id}]}],"rollout_percentage":100}]}}]}`
  for (const [name, content] of [
    ['flags.yaml', yaml],
    ['flags.json', json],
  ] as const) {
    const applied = await run('flag', 'apply', file(name, content), '--yes')
    t.match(applied, { exitCode: 0 }, name)
    const { out } = await run('flag', 'pull', '--json')
    t.match(out, new RegExp(`7,\\s*"${id}"`), name)
  }
  const explain = (value: string) =>
    run('flag', 'explain', 'guilds', '--distinct-id', 'u', '--person-properties', value)
  t.match((await explain(`{"guild":${id}}`)).out, /^guilds is on/)
  t.match((await explain(`{"guild":1234567890123456790}`)).out, /^guilds is off/)
})

t.test('a plan is shown, applied, and then there is nothing to do', async (t) => {
  const { file, place, run } = await store(t)
  const flags = file('flags.yaml', TWO)
  const planned = await run('flag', 'plan', flags, '--out', place('plan.json'))
  t.equal(planned.exitCode, 3)
  t.match(
    planned.out,
    /new-shop: create\n {2}The flag is new\.\n {2}Condition 1 is new: everyone, 20 %/,
  )
  t.match(planned.out, /flag "new-shop" is true, 50 %/)
  t.match(planned.out, /0 of 0 persons get another value/)
  t.match(planned.out, /2 to create, 0 to update, 0 to delete, 0 unchanged\.\n$/)
  t.ok(planned.out.indexOf('new-shop: create') < planned.out.indexOf('new-price: create'))
  t.equal((await run('flag', 'list')).out, '', 'a plan changes nothing')
  const applied = await run('flag', 'apply', place('plan.json'))
  t.match(applied, { exitCode: 0, err: 'Changed 2 flags.\n' })
  const audit = await run('audit', 'list', '--json')
  t.equal(audit.out.match(/tenrec flag apply/g)?.length, 2, 'an entry for each flag')
  const again = await run('flag', 'plan', flags)
  t.match(again, { exitCode: 0, out: /2 unchanged/ })
  t.equal((await run('flag', 'pull', '--out', place('pulled.yaml'))).exitCode, 0)
  t.match(readFileSync(place('pulled.yaml'), 'utf8'), /flag: new-shop/)
  t.equal((await run('flag', 'plan', place('pulled.yaml'))).exitCode, 0)
  const json = await run('flag', 'pull', '--json')
  t.match(JSON.parse(json.out), { flags: [{ key: 'new-shop' }, { key: 'new-price' }] })
})

t.test('a plan is refused as a whole if one of its flags has changed since', async (t) => {
  const { file, place, run } = await store(t)
  await run('flag', 'apply', file('flags.yaml', TWO), '--yes')
  const changed = file('changed.yaml', TWO.replace('50', '60').replace('20', '30'))
  const planned = await run('flag', 'plan', changed, '--out', place('plan.json'))
  t.match(planned.out, /new-shop: update version 1\n {2}Condition 1: 20 % becomes 30 %\./)
  await run('flag', 'set', 'new-price', '--name', 'Price')
  const refused = await run('flag', 'apply', place('plan.json'))
  t.equal(refused.exitCode, 1)
  t.match(refused.err, /have changed since the plan was made: new-price\. Nothing was changed/)
  t.match((await run('flag', 'show', 'new-shop', '--json')).out, /"version":1/)
  const other = await run('flag', 'apply', place('plan.json'), '--project', '2')
  t.match(other, { exitCode: 2, err: /is a plan for project 1/ })
})

t.test('flags that depend on each other are switched off and deleted in one plan', async (t) => {
  const { file, run } = await store(t)
  await run('flag', 'apply', file('flags.yaml', TWO), '--yes')
  const off = TWO.replace('- key: new-shop', '- key: new-shop\n    active: false').replace(
    '- key: new-price',
    '- key: new-price\n    active: false',
  )
  t.match(await run('flag', 'plan', file('off.yaml', off)), {
    exitCode: 3,
    out: /The flag is switched off/,
  })
  const gone = 'flags: [{ key: new-shop, deleted: true }, { key: new-price, deleted: true }]'
  t.match(await run('flag', 'apply', file('gone.yaml', gone), '--yes'), { exitCode: 0 })
  t.equal((await run('flag', 'list')).out, '')
  t.match(await run('flag', 'plan', file('gone.yaml', gone)), { exitCode: 0 })
  const half = await run('flag', 'plan', file('half.yaml', 'flags: [{ key: a, deleted: 1 }]'))
  t.match(half, { exitCode: 1, err: /half\.yaml: flags\.0\.deleted must be boolean/ })
})

t.test('a file that cannot be applied is refused with its place and its reason', async (t) => {
  const { file, run, answer } = await store(t)
  const cases: readonly (readonly [string, RegExp])[] = [
    ['flags: [', /is not valid YAML/],
    [
      'flags: []\n---\nflags: []',
      /not valid YAML: Source contains multiple documents at line 2, column 1\.\n/,
    ],
    ['flag: []', /the file (must have required property|has the unknown member)/],
    ['flags: [{ key: a, activ: true }]', /flags\.0 has the unknown member "activ"/],
    ['flags: [{ key: a }, { key: a }]', /the flag "a" is there twice/],
    ['flags: [{ key: "a b" }]', /flags\.0\.key/],
  ]
  for (const [content, reason] of cases) {
    const outcome = await run('flag', 'plan', file('bad.yaml', content))
    t.equal(outcome.exitCode, 1, content)
    t.match(outcome.err, reason)
  }
  const unknown =
    'flags: [{ key: ok }, { key: bad, filters: { groups: [{ properties: [{ type: cohort, cohort: Nobody }] }] } }]'
  const planned = await run('flag', 'plan', file('unknown.yaml', unknown))
  t.equal(planned.exitCode, 1)
  t.match(planned.out, /bad: not possible\n {2}There is no cohort "Nobody"/)
  t.match(await run('flag', 'apply', file('unknown.yaml', unknown), '--yes'), { exitCode: 1 })
  t.equal((await run('flag', 'list')).out, '', 'the valid flag is not created either')
  const valid = file('valid.yaml', 'flags: [{ key: ok }]')
  t.match(await run('flag', 'apply', valid), { exitCode: 2, err: /Give --yes/ })
  t.match(await answer('no', 'flag', 'apply', valid), { exitCode: 1, err: /Nothing was changed/ })
  t.match(await answer('yes', 'flag', 'apply', valid), { exitCode: 0 })
  t.match(await run('flag', 'plan', valid, '--sample', 'x'), { exitCode: 2 })
  t.match(await run('flag', 'plan', join('no', 'such.yaml')), { exitCode: 1, err: /ENOENT/ })
})

t.test('a daemon plans with its persons and applies the plan', async (t) => {
  const world = await shareDecisions()
  await world.capture(
    ['ann', 'bob', 'cid'].map((id) => ({
      event: 'seen',
      distinct_id: id,
      properties: { $set: { plan: id === 'ann' ? 'pro' : 'free' } },
    })),
  )
  const { file, place } = await store(t)
  const run = (...words: readonly string[]) =>
    runCommand(
      ...words,
      '--project',
      String(world.idOf()),
      '--base-url',
      world.url,
      '--personal-key',
      PERSONAL_KEY,
    )
  const property = '{ type: person, key: plan, operator: exact, value: pro }'
  const path = file(
    'flags.yaml',
    `flags: [{ key: pro, filters: { groups: [{ properties: [${property}] }] } }]`,
  )
  const planned = await run('flag', 'plan', path, '--out', place('plan.json'))
  t.equal(planned.exitCode, 3)
  t.match(planned.out, /Condition 1 is new: "plan" exact "pro", 100 %/)
  t.match(planned.out, /1 of 3 persons get another value/)
  const rehearsed = await run('flag', 'rehearse', path)
  t.equal(rehearsed.exitCode, 0)
  t.match(rehearsed.out, /on: 0 before, 1 after\n/)
  t.match(rehearsed.out, /from off to on: 1\n/)
  t.equal((await run('flag', 'apply', place('plan.json'))).exitCode, 0)
  const { body } = await world.decide('/flags/?v=2', { distinct_id: 'ann' })
  t.match(body, { flags: { pro: { enabled: true } } })
  t.match((await run('flag', 'pull')).out, /- key: pro\n/)
  const stale = await run('flag', 'apply', place('plan.json'))
  t.match(stale, { exitCode: 1, err: /answered 409: .*Make a new plan/ })
  const log = await world.ask('/api/organizations/@current/audit_log/?limit=5', {
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
  })
  t.match(JSON.stringify(log.body), /feature_flags\/apply\//)
})

t.test('the schema of a file is printed as it is published', async (t) => {
  const { out, exitCode } = await runCommand('flag', 'schema')
  t.equal(exitCode, 0)
  const published = readFileSync('docs/flags-file.schema.json', 'utf8')
  t.strictSame(JSON.parse(out), JSON.parse(published))
})
