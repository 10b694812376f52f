/**
 * Runs the search for extremes with a fixed seed and small bodies. The bodies are the same in each run, and the daemon
 * accepts them. It continues to run, starts again with the stored data, and shows an event that is sent afterward.
 *
 * @lane quick
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { Dice } from '../fixtures/dice.ts'
import { untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { roundsOf, seedOf } from '../fixtures/random-depth.ts'
import { BODY_BYTES_MAX } from './bodies.ts'
import { Client } from './client.ts'
import { ROWS } from './rows.ts'
import {
  crossShapes,
  drawShape,
  mutateShape,
  parseShape,
  type Shape,
  type ShapeBounds,
  shapeBodies,
} from './shapes.ts'

const SEED = seedOf(43)
const SMALL: ShapeBounds = {
  bodiesMax: 1,
  eventsMax: 40,
  propertiesMax: 25,
  valueLengthMax: 3000,
}
const NOW = Date.parse('2024-05-06T00:00:00Z')
const WIRE_BYTES_MAX = 64 * 1024

t.teardown(closeConnections)

/** The bytes before compression, as text. */
function packedText(shape: Shape, seed: number): string {
  return shapeBodies(shape, seed, { wireBytesMax: WIRE_BYTES_MAX, now: NOW })
    .map(({ packed }) => packed.toString('base64'))
    .join(' ')
}

function smallShapes(count: number): readonly Shape[] {
  const dice = new Dice(SEED)
  const drawn = dice.list(Math.ceil(count / 2), () => drawShape(dice, SMALL))
  const made = dice.list(Math.floor(count / 2), () => {
    const crossed = crossShapes(dice, dice.pick(drawn), dice.pick(drawn))
    return mutateShape(dice, crossed, SMALL)
  })
  return [...drawn, ...made]
}

t.test('the same seed creates the same shapes and the same bytes', (t) => {
  const shapes = smallShapes(16)
  t.same(smallShapes(16), shapes)
  const makeAll = (): readonly string[] => shapes.map(packedText)
  t.same(makeAll(), makeAll())
  t.notSame(drawShape(new Dice(SEED + 1), SMALL), shapes[0], 'another seed makes another one')
  t.end()
})

t.test('a shape can be written and read back, and an invalid one is refused', (t) => {
  for (const shape of smallShapes(10)) {
    t.same(parseShape(JSON.parse(JSON.stringify(shape))), shape)
  }
  const [shape] = smallShapes(2)
  t.throws(() => parseShape({ ...shape, kind: 'unheard of' }), /kind of a shape must be one of/)
  t.throws(() => parseShape({ ...shape, events: 'many' }), /events of a shape must be a number/)
  t.end()
})

t.test('bodies stay below the body limit and the byte limit of the trial', (t) => {
  const dice = new Dice(SEED)
  // Large ones, because small ones are always below.
  for (let index = 0; index < roundsOf(20, 1); index++) {
    const shape = mutateShape(dice, drawShape(dice))
    const bodies = shapeBodies(shape, index, { wireBytesMax: WIRE_BYTES_MAX, now: NOW })
    const largest = Math.max(...bodies.map(({ bytes }) => bytes))
    t.ok(largest <= BODY_BYTES_MAX + 1024, JSON.stringify(shape))
    const sent = bodies.reduce((sum, { packed }) => sum + packed.length, 0)
    const isOneEvent = bodies.length === 1 && bodies[0]?.events === 1
    t.ok(sent <= WIRE_BYTES_MAX || isOneEvent, JSON.stringify(shape))
  }
  t.end()
})

t.test('rows have unique names', (t) => {
  const names = ROWS.map(({ number, variant }) => `${number} ${variant ?? ''}`)
  t.equal(new Set(names).size, names.length)
  t.end()
})

t.test('small extremes are accepted, processed, and survive a kill', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const first = await spawnDaemon({ dataDir })
  t.teardown(() => first.kill())
  const attacker = new Client({ url: first.url, address: '127.0.0.1', connectionsMax: 2 })
  t.teardown(() => attacker.close())
  const refused: object[] = []
  const shapes = smallShapes(roundsOf(300, 30))
  for (const [index, shape] of shapes.entries()) {
    for (const body of shapeBodies(shape, SEED + index, { wireBytesMax: WIRE_BYTES_MAX })) {
      const { status, text } = await attacker.batch(body)
      if (status !== 200) refused.push({ status, text, shape })
    }
  }
  t.same(refused, [], 'each body is accepted')
  await sendAndSee(first)
  t.same(await readNames(first), [200, 200, 200, 200], 'names and persons are listed')
  t.ok(first.isRunning, first.lastLines())
  await first.kill()

  const second = await spawnDaemon({ dataDir })
  t.teardown(() => second.kill())
  await sendAndSee(second)
  t.same(await second.stop(), { code: 0, signal: null }, second.lastLines())
})

/** Sends an event and waits until it can be read. */
async function sendAndSee(daemon: SpawnedDaemon): Promise<void> {
  const uuid = randomUUID()
  const batch = [{ uuid, event: 'afterward', distinct_id: 'somebody' }]
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  await untilVisible({ url: daemon.url, personalKey: PERSONAL_KEY }, uuid)
}

async function readNames(daemon: SpawnedDaemon): Promise<readonly number[]> {
  const paths = [
    'event_definitions/?limit=2',
    'property_definitions/?limit=2',
    'property_definitions/?type=person&limit=2',
    'persons/?limit=2',
  ]
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const statuses: number[] = []
  for (const path of paths) {
    const answer = await send(`${daemon.url}/api/projects/1/${path}`, { headers })
    statuses.push(answer.status)
  }
  return statuses
}
