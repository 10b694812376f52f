/**
 * Tests kill -9 during and right after the transaction in which the daemon or a command changes flags or the
 * organization. The change and its entry in the audit log are both stored, or neither.
 *
 * @lane all
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { PERSONAL_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, send } from '../fixtures/exact-client.ts'

const KILLS = new URL('../fixtures/faults/write-kills.mjs', import.meta.url)
const MAIN = new URL('../../dist/main.js', import.meta.url)
const FLAG = 'projects/1/feature_flags/'

t.teardown(closeConnections)
t.setTimeout(300_000)

/** A change over HTTP or by a command, and the class that runs its transaction. */
interface Change {
  readonly by: 'FlagStore' | 'OrganizationStore'
  readonly request?: readonly [method: string, path: string, body: object]
  readonly command?: readonly string[]
  /** The created object, as reported by `changesOf`, with the route and the object of its entry. */
  readonly change: string
  readonly entry: readonly [route: string, objectId: string | null]
}

const CHANGES: readonly Change[] = [
  {
    by: 'FlagStore',
    request: ['PATCH', `${FLAG}1/`, { name: 'renamed' }],
    change: 'flag a renamed',
    entry: ['/api/projects/:project_id/feature_flags/:id/', '1'],
  },
  {
    by: 'OrganizationStore',
    request: ['POST', 'projects/', { name: 'Second' }],
    change: 'project Second',
    entry: ['/api/projects/', '2'],
  },
  {
    by: 'OrganizationStore',
    request: ['POST', 'projects/1/insights/', { name: 'Killed', query: { kind: 'TrendsQuery' } }],
    change: 'insight Killed TrendsQuery',
    entry: ['/api/projects/:project_id/insights/', '1'],
  },
  {
    by: 'OrganizationStore',
    command: ['role', 'create', '--name', 'Shell'],
    change: 'role Shell',
    entry: ['tenrec role create', null],
  },
  {
    by: 'FlagStore',
    command: ['flag', 'create', 'c'],
    change: 'flag c ',
    entry: ['tenrec flag create', 'c'],
  },
]

/** Returns whether a store has a change, and the number of its entries. */
async function stateOf(dataDir: string, { change, entry }: Change): Promise<[boolean, number]> {
  const organization = new OrganizationStore(dataDir)
  const flags = new FlagStore(dataDir)
  const found = [
    ...flags.flags(1).flags.map(({ key, name }) => `flag ${key} ${name}`),
    ...[1, 2].map((id) => `project ${organization.projects.project(id)?.name}`),
    ...organization.roles
      .list({ limit: 9, offset: 0 })
      .results.map(({ role }) => `role ${role.name}`),
    ...organization.saved
      .listInsights({ projectId: 1, filter: {}, page: { limit: 9, offset: 0 } })
      .results.map(
        ({ insight: { fields } }) => `insight ${fields.name} ${String(fields.query?.['kind'])}`,
      ),
  ]
  const { results } = organization.audit.list({ limit: 99, offset: 0 })
  await flags.close()
  await organization.close()
  const entries = results.filter(
    ({ route, objectId }) => route === entry[0] && objectId === entry[1],
  )
  return [found.includes(change), entries.length]
}

const root = t.testdir()
const template = join(root, 'template')

t.before(async () => {
  const daemon = await spawnDaemon({ dataDir: template })
  const made = await ask(daemon.url, 'POST', FLAG, { key: 'a' })
  if (made.status !== 201) throw new Error(`no flag: ${made.status}`)
  await daemon.stop()
})

function ask(url: string, method: string, path: string, body: object) {
  return send(`${url}/api/${path}`, {
    method,
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
}

/** Makes the change in a process that is killed during it, and returns how the process ended. */
async function dieAt(dataDir: string, change: Change, env: Record<string, string>) {
  const { request, command = [] } = change
  if (request === undefined) {
    const args = [MAIN.pathname, ...command, '--data-dir', dataDir]
    const child = spawn(process.execPath, args, { stdio: 'ignore', env })
    await once(child, 'exit')
    return String(child.signalCode)
  }
  const daemon = await spawnDaemon({ dataDir, env, args: ['--workers', '1'] })
  await ask(daemon.url, ...request).catch(() => null)
  const { signal } = await daemon.ended
  return String(signal)
}

for (const [index, change] of CHANGES.entries()) {
  const { request, command = [] } = change
  const what = request === undefined ? command.join(' ') : `${request[0]} ${request[1]}`
  t.test(`${what}: change and entry are stored, or neither`, async (t) => {
    for (const moment of ['before', 'after'] as const) {
      const dataDir = join(root, `${index}-${moment}`)
      cpSync(template, dataDir, { recursive: true })
      const file = `${dataDir}-kill`
      writeFileSync(file, `${change.by} ${moment}`)
      const env = { NODE_OPTIONS: `--import ${KILLS.href}`, WRITE_KILLS: file }
      t.equal(await dieAt(dataDir, change, env), 'SIGKILL', moment)
      t.equal(readFileSync(file, 'utf8'), '', `the process was killed ${moment} the commit`)
      const isDone = moment === 'after'
      t.strictSame(await stateOf(dataDir, change), [isDone, isDone ? 1 : 0], moment)
    }
  })
}
