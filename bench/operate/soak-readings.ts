/** Reads values of a daemon at intervals for the bench `soak`, and decides whether they grow or only vary. */
import { readdirSync, readFileSync } from 'node:fs'
import type { Daemon } from '../daemon.ts'
import { folderBytes } from './store-digest.ts'

/** One reading of the process. */
export interface Reading {
  readonly atMinutes: number
  /** The memory of the process itself in MiB, without the page cache. */
  readonly anonymousMib: number
  /** The number of open files, sockets and pipes. */
  readonly handles: number
  readonly threads: number
  /** The size of all memory maps in GiB, including the maps of LMDB, whether their pages are in memory or not. */
  readonly mappedGib: number
  readonly fileBytes: number
  readonly stored: number
  readonly queueDepth: number
}

/** A straight line that is fitted to readings. */
export interface Growth {
  readonly mean: number
  /** The rise of the line from the first to the last reading. */
  readonly rise: number
  /** The part of the rise that exceeds twice the standard error of the slope. It is 0 if the line falls. */
  readonly riseBeyondNoise: number
}

/** Takes one reading. */
export async function readDaemon(
  daemon: Daemon,
  dataDir: string,
  startMs: number,
): Promise<Reading> {
  const { stored, queueDepth } = await daemon.progress()
  const status = readFileSync(`/proc/${daemon.pid}/status`, 'utf8')
  const number = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? Number.NaN)
  return {
    atMinutes: (performance.now() - startMs) / 60_000,
    anonymousMib: number('RssAnon') / 1024,
    handles: readdirSync(`/proc/${daemon.pid}/fd`).length,
    threads: number('Threads'),
    mappedGib: number('VmSize') / 1024 ** 2,
    fileBytes: folderBytes(dataDir),
    stored,
    queueDepth,
  }
}

/** Fits a line by least squares with equal weights. Throws if there are fewer than three readings. */
export function growthOf(
  readings: readonly Reading[],
  figureOf: (reading: Reading) => number,
): Growth {
  const count = readings.length
  if (count < 3) throw new Error('too few readings for a slope')
  const times = readings.map(({ atMinutes }) => atMinutes)
  const values = readings.map(figureOf)
  const [meanTime, mean] = [times, values].map((all) => all.reduce((a, b) => a + b) / count)
  if (meanTime === undefined || mean === undefined) throw new Error('there is no mean')
  let [spread, covered] = [0, 0]
  for (const [index, time] of times.entries()) {
    spread += (time - meanTime) ** 2
    covered += (time - meanTime) * ((values[index] ?? mean) - mean)
  }
  const slope = covered / spread
  let residuals = 0
  for (const [index, time] of times.entries()) {
    residuals += ((values[index] ?? mean) - mean - slope * (time - meanTime)) ** 2
  }
  const error = Math.sqrt(residuals / (count - 2) / spread)
  const length = (times.at(-1) ?? 0) - (times[0] ?? 0)
  return {
    mean,
    rise: slope * length,
    riseBeyondNoise: Math.max(0, slope - 2 * error) * length,
  }
}
