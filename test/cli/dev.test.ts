/**
 * `tenrec dev`: the guarantees that the tests of an application rely on. Its public keys are not valid on any other
 * daemon.
 *
 * @lane all
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  DEVELOPMENT_PERSONAL_KEY,
  DEVELOPMENT_PROJECT_KEY,
} from '../../src/rules/access/development-keys.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { spawnDaemon } from '../fixtures/daemon.ts'
import { startDevelopmentDaemon } from '../fixtures/development-daemon.ts'
import { shareDecisions } from '../fixtures/flags/shared-daemon.ts'

t.test('a test sees its events, and a reset removes all of them', async (t) => {
  // Settings for another daemon must not affect this one.
  const environment = { TENREC_HOST: '0.0.0.0', TENREC_DATA_DIR: t.testdir(), TENREC_PORT: '1' }
  const daemon = await startDevelopmentDaemon(t, [], environment)
  const { ready } = daemon
  t.match(ready.url, /^http:\/\/127\.0\.0\.1:\d+$/)
  t.equal(ready.project_api_key, DEVELOPMENT_PROJECT_KEY)
  t.equal(ready.personal_api_key, DEVELOPMENT_PERSONAL_KEY)
  t.ok(existsSync(ready.data_dir))

  await t.test(
    'events are listed in order of arrival, with the properties that were sent',
    async (t) => {
      t.equal(await daemon.capture('opened', 'one', { page: 1 }), 200)
      t.equal(await daemon.capture('signed up', 'two'), 200)
      t.equal(await daemon.capture('opened', 'two'), 200)
      const all = await daemon.events()
      t.strictSame(
        all.results.map(({ event, distinct_id }) => [event, distinct_id]),
        [
          ['opened', 'one'],
          ['signed up', 'two'],
          ['opened', 'two'],
        ],
        'all events that were accepted before are there',
      )
      t.strictSame([all.count_reached, all.count, all.has_more], [true, 3, false])
      const [first] = all.results
      t.match(first, { uuid: /^[0-9a-f-]{36}$/, properties: { page: 1 } })
      t.ok(Number.isFinite(Date.parse(first?.timestamp ?? '')))
      const chosen = await daemon.events({ event: 'opened', distinct_id: 'two' })
      t.equal(chosen.count, 1)
    },
  )

  await t.test('a wait ends when the events have arrived or the time is over', async (t) => {
    const waiting = daemon.events({ event: 'late', count: '2', wait: '60000' })
    await daemon.capture('late', 'one')
    await daemon.capture('late', 'one')
    t.match(await waiting, { count_reached: true, count: 2 })
    const never = await daemon.events({ event: 'late', count: '3', wait: '20' })
    t.match(never, { count_reached: false, count: 2 })
  })

  await t.test('an invalid parameter is refused by name', async (t) => {
    for (const [name, value] of [
      ['evnt', 'opened'],
      ['count', '10001'],
      ['count', '-1'],
      ['wait', '60001'],
      ['wait', 'soon'],
    ] as const) {
      const { status, body } = await daemon.ask('GET', `/_dev/events?${name}=${value}`)
      t.strictSame([status, body['code'], body['attr']], [400, 'invalid_input', name])
    }
  })

  await t.test('a reset empties the project and keeps its key and its number', async (t) => {
    const condition = { groups: [{ rollout_percentage: 100 }] }
    const made: number[] = []
    for (const [path, body] of [
      ['feature_flags/', { key: 'new-button', active: true, filters: condition }],
      ['cohorts/', { name: 'some', is_static: true }],
      ['insights/', { name: 'some' }],
      ['dashboards/', { name: 'some' }],
      ['annotations/', { content: 'some', date_marker: '2026-01-01T00:00:00Z' }],
      ['actions/', { name: 'some', steps: [{ event: 'opened' }] }],
    ] as const) {
      made.push((await daemon.ask('POST', `/api/projects/1/${path}`, body)).status)
    }
    await daemon.ask('PATCH', '/api/projects/1/', { timezone: 'Europe/Berlin' })
    t.strictSame(new Set(made), new Set([201]))
    const decide = async (): Promise<object> => {
      const body = { api_key: ready.project_api_key, distinct_id: 'two' }
      const answer = await daemon.ask('POST', '/flags/?v=2', body)
      return Object.keys(answer.body['flags'] as object)
    }
    t.strictSame(await decide(), ['new-button'], 'a new flag is decided at once')

    await daemon.reset()
    t.strictSame(await decide(), [])
    t.equal((await daemon.events()).count, 0)
    const lists = ['events', 'persons', 'feature_flags', 'cohorts', 'insights', 'dashboards']
    for (const list of [...lists, 'annotations', 'actions', 'event_definitions']) {
      for (const project of ['1', '@current']) {
        const { status, body } = await daemon.ask('GET', `/api/projects/${project}/${list}/`)
        t.strictSame([list, status, body['results']], [list, 200, []])
      }
    }
    t.match(await daemon.ask('GET', '/api/projects/1/'), { body: { timezone: 'UTC' } })
    t.match(await daemon.ask('GET', '/api/projects/'), { body: { count: 1 } })
    t.equal(await daemon.capture('opened', 'three'), 200)
    t.match(await daemon.events(), { count: 1, results: [{ distinct_id: 'three' }] })
  })

  await t.test('an event that was accepted before a reset is absent afterward', async (t) => {
    for (let round = 0; round < 5; round++) {
      await Promise.all([daemon.capture('old', 'one'), daemon.capture('old', 'two')])
      await daemon.reset()
      t.equal((await daemon.events()).count, 0)
    }
  })

  await t.test('parallel tests may reset at the same time', async (t) => {
    await daemon.capture('old', 'one')
    await Promise.all([daemon.reset(), daemon.reset(), daemon.reset()])
    t.equal((await daemon.events()).count, 0)
    t.equal(await daemon.capture('new', 'one'), 200)
    t.equal((await daemon.events()).count, 1)
  })

  await t.test('SIGTERM ends the daemon and removes its folder', async (t) => {
    t.equal(await daemon.end('SIGTERM'), 0)
    t.notOk(existsSync(ready.data_dir))
    t.equal(daemon.output.trim().split('\n').length, 1, 'only the ready line was written')
  })
})

t.test('no files remain', async (t) => {
  const killed = await startDevelopmentDaemon(t)
  const running = await startDevelopmentDaemon(t, ['--until-stdin-ends'])
  await killed.end('SIGKILL')
  t.ok(existsSync(killed.ready.data_dir), 'a killed process cannot remove its folder')

  const next = await startDevelopmentDaemon(t)
  t.notOk(existsSync(killed.ready.data_dir), 'the next one removes it')
  t.ok(existsSync(running.ready.data_dir), 'the folder of a running process remains')

  t.equal(await running.endInput(), 0, 'the daemon ends when its standard input is closed')
  t.notOk(existsSync(running.ready.data_dir))
  t.equal(await next.end('SIGHUP'), 0)
  t.notOk(existsSync(next.ready.data_dir))
})

t.test('no other daemon accepts the public keys', async (t) => {
  const known = /(keys are|which is) public/
  const development = await startDevelopmentDaemon(t)
  const folder = development.ready.data_dir
  await development.end('SIGKILL')
  await t.rejects(
    spawnDaemon({ dataDir: folder }),
    { message: known },
    'the folder of another daemon remains',
  )

  for (const name of ['PROJECT', 'PERSONAL']) {
    const key = name === 'PROJECT' ? DEVELOPMENT_PROJECT_KEY : DEVELOPMENT_PERSONAL_KEY
    const dataDir = join(t.testdir(), name)
    const env = { [`TENREC_BOOTSTRAP_${name}_KEY`]: key }
    await t.rejects(spawnDaemon({ dataDir, env }), { message: known })
    t.notOk(existsSync(dataDir), 'nothing is written')
  }

  const dataDir = join(t.testdir(), 'data')
  t.equal((await runCommand('init', '--data-dir', dataDir)).exitCode, 0)
  for (const words of [
    ['project', 'create', '--name', 'x', '--project-key', DEVELOPMENT_PROJECT_KEY],
    ['key', 'create', '--personal-key', DEVELOPMENT_PERSONAL_KEY],
    ['key', 'create', '--personal-key', DEVELOPMENT_PROJECT_KEY],
  ]) {
    const { exitCode, err } = await runCommand(...words, '--data-dir', dataDir)
    t.equal(exitCode, 1)
    t.match(err, /This key is public/)
  }
})

t.test('another daemon does not have these routes', async (t) => {
  const { url } = await shareDecisions()
  for (const [method, path] of [
    ['POST', '/_dev/reset'],
    ['GET', '/_dev/events'],
  ] as const) {
    const answer = await fetch(url + path, { method })
    t.equal(answer.status, 404)
    await answer.arrayBuffer()
  }
})

t.test('an invalid option leaves no files behind', async (t) => {
  for (const words of [
    ['--port', '70000'],
    ['--log-level', 'loud'],
    ['--data-dir', t.testdir()],
  ]) {
    t.equal((await runCommand('dev', ...words)).exitCode, 2, words.join(' '))
  }
})
