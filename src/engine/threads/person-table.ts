/**
 * Collects, on the main thread, results that threads produce in parts. The next part of a table or an export is
 * requested when the previous part was sent to the client. The next part of a count is requested immediately.
 */
import type { PageWish, RowText, TextChunks } from '../../base/pages.ts'
import type { CallOptions } from '../../ports/task-runner.ts'
import type { EventExportTask } from '../../rules/events/event-queries.ts'
import type { PersonListQuery } from '../../rules/persons/person-queries.ts'
import type { Piece } from './blast-radius.ts'
import type { FlagsFileTask } from './flags-file.ts'
import type { MadeChunk } from './table-tasks.ts'

/** The weight of each part after the first one. Waiting reads with a smaller weight run first. */
const CHUNK_WEIGHT = 100

/** Produces tables and exports. The pool implements it. */
export interface TableQueries {
  /**
   * Resolves with the persons of a list as a table. A small table is complete. A large one is produced while the client
   * reads it. Rejects with 400 if the table has too many cells.
   */
  personTable(query: PersonListQuery, onLeave: PageWish['onLeave']): Promise<RowText | TextChunks>
  /**
   * Resolves with events in order of arrival. If they are few, the result is complete. Otherwise it is produced while
   * the client reads it.
   */
  eventExport(task: EventExportTask, onLeave: PageWish['onLeave']): Promise<RowText | TextChunks>
  /**
   * Resolves with the JSON file of all flags of a project. A small file is complete. A large one is produced while the
   * client reads it.
   */
  flagsFile(task: FlagsFileTask, onLeave: PageWish['onLeave']): Promise<RowText | TextChunks>
}

/**
 * Runs a count, part by part. Other waiting reads can run between two parts. Rejects with the errors of
 * `TaskRunner.run`.
 */
export async function countInPieces<State, Answer>(
  make: (state: State | undefined) => Promise<Piece<State, Answer>>,
): Promise<Answer> {
  let piece = await make(undefined)
  while ('rest' in piece) piece = await make(piece.rest)
  return piece.answer
}

/** Produces one part on a thread. */
type Make<State> = (state: State, options: CallOptions) => Promise<MadeChunk<State>>

/**
 * Starts a result that is produced in parts. Resolves when the first part is ready. If that is the whole result,
 * resolves with its bytes. `weight` is the weight of the first part: waiting reads with a smaller weight run first.
 * Rejects with the errors of `TaskRunner.run`.
 */
export async function openChunks<State>(
  start: State,
  weight: number,
  make: Make<State>,
  onLeave: PageWish['onLeave'],
): Promise<RowText | TextChunks> {
  const chunks = new Chunks(start, make)
  onLeave(() => chunks.cancel())
  const first = await chunks.begin(weight)
  return chunks.isComplete ? first : chunks
}

class Chunks<State> implements TextChunks {
  readonly #makeChunk: Make<State>
  #state: State | null
  #first: RowText | null = null
  #isCanceled = false
  #giveUp: () => void = () => {}

  constructor(start: State, make: Make<State>) {
    this.#makeChunk = make
    this.#state = start
  }

  /** True if all parts were produced. */
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
    return this.#state === null ? null : await this.#make(CHUNK_WEIGHT)
  }

  cancel(): void {
    this.#isCanceled = true
    this.#giveUp()
  }

  /** Requests parts until one contains lines, or until the end is reached. */
  async #make(weight: number): Promise<RowText> {
    for (;;) {
      if (this.#state === null) throw new TypeError('nothing is left to be made')
      const onLeave = (giveUp: () => void): void => {
        this.#giveUp = giveUp
        if (this.#isCanceled) giveUp()
      }
      const { piece: chunk, rest } = await this.#makeChunk(this.#state, { weight, onLeave })
      this.#state = rest
      if (chunk.length > 0 || rest === null) return chunk
    }
  }
}
