/**
 * Tests a daemon with log and warehouse in memory: capture, persons, lists and a query are answered as usual, and
 * neither blocks nor segments are on disk.
 *
 * @lane quick
 */
import { setEnvironmentData } from 'node:worker_threads'
import t from 'tap'
import { createLogger } from '../../src/base/log.ts'
import { loadSettings } from '../../src/config/settings.ts'
import { startDaemon } from '../../src/daemon.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { HTTP_SERVER_ENVIRONMENT } from '../fixtures/http-server.ts'
import { eventually } from '../fixtures/timed-command.ts'
import { MemoryLog, SharedBlocks } from './memory-log.ts'

const ENTRY = new URL('./memory-thread.js', import.meta.url)

t.test('log and warehouse can be replaced: the daemon uses those in memory', async (t) => {
  const dataDir = t.testdir()
  const directory = await DataDir.open(dataDir)
  const projects = new ProjectStore(dataDir)
  projects.bootstrap({ projectKey: PROJECT_KEY, personalKey: PERSONAL_KEY })
  await projects.close()
  directory.release()
  const log = new MemoryLog()
  const events = new SharedBlocks()
  setEnvironmentData('tenrec test memory', { log: log.memory, events: events.memory })
  const settings = loadSettings({
    flags: new Map([
      ['data-dir', dataDir],
      ['port', '0'],
    ]),
    environment: HTTP_SERVER_ENVIRONMENT,
    machine: { coreCount: 2, isTerminal: false },
  })
  const daemon = await startDaemon(settings, {
    log: createLogger({ level: 'error', format: 'json' }),
    threads: ENTRY,
  })
  t.teardown(async () => {
    closeConnections()
    await daemon.stop()
  })
  const read = async (path: string): Promise<Record<string, unknown>> => {
    const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
    const answer = await send(`${daemon.url}/api/projects/1/${path}`, { headers })
    t.equal(answer.status, 200, path)
    return jsonOf(answer) as Record<string, unknown>
  }
  const isProcessed = async (): Promise<boolean> => {
    const { results } = await read('events/?event=$identify')
    return Array.isArray(results) && results.length === 1
  }

  const timestamp = new Date(Date.now() - 60_000).toISOString()
  const batch = [
    ...['ann', 'bob', 'ann'].map((id) => ({ event: 'buy', distinct_id: id, properties: {} })),
    { event: 'look', distinct_id: 'eve', properties: { $set: { email: 'eve@x.example' } } },
    { event: '$identify', distinct_id: 'cat', properties: { $anon_distinct_id: 'bob' } },
  ].map((event) => ({ ...event, timestamp }))
  const { status } = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  t.equal(status, 200)
  t.ok(await eventually(isProcessed), 'the events are processed')
  t.equal(new SharedBlocks(log.memory).count, 1, 'the block went through the log in memory')
  t.equal(events.count, 1, 'the events of one commit went into the warehouse')
  t.match(await read('events/?event=look'), {
    results: [{ distinct_id: 'eve', person: { properties: { email: 'eve@x.example' } } }],
  })
  t.match(await read('persons/?distinct_id=bob'), {
    count: 1,
    results: [{ distinct_ids: ['bob', 'cat'] }],
  })
  const question = 'persons/trends/?entity_id=buy&entity_type=events&date_from=-7d'
  const [answer] = (await read(question))['results'] as readonly [
    { readonly people: readonly { readonly distinct_ids: readonly string[] }[] },
  ]
  const buyers = answer.people.map(({ distinct_ids: [first] }) => first)
  t.strictSame(buyers.sort(), ['ann', 'bob'])

  const reader = new EventReader({ dataDir })
  t.match(reader.statistics(), { projects: [{ rows: 5, segments: 0, bytes: 0 }] })
  await reader.close()
})
