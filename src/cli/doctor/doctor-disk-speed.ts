/**
 * Measures how long a small write and its flush take in the data directory, because every acknowledgment waits for
 * both. The file is unlinked before it is used, so that nothing is left behind, however the command ends.
 */
import { closeSync, fdatasyncSync, ftruncateSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import {
  DISK_FLUSHES_MAX,
  DISK_FLUSHING_MS_MAX,
  DISK_LARGE_MS_MAX,
  DISK_LARGE_WRITES_MAX,
} from '../limits.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

const BLOCK_BYTES = 4096
/**
 * Small writes go to this number of blocks at the start of the file. After the last block, they start again with the
 * first.
 */
const FILE_BLOCKS = 512
const LARGE_BYTES = 1024 ** 2

const SLOW_MEDIAN_MS = 10
const SLOW_P99_MS = 50
const HOPELESS_MEDIAN_MS = 200
/**
 * No disk flushes in less time than this, in milliseconds. If the median is smaller, the system does not flush to the
 * disk.
 */
const UNBELIEVABLE_MEDIAN_MS = 0.012

/** Measurements in milliseconds and bytes per second. */
export interface DiskSpeed {
  readonly flushes: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** The throughput of large writes with one flush at the end, in bytes per second. */
  readonly bytesPerSecond: number
}

/**
 * Measures the disk for at most 2 s, unless a single flush takes longer. It writes at most 24 MiB. Throws errors of the
 * file system.
 */
export function measureDisk(dataDir: string, clock: Clock): DiskSpeed {
  const path = join(dataDir, `.doctor-${process.pid}`)
  const descriptor = openSync(path, 'wx', 0o600)
  try {
    rmSync(path)
    const flushesMs = measureFlushes(descriptor, clock)
    ftruncateSync(descriptor, 0)
    const bytesPerSecond = measureLargeWrites(descriptor, clock)
    const sorted = Float64Array.from(flushesMs).sort()
    const at = (share: number): number =>
      sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
    return {
      flushes: sorted.length,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      maxMs: at(1),
      bytesPerSecond,
    }
  } finally {
    closeSync(descriptor)
  }
}

/** Judges the speed of a disk. */
export function judgeDisk(speed: DiskSpeed): Finding {
  const check = 'disk_speed'
  const measured =
    `A flush takes ${millis(speed.p50Ms)} at the median, ${millis(speed.p99Ms)} at p99 and ` +
    `${millis(speed.maxMs)} at most (${speed.flushes} flushes). ` +
    `Large writes reach ${Math.round(speed.bytesPerSecond / 1024 ** 2)} MiB/s.`
  if (speed.p50Ms > HOPELESS_MEDIAN_MS) {
    return problem(
      check,
      `${measured} The disk is too slow, because every acknowledgment waits for a flush. Use another disk.`,
    )
  }
  if (speed.p50Ms > SLOW_MEDIAN_MS || speed.p99Ms > SLOW_P99_MS) {
    return warning(check, `${measured} Acknowledgments wait for flushes. An SSD takes 1 to 5 ms.`)
  }
  if (speed.p50Ms < UNBELIEVABLE_MEDIAN_MS) {
    return warning(
      check,
      `${measured} No disk is that fast, so flushes probably do not reach the disk. Make sure that the data survives a power failure.`,
    )
  }
  return fine(check, measured)
}

function measureFlushes(descriptor: number, clock: Clock): readonly number[] {
  const block = Buffer.alloc(BLOCK_BYTES, 'tenrec doctor ')
  const times: number[] = []
  const endMs = clock.monotonic() + DISK_FLUSHING_MS_MAX
  for (let count = 0; count < DISK_FLUSHES_MAX; count++) {
    const startedAtMs = clock.monotonic()
    if (startedAtMs >= endMs) break
    writeSync(descriptor, block, 0, BLOCK_BYTES, (count % FILE_BLOCKS) * BLOCK_BYTES)
    fdatasyncSync(descriptor)
    times.push(clock.monotonic() - startedAtMs)
  }
  return times
}

function measureLargeWrites(descriptor: number, clock: Clock): number {
  const block = Buffer.alloc(LARGE_BYTES, 'tenrec doctor ')
  const startedAtMs = clock.monotonic()
  let bytes = 0
  for (let count = 0; count < DISK_LARGE_WRITES_MAX; count++) {
    if (clock.monotonic() - startedAtMs > DISK_LARGE_MS_MAX) break
    bytes += writeSync(descriptor, block, 0, LARGE_BYTES, bytes)
  }
  fdatasyncSync(descriptor)
  const elapsedMs = clock.monotonic() - startedAtMs
  return elapsedMs > 0 ? (bytes / elapsedMs) * 1000 : 0
}

function millis(value: number): string {
  return `${value < 10 ? value.toFixed(2) : Math.round(value)} ms`
}
