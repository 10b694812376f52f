/** The main thread's side of a table of persons: asks for the next piece when the one before has left. */
import type { PageWish, RowText, TextPieces } from '../../base/pages.ts'
import type { TaskRunner } from '../../ports/task-runner.ts'
import type { PersonListQuery } from '../../rules/persons/person-queries.ts'
import type { TableResult, TableState } from './table-tasks.ts'

/** What a further piece weighs among the reads that wait. */
const PIECE_WEIGHT = 100

type Threads = TaskRunner<{
  readonly personTablePiece: {
    readonly values: readonly [PersonListQuery | TableState]
    readonly result: TableResult
  }
}>

/** Who makes tables; the pool. */
export interface TableQueries {
  /**
   * The persons of a list as a table: as a whole when it is small, else made while it is read. Rejects with
   * 400 when it has too many cells.
   */
  personTable(query: PersonListQuery, onLeave: PageWish['onLeave']): Promise<RowText | TextPieces>
}

/** Begins a table; resolves when its first piece is there, or all of it. Rejects as `TaskRunner.run`. */
export async function openTable(
  query: PersonListQuery,
  threads: Threads,
  onLeave: PageWish['onLeave'],
): Promise<RowText | TextPieces> {
  const pieces = new TablePieces(query, threads)
  onLeave(() => pieces.cancel())
  const first = await pieces.begin()
  return pieces.isComplete ? first : pieces
}

class TablePieces implements TextPieces {
  readonly #threads: Threads
  #table: PersonListQuery | TableState | null
  #first: RowText | null = null
  #isCancelled = false
  #giveUp: () => void = () => {}

  constructor(query: PersonListQuery, threads: Threads) {
    this.#threads = threads
    this.#table = query
  }

  /** Nothing is left to be made. */
  get isComplete(): boolean {
    return this.#table === null
  }

  async begin(): Promise<RowText> {
    const weight = this.#table !== null && 'limit' in this.#table ? this.#table.limit : 0
    this.#first = await this.#make(weight)
    return this.#first
  }

  async next(): Promise<Uint8Array | null> {
    const first = this.#first
    this.#first = null
    if (first !== null) return first
    return this.#table === null ? null : await this.#make(PIECE_WEIGHT)
  }

  cancel(): void {
    this.#isCancelled = true
    this.#giveUp()
  }

  /** Goes on until there are lines, or the end. */
  async #make(weight: number): Promise<RowText> {
    for (;;) {
      const result = await this.#step(weight)
      this.#table = result.rest
      if (result.piece.length > 0 || result.rest === null) return result.piece
    }
  }

  #step(weight: number): Promise<TableResult> {
    const table = this.#table
    if (table === null) throw new TypeError('the table is complete')
    const isMoved = 'numbers' in table
    return this.#threads.run('personTablePiece', [table], {
      weight,
      onLeave: (giveUp) => {
        this.#giveUp = giveUp
        if (this.#isCancelled) giveUp()
      },
      transferList: isMoved ? [table.numbers.buffer, table.columns.buffer] : [],
    })
  }
}
