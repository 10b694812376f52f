/**
 * Known attacks, by number. In the past, each of them ended the daemon, filled its memory or its disk, or delayed other
 * clients. An attack uses only the public key of a project, unless its description says otherwise. All input is
 * generated from a seed.
 */
import { createCipheriv, createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { REFUSALS } from '../../src/base/refusals.ts'
import { Dice } from '../fixtures/dice.ts'
import { type Body, packAround, packBody, packEvents } from './bodies.ts'
import { Client, pause, type Reply, type SendResult } from './client.ts'
import { plainEvents, questionsOfMonth } from './ordinary-month.ts'
import { type Shape, shapeBodies } from './shapes.ts'
import { type Attack, readGauge, type Scene, untilProcessed } from './trial.ts'
import type { Machine } from './watched-daemon.ts'

export interface Row {
  readonly number: number
  /** Distinguishes variants of a row. */
  readonly variant?: string
  readonly title: string
  /** The machine of this row. Command line options override it. */
  readonly machine?: Partial<Machine>
  make(seed: number): Attack
}

/** The events of a body, and the length of the text of each, in UTF-16 code units. */
interface Filling {
  readonly events: number
  readonly textUnits: number
}

const CONCURRENCY = 4
const DAY_MS = 86_400_000
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'
const LARGE_TEXT_BYTES = 520_000
const PERSONS_OF_A_BODY = 38
/** Time limit for sending and processing the events of an ordinary month. */
const MONTH_MS_MAX = 3_600_000
/** Row 13: the senders, each with an address of its own, and their bodies. */
const FILLING_SENDERS = 8
const FIRST_FILLING_ADDRESS = 10
const LARGE_EVENTS: Filling = { events: 250, textUnits: 1000 }
const SMALL_EVENTS: Filling = { events: 4000, textUnits: 8 }
/** Filling ends after this time, whether the disk is full or not. */
const FILL_MS_MAX = 900_000
/** The disk is full if all captures have been refused because of it for so long. */
const FULL_MS = 10_000
const PROBE_MS = 10_000
/** Decisions of each person whose decisions are compared. */
const DECISIONS = 1000

/** Returns a random text of letters and digits, which compression cannot make much smaller. */
function word(dice: Dice, length: number): string {
  let text = ''
  while (text.length < length) text += LETTERS[dice.below(LETTERS.length)] ?? ''
  return text
}

/** Returns texts of one repeated letter: large, different from each other, and almost nothing after compression. */
function largeText(index: number, length: number): string {
  return `${index} ${(LETTERS[index % LETTERS.length] ?? '').repeat(length)}`.slice(0, length)
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

async function timed(scene: Scene, name: string, ask: () => Promise<Reply>): Promise<Reply> {
  const reply = await ask()
  scene.note(name, { status: reply.status, ms: Math.round(reply.ms), bytes: reply.bytes })
  return reply
}

function query(client: Client, value: object): Promise<Reply> {
  return client.api('POST', 'query/', { query: value })
}

/** Rows 1 and 2: short texts, then bodies of 39 events with one text of 500 KB for each body. */
function textColumn(seed: number, largeBodies: number): readonly Body[] {
  const dice = new Dice(seed)
  const short = Array.from({ length: 400 }, (_, index) => ({
    event: 'text',
    distinct_id: `t${index % 10}`,
    properties: { p: `${word(dice, 8)}${index}` },
  }))
  const large = Array.from({ length: largeBodies }, (_, index) =>
    packEvents(
      Array.from({ length: 39 }, (_, event) => ({
        event: 'text',
        distinct_id: `t${event % 10}`,
        properties: { p: largeText(index, 500_000) },
      })),
      39,
    ),
  )
  return [...packEvents(short, 200), ...large.flat()]
}

function sending(bodies: readonly Body[]): Attack {
  return { send: ({ attacker, endMs }) => attacker.sendAll(bodies, CONCURRENCY, endMs) }
}

interface LargeOwner {
  readonly owners: number
  readonly isGroup: boolean
}

/** Rows 3 to 5: persons or groups with one property of 520,000 characters each. */
function* largeOwners({ owners, isGroup }: LargeOwner): Generator<Body> {
  for (let first = 0; first < owners; first += PERSONS_OF_A_BODY) {
    const count = Math.min(PERSONS_OF_A_BODY, owners - first)
    const text = Buffer.from(largeText(first, LARGE_TEXT_BYTES))
    const events = Array.from({ length: count }, (_, index) => {
      const name = `large ${first + index}`
      if (!isGroup) {
        const head = `{"event":"$set","distinct_id":"${name}"`
        return { before: `${head},"properties":{"$set":{"big":"`, after: '"}}}' }
      }
      const head = '{"event":"$groupidentify","distinct_id":"grouper","properties":'
      const group = `{"$group_type":"company","$group_key":"${name}","$group_set":{"big":"`
      return { before: `${head}${group}`, after: '"}}}' }
    })
    yield packAround(text, events)
  }
}

/** One body that changes each of these persons or groups a little: it sets a property of `bytes` characters. */
function smallChanges(seed: number, { owners, isGroup }: LargeOwner, bytes = 80): Body {
  const dice = new Dice(seed)
  const events = Array.from({ length: owners }, (_, index) => {
    const name = `large ${index}`
    const set = { small: word(dice, bytes) }
    if (!isGroup) return { event: '$set', distinct_id: name, properties: { $set: set } }
    const group = { $group_type: 'company', $group_key: name, $group_set: set }
    return { event: '$groupidentify', distinct_id: 'grouper', properties: group }
  })
  return packBody(events.map((event) => JSON.stringify(event)))
}

/** Sends bodies in two parts. The second part follows when the first has been processed, or the time is over. */
function sendingThen(first: readonly Body[], second: readonly Body[]): Attack {
  return {
    async send(scene) {
      const before = await scene.attacker.sendAll(first, CONCURRENCY, scene.endMs)
      scene.note('first part', { statuses: before.statuses, events: before.acceptedEvents })
      await untilIdle(scene)
      scene.note('memory after the first part', scene.daemon.peaks())
      const endMs = Math.max(scene.endMs, performance.now() + scene.settings.attackMsMax / 2)
      return added(before, await scene.attacker.sendAll(second, CONCURRENCY, endMs))
    },
  }
}

function added(first: SendResult, second: SendResult): SendResult {
  const statuses: Record<string, number> = { ...first.statuses }
  for (const [status, count] of Object.entries(second.statuses)) {
    statuses[status] = (statuses[status] ?? 0) + count
  }
  return {
    statuses,
    bytes: first.bytes + second.bytes,
    acceptedEvents: first.acceptedEvents + second.acceptedEvents,
  }
}

async function untilIdle(scene: Scene, msMax = scene.settings.drainMsMax): Promise<void> {
  const { daemon, reader, note } = scene
  const waitedMs = await untilProcessed(daemon, reader, msMax)
  if (waitedMs === null) note('went on before all was processed', true)
}

/** Row 6: many distinct_ids of one person, which merges move from person to person. */
function movedIds(seed: number): Attack {
  const dice = new Dice(seed)
  const ids = Array.from({ length: 400_000 }, (_, index) => ({
    event: '$identify',
    distinct_id: 'hub',
    properties: { $anon_distinct_id: `i${index}` },
  }))
  const targets = Array.from({ length: 3000 }, (_, index) => `${word(dice, 24)}${index}`)
  const persons = targets.map((name) => ({ event: 'hello', distinct_id: name }))
  const moves = targets.map((name, index) => ({
    event: '$merge_dangerously',
    distinct_id: name,
    properties: { alias: targets[index - 1] ?? 'hub' },
  }))
  return sendingThen(packEvents(ids, 50_000), [
    ...packEvents(persons, 3000),
    ...packEvents(moves, 3000),
  ])
}

/** Row 6, second part: persons that are merged one into the next. */
function mergeChain(): Attack {
  const persons = Array.from({ length: 20_001 }, (_, index) => ({
    event: 'hello',
    distinct_id: `c${index}`,
  }))
  const chain = Array.from({ length: 20_000 }, (_, index) => ({
    event: '$merge_dangerously',
    distinct_id: `c${index + 1}`,
    properties: { alias: `c${index}` },
  }))
  return sendingThen(packEvents(persons, 20_001), packEvents(chain, 20_000))
}

/** Row 7: flags of persons with 32,000 properties, requested by many clients. */
function widePersons(): Attack {
  const properties = Object.fromEntries(
    Array.from({ length: 32_000 }, (_, index) => [`k${index}`, index % 10]),
  )
  const bodies = Array.from({ length: 80 }, (_, person) => ({
    event: '$set',
    distinct_id: `wide${person}`,
    properties: { $set: properties },
  }))
  const packed = packEvents(bodies, 40)
  const small = { event: '$set', distinct_id: 'narrow', properties: { $set: { plan: 'free' } } }
  return {
    async prepare(scene) {
      const condition = { key: 'plan', value: 'pro', operator: 'exact', type: 'person' }
      for (const key of ['first', 'second', 'third']) {
        const filters = { groups: [{ properties: [condition], rollout_percentage: 100 }] }
        await scene.reader.api('POST', 'feature_flags/', { key, filters, active: true })
      }
      await scene.reader.post('/batch/', { batch: [small] })
    },
    async send(scene) {
      const sent = await scene.attacker.sendAll(packed, CONCURRENCY, scene.endMs)
      await untilIdle(scene)
      for (const clients of [20, 100]) await askFlags(scene, clients, 10_000)
      return sent
    },
    async read(scene) {
      // One after another, so that a decision does not wait for another one. The two persons take turns, so that other
      // work on the machine delays both alike.
      const times = { narrow: [] as number[], wide1: [] as number[] }
      for (let turn = 0; turn < DECISIONS; turn++) {
        for (const id of ['narrow', 'wide1'] as const) {
          const value = { distinct_id: id, person_properties: { turn } }
          times[id].push((await scene.reader.post('/flags/?v=2', value)).ms)
        }
      }
      for (const [id, all] of Object.entries(times)) {
        all.sort((a, b) => a - b)
        const at = (share: number): number => Number((all[DECISIONS * share] ?? 0).toFixed(2))
        scene.note(`decision of ${id}`, { medianMs: at(0.5), p99Ms: at(0.99) })
      }
    },
  }
}

async function askFlags(scene: Scene, clients: number, ms: number): Promise<void> {
  const endMs = performance.now() + ms
  const times: number[] = []
  const ask = async (client: number): Promise<void> => {
    for (let turn = client; performance.now() < endMs; turn++) {
      const value = { distinct_id: `wide${turn % 80}`, person_properties: { a: 1 } }
      times.push((await scene.attacker.post('/flags/?v=2', value)).ms)
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, client) => ask(client)))
  times.sort((a, b) => a - b)
  const longestMs = Math.round(times.at(-1) ?? 0)
  const medianMs = Math.round(times[Math.floor(times.length / 2)] ?? 0)
  scene.note(`${clients} clients ask for flags`, { requests: times.length, medianMs, longestMs })
}

/** Row 8: an endless number of event and property names, then a new one. */
function longNames(): Attack {
  const events = Array.from({ length: 100_000 }, (_, index) => ({
    event: `${'n'.repeat(190)}${index}`,
    distinct_id: 'namer',
    properties: { [`${'q'.repeat(190)}${index}`]: 1 },
  }))
  return {
    send: sending(packEvents(events, 35_000)).send,
    async read(scene) {
      const { reader } = scene
      await timed(scene, 'two events', () => reader.api('GET', 'event_definitions/?limit=2'))
      await timed(scene, 'two events again', () => reader.api('GET', 'event_definitions/?limit=2'))
      await timed(scene, 'two properties', () => reader.api('GET', 'property_definitions/?limit=2'))
      const brandNew = { event: 'brand new', distinct_id: 'p', properties: { 'brand new p': 1 } }
      await reader.post('/batch/', { batch: [brandNew] })
      await pause(3000)
      for (const kind of ['event', 'property']) {
        const reply = await reader.api('GET', `${kind}_definitions/?search=brand&limit=5`)
        scene.note(`a new ${kind} is listed`, reply.text.includes('brand new'))
      }
    },
  }
}

/** Row 9: a very large number of persons in few bodies. */
function newIds(seed: number): Attack {
  const dice = new Dice(seed)
  const bodies = Array.from({ length: 6 }, () =>
    packBody(
      Array.from(
        { length: 266_667 },
        () => `{"event":"$identify","distinct_id":"${word(dice, 8)}"}`,
      ),
    ),
  )
  return sending(bodies)
}

/** Row 10: one event of the year 1, then queries over all time about another event. */
function yearOne(): Attack {
  const now = Date.now()
  const ordinary = Array.from({ length: 1000 }, (_, index) => ({
    event: 'bought',
    distinct_id: `b${index % 50}`,
    timestamp: isoTime(now - (index % 30) * DAY_MS),
    properties: { price: index },
  }))
  const old = { event: 'old', distinct_id: 'old', timestamp: '0001-01-01T00:00:00Z' }
  return {
    send: sending(packEvents([...ordinary, old], 1001)).send,
    async read(scene) {
      const dateRange = { date_from: 'all' }
      const series = [{ kind: 'EventsNode', event: 'bought' }]
      const ask = async (name: string, value: object): Promise<void> => {
        const reply = await timed(scene, name, () => query(scene.reader, value))
        if (reply.status !== 200) scene.note(`${name}: detail`, reply.text.slice(0, 200))
      }
      for (const interval of ['hour', 'day', 'week', 'month']) {
        await ask(`trends by ${interval}`, { kind: 'TrendsQuery', series, dateRange, interval })
      }
      await ask('lifecycle', { kind: 'LifecycleQuery', series, dateRange })
      await ask('stickiness', { kind: 'StickinessQuery', series, dateRange })
      await ask('funnel', { kind: 'FunnelsQuery', series: [...series, ...series], dateRange })
      await ask('web', { kind: 'WebOverviewQuery', dateRange, properties: [] })
    },
  }
}

/** Row 11: five junk group types, then a valid one. */
function junkGroups(): Attack {
  const junk = { j1: 'a', j2: 'a', j3: 'a', j4: 'a', j5: 'a' }
  const event = { event: 'junk', distinct_id: 'j', properties: { $groups: junk } }
  const good = { event: 'good', distinct_id: 'g', properties: { $groups: { company: 'acme' } } }
  return {
    send: sending(packEvents([event], 1)).send,
    async read(scene) {
      const { reader } = scene
      const isListed = async (): Promise<boolean> => {
        await reader.post('/batch/', { batch: [good] })
        await pause(1500)
        return (await reader.api('GET', 'groups_types/')).text.includes('company')
      }
      scene.note('a good type is taken', await isListed())
      const reply = await reader.api('DELETE', 'groups_types/0/')
      scene.note('deletion of a junk type', reply.status)
      scene.note('a good type is taken after the deletion', await isListed())
    },
  }
}

/** Row 12, with a key: a large shared answer that strangers read. */
function largeShare(): Attack {
  const now = Date.now()
  const events = Array.from({ length: 25 * 20 }, (_, index) => ({
    event: 'shared',
    distinct_id: `s${index % 25}`,
    timestamp: isoTime(now - Math.floor(index / 25) * DAY_MS - 60_000),
    properties: { value: `value ${index % 25}` },
  }))
  let token = ''
  return {
    async prepare(scene) {
      await scene.reader.sendAll(packEvents(events, 500), 1, scene.endMs)
      await pause(1000)
      const source = {
        kind: 'TrendsQuery',
        series: [{ kind: 'EventsNode', event: 'shared' }],
        interval: 'minute',
        dateRange: { date_from: '-20d' },
        breakdownFilter: { breakdown: 'value', breakdown_type: 'event', breakdown_limit: 25 },
      }
      const insight = { name: 'large', saved: true, query: { kind: 'InsightVizNode', source } }
      const made = await scene.reader.api('POST', 'insights/', insight)
      scene.note('saved', `${made.status} ${made.status === 201 ? '' : made.text.slice(0, 200)}`)
      const { id } = JSON.parse(made.text) as { id?: number }
      const path = `insights/${String(id)}/sharing/`
      const shared = await scene.reader.api('PATCH', path, { enabled: true })
      token = String((JSON.parse(shared.text) as { access_token?: string }).access_token)
      const asked = await query(scene.reader, source)
      scene.note('the query route', { status: asked.status, bytes: asked.bytes })
    },
    async send(scene) {
      const statuses: Record<string, number> = {}
      let bytes = 0
      const read = async (): Promise<void> => {
        const reply = await scene.attacker.get(`/shared/${token}.json`)
        statuses[reply.status] = (statuses[reply.status] ?? 0) + 1
        bytes = Math.max(bytes, reply.bytes)
      }
      for (let round = 0; round < 2; round++) await Promise.all(Array.from({ length: 20 }, read))
      scene.note('bytes of an answer', bytes)
      return { statuses, bytes: 0, acceptedEvents: 0 }
    },
  }
}

/** Row 13: plain events with a text each, at full speed, into a small file system until it is full. */
function smallDisk(seed: number, filling: Filling): Attack {
  return {
    leavesDiskFull: true,
    async send(scene) {
      const filled = await fillDisk(scene, seed, filling)
      await untilIdle(scene)
      scene.note('accepted events', filled.acceptedEvents)
      scene.note('while full', await probeFull(scene))
      const left = readGauge(await scene.reader.get('/metrics'), 'ingest_queue_depth')
      scene.note('events that wait', left)
      scene.note('stored events', await countEvents(scene.reader, 'plain'))
      return filled
    },
    async restarted(scene) {
      scene.note('full after a restart', await probeFull(scene))
      const stored = await countEvents(scene.reader, 'plain')
      scene.note('stored events after a restart', stored)
      const { diskMib } = scene.settings
      if (diskMib !== undefined) scene.place.growFileSystem(2 * diskMib)
    },
  }
}

/**
 * Sends events from several addresses, because one address may fill only a part of the queue. Ends when the disk is
 * full: for some seconds, all captures of all senders are refused because of the disk, and no event waits.
 */
async function fillDisk(scene: Scene, seed: number, filling: Filling): Promise<SendResult> {
  const statuses: Record<string, number> = {}
  const refusals: Record<string, number> = {}
  const startMs = performance.now()
  const endMs = startMs + FILL_MS_MAX
  let bytes = 0
  let acceptedEvents = 0
  /** The time of the last answer that was not a refusal because of the disk. */
  let notFullMs = startMs
  let isFull = false
  const work = async (client: Client, index: number): Promise<void> => {
    const dice = new Dice(seed * 100 + index)
    const texts = randomTexts(`${seed} ${index}`, filling.textUnits)
    while (!isFull && scene.daemon.isAlive && performance.now() < endMs) {
      const body = packBody(plainEvents(dice, filling.events).map((event) => texts(event)))
      const reply = await client.batch(body)
      statuses[reply.status] = (statuses[reply.status] ?? 0) + 1
      bytes += body.packed.length
      if (!isDiskFull(reply)) notFullMs = performance.now()
      if (reply.status === 200) {
        acceptedEvents += body.events
        continue
      }
      const reason = detailOf(reply)
      refusals[reason] = (refusals[reason] ?? 0) + 1
      await pause(100)
    }
  }
  const watch = async (): Promise<void> => {
    while (!isFull && scene.daemon.isAlive && performance.now() < endMs) {
      await pause(500)
      if (performance.now() - notFullMs < FULL_MS) continue
      const left = readGauge(await scene.reader.get('/metrics'), 'ingest_queue_depth')
      isFull = left === 0 && performance.now() - notFullMs >= FULL_MS
    }
  }
  const others = Array.from({ length: FILLING_SENDERS - 1 }, (_, index) =>
    otherClient(scene, index),
  )
  await Promise.all([watch(), ...[scene.attacker, ...others].map(work)])
  for (const client of others) client.close()
  scene.note('refusals', refusals)
  if (isFull) {
    const afterMs = Math.round(performance.now() - startMs)
    scene.note('full', { afterMs, ...roundedUse(scene) })
  }
  return { statuses, bytes, acceptedEvents }
}

function roundedUse({ place }: Scene): Readonly<Record<string, number>> {
  const { usedMib = 0, sizeMib = 0 } = place.fileSystem() ?? {}
  return { usedMib: Math.round(usedMib), sizeMib: Math.round(sizeMib) }
}

/** A further sender beside the attacker, with an address that no other client has. */
function otherClient({ url, settings }: Scene, index: number): Client {
  const last = FIRST_FILLING_ADDRESS + index
  const options = { url, address: `127.0.0.${last}`, connectionsMax: 4 }
  return new Client(
    settings.isForwarded ? { ...options, forwardedFor: `203.0.113.${last}` } : options,
  )
}

/** Adds a property with a random text to the JSON of an event, so that compression cannot make it much smaller. */
function randomTexts(seed: string, units: number): (event: string) => string {
  const key = createHash('md5').update(seed).digest()
  const cipher = createCipheriv('aes-128-ctr', key, Buffer.alloc(16))
  const zeros = Buffer.alloc((units * 3) / 4)
  return (event) => `${event.slice(0, -2)},"note":"${cipher.update(zeros).toString('base64')}"}}`
}

/** Asks for flags, reads and sends captures for some seconds, and counts the answers. */
async function probeFull(scene: Scene): Promise<Readonly<Record<string, number>>> {
  const { reader } = scene
  const counts = {
    captures: 0,
    diskFull: 0,
    flags: 0,
    flagsAnswered: 0,
    reads: 0,
    readsAnswered: 0,
  }
  const endMs = performance.now() + PROBE_MS
  for (let turn = 0; performance.now() < endMs && scene.daemon.isAlive; turn++) {
    const event = { event: 'probe', distinct_id: `probe ${turn}` }
    counts.captures++
    if (isDiskFull(await reader.post('/batch/', { batch: [event] }))) counts.diskFull++
    counts.flags++
    const flags = await reader.post('/flags/?v=2', { distinct_id: `probe ${turn}` })
    if (flags.status === 200) counts.flagsAnswered++
    counts.reads++
    const read = await reader.api('GET', 'events/?limit=2&event=plain')
    if (read.status === 200) counts.readsAnswered++
    await pause(100)
  }
  return { ...counts, ...roundedUse(scene) }
}

function isDiskFull(reply: Reply): boolean {
  return reply.status === 503 && detailOf(reply) === REFUSALS.disk_full.detail
}

function detailOf({ status, text }: Reply): string {
  if (status !== 503) return String(status)
  return String((JSON.parse(text) as { detail?: unknown }).detail)
}

async function countEvents(client: Client, event: string): Promise<number | null> {
  const series = [{ kind: 'EventsNode', event }]
  const trendsFilter = { display: 'BoldNumber' }
  const dateRange = { date_from: '-40d' }
  const reply = await query(client, { kind: 'TrendsQuery', series, trendsFilter, dateRange })
  if (reply.status !== 200) return null
  const { results } = JSON.parse(reply.text) as { results?: { aggregated_value?: number }[] }
  return results?.[0]?.aggregated_value ?? null
}

/** Row 14: all connections of a process with few open files are taken, while events arrive. */
function allConnections(): Attack {
  return {
    async send(scene) {
      const { hostname, port } = new URL(scene.url)
      const sockets: Socket[] = []
      for (let index = 0; index < 200; index++) {
        const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.2' })
        socket.on('error', () => undefined)
        sockets.push(socket)
      }
      const statuses: Record<string, number> = {}
      let bytes = 0
      let acceptedEvents = 0
      const endMs = Math.min(scene.endMs, performance.now() + 15_000)
      while (performance.now() < endMs && scene.daemon.isAlive) {
        const [body] = packEvents(
          Array.from({ length: 1000 }, (_, index) => ({
            event: 'plain',
            distinct_id: `d${index}`,
          })),
          1000,
        )
        if (body === undefined) break
        const reply = await scene.attacker.batch(body)
        bytes += body.packed.length
        statuses[reply.status] = (statuses[reply.status] ?? 0) + 1
        if (reply.status === 200) acceptedEvents += body.events
        await pause(20)
      }
      for (const socket of sockets) socket.destroy()
      return { statuses, bytes, acceptedEvents }
    },
  }
}

/** Row 15: nothing hostile. A month of events on a small machine, then ten queries one after another. */
function smallMachine(seed: number, events: number): Attack {
  return {
    async prepare(scene) {
      const dice = new Dice(seed)
      const startMs = performance.now()
      const total = events / 1000
      const endMs = startMs + MONTH_MS_MAX
      for (let sent = 0; sent < total && scene.daemon.isAlive; ) {
        const bodies: Body[] = []
        for (let index = 0; index < 8 && sent < total; index++, sent++) {
          bodies.push(packBody(plainEvents(dice, 1000, { done: sent * 1000, total: events })))
        }
        await scene.attacker.sendAll(bodies, 2, endMs)
      }
      // Queries are measured on stored events, not beside a backlog, so this wait is longer than that after an attack.
      await untilIdle(scene, Math.max(0, endMs - performance.now()))
      scene.note('filled', { events, seconds: Math.round((performance.now() - startMs) / 1000) })
      scene.note('memory after filling', scene.daemon.peaks())
    },
    send: () => Promise.resolve({ statuses: {}, bytes: 0, acceptedEvents: 0 }),
    async read(scene) {
      for (const [name, question] of questionsOfMonth()) {
        if (!scene.daemon.isAlive) return
        const reply = await timed(scene, name, () => query(scene.reader, question))
        if (reply.status !== 200) scene.note(`${name}: detail`, reply.text.slice(0, 200))
      }
      await pause(30_000)
      scene.note('anonymous MiB 30 s later', Math.round(scene.daemon.anonymousMib()))
    },
  }
}

/** Row 16: one body in which each event has 500 names of its own. */
const OWN_NAMES: Shape = {
  bodies: 1,
  events: 1901,
  kind: 'custom',
  names: 'one',
  nameLength: 5,
  ids: 'each',
  idLength: 8,
  merge: 'none',
  properties: 500,
  propertyNames: 'each',
  propertyNameLength: 8,
  value: 'number',
  values: 'each',
  valueLength: 4,
  ownShare: 1,
  where: 'properties',
  depth: 0,
  groups: 2,
  groupKeys: 'each',
  times: 'none',
  sessions: 'none',
  uuids: 'none',
}

const SMALL_HEAP = { heapMib: 512 }

export const ROWS: readonly Row[] = [
  {
    number: 1,
    title: '400 short texts, then 48 bodies with one text of 500 KB each, in one column',
    make: (seed) => sending(textColumn(seed, 48)),
  },
  {
    number: 2,
    title: 'the same with 24 bodies, then names of properties and a filter',
    make: (seed) => ({
      ...sending(textColumn(seed, 24)),
      async read(scene) {
        const { reader } = scene
        const list = 'property_definitions/?limit=5'
        await timed(scene, 'five properties', () => reader.api('GET', list))
        const filter = [{ key: 'p', value: 'zz', operator: 'icontains', type: 'event' }]
        const parameters = encodeURIComponent(JSON.stringify(filter))
        await timed(scene, 'a filter', () =>
          reader.api('GET', `events/?limit=5&properties=${parameters}`),
        )
        const series = [{ kind: 'EventsNode', event: 'text' }]
        const breakdownFilter = { breakdown: 'p', breakdown_type: 'event' }
        await timed(scene, 'a breakdown', () =>
          query(reader, { kind: 'TrendsQuery', series, breakdownFilter }),
        )
      },
    }),
  },
  {
    number: 3,
    title: '9,120 persons with a text of 520,000 characters each',
    make: () => sending([...largeOwners({ owners: 9120, isGroup: false })]),
  },
  {
    number: 4,
    title: 'the same, then a small change of each of these persons in one request',
    make: (seed) =>
      sendingThen(
        [...largeOwners({ owners: 9120, isGroup: false })],
        [smallChanges(seed, { owners: 9120, isGroup: false })],
      ),
  },
  {
    number: 5,
    title: '3,000 such persons and a small change of each, with a heap of 512 MB',
    machine: SMALL_HEAP,
    make: (seed) =>
      sendingThen(
        [...largeOwners({ owners: 3000, isGroup: false })],
        [smallChanges(seed, { owners: 3000, isGroup: false })],
      ),
  },
  {
    number: 5,
    variant: 'groups',
    title: '3,000 such groups and a small change of each, with a heap of 512 MB',
    machine: SMALL_HEAP,
    make: (seed) =>
      sendingThen(
        [...largeOwners({ owners: 3000, isGroup: true })],
        [smallChanges(seed, { owners: 3000, isGroup: true })],
      ),
  },
  ...[false, true].map((isGroup) => ({
    number: 5,
    variant: isGroup ? 'groups-4200' : '4200',
    title: `3,000 such ${isGroup ? 'groups' : 'persons'} and a change of 4,200 characters of each`,
    machine: SMALL_HEAP,
    make: (seed: number) =>
      sendingThen(
        [...largeOwners({ owners: 3000, isGroup })],
        [smallChanges(seed, { owners: 3000, isGroup }, 4200)],
      ),
  })),
  {
    number: 6,
    title: '400,000 distinct_ids of one person, moved on by 3,000 merges',
    make: movedIds,
  },
  {
    number: 6,
    variant: 'chain',
    title: 'a chain of 20,000 merges in one request',
    make: mergeChain,
  },
  {
    number: 7,
    title: 'flags of 80 persons with 32,000 properties each, for 20 and for 100 clients',
    make: widePersons,
  },
  { number: 8, title: '100,000 long names of events and properties', make: longNames },
  { number: 9, title: '1.6 million $identify of new distinct_ids in 6 bodies', make: newIds },
  { number: 10, title: 'one event of the year 1, then questions over all time', make: yearOne },
  { number: 11, title: 'five junk group types, then a good one', make: junkGroups },
  {
    number: 12,
    title: 'a shared trend by minute over 20 days with 25 values, for 20 readers at a time',
    make: largeShare,
  },
  ...[64, 200, 600].map((diskMib) => ({
    number: 13,
    variant: String(diskMib),
    title: `plain events at full speed until a file system of ${diskMib} MiB is full`,
    machine: { diskMib },
    make: (seed: number) => smallDisk(seed, LARGE_EVENTS),
  })),
  {
    number: 13,
    variant: '64-small',
    title: 'small events at full speed until a file system of 64 MiB is full',
    machine: { diskMib: 64 },
    make: (seed) => smallDisk(seed, SMALL_EVENTS),
  },
  {
    number: 14,
    title: 'all connections of a process that may open 64 files',
    machine: { openFilesMax: 64 },
    make: allConnections,
  },
  {
    number: 15,
    variant: '512',
    title: '1 million events in a control group of 512 MiB, then ten questions',
    machine: { groupMib: 512 },
    make: (seed) => smallMachine(seed, 1_000_000),
  },
  {
    number: 15,
    variant: '768',
    title: '1 million events in a control group of 768 MiB, then ten questions',
    machine: { groupMib: 768 },
    make: (seed) => smallMachine(seed, 1_000_000),
  },
  {
    number: 15,
    variant: '1024',
    title: '5 million events in a control group of 1 GiB, then ten questions',
    machine: { groupMib: 1024 },
    make: (seed) => smallMachine(seed, 5_000_000),
  },
  {
    number: 16,
    title: 'one body of 1,901 events with 500 names of their own each, with a heap of 512 MB',
    machine: SMALL_HEAP,
    make: (seed) => sending(shapeBodies(OWN_NAMES, seed)),
  },
]
