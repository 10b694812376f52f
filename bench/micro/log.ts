/**
 * Question: what does a commit of the log cost the thread that writes it?
 * Workload: blocks of random bytes of one size, one in each commit, each durable before the next begins. A block is
 * removed when some later ones are there, as in processing. Rounds of both sides take turns, and the first is a
 * warm-up.
 * Baseline: the same block written to a separate LMDB environment in a transaction with a flush, sealed, with the
 * record of the end. That is the log of store format 2.
 * Reconsider: log files, if they save less than 15 % of the CPU time at any size.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { seal as sealBlock } from '../../src/rules/capture/log-block.ts'
import { seal } from '../../src/store/lmdb/codec.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'

/** The microseconds of a commit, from the best round of each side. */
export interface LogFigures {
  readonly blockBytes: number
  readonly filesCpuUs: number
  readonly filesWallUs: number
  readonly lmdbCpuUs: number
  readonly lmdbWallUs: number
}

/** The sizes of a run. */
export interface LogRun {
  readonly dataDir: string
  /** The number of rounds. The default is 5. */
  readonly rounds?: number
  /** The bytes of a block, and the number of commits of a round. */
  readonly sizes?: readonly (readonly [blockBytes: number, commits: number])[]
}

interface Side {
  commit(block: Buffer): void
  close(): Promise<void>
}

/** If this many blocks wait, the oldest one is removed. */
const WAITING = 16

/** Writes two logs in an empty directory, and prints one line of JSON for each size. */
export async function run(options: LogRun): Promise<readonly LogFigures[]> {
  const { dataDir, rounds = 5 } = options
  const sizes = options.sizes ?? [
    [9000, 400],
    [90_000, 200],
    [19_000_000, 6],
  ]
  const sides = [openFiles(join(dataDir, 'files')), openLmdb(join(dataDir, 'lmdb'))] as const
  const figures = sizes.map(([blockBytes, commits]) => {
    const block = randomBytes(blockBytes)
    const best = sides.map(() => ({ cpuUs: Number.POSITIVE_INFINITY, wallUs: 0 }))
    for (let round = 0; round <= rounds; round++) {
      for (const [index, side] of sides.entries()) {
        const spent = measure(side, block, commits)
        if (round > 0 && spent.cpuUs < (best[index]?.cpuUs ?? 0)) best[index] = spent
      }
    }
    const [files, lmdb] = best
    const found = {
      blockBytes,
      filesCpuUs: files?.cpuUs ?? 0,
      filesWallUs: files?.wallUs ?? 0,
      lmdbCpuUs: lmdb?.cpuUs ?? 0,
      lmdbWallUs: lmdb?.wallUs ?? 0,
    }
    process.stdout.write(`${JSON.stringify(found)}\n`)
    return found
  })
  for (const side of sides) await side.close()
  return figures
}

function measure(side: Side, block: Buffer, commits: number): { cpuUs: number; wallUs: number } {
  const [startedAtMs, before] = [performance.now(), process.cpuUsage()]
  for (let commit = 0; commit < commits; commit++) side.commit(block)
  const { user, system } = process.cpuUsage(before)
  const wallMs = performance.now() - startedAtMs
  return {
    cpuUs: Math.round((user + system) / commits),
    wallUs: Math.round((wallMs * 1000) / commits),
  }
}

function openFiles(dataDir: string): Side {
  const log = new LogAppender({ dataDir, processed: 0 })
  let last = 0
  return {
    commit(block) {
      last = log.append([block], last - WAITING)
    },
    close: () => log.close(),
  }
}

function openLmdb(dataDir: string): Side {
  const tables = ['blocks', 'state']
  const environment = new Environment({ dataDir, name: 'log', tables })
  const [blocks, state] = [environment.table('blocks'), environment.table('state')]
  const endKey = Buffer.from('end', 'latin1')
  let last = 0
  return {
    commit(block) {
      environment.write(() => {
        sealBlock(block)
        void blocks.put(keyOf(++last), block)
        if (last > WAITING) void blocks.remove(keyOf(last - WAITING))
        const end = Buffer.allocUnsafe(8)
        end.writeDoubleLE(last)
        void state.put(endKey, seal(endKey, end))
      })
    },
    close: () => environment.close(),
  }
}

function keyOf(sequence: number): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(BigInt(sequence))
  return key
}
