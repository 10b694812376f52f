/**
 * Turns a single machine into a cluster node, and back. In the cluster, the blocks that the single machine has accepted
 * count as the first blocks of its outbox, so every replica must have them. A replica that was not restored from a
 * backup of that machine finds that these blocks are missing, and stops. Both conversions may be interrupted at any
 * moment. The next start then begins again.
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { flush } from '../base/durable-file.ts'
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import { openEnrichment } from '../engine/processor/event-enrichment.ts'
import { openProcessor } from '../engine/processor/open-processor.ts'
import { threadSettings } from '../engine/threads/tasks.ts'
import { sealedBlock } from '../rules/capture/log-block.ts'
import { ProjectDirectory, SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { outboxFolder, readProcessedPosition } from '../store/directory/data-dir.ts'
import { LogAppender, LogReader } from '../store/log/event-log.ts'
import { readOrigin, writeOrigin } from '../store/open-store.ts'
import { JOIN_MS_MAX, MESSAGE_BYTES_MAX } from './limits.ts'
import { eventStream, NatsBrokers } from './nats.ts'
import { OutboxIdentity } from './outbox-identity.ts'

const PROCESS_MS = 200
/** The pause before the next attempt if nothing could be processed, in milliseconds. */
const WAIT_MS = 1000
const LOOK_MS = 100

/**
 * What both conversions need. This process must hold the lock of the data directory, and no other code may have the
 * directory open.
 */
export interface BoxOptions {
  readonly settings: Settings
  readonly logger: Logger
}

/**
 * Prepares a directory for `enterCluster`. If it has events or a log of a single machine, which are in no stream,
 * processes the rest of the log and returns true. Throws `OperatorError` if the brokers have events of other machines,
 * or if no majority of the brokers answers within a minute.
 */
export async function prepareBox({ settings, logger }: BoxOptions): Promise<boolean> {
  const { dataDir } = settings
  if (readOrigin(dataDir) !== null || (await lastOf(dataDir)) === 0) return false
  if (settings.partitions[0] !== 0) {
    throw new OperatorError(
      'This directory has the events of a single machine. They become partition 0, so list it first in `partitions`.',
    )
  }
  await requireEmptyStream(settings.cluster, logger)
  await processAll({ settings, logger })
  return true
}

/**
 * Turns a single machine into the first machine of a cluster. The directory must be prepared by `prepareBox`, and must
 * already have the catalogue of the cluster.
 */
export async function enterCluster(dataDir: string): Promise<void> {
  const position = readProcessedPosition(dataDir)
  const folder = outboxFolder(dataDir)
  const identity = new OutboxIdentity(folder)
  const appender = new LogAppender({ dataDir: folder, processed: position })
  try {
    // Add an empty block, so that the stream is not empty. No other machine can continue from this block unless it has
    // a backup of this machine.
    if (appender.append([], 0) === position) {
      appender.append([sealedBlock(Buffer.alloc(0), 0, 0)], 0)
    }
    identity.beginRun(position + 1, position + 1)
  } finally {
    await appender.close()
  }
  const places = { [identity.name]: identity.placeOf(position) }
  writeOrigin(dataDir, { incarnation: '', sequence: 0, places })
}

/**
 * Turns a cluster node into a single machine. Blocks of the outbox whose events are not stored yet are appended to the
 * log of the single machine. Throws `OperatorError` if there are several partitions.
 */
export async function leaveCluster({ settings, logger }: BoxOptions): Promise<void> {
  const { dataDir } = settings
  requireOnlyPartition(dataDir)
  const outbox = outboxFolder(dataDir)
  const left = `${outbox}.left`
  if (existsSync(outbox)) {
    const blocks = await takeOver(dataDir, outbox)
    renameSync(outbox, left)
    flush(resolve(dataDir))
    logger.warn({ blocks }, 'This machine leaves its cluster and runs on its own from now on.')
  }
  writeOrigin(dataDir, null)
  rmSync(left, { recursive: true, force: true })
  // This must be the last step. If an earlier step is interrupted, the catalogue is still shared, and the next start
  // therefore tries to leave the cluster again.
  await SHARED_CATALOGUE.leave(dataDir)
}

/**
 * Throws unless the cluster has only one partition, and this machine stores it: a single machine must have all events
 * of its projects.
 */
function requireOnlyPartition(dataDir: string): void {
  const directory = new ProjectDirectory(dataDir)
  const partitions = directory.partitions()
  void directory.close()
  if (partitions.length === 1 && (readOrigin(dataDir)?.partition ?? 0) === 0) return
  const what = 'Projects of this cluster are stored in several partitions'
  throw new OperatorError(
    `${what}, so none of its machines can run on its own. Keep the setting \`cluster\`.`,
  )
}

/** Returns the number of the newest block that a single machine has ever accepted, or 0. */
async function lastOf(dataDir: string): Promise<number> {
  const log = new LogReader({ dataDir })
  const last = log.extent()?.last ?? 0
  await log.close()
  return Math.max(last, readProcessedPosition(dataDir))
}

async function requireEmptyStream(servers: readonly string[], logger: Logger): Promise<void> {
  const brokers = new NatsBrokers(servers, logger)
  const stream = brokers.stream(eventStream(0))
  const deadline = performance.now() + JOIN_MS_MAX
  try {
    for (;;) {
      const state = await stream.state().catch(() => null)
      if (state?.last === 0) return
      if (state !== null) {
        const what =
          'The brokers already have events, and this directory has other events of a single machine'
        const how = 'Restore a backup of a machine of the cluster here, or choose other brokers'
        throw new OperatorError(`${what}. ${how}.`)
      }
      if (performance.now() > deadline) {
        throw new OperatorError(
          'A single machine can only become a cluster while a majority of the brokers answers. Check the brokers.',
        )
      }
      await sleep(LOOK_MS)
    }
  } finally {
    await brokers.close()
  }
}

/** Processes the rest of the log, as a single machine does. */
async function processAll({ settings, logger }: BoxOptions): Promise<void> {
  const threads = threadSettings(settings, new Int32Array(new SharedArrayBuffer(4)))
  const onDamage = (err: Error): void =>
    logger.error({ err }, 'A stored record is damaged. Restore the store from a backup.')
  const processor = openProcessor(threads, onDamage, { enrichment: openEnrichment(threads) })
  try {
    let before = -1
    for (;;) {
      const { processed, last, eventCount } = processor.run(PROCESS_MS)
      if (processed >= last) return
      if (eventCount > 0 || processed > before) await setImmediate()
      else {
        logger.warn('Events wait to be processed. The disk may have too little free space.')
        await sleep(WAIT_MS)
      }
      before = processed
    }
  } finally {
    await processor.close()
  }
}

/**
 * Appends those blocks of an outbox that the store lacks to the log of a single machine. Returns the number of appended
 * blocks.
 */
async function takeOver(dataDir: string, outbox: string): Promise<number> {
  const position = readProcessedPosition(dataDir)
  const identity = new OutboxIdentity(outbox)
  const stored = readOrigin(dataDir)?.places[identity.name] ?? 0
  const log = new LogReader({ dataDir: outbox })
  const appender = new LogAppender({ dataDir, processed: position })
  try {
    // The number of blocks that an interrupted attempt has already appended: those of the log after the processed
    // position. It is 0 without such an attempt.
    let known = appender.append([], 0) - position
    let blocks: Buffer[] = []
    let bytes = 0
    let count = 0
    const { first, last } = log.extent() ?? { first: 1, last: 0 }
    for (let number = first; number <= last; number++) {
      const block = log.block(number)
      if (block === undefined || identity.placeOf(number) <= stored) continue
      if (known-- > 0) continue
      blocks.push(Buffer.from(block))
      bytes += block.length
      count++
      if (bytes < MESSAGE_BYTES_MAX) continue
      appender.append(blocks, 0)
      blocks = []
      bytes = 0
    }
    if (blocks.length > 0) appender.append(blocks, 0)
    return count
  } finally {
    await appender.close()
    await log.close()
  }
}
