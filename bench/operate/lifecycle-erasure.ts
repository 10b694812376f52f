/**
 * The part of the bench `lifecycle` that removes events. Afterward, the store must contain exactly the events of an
 * earlier export without the removed events, and the receipts must report this.
 */
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { type BenchContext, sleep } from '../harness.ts'
import { fieldsOf, runTenrec } from '../program.ts'
import {
  type Digest,
  digestFile,
  digestStore,
  type EventTest,
  expectSameDigest,
  folderBytes,
  listPersons,
} from './store-digest.ts'

/**
 * The name of the events that the retention rule removes. The rule keeps them for a month, and all events are older.
 */
const RETAINED_NAME = '$pageview'
const RETAINED_DAYS = '30'
const ERASED_NAME = '$autocapture'
const DONE_MS_MAX = 120_000
const POLL_MS = 100

/**
 * Removes events from the store in `dataDir`, which contains the events of `file`. Throws if the remaining events are
 * not as expected.
 */
export async function eraseAndCompare(
  context: BenchContext,
  daemon: Daemon,
  dataDir: string,
  file: string,
): Promise<void> {
  // The person with the most ids is chosen, because its events have different distinct ids and one owner.
  const [person] = [...(await listPersons(daemon))].sort(
    (a, b) => b.distinct_ids.length - a.distinct_ids.length,
  )
  if (person === undefined) throw new Error('there are no persons')
  const ids = new Set(person.distinct_ids)
  const keptByRule: EventTest = (name) => name !== RETAINED_NAME
  const keptByName: EventTest = (name) => keptByRule(name, '') && name !== ERASED_NAME
  const keptByPerson: EventTest = (name, id) => keptByName(name, id) && !ids.has(id)
  const wanted = await digestFile(file, [() => true, keptByRule, keptByName, keptByPerson])
  const before = folderBytes(dataDir)
  const where = ['--data-dir', dataDir, '--base-url', daemon.url]
  const say = [...where, '--personal-key', PERSONAL_KEY, '--json']
  const tenrec = async (...words: string[]): Promise<Record<string, unknown>> =>
    fieldsOf(await runTenrec([...words, ...say]))
  await tenrec('retention', 'set', '--event', RETAINED_NAME, '--days', RETAINED_DAYS)
  const steps = [
    { what: `retention of ${RETAINED_NAME}`, words: ['retention', 'run'], sure: [] },
    {
      what: `erasure of ${ERASED_NAME}`,
      words: ['erasure', 'create', '--event', ERASED_NAME],
      sure: ['--yes'],
    },
    {
      what: `erasure of the events of a person with ${ids.size} ids`,
      words: ['erasure', 'create', '--person', person.uuid],
      sure: ['--yes'],
    },
  ]
  for (const [index, { what, words, sure }] of steps.entries()) {
    const from = wanted[index]?.count ?? 0
    const left = wanted[index + 1]
    if (left === undefined) throw new Error('there is no digest')
    const planned = await tenrec(...words, '--dry-run')
    expectCount(`${what}: planned`, planned['events'], from - left.count)
    const startMs = performance.now()
    const receipt = await tenrec(...words, ...sure)
    const done = await untilDone(receipt['id'], (id) => tenrec('erasure', 'show', id))
    const seconds = (performance.now() - startMs) / 1000
    expectCount(`${what}: receipt`, done['events_removed'], from - left.count)
    expectSameDigest(what, await digestOf(dataDir), left)
    const note = `${from - left.count} of ${from} events, as planned and as the receipt says`
    context.report({ figure: `${what}; the rest as before`, value: seconds, unit: 's', note })
  }
  await runTenrec(['verify', '--data-dir', dataDir])
  const after = folderBytes(dataDir)
  context.report({
    figure: 'data files after erasing, against before',
    value: after / 1e6,
    unit: 'MB',
    baseline: before / 1e6,
    note: `verify finds the store sound; ${wanted.at(-1)?.count} of ${wanted[0]?.count} events left`,
  })
}

async function untilDone(
  id: unknown,
  show: (id: string) => Promise<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const endMs = performance.now() + DONE_MS_MAX
  for (;;) {
    const receipt = await show(String(id))
    if (receipt['status'] === 'done') return receipt
    if (performance.now() > endMs) throw new Error(`erasure ${String(id)} does not end`)
    await sleep(POLL_MS)
  }
}

async function digestOf(dataDir: string): Promise<Digest> {
  const [digest] = await digestStore(dataDir, [() => true])
  if (digest === undefined) throw new Error('there is no digest')
  return digest
}

function expectCount(what: string, found: unknown, wanted: number): void {
  if (found !== wanted) throw new Error(`${what}: ${String(found)} events instead of ${wanted}`)
}
