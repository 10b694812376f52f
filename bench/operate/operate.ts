/**
 * Question: are backup, verify, export and import as fast as the disk and the events allow?
 * Workload: 10 million stored events of the usual traffic (`--events` for fewer). Filling stops after four and a half
 * minutes with the events stored by then. Full backups run each into a new folder, alone and beside an open loop of 500
 * requests/s with 10 events each. Verify runs alone. Export and import move a tenth of the events through a file.
 * Baseline: reading the data files from the disk in sequence, bypassing the page cache (`dd iflag=direct`), and the
 * same through the page cache. For latencies, the same load without a backup, interleaved.
 * Reconsider: copying records instead of pages, if the rate is below 300 MB/s.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, readSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Daemon } from '../daemon.ts'
import {
  type Bench,
  type BenchContext,
  expectAllStored,
  expectOnlyOk,
  interleaved,
  sleep,
} from '../harness.ts'
import { fillStore } from '../ingest/traffic-store.ts'
import { type LoadReport, openLoop, prepareLoad } from '../load.ts'
import { fieldsOf, runTenrec } from '../program.ts'
import { median } from '../samples.ts'

export const OPERATE: Bench = {
  name: 'operate',
  group: 'operations',
  question: 'Are backup, verify, export and import as fast as the disk and the events allow?',
  workload:
    '10 million stored events unless --events says less; full backups alone and beside 5000 ' +
    'events/s; export and import of a tenth of them',
  needsDaemon: true,
  run: measure,
}

const FILL_MS_MAX = 270_000
const MOVED_FILL_MS_MAX = 45_000
const MB = 1e6
const BACKUP_MB_MIN = 300
const VERIFY_SECONDS_MAX = 30
const EXPORT_RATE_MIN = 200_000
const IMPORT_RATE_MIN = 200_000
const IMPORT_PROCESSED_RATE_MIN = 150_000
const REQUESTS_PER_SECOND = 500
const EVENTS_PER_REQUEST = 10
const CONNECTIONS = 64
const LEAD_MS = 500
const READ_BYTES = 4 * 1024 ** 2

async function measure(context: BenchContext): Promise<void> {
  const wanted = context.events(20_000, 10_000_000)
  const { dataDir, events } = await fillStore(context, wanted, FILL_MS_MAX)
  const files = dataFiles(dataDir)
  const bytes = files.reduce((sum, path) => sum + statSync(path).size, 0)
  const gigabytes = `${events} events, ${(bytes / 1e9).toFixed(2)} GB of data files`
  await measureBackup(context, dataDir, files, bytes, gigabytes)
  await measureVerify(context, dataDir, events, gigabytes)
  await measureLatency(context, dataDir)
  rmSync(dataDir, { recursive: true })
  await measureMoving(context, Math.max(1000, Math.round(wanted / 10)))
}

async function measureBackup(
  context: BenchContext,
  dataDir: string,
  files: readonly string[],
  bytes: number,
  gigabytes: string,
): Promise<void> {
  const folders: string[] = []
  const [backups = [], cold = [], warm = []] = await interleaved(context.rounds(3), [
    async () => {
      const made = await backupOnce(context, dataDir)
      // One backup is enough for the following steps, and the disk may be small, so the others are removed.
      if (folders.length === 0) folders.push(made.folder)
      else rmSync(made.folder, { recursive: true })
      return made.megabytesPerSecond
    },
    async () => bytes / MB / readFromDisk(files),
    async () => bytes / MB / readThroughCache(files),
  ])
  const disk = median(cold)
  context.report({
    figure: 'full backup, against reading the files from the disk in sequence',
    value: median(backups),
    unit: 'MB/s',
    baseline: disk,
    target: { of: 'value', bound: 'at least', limit: Math.min(BACKUP_MB_MIN, Math.floor(disk)) },
    note:
      `${gigabytes}; counts the bytes of the records, from the start of the command to its end; ` +
      'the limit is 300 MB/s or what the disk reads, whichever is less',
  })
  context.report({
    figure: 'full backup, against reading the files through the page cache',
    value: median(backups),
    unit: 'MB/s',
    baseline: median(warm),
  })
  const [folder = ''] = folders
  const again = await runTenrec(['backup', folder, '--data-dir', dataDir, '--json'])
  context.report({
    figure: 'second backup into the same folder with nothing new',
    value: again.seconds,
    unit: 's',
    note: `${Number(fieldsOf(again)['new_bytes']) / MB} MB written`,
  })
  for (const old of folders) rmSync(old, { recursive: true })
}

interface BackupRun {
  readonly folder: string
  readonly megabytesPerSecond: number
}

async function backupOnce(context: BenchContext, dataDir: string): Promise<BackupRun> {
  const folder = join(context.newFolder(), 'backup')
  const result = await runTenrec(['backup', folder, '--data-dir', dataDir, '--json'])
  return { folder, megabytesPerSecond: Number(fieldsOf(result)['bytes']) / MB / result.seconds }
}

async function measureVerify(
  context: BenchContext,
  dataDir: string,
  events: number,
  gigabytes: string,
): Promise<void> {
  const seconds: number[] = []
  let entries = ''
  for (let round = 0; round < context.rounds(2); round++) {
    const result = await runTenrec(['verify', '--data-dir', dataDir, '--json'])
    entries = String(fieldsOf(result)['entries'])
    seconds.push(result.seconds)
  }
  context.report({
    figure: `verify of ${events} events`,
    value: median(seconds),
    unit: 's',
    target: { of: 'value', bound: 'under', limit: VERIFY_SECONDS_MAX },
    note: `${gigabytes}, ${entries} records; from the start of the command to its end; sound`,
  })
}

/** Measures the latency of acknowledgments without backups, and during consecutive backups. */
async function measureLatency(context: BenchContext, dataDir: string): Promise<void> {
  const daemon = await context.startDaemon({ dataDir })
  const speeds: number[] = []
  let acknowledged = 0
  const run = async (isBackingUp: boolean): Promise<LoadReport> => {
    const load = await prepareLoad(
      openLoop({
        url: daemon.url,
        request: context.requests(EVENTS_PER_REQUEST),
        connections: CONNECTIONS,
        requestsPerSecond: REQUESTS_PER_SECOND,
        warmupSeconds: 1,
        seconds: context.size(1, 7),
        serverPid: daemon.pid,
      }),
    )
    let isRunning = true
    const done = load.run().finally(() => {
      isRunning = false
    })
    await sleep(LEAD_MS)
    while (isBackingUp && isRunning) {
      const { folder, megabytesPerSecond } = await backupOnce(context, dataDir)
      speeds.push(megabytesPerSecond)
      rmSync(folder, { recursive: true })
    }
    const report = await done
    expectOnlyOk(report)
    acknowledged += report.eventsAcknowledged
    await daemon.drain()
    return report
  }
  await run(false)
  const [beside = [], alone = []] = await interleaved(context.rounds(3), [
    () => run(true),
    () => run(false),
  ])
  await expectAllStored(daemon, acknowledged)
  reportLatency(context, daemon, beside, alone, speeds)
  await daemon.stop()
}

function reportLatency(
  context: BenchContext,
  daemon: Daemon,
  beside: readonly LoadReport[],
  alone: readonly LoadReport[],
  speeds: readonly number[],
): void {
  const late = median(beside.map(({ latenessMs }) => latenessMs.p99)).toFixed(2)
  const slowest = Math.max(...beside.map(({ latencyMs }) => latencyMs.max)).toFixed(1)
  const memory = (daemon.memory().anonymousBytes / 1024 ** 2).toFixed(0)
  context.report({
    figure: 'p99 acknowledgment beside backups, against without',
    value: median(beside.map(({ latencyMs }) => latencyMs.p99)),
    unit: 'ms',
    baseline: median(alone.map(({ latencyMs }) => latencyMs.p99)),
    target: { of: 'ratio', bound: 'at most', limit: 2 },
    note:
      `${speeds.length} full backups in ${beside.length} rounds, ${median(speeds).toFixed(0)} MB/s ` +
      `each; slowest answer ${slowest} ms; the generator itself was late by p99 ${late} ms; daemon ` +
      `${memory} MiB of its own`,
  })
}

/** Exports events to a file, and imports this file into new daemons. */
async function measureMoving(context: BenchContext, wanted: number): Promise<void> {
  const { dataDir, events } = await fillStore(context, wanted, MOVED_FILL_MS_MAX)
  const file = join(context.newFolder(), 'events.ndjson')
  const exports: number[] = []
  for (let round = 0; round < context.rounds(3); round++) {
    if (existsSync(file)) rmSync(file)
    const result = await runTenrec(['export', '--data-dir', dataDir, '--output', file])
    exports.push(events / result.seconds)
  }
  context.report({
    figure: `export of ${events} events to a file`,
    value: median(exports),
    unit: 'events/s',
    target: { of: 'value', bound: 'at least', limit: EXPORT_RATE_MIN },
    note: `${(statSync(file).size / MB).toFixed(0)} MB of NDJSON, flushed at the end`,
  })
  const [sent, processed]: [number[], number[]] = [[], []]
  for (let round = 0; round < context.rounds(2); round++) {
    const target = context.newFolder()
    const daemon = await context.startDaemon({ dataDir: target })
    const startMs = performance.now()
    const words = ['import', file, '--data-dir', target, '--base-url', daemon.url]
    const result = await runTenrec(words)
    await daemon.drain()
    sent.push(events / result.seconds)
    processed.push((events * 1000) / (performance.now() - startMs))
    await expectAllStored(daemon, events)
    await daemon.stop()
    rmSync(target, { recursive: true })
  }
  context.report({
    figure: `import of ${events} events from that file`,
    value: median(sent),
    unit: 'events/s',
    target: { of: 'value', bound: 'at least', limit: IMPORT_RATE_MIN },
    note: 'acknowledged, durably',
  })
  context.report({
    figure: `the same import of ${events} events until all are processed`,
    value: median(processed),
    unit: 'events/s',
    target: { of: 'value', bound: 'at least', limit: IMPORT_PROCESSED_RATE_MIN },
  })
}

function dataFiles(dataDir: string): readonly string[] {
  return readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('data.mdb'))
    .map((name) => join(dataDir, name))
}

/**
 * Reads files from the disk, bypassing the page cache, and returns the seconds. If the file system does not support
 * that, `dd` fails.
 */
function readFromDisk(files: readonly string[]): number {
  const startMs = performance.now()
  for (const file of files) {
    const words = [`if=${file}`, 'of=/dev/null', 'bs=4M', 'iflag=direct']
    const { status } = spawnSync('dd', words, { stdio: 'ignore' })
    if (status !== 0) return readThroughCache(files)
  }
  return (performance.now() - startMs) / 1000
}

/** Reads files through the page cache, and returns the seconds. */
function readThroughCache(files: readonly string[]): number {
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  const startMs = performance.now()
  for (const path of files) {
    const file = openSync(path, 'r')
    while (readSync(file, buffer) > 0);
    closeSync(file)
  }
  return (performance.now() - startMs) / 1000
}
