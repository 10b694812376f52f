/**
 * Question: how many bytes of disk does a processed event take, compared with its JSON?
 * Workload: distinct events, 100 in a request, at a rate well below the maximum, and then a pause until the data
 * directory no longer changes. Two runs separate the fixed cost from the cost of more events.
 * Baseline: the bytes of the request bodies.
 * Reconsider: columns and compression, if an event takes more than a fifth of its JSON.
 */
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Bench, type BenchContext, expectAllStored, expectOnlyOk, sleep } from '../harness.ts'
import { type LoadReport, openLoop, runLoad } from '../load.ts'

export const INGEST_DISK: Bench = {
  name: 'ingest-disk',
  group: 'ingest',
  question: 'How many bytes of disk does a processed event take, compared with its JSON?',
  workload: 'distinct events, 100 a request, open loop, all processed and quiet; allocated blocks',
  needsDaemon: true,
  run: measure,
}

const EVENTS_PER_REQUEST = 100
const EVENTS_PER_SECOND = 20_000
const QUIET_POLLS = 25
const QUIET_POLLS_MAX = 120
const POLL_MS = 1000
/** The unit of the blocks that stat(2) reports, whatever the block size of the file system is. */
const BLOCK_BYTES = 512

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(10_000, 600_000)
  const dataDir = context.newFolder()
  const daemon = await context.startDaemon({ dataDir })
  const sizes: DiskUse[] = [await quietSize(dataDir)]
  const reports: LoadReport[] = []
  for (const half of [1, 2]) {
    const count = Math.ceil(events / 2)
    const request = context.requests(EVENTS_PER_REQUEST, {
      distinctEvents: count,
      seed: context.seed * 1000 + half,
    })
    const requestsMax = Math.ceil(count / EVENTS_PER_REQUEST)
    const requestsPerSecond = EVENTS_PER_SECOND / EVENTS_PER_REQUEST
    const options = { url: daemon.url, connections: 8, request, requestsMax, requestsPerSecond }
    const report = await runLoad(openLoop({ ...options, seconds: 600 }))
    expectOnlyOk(report)
    reports.push(report)
    await daemon.drain()
    sizes.push(await quietSize(dataDir))
  }
  const total = reports.reduce((sum, report) => sum + report.eventsAcknowledged, 0)
  await expectAllStored(daemon, total)
  reportSizes(context, sizes, reports)
}

function reportSizes(
  context: BenchContext,
  sizes: readonly DiskUse[],
  reports: readonly LoadReport[],
): void {
  const events = reports.reduce((sum, report) => sum + report.eventsAcknowledged, 0)
  const jsonBytes = reports.reduce((sum, report) => sum + report.bytesAcknowledged, 0) / events
  const end = sizes[2] ?? NOTHING
  const middle = sizes[1] ?? NOTHING
  context.report({
    figure: 'bytes on disk per processed event: whole data directory, against the JSON sent',
    value: end.bytes / events,
    unit: 'bytes',
    baseline: jsonBytes,
    target: { of: 'ratio', bound: 'at most', limit: 0.18 },
    note: `${events} events; ${((sizes[0]?.bytes ?? 0) / 1024).toFixed(0)} KiB before the first`,
  })
  const last = reports[1]?.eventsAcknowledged ?? 1
  context.report({
    figure: 'of these, per event of the second half alone',
    value: (end.bytes - middle.bytes) / last,
    unit: 'bytes',
    baseline: (reports[1]?.bytesAcknowledged ?? 0) / last,
    note: 'files never shrink, so free pages of the first half are used again',
  })
  for (const [name, bytes] of end.folders) {
    context.report({
      figure: `of these, in ${name}`,
      value: bytes / events,
      unit: 'bytes',
      baseline: jsonBytes,
    })
  }
}

interface DiskUse {
  readonly bytes: number
  /** The bytes of each folder or file at the top of the data directory, the largest first. */
  readonly folders: ReadonlyMap<string, number>
}

const NOTHING: DiskUse = { bytes: 0, folders: new Map() }

/** Waits until the number of allocated bytes has been constant for some seconds. */
async function quietSize(dataDir: string): Promise<DiskUse> {
  let use = diskUse(dataDir)
  let unchanged = 0
  for (let poll = 0; poll < QUIET_POLLS_MAX && unchanged < QUIET_POLLS; poll++) {
    await sleep(POLL_MS)
    const next = diskUse(dataDir)
    unchanged = next.bytes === use.bytes ? unchanged + 1 : 0
    use = next
  }
  if (unchanged < QUIET_POLLS) throw new Error('the data directory never came to rest')
  return use
}

function diskUse(dataDir: string): DiskUse {
  const folders: [string, number][] = readdirSync(dataDir).map((name) => [
    name,
    allocatedBytes(join(dataDir, name)),
  ])
  folders.sort((a, b) => b[1] - a[1])
  const bytes = folders.reduce((sum, [, size]) => sum + size, 0)
  return { bytes, folders: new Map(folders) }
}

function allocatedBytes(path: string): number {
  const stat = lstatSync(path)
  const own = stat.blocks * BLOCK_BYTES
  if (!stat.isDirectory()) return own
  return readdirSync(path).reduce((sum, name) => sum + allocatedBytes(join(path, name)), own)
}
