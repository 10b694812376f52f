/**
 * Tests the catalogue of a cluster over a stream in memory that loses answers, is late, is truncated and loses data.
 * Every acknowledged change is made once, no refused change is made, and all copies are equal.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { createLogger } from '../../src/base/log.ts'
import { ControlState } from '../../src/cluster/control-state.ts'
import { CONTROL_MESSAGES_MAX } from '../../src/cluster/limits.ts'
import {
  OvertakenError,
  type SharedStream,
  type StreamListener,
  type StreamState,
} from '../../src/cluster/shared-stream.ts'
import type {
  CatalogueCopy,
  ChangePlace,
  Decided,
  PlacedChanges,
  WholeCopy,
} from '../../src/ports/change-log.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

const COUNTERS = 5
const told: string[] = []
const logger = Object.assign(createLogger({ level: 'silent', format: 'json' }), {
  error: (_fields: object, message: string) => void told.push(message),
})

/** The data of the brokers. */
class MemoryBrokers {
  readonly roll: () => number
  messages: { readonly id: string; readonly data: Buffer }[] = []
  before = 0
  life = 1
  /** How often an answer gets lost, after the message or before it. */
  faults = 0
  isDown = false
  readonly ends: MemoryStream[] = []

  constructor(roll: () => number) {
    this.roll = roll
  }

  get last(): number {
    return this.before + this.messages.length
  }

  forget(): void {
    this.messages = []
    this.before = 0
    this.life++
    for (const end of this.ends) end.hearIncarnation()
  }
}

/** The end of the stream in one process. */
class MemoryStream implements SharedStream {
  readonly #brokers: MemoryBrokers
  readonly #listeners: (() => void)[] = []
  isOff = false

  constructor(brokers: MemoryBrokers) {
    this.#brokers = brokers
    brokers.ends.push(this)
  }

  get seen(): number {
    return this.#brokers.messages.length
  }

  get incarnation(): string {
    return `life ${this.#brokers.life}`
  }

  async publish(data: Uint8Array, id: string, _: number, expected?: number): Promise<number> {
    const brokers = this.#brokers
    await tick()
    this.#require()
    if (brokers.roll() < brokers.faults) throw new Error('the message is lost')
    const known = brokers.messages.findIndex((message) => message.id === id)
    if (known >= 0) return brokers.before + known + 1
    if (expected !== undefined && expected !== brokers.last) throw new OvertakenError('late')
    brokers.messages.push({ id, data: Buffer.from(data) })
    const sequence = brokers.last
    await tick()
    if (brokers.roll() < brokers.faults) throw new Error('the answer is lost')
    return sequence
  }

  follow(listener: StreamListener): void {
    void this.#follow(listener)
  }

  onIncarnation(listener: () => void): void {
    this.#listeners.push(listener)
    setImmediate(listener)
  }

  hearIncarnation(): void {
    for (const listener of this.#listeners) listener()
  }

  async state(): Promise<StreamState> {
    await tick()
    this.#require()
    const { before, last } = this.#brokers
    return { incarnation: this.incarnation, first: before + 1, last, ...NO_FIGURES }
  }

  async cut(before: number): Promise<void> {
    const brokers = this.#brokers
    brokers.messages.splice(0, before - 1 - brokers.before)
    brokers.before = before - 1
  }

  async #follow(listener: StreamListener): Promise<void> {
    const brokers = this.#brokers
    let next = 0
    let incarnation = ''
    while (!this.isOff) {
      await new Promise((resolve) => setTimeout(resolve, brokers.roll() * 4))
      if (brokers.isDown) continue
      if (incarnation !== this.incarnation) {
        incarnation = this.incarnation
        const position = listener.position()
        next = position.incarnation === incarnation ? position.sequence + 1 : 1
      }
      while (next <= brokers.last && incarnation === this.incarnation && !this.isOff) {
        // Data truncated while a message is taken does not arrive.
        next = Math.max(next, brokers.before + 1)
        const data = brokers.messages[next - 1 - brokers.before]?.data ?? Buffer.alloc(0)
        await listener.take({ sequence: next, data }, incarnation)
        next++
      }
    }
  }

  #require(): void {
    if (this.isOff || this.#brokers.isDown) throw new Error('no broker')
  }
}

const NO_FIGURES = { bytes: 0, oldestMs: null, brokers: [] }

/** Counters, and how often each name was added to. */
class MemoryCopy {
  values: Readonly<Record<string, number>> = {}
  place: ChangePlace | null = null
  obstacle: Error | null = null

  apply({ place, changes }: PlacedChanges): void {
    if (this.obstacle !== null) throw this.obstacle
    if (place.number !== (this.place?.number ?? 0) + 1) throw new RangeError('a gap')
    this.values = { ...this.values, ...read(changes) }
    this.place = place
  }

  replace({ place, parts }: WholeCopy): void {
    this.values = Object.fromEntries(parts.flatMap((part) => Object.entries(read(part))))
    this.place = place
  }

  async whole(): Promise<WholeCopy> {
    const { values } = this
    const place = this.place ?? { incarnation: '', sequence: 0, number: 0 }
    await tick()
    return { place, parts: Object.entries(values).map(([key, value]) => write({ [key]: value })) }
  }
}

class Member {
  readonly copy = new MemoryCopy()
  readonly acknowledged = new Map<string, number>()
  readonly refused = new Map<string, number>()
  state: ControlState
  #stream: MemoryStream
  readonly #brokers: MemoryBrokers

  constructor(t: Test, brokers: MemoryBrokers) {
    this.#brokers = brokers
    this.#stream = new MemoryStream(brokers)
    this.state = this.#open()
    t.teardown(() => this.close())
  }

  get place(): number {
    return this.copy.place?.number ?? -1
  }

  /** Drops everything that is only in memory. */
  restart(): void {
    this.close()
    this.#stream = new MemoryStream(this.#brokers)
    this.state = this.#open()
  }

  close(): void {
    this.#stream.isOff = true
    this.state.close()
  }

  async add(key: string): Promise<void> {
    const decide = async (): Promise<Decided<undefined>> => {
      const { place, values } = this.copy
      if (place === null) throw new Error('not begun')
      await tick()
      const changes = write({ [key]: (values[key] ?? 0) + 1 })
      return { result: undefined, proposal: { place, changes, local: new Uint8Array() } }
    }
    const counts = await this.state.commit(await decide(), decide).then(
      () => this.acknowledged,
      () => this.refused,
    )
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }

  #open(): ControlState {
    const { copy } = this
    const stream = this.#stream
    const later = async (action: () => void): Promise<void> => {
      await tick()
      // Like a killed process: the next one begins with the stored data.
      if (stream.isOff) throw new RangeError('it has ended')
      action()
    }
    const writing: CatalogueCopy = {
      apply: (changes) => later(() => copy.apply(changes)),
      replace: (whole) => later(() => copy.replace(whole)),
      whole: () => copy.whole(),
    }
    return new ControlState({
      stream,
      copy: writing,
      place: copy.place,
      logger,
      onChange: () => {},
    })
  }
}

async function begin(t: Test, seed: number): Promise<[MemoryBrokers, Member[]]> {
  const brokers = new MemoryBrokers(randomNumbers(seed))
  const members = [0, 1, 2].map(() => new Member(t, brokers))
  const isBegun = () => members.every(({ state, place }) => state.isSettled && place >= 0)
  t.ok(await eventually(async () => isBegun()), 'one of the processes begins the stream')
  return [brokers, members]
}

async function areEqual(t: Test, members: readonly Member[]): Promise<void> {
  const isSame = () => new Set(members.map(({ place }) => place)).size === 1
  t.ok(await eventually(async () => isSame()), 'all have reached the end')
  for (const { copy, state } of members) {
    t.strictSame(copy.values, members[0]?.copy.values)
    t.equal(state.trouble, null)
  }
}

function sum(members: readonly Member[], of: 'acknowledged' | 'refused', key: string): number {
  return members.reduce((total, member) => total + (member[of].get(key) ?? 0), 0)
}

for (const seed of [1, 2, 3]) {
  t.test(`three processes write at the same time, and answers are lost: ${seed}`, async (t) => {
    const [brokers, members] = await begin(t, seed)
    brokers.faults = 0.1
    const write = async (member: Member): Promise<void> => {
      for (let count = 0; count < 150; count++) {
        await member.add(`counter ${Math.floor(brokers.roll() * COUNTERS)}`)
        if (brokers.roll() < 0.01) member.restart()
      }
    }
    await Promise.all(members.map(write))
    brokers.faults = 0
    await areEqual(t, members)
    for (let counter = 0; counter < COUNTERS; counter++) {
      const key = `counter ${counter}`
      const made = members[0]?.copy.values[key] ?? 0
      const acknowledged = sum(members, 'acknowledged', key)
      t.ok(made >= acknowledged, `none of ${acknowledged} changes is lost`)
      t.ok(made <= acknowledged + sum(members, 'refused', key), 'no change is made twice')
    }
    const again = members.reduce((total, { state }) => total + state.counts.again, 0)
    t.ok(again > 0, 'some process had to decide again')
  })
}

t.test('the stream is truncated, and a new copy begins with a whole catalogue', async (t) => {
  const [brokers, members] = await begin(t, 4)
  const [one, two, late] = members
  if (one === undefined || two === undefined || late === undefined) throw new Error('three')
  late.close()
  for (let count = 0; count < CONTROL_MESSAGES_MAX + 200; count++) await one.add(`key ${count % 9}`)
  t.ok(
    await eventually(async () => brokers.before > CONTROL_MESSAGES_MAX / 2),
    'the stream is truncated',
  )
  t.ok(brokers.messages.length < CONTROL_MESSAGES_MAX)
  late.restart()
  const fresh = new Member(t, brokers)
  await two.add('key 1')
  await areEqual(t, [one, two, late, fresh])
})

t.test('brokers that have lost everything get the newest catalogue', async (t) => {
  const [brokers, members] = await begin(t, 5)
  const [one, two, away] = members
  if (one === undefined || two === undefined || away === undefined) throw new Error('three')
  away.close()
  for (let count = 0; count < 20; count++) await one.add('a')
  await areEqual(t, [one, two])
  brokers.isDown = true
  one.close()
  two.close()
  brokers.forget()
  brokers.isDown = false
  // A copy that is behind starts the stream, and copies with more data join.
  away.restart()
  t.ok(await eventually(async () => brokers.last > 0 && away.state.isSettled))
  t.equal(away.copy.values['a'], undefined)
  one.restart()
  two.restart()
  t.ok(await eventually(async () => away.copy.values['a'] === 20), 'the newer copy wins')
  await two.add('a')
  await areEqual(t, members)
  t.equal(one.copy.values['a'], 21)
})

t.test('a machine stops if the others have continued from an older catalogue', async (t) => {
  const [brokers, members] = await begin(t, 6)
  const [one, two, away] = members
  if (one === undefined || two === undefined || away === undefined) throw new Error('three')
  away.close()
  await one.add('a')
  await one.add('a')
  await areEqual(t, [one, two])
  one.close()
  two.close()
  brokers.forget()
  away.restart()
  t.ok(await eventually(async () => brokers.last > 0 && away.state.isSettled))
  await away.add('b')
  one.restart()
  t.ok(await eventually(async () => one.state.trouble !== null))
  t.match(one.state.trouble, /changes that the other machines lack/)
  await one.add('c')
  t.equal(one.refused.get('c'), 1, 'it changes nothing any more')
  t.strictSame(one.copy.values, { a: 2 }, 'and loses nothing')
})

t.test('a machine that cannot continue says what the operator must do', async (t) => {
  const [, members] = await begin(t, 8)
  const [one, older, damaged] = members
  if (one === undefined || older === undefined || damaged === undefined) throw new Error('three')
  told.length = 0
  const what = 'A newer version of Tenrec has written to the table x. Upgrade this machine.'
  older.copy.obstacle = new OperatorError(what)
  damaged.copy.obstacle = new RangeError('a gap')
  await one.add('a')
  t.ok(await eventually(async () => older.state.trouble !== null && damaged.state.trouble !== null))
  const trouble = 'The catalogue of this machine cannot be changed.'
  t.equal(older.state.trouble, `${trouble} ${what}`)
  t.equal(damaged.state.trouble, trouble)
  t.strictSame(told.toSorted(), [
    `${trouble} ${what}`,
    `${trouble} Restore a backup of another machine of the cluster.`,
  ])
  t.equal(one.state.trouble, null)
})

t.test('without brokers, a change is refused', async (t) => {
  const [brokers, members] = await begin(t, 7)
  const [one] = members
  brokers.isDown = true
  await one?.add('a')
  t.equal(one?.refused.get('a'), 1)
  brokers.isDown = false
  await one?.add('a')
  t.equal(one?.acknowledged.get('a'), 1)
  await areEqual(t, members)
})

function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function write(values: Readonly<Record<string, number>>): Uint8Array {
  return Buffer.from(JSON.stringify(values))
}

function read(bytes: Uint8Array): Record<string, number> {
  return JSON.parse(Buffer.from(bytes).toString()) as Record<string, number>
}
