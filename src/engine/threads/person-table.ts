/**
 * The main thread's side of what is made in pieces: of tables and exports the next when the one before has left, of
 * counts one after the other.
 */
import type { PageWish, RowText, TextPieces } from '../../base/pages.ts'
import type { CallOptions } from '../../ports/task-runner.ts'
import type { EventExportTask } from '../../rules/events/event-queries.ts'
import type { PersonListQuery } from '../../rules/persons/person-queries.ts'
import type { CountPiece, CountState } from './blast-radius.ts'
import type { MadePiece } from './table-tasks.ts'

/** What a further piece weighs among the reads that wait. */
const PIECE_WEIGHT = 100

/** Who makes them; the pool. */
export interface TableQueries {
  /**
   * The persons of a list as a table: as a whole when it is small, else made while it is read. Rejects with
   * 400 when it has too many cells.
   */
  personTable(query: PersonListQuery, onLeave: PageWish['onLeave']): Promise<RowText | TextPieces>
  /** Events in order of arrival, in the same way. */
  eventExport(task: EventExportTask, onLeave: PageWish['onLeave']): Promise<RowText | TextPieces>
}

/** Has a count made piece by piece; reads that wait go between. Rejects as `TaskRunner.run`. */
export async function countInPieces<Tally, Answer>(
  make: (state: CountState<Tally> | undefined) => Promise<CountPiece<Tally, Answer>>,
): Promise<Answer> {
  let piece = await make(undefined)
  while ('rest' in piece) piece = await make(piece.rest)
  return piece.answer
}

/** Has a piece made on a thread. */
type Make<State> = (state: State, options: CallOptions) => Promise<MadePiece<State>>

/**
 * Begins; resolves when the first piece is there, or all of it. `weight`: that of the first among the reads that
 * wait. Rejects as `TaskRunner.run`.
 */
export async function openPieces<State>(
  start: State,
  weight: number,
  make: Make<State>,
  onLeave: PageWish['onLeave'],
): Promise<RowText | TextPieces> {
  const pieces = new Pieces(start, make)
  onLeave(() => pieces.cancel())
  const first = await pieces.begin(weight)
  return pieces.isComplete ? first : pieces
}

class Pieces<State> implements TextPieces {
  readonly #makePiece: Make<State>
  #state: State | null
  #first: RowText | null = null
  #isCancelled = false
  #giveUp: () => void = () => {}

  constructor(start: State, make: Make<State>) {
    this.#makePiece = make
    this.#state = start
  }

  /** Nothing is left to be made. */
  get isComplete(): boolean {
    return this.#state === null
  }

  async begin(weight: number): Promise<RowText> {
    this.#first = await this.#make(weight)
    return this.#first
  }

  async next(): Promise<Uint8Array | null> {
    const first = this.#first
    this.#first = null
    if (first !== null) return first
    return this.#state === null ? null : await this.#make(PIECE_WEIGHT)
  }

  cancel(): void {
    this.#isCancelled = true
    this.#giveUp()
  }

  /** Goes on until there are lines, or the end. */
  async #make(weight: number): Promise<RowText> {
    for (;;) {
      if (this.#state === null) throw new TypeError('nothing is left to be made')
      const onLeave = (giveUp: () => void): void => {
        this.#giveUp = giveUp
        if (this.#isCancelled) giveUp()
      }
      const { piece, rest } = await this.#makePiece(this.#state, { weight, onLeave })
      this.#state = rest
      if (piece.length > 0 || rest === null) return piece
    }
  }
}
