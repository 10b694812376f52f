/**
 * Tests that processing changes groups and persons in pages as if it had read all of their properties, and that it reads
 * and writes only the pages that it needs.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { parseUuid, uuidV7 } from '../../src/base/ids.ts'
import type { JsonObject } from '../../src/base/json.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../src/rules/persons/limits.ts'
import { PropertyTable } from '../../src/rules/persons/property-table.ts'
import { updateProperties } from '../../src/rules/persons/property-updates.ts'
import { loadGroup } from '../../src/store/identity/group-store.ts'
import { CHANGED_PAGE_UNITS_MAX, PROPERTY_PAGE_BYTES } from '../../src/store/identity/limits.ts'
import { loadPerson, propertiesOfRecord } from '../../src/store/identity/person-records.ts'
import { pageCount } from '../../src/store/identity/properties/property-pages.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const PROJECT = 1
const SEED = 20_261_130
const ROUNDS = 150
const SPECIAL = [
  'plan',
  'email',
  '7',
  '__proto__',
  'constructor',
  'größe "x"\\',
  '$initial_browser',
]
const TEXT_BYTES = 400_000
/** The number of events that were sent. */
let sent = 0

t.setTimeout(300_000)

/** Returns the compact JSON of members whose names may be special. */
function jsonOf(members: readonly (readonly [string, unknown])[]): string {
  const last = new Map(members)
  const texts = [...last].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
  return `{${texts.join(',')}}`
}

/** Returns a value. `isLong` allows long texts. */
function randomValue(dice: Dice, round: number, isLong: boolean): unknown {
  return dice.pick<() => unknown>([
    () => round,
    () => null,
    () => 'same',
    () => ['a', { b: round % 3, c: [] }],
    () => 'x'.repeat(dice.below(isLong ? 3 * PROPERTY_PAGE_BYTES : 300)),
    () => `${'é'.repeat(dice.below(isLong ? 20_000 : 20))}${round % 2}`,
  ])()
}

function nameOf(dice: Dice): string {
  return dice.chance(0.2) ? dice.pick(SPECIAL) : `name ${dice.below(3000)}`
}

function membersOf(dice: Dice, round: number, most: number): [string, unknown][] {
  return dice.list(dice.below(most), () => [nameOf(dice), randomValue(dice, round, most < 10)])
}

function parseObject(json: string): JsonObject {
  return JSON.parse(json) as JsonObject
}

function sortedEntries(members: Readonly<Record<string, unknown>>): [string, unknown][] {
  return Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1))
}

function reading(t: Test, log: PersonLog) {
  const { dataDir } = log
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  t.teardown(() => environment.close())
  return environment
}

/** Sends one event as text, so that a name like `__proto__` is an ordinary member. */
function send(log: PersonLog, event: string, distinctId: string, properties: string): void {
  const text = `{"event":"${event}","distinct_id":"${distinctId}","properties":${properties}}`
  const uuid = parseUuid(uuidV7(Date.UTC(2024, 0, 1) + sent++))
  if (uuid !== null) log.sendText(PROJECT, text, uuid)
}

t.test('random changes give the same properties as with all properties in memory', async (t) => {
  const dice = new Dice(SEED)
  const log = new PersonLog(t, t.testdir())
  const environment = reading(t, log)
  const { tables } = environment
  const models = { person: new PropertyTable(), group: new PropertyTable() }
  const differences = new Differences()
  let pagesSeen = 0
  for (let round = 0; round < ROUNDS; round++) {
    const most = dice.chance(0.1) ? 600 : 6
    const set = jsonOf(membersOf(dice, round, most))
    const once = jsonOf(membersOf(dice, round, 4))
    const unset = JSON.stringify(
      dice.list(dice.below(dice.chance(0.1) ? 900 : 3), () => nameOf(dice)),
    )
    const updates = `{"$set":${set},"$set_once":${once},"$unset":${unset},"$browser":"B${round % 5}"}`
    send(log, 'seen', 'p', updates)
    const group = `{"$group_type":"company","$group_key":"g","$group_set":${set}}`
    send(log, '$groupidentify', 'other', group)
    const bytesMax = PERSON_PROPERTIES_BYTES_MAX
    const eventBytes = updates.length + 100
    updateProperties(models.person, parseObject(updates), eventBytes, bytesMax)
    updateProperties(models.group, { $set: parseObject(set) }, group.length + 100, bytesMax)
    // Several events may share a commit, or a person in memory.
    if (dice.chance(0.4)) continue
    log.process()
    if (dice.chance(0.5)) await log.reopen()
    if (dice.chance(0.1)) log.fold()
    environment.refresh()
    const person = loadPerson(tables, PROJECT, 1)
    const found = loadGroup(tables, PROJECT, 0, 'g')
    if (person === null || found === null) throw new Error('nothing is stored')
    differences.same(
      sortedEntries(propertiesOfRecord(person)),
      sortedEntries(models.person.toObject()),
      `round ${round}: the person`,
    )
    differences.same(
      sortedEntries(parseObject(found.json)),
      sortedEntries(models.group.toObject()),
      `round ${round}: the group`,
    )
    differences.equal(
      found.jsonBytes,
      Buffer.byteLength(models.group.toJson()),
      `round ${round}: the bytes of the group`,
    )
    const pages = [person.directory, found.directory].map((of) => (of === null ? 0 : pageCount(of)))
    const stored = [tables.person_pages, tables.group_pages].map((table) => table.getKeysCount({}))
    differences.same(stored, pages, `round ${round}: the pages`)
    pagesSeen = Math.max(pagesSeen, ...pages)
  }
  t.strictSame(differences.list(), [])
  t.ok(pagesSeen > 50, `up to ${pagesSeen} pages were stored`)
})

for (const kind of ['group', 'person'] as const) {
  t.test(`a change of a large ${kind} changes only the pages of its names`, (t) =>
    changesFewPages(t, kind),
  )
}

async function changesFewPages(t: Test, kind: 'group' | 'person'): Promise<void> {
  const log = new PersonLog(t, t.testdir())
  const environment = reading(t, log)
  const table = environment.tables[`${kind}_pages`]
  const others = Array.from({ length: 4000 }, (_, index) => [`n${index}`, `v${index}`] as const)
  const large = jsonOf([...others, ['text', 'x'.repeat(TEXT_BYTES)]])
  const change = (set: string): void => {
    const group = `{"$group_type":"company","$group_key":"g","$group_set":${set}}`
    if (kind === 'group') send(log, '$groupidentify', 'other', group)
    else send(log, '$set', 'large', `{"$set":${set}}`)
    log.process()
    environment.refresh()
  }
  const pages = (): readonly string[] =>
    [...table.getRange({})].map(({ key, value }) => `${key.toString('hex')} ${value.length}`)
  change(large)
  const before = pages()
  const { parse } = JSON
  let longest = 0
  JSON.parse = (text: string, ...rest: []) => {
    longest = Math.max(longest, text.length)
    return parse(text, ...rest) as unknown
  }
  t.teardown(() => {
    JSON.parse = parse
  })
  for (const isReopened of [false, true]) {
    if (isReopened) await log.reopen()
    const names = isReopened ? [1, 2, 3, 4, 5] : [7]
    change(jsonOf(names.map((name) => [`n${name}`, 'another value'.repeat(70)])))
  }
  JSON.parse = parse
  const known = new Set(before)
  const changed = pages().filter((page) => !known.has(page))
  t.ok(changed.length <= 12, `${changed.length} of ${before.length} pages have changed`)
  t.ok(longest < 10_000, `the longest text that was parsed has ${longest} units`)
}

t.test('pages that grow are divided', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const environment = reading(t, log)
  for (let round = 0; round < 60; round++) {
    const members = Array.from({ length: 50 }, (_, n) => [`${round} ${n}`, 'v'.repeat(20)] as const)
    const long = [`long ${round}`, 'x'.repeat(2 * PROPERTY_PAGE_BYTES)] as const
    const set = jsonOf([...members, long])
    const group = `{"$group_type":"company","$group_key":"g","$group_set":${set}}`
    send(log, '$groupidentify', 'other', group)
    log.process()
  }
  environment.refresh()
  const sizes = [...environment.tables.group_pages.getRange({})].map(({ value }) => value.length)
  t.ok(
    Math.max(...sizes) < CHANGED_PAGE_UNITS_MAX + 100,
    `the largest page has ${Math.max(...sizes)} bytes`,
  )
  t.ok(sizes.length < 60 + 3000 / 15, `there are ${sizes.length} pages`)
  const group = loadGroup(environment.tables, PROJECT, 0, 'g')
  t.equal(Object.keys(parseObject(group?.json ?? '{}')).length, 60 * 51)
})
