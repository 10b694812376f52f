/** Describes the system that is measured: the machine, the disk, the version of Node and the commit. */
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Samples } from './samples.ts'

/** The description that is printed with every result. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  /** The median time of appending and flushing 4 KiB, in milliseconds. `fsyncMsP99` is the 99th percentile. */
  readonly fsyncMsP50: number
  readonly fsyncMsP99: number
  readonly node: string
  /** The short hash of the commit, followed by `+` if the tree had uncommitted changes. */
  readonly commit: string
  /** The load average of one minute when the run began. Above 0.5, the machine was not idle. */
  readonly loadAtStart: number
}

const PROBE_WRITES = 300
const PROBE_BYTES = 4096

/** Measures the machine. `folder` is the folder in which the benches store their data. It takes about 0.2 s. */
export function describeMachine(folder: string): Machine {
  const fsync = probeFsync(folder)
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round((totalmem() / 1024 ** 3) * 10) / 10,
    fsyncMsP50: fsync.p50,
    fsyncMsP99: fsync.p99,
    node: process.version,
    commit: commit(),
    loadAtStart: Math.round((loadavg()[0] ?? 0) * 100) / 100,
  }
}

/** Returns the folder of package.json, whether this is the source or its build. */
export function repositoryFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder)
    if (parent === folder) throw new Error('no package.json above the benches')
    folder = parent
  }
  return folder
}

function probeFsync(folder: string): { p50: number; p99: number } {
  const path = join(folder, 'fsync-probe')
  const file = openSync(path, 'w')
  const samples = new Samples()
  const bytes = Buffer.alloc(PROBE_BYTES, 1)
  try {
    for (let index = 0; index < PROBE_WRITES; index++) {
      const startMs = performance.now()
      writeSync(file, bytes)
      fdatasyncSync(file)
      samples.add(performance.now() - startMs)
    }
  } finally {
    closeSync(file)
    rmSync(path)
  }
  return samples.percentiles()
}

function commit(): string {
  try {
    const git = (...words: string[]): string =>
      execFileSync('git', words, { cwd: repositoryFolder(), encoding: 'utf8' }).trim()
    const changes = git('status', '--porcelain', '--untracked-files=no', '--', '.', ':!docs')
    return git('rev-parse', '--short', 'HEAD') + (changes === '' ? '' : '+')
  } catch {
    return 'unknown'
  }
}
