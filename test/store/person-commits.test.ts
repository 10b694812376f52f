/**
 * Tests that the stored events and persons depend on the log alone, not on where commits end.
 *
 * @lane quick
 */
import { cpSync } from 'node:fs'
import t from 'tap'
import { uuidV7 } from '../../src/base/ids.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { refuseDamage } from '../../src/store/faults.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { tableDigests } from '../fixtures/table-digests.ts'

const EVERYTHING_MS = 3_600_000

t.setTimeout(300_000)

/** Returns the tables that the log of a store leads to, with a number of events in each commit. */
async function follow(
  from: string,
  to: string,
  commitEvents: number,
): Promise<Readonly<Record<string, string>>> {
  cpSync(`${from}/log`, `${to}/log`, { recursive: true })
  const processor = openProcessor(threadSettings(to), refuseDamage, { commitEvents })
  processor.run(EVERYTHING_MS)
  await processor.close()
  return tableDigests(to)
}

const splits: Readonly<Record<string, PersonCommand>> = {
  'a split': { kind: 'split_person', person: 1, mainDistinctId: null },
  'a split that keeps properties': { kind: 'split_person', person: 1, mainDistinctId: 'ann' },
  'a deletion': { kind: 'delete_person', person: 1, deletesEvents: true },
}

for (const [name, command] of Object.entries(splits)) {
  t.test(`${name} of a person with one distinct_id records it, whatever follows`, async (t) => {
    const dir = t.testdir({ first: {}, all: {}, single: {} })
    const log = new PersonLog(t, `${dir}/first`)
    const seen = (id: string) => ({ event: 'seen', distinct_id: id, properties: { $set: { id } } })
    log.send(1, [seen('ann'), seen('bob')])
    log.append(1, command)
    log.send(1, [
      { event: '$identify', distinct_id: 'ann', properties: { $anon_distinct_id: 'bob' } },
    ])
    const all = await follow(log.dataDir, `${dir}/all`, 1e9)
    const single = await follow(log.dataDir, `${dir}/single`, 1)
    t.strictSame(all, single)
    if (!name.endsWith('keeps properties')) t.match(single['separated'], /^1 /)
  })
}

t.test('a block that takes several commits continues after its last stored event', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const uuids = Array.from({ length: 100 }, (_, index) => uuidV7(Date.UTC(2024, 0, 15) + index))
  log.send(
    1,
    uuids.map((uuid) => ({ event: 'seen', distinct_id: uuid, uuid })),
  )
  let runs = 0
  for (let events = -1; events !== 0; runs++) {
    // As after a crash: the next process knows only what is stored.
    const choices = { gatheredBytesMax: 1 }
    const processor = openProcessor(threadSettings(log.dataDir), refuseDamage, choices)
    const { fates } = processor.run(EVERYTHING_MS, false, 1)
    events = fates.reduce((sum, { stored }) => sum + stored, 0)
    await processor.close()
  }
  t.ok(runs > 3, `${runs} commits`)
  const lost = uuids.filter((uuid) => log.reader.getEvent(1, uuid) === null)
  t.strictSame(lost, [])
})
