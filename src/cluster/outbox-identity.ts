/**
 * The name of an outbox and its runs, in the file `edge` beside the log of the outbox. If the log is lost, this file is
 * lost with it, and the new outbox gets a new name. If the new outbox had the old name, its blocks would start at
 * number 1 again, and all replicas would skip them as blocks that they already have.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDurably } from '../base/durable-file.ts'
import { OperatorError } from '../base/errors.ts'
import { numberOf, placeOf } from './block-message.ts'
import { OUTBOX_RUNS_MAX } from './limits.ts'

const FILE = 'edge'

interface Kept {
  readonly edge: string
  /** The runs, each with the number of its first block; oldest first. */
  readonly runs: readonly (readonly [run: number, firstNumber: number])[]
}

/** The name and the runs of one outbox. */
export class OutboxIdentity {
  readonly #path: string
  #kept: Kept

  /** Reads the identity, or creates it if there is no outbox. */
  constructor(folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#path = join(folder, FILE)
    this.#kept = read(this.#path) ?? { edge: randomBytes(16).toString('hex'), runs: [] }
  }

  /** The name of the outbox, as hex digits. */
  get name(): string {
    return this.#kept.edge
  }

  /** The name of the outbox, as 16 bytes. */
  get bytes(): Uint8Array {
    return Buffer.from(this.#kept.edge, 'hex')
  }

  /**
   * Begins a run with the block `firstNumber`. The run is on disk when the call returns. `firstKept` is the number of
   * the oldest block in the log. Runs that ended before this block are removed.
   */
  beginRun(firstNumber: number, firstKept: number): void {
    const [last = 0] = this.#kept.runs.at(-1) ?? []
    if (last >= OUTBOX_RUNS_MAX) {
      throw new OperatorError(
        `The outbox of ${this.#path} was opened ${last} times, which is the limit. See docs/CLUSTER.md.`,
      )
    }
    const runs = this.#kept.runs.filter(([, first], index, all) => {
      const next = all[index + 1]
      return first < firstNumber && (next === undefined || next[1] > firstKept)
    })
    this.#kept = { ...this.#kept, runs: [...runs, [last + 1, firstNumber]] }
    writeDurably(this.#path, JSON.stringify(this.#kept))
  }

  /**
   * Returns the block number up to which a replica has stored all blocks of this outbox's log. `place` is the place
   * (block-message.ts) that the replica has reported. An earlier run may have published blocks that the log has lost.
   * Such blocks do not count, because later blocks have their numbers now.
   */
  numberThrough(place: number): number {
    const [, next = Infinity] = this.#kept.runs.find(([run]) => placeOf(run, 0) > place) ?? []
    return Math.min(numberOf(place), next - 1)
  }

  placeOf(number: number): number {
    const [run = 1] = this.#kept.runs.findLast(([, first]) => first <= number) ?? []
    return placeOf(run, number)
  }
}

function read(path: string): Kept | null {
  try {
    // The cast is right: `beginRun` wrote the file.
    return JSON.parse(readFileSync(path, 'utf8')) as Kept
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return null
    throw new OperatorError(`Cannot read ${path}.`, { cause })
  }
}
