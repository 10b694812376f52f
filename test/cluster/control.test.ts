/**
 * Tests the catalogue of three machines: a change on one is on the others immediately, with concurrent writers and
 * after any kill, and a new machine gets all of it.
 *
 * @lane cluster
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { catalogueLines } from '../fixtures/catalogue-lines.ts'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { makeFlag, makeFlagAtLast, Node } from '../fixtures/cluster/nodes.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

const run = promisify(execFile)

t.setTimeout(300_000)
// Each test has its own brokers and machines, and waits most of its time.
t.jobs = 2

const FLAGS = '/api/projects/1/feature_flags/'
const EVERYBODY = { groups: [{ rollout_percentage: 100 }] }
/** The pause between two changes of one writer, which leaves the machine free for the test. */
const PAUSE_MS = 100

interface Cluster {
  readonly folder: string
  readonly brokers: Brokers
  readonly nodes: readonly [Node, Node]
}

async function startCluster(t: Test): Promise<Cluster> {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const one = new Node(t, folder, 'one', brokers.addresses)
  const two = new Node(t, folder, 'two', brokers.addresses)
  await Promise.all([one.start(), two.start()])
  return { folder, brokers, nodes: [one, two] }
}

/** Creates a flag for everybody, and returns the status. */
async function make(node: Node, key: string): Promise<number> {
  return (await makeFlag(node, key, EVERYBODY)).status
}

async function makeAtLast(node: Node, key: string): Promise<number> {
  return (await makeFlagAtLast(node, key, EVERYBODY)).status
}

/** Returns the flags that are decided to be on. */
async function decided({ url }: Node): Promise<readonly string[]> {
  const answer = await fetch(`${url}/flags/?v=2`, {
    method: 'POST',
    body: JSON.stringify({ token: PROJECT_KEY, distinct_id: 'ann' }),
  })
  const { flags = {} } = (await answer.json()) as { readonly flags?: object }
  return Object.keys(flags)
}

async function command(...args: readonly string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['dist/main.js', ...args])
  return stdout
}

/** The daily secrets for visitors without cookies. */
function secretsOf({ dataDir }: Node): readonly string[] {
  const folder = join(dataDir, 'cookieless')
  if (!existsSync(folder)) return []
  return readdirSync(folder).map((day) => `${day} ${readFileSync(join(folder, day), 'utf8')}`)
}

async function keysOf(node: Node): Promise<readonly string[]> {
  const { results } = JSON.parse(await node.text(`${FLAGS}?limit=1000`)) as {
    readonly results: readonly { readonly key: string }[]
  }
  return results.map(({ key }) => key)
}

t.test('a change arrives on every machine', { skip: areBrokersMissing }, async (t) => {
  const { folder, brokers, nodes } = await startCluster(t)
  const [one, two] = nodes
  for (let count = 0; count < 20; count++) {
    const key = `flag-${count}`
    t.equal(await makeAtLast(nodes[count % 2] ?? one, key), 201)
    const other = nodes[(count + 1) % 2] ?? two
    const isSeen = async () => (await decided(other)).includes(key)
    t.ok(await eventually(isSeen), `${key} is decided by the other machine before the next change`)
  }
  const keys = Array.from({ length: 40 }, (_, count) => `both-${count}`)
  const made = await Promise.all(keys.map((key, index) => makeAtLast(nodes[index % 2] ?? one, key)))
  t.ok(
    made.every((status) => status === 201),
    'concurrent writers lose no change',
  )
  const both = async () => (await keysOf(one)).filter((key) => key.startsWith('both-'))
  await eventually(async () => (await both()).length >= keys.length)
  t.strictSame((await both()).toSorted(), keys.toSorted(), 'and each is there once')
  const three = new Node(t, folder, 'three', brokers.addresses)
  await three.start()
  t.strictSame(await keysOf(three), await keysOf(one), 'who comes new has all of it')
  t.equal(await makeAtLast(three, 'third'), 201)
  for (const node of [one, two])
    t.ok(await eventually(async () => (await decided(node)).includes('third')))
  t.match(await command('project', 'create', '--name', 'Shop', '--data-dir', one.dataDir), /Shop/)
  const names = async (node: Node) => await node.text('/api/projects/')
  for (const node of [one, two]) {
    t.ok(
      await eventually(async () => (await names(node)).includes('Shop')),
      'commands share their changes, too',
    )
  }
  t.ok(await eventually(async () => secretsOf(one).length > 4), 'there are secrets of open days')
  const secrets = secretsOf(one)
  for (const node of [two, three]) {
    await eventually(async () => secretsOf(node).length === secrets.length)
    t.strictSame(secretsOf(node), secrets, 'they are the same on each machine')
  }
  await three.stop()
  t.match(
    await command('project', 'create', '--name', 'Spare', '--data-dir', three.dataDir),
    /Spare/,
  )
  t.ok(
    await eventually(async () => (await names(one)).includes('Spare')),
    'a command works without a daemon',
  )
  for (const node of [one, two]) await node.stop()
  const lines = await catalogueLines(one.dataDir)
  t.strictSame(await catalogueLines(two.dataDir), lines)
  t.strictSame(await catalogueLines(three.dataDir), lines)
})

/** Creates flags on all nodes until it is stopped. Refused changes are not retried. */
class FlagMaker {
  readonly made = new Set<string>()
  readonly refused = new Set<string>()
  readonly #making: readonly Promise<void>[]
  #isStopped = false

  constructor(nodes: readonly Node[]) {
    this.#making = nodes.map((node, index) => this.#run(node, index))
  }

  async more(count: number): Promise<void> {
    const wanted = this.made.size + count
    while (this.made.size < wanted) await sleep(20)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#making)
  }

  async #run(node: Node, index: number): Promise<void> {
    for (let count = 0; !this.#isStopped; count++) {
      const key = `flag-${index}-${count}`
      const status = await make(node, key).catch(() => 0)
      if (status === 201) this.made.add(key)
      else this.refused.add(key)
      await sleep(PAUSE_MS)
    }
  }
}

t.test('no change is lost if machines are killed', { skip: areBrokersMissing }, async (t) => {
  const { brokers, nodes } = await startCluster(t)
  const [one, two] = nodes
  const maker = new FlagMaker(nodes)
  await maker.more(20)
  for (let index = 0; index < 3; index++) {
    await brokers.kill(index)
    await maker.more(10)
    brokers.begin(index)
    await maker.more(10)
  }
  await two.kill()
  await maker.more(10)
  await two.start()
  await maker.more(20)
  await maker.stop()
  const hasAll = async (node: Node): Promise<boolean> => {
    const known = new Set(await keysOf(node))
    return [...maker.made].every((key) => known.has(key))
  }
  for (const node of nodes) t.ok(await eventually(() => hasAll(node)), 'no change is lost')
  const keys = await keysOf(one)
  t.equal(new Set(keys).size, keys.length, 'no change is made twice')
  const strange = keys.filter((key) => !maker.made.has(key) && !maker.refused.has(key))
  t.strictSame(strange, [])
  for (const node of nodes) await node.stop()
  t.strictSame(await catalogueLines(one.dataDir), await catalogueLines(two.dataDir))
})

t.test(
  'without a majority of brokers, changes are refused, and everything else works',
  { skip: areBrokersMissing },
  async (t) => {
    const { folder, brokers, nodes } = await startCluster(t)
    const [one, two] = nodes
    t.equal(await makeAtLast(one, 'early'), 201)
    t.ok(await eventually(async () => (await decided(two)).includes('early')))
    await brokers.killAll()
    t.equal(await make(one, 'never'), 503, 'a change is refused')
    t.strictSame(await decided(one), ['early'], 'flags are decided')
    t.strictSame(await keysOf(two), ['early'], 'and read')
    const refusing: Node[] = []
    const refuse = async (node: Node): Promise<void> => {
      t.equal(await make(node, 'never'), 503)
      refusing.push(node)
    }
    await Promise.all([refuse(two), refuse(one)])
    t.equal(refusing[0], one, 'a machine that has just refused a change waits less')
    await one.kill()
    await one.start()
    t.strictSame(await decided(one), ['early'], 'a start needs no broker')
    brokers.beginAll()
    t.equal(await makeAtLast(one, 'late'), 201)
    t.ok(await eventually(async () => (await decided(two)).includes('late')))
    await brokers.killAll({ forget: true })
    await one.kill()
    brokers.beginAll()
    t.equal(await makeAtLast(two, 'anew'), 201, 'the other machines continue')
    await one.start()
    t.ok(await eventually(async () => (await decided(one)).includes('anew')))
    const three = new Node(t, folder, 'three', brokers.addresses)
    await three.start()
    for (const node of [one, two, three]) await node.stop()
    const lines = await catalogueLines(one.dataDir)
    t.strictSame(await catalogueLines(two.dataDir), lines)
    t.strictSame(await catalogueLines(three.dataDir), lines)
  },
)

t.test('a body too large for a message is refused', { skip: areBrokersMissing }, async (t) => {
  const folder = t.testdir({})
  const brokers = await Brokers.start(t, folder)
  const node = new Node(t, folder, 'one', brokers.addresses, ['--body-limit', '32MiB'])
  await t.rejects(
    node.start(),
    /`max_payload` of the brokers is 33554432/,
    'the start is refused and names the limit',
  )
})
