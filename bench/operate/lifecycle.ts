/**
 * Question: does a store stay correct through all operations of an operator over the years?
 * Workload: a million events (`--events` for fewer) over HTTP. Then, in this order: a backup beside the running daemon,
 * a restore with `--verify`, a verify, an export, an import into a new store, twice; retention of one event name,
 * erasure of another, erasure of a person's events; as many new events as were erased. After each step the events and
 * persons are compared by their digests.
 * Baseline: the store that the events were sent to.
 * Reconsider: the operation concerned, if there is a single difference. The bench then ends with exit code 1.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Daemon } from '../daemon.ts'
import { type Bench, type BenchContext, expectAllStored, expectOnlyOk } from '../harness.ts'
import { closedLoop, runLoad } from '../load.ts'
import { fieldsOf, runTenrec } from '../program.ts'
import { eraseAndCompare } from './lifecycle-erasure.ts'
import {
  type Digest,
  digestFile,
  digestPersons,
  digestStore,
  expectSameDigest,
  folderBytes,
  listPersons,
} from './store-digest.ts'

export const LIFECYCLE: Bench = {
  name: 'lifecycle',
  group: 'operations',
  question: 'Does a store stay correct through all operations of an operator over the years?',
  workload:
    'a million events unless --events says less: backup, restore, verify, export, import twice, ' +
    'retention, erasure; digests of events and persons compared after each step',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 8
const SEND_SECONDS_MAX = 600

/** The values that every copy of the store must have. */
interface Original {
  readonly events: Digest
  readonly persons: Digest
}

const everything = (): boolean => true

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(5000, 1_000_000)
  const source = context.newFolder()
  const daemon = await context.startDaemon({ dataDir: source })
  const sent = await send(context, daemon, events)
  await expectAllStored(daemon, sent)
  const backups = join(context.newFolder(), 'backups')
  const backup = await runTenrec(['backup', backups, '--data-dir', source, '--json'])
  reportSeconds(context, 'backup beside the running daemon', backup.seconds, `${sent} events`)
  const verified = await runTenrec(['verify', '--data-dir', source, '--json'])
  const { entries } = fieldsOf(verified)
  reportSeconds(
    context,
    'verify beside the running daemon',
    verified.seconds,
    `${String(entries)} records, sound`,
  )
  const file = join(context.newFolder(), 'events.ndjson')
  const exported = await runTenrec(['export', '--data-dir', source, '--output', file])
  const [digest] = await digestFile(file, [everything])
  if (digest?.count !== sent) throw new Error(`${digest?.count} of ${sent} events were exported`)
  const original = { events: digest, persons: digestPersons(await listPersons(daemon)) }
  reportSeconds(context, 'export', exported.seconds, `${sent} events, digest ${digest.hash}`)
  await daemon.stop()
  await compareRestored(context, backups, original)
  rmSync(backups, { recursive: true })
  rmSync(source, { recursive: true })
  const target = context.newFolder()
  const first = await context.startDaemon({ dataDir: target })
  await compareImported(context, first, target, file, original)
  await first.stop()
  // A new copy is used, because a daemon applies retention by itself a minute after its start.
  const copy = await context.startDaemon({ dataDir: target })
  await eraseAndCompare(context, copy, target, file)
  const sizeBefore = folderBytes(target)
  const erased = sent - ((await digestStore(target, [everything]))[0]?.count ?? 0)
  const more = await send(context, copy, erased)
  context.report({
    figure: 'data files after as many events again as were erased, against right after erasing',
    value: folderBytes(target) / 1e6,
    unit: 'MB',
    baseline: sizeBefore / 1e6,
    note: `${more} events; files do not shrink, their free pages are used again`,
  })
  await copy.stop()
}

/** Sends this many events, and waits until they are processed. Returns their number. */
async function send(context: BenchContext, daemon: Daemon, events: number): Promise<number> {
  const report = await runLoad(
    closedLoop({
      url: daemon.url,
      // The batches do not contain their time of sending, so the timestamps of the events are kept although they are
      // from years ago.
      request: context.requests(EVENTS_PER_REQUEST, { isSentNow: false }),
      connections: CONNECTIONS,
      seconds: SEND_SECONDS_MAX,
      requestsMax: Math.ceil(events / EVENTS_PER_REQUEST),
    }),
  )
  expectOnlyOk(report)
  await daemon.drain()
  return report.eventsAcknowledged
}

async function compareRestored(
  context: BenchContext,
  backups: string,
  original: Original,
): Promise<void> {
  const dataDir = join(context.newFolder(), 'restored')
  const result = await runTenrec(['restore', backups, '--data-dir', dataDir, '--verify'])
  const daemon = await context.startDaemon({ dataDir })
  // At the time of the backup, some events may have been only in the log. They are processed now.
  await daemon.drain()
  await compare('restored', daemon, dataDir, original)
  await daemon.stop()
  rmSync(dataDir, { recursive: true })
  reportSeconds(context, 'restore with --verify; events and persons as before', result.seconds, '')
}

async function compareImported(
  context: BenchContext,
  daemon: Daemon,
  dataDir: string,
  file: string,
  original: Original,
): Promise<void> {
  const words = ['import', file, '--data-dir', dataDir, '--base-url', daemon.url]
  const first = await runTenrec(words)
  await daemon.drain()
  await compare('imported', daemon, dataDir, original)
  const { count } = original.events
  reportSeconds(context, 'import into a new store; events and persons as before', first.seconds, '')
  const second = await runTenrec(words)
  await daemon.drain()
  const { stored, duplicates } = await daemon.progress()
  if (stored !== count || duplicates !== count) {
    throw new Error(`imported twice: ${stored} stored, ${duplicates} duplicates of ${count}`)
  }
  await compare('imported twice', daemon, dataDir, original)
  reportSeconds(
    context,
    'the same import again; nothing changes',
    second.seconds,
    `${count} duplicates`,
  )
}

async function compare(
  what: string,
  daemon: Daemon,
  dataDir: string,
  original: Original,
): Promise<void> {
  const [events] = await digestStore(dataDir, [everything])
  if (events === undefined) throw new Error('there is no digest')
  expectSameDigest(`${what}: events`, events, original.events)
  expectSameDigest(`${what}: persons`, digestPersons(await listPersons(daemon)), original.persons)
}

function reportSeconds(context: BenchContext, figure: string, value: number, note: string): void {
  context.report({ figure, value, unit: 's', note })
}
