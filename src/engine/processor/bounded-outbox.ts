/**
 * The outbox of ports/outbox.ts for one process. It holds stored events in memory until subscribers, such as live
 * streams, take them. If too many events wait for a subscriber, they are dropped, and the subscriber is told which ones
 * it missed.
 */
import type {
  EventTest,
  Outbox,
  OutboxBatch,
  OutboxGap,
  OutboxRow,
  OutboxWriter,
  Subscription,
} from '../../ports/outbox.ts'
import { BATCHES_MAX } from './limits.ts'

/** Both ends of the outbox. Subscribers register here, and processing adds the events that it has stored. */
export class BoundedOutbox implements Outbox, OutboxWriter {
  readonly #listeners = new Set<Listener>()
  #rows: OutboxRow[] = []

  get isWanted(): boolean {
    return this.#listeners.size > 0
  }

  readonly wants: EventTest = (projectId, event) => {
    let isWanted = false
    // Ask every subscriber, even if one already wants the event: a subscriber that takes a sample counts the events
    // that it leaves out.
    for (const { wants } of this.#listeners) if (wants(projectId, event)) isWanted = true
    return isWanted
  }

  add(row: OutboxRow): void {
    this.#rows.push(row)
  }

  discard(): void {
    this.#rows = []
  }

  publish(commit: Omit<OutboxBatch, 'kind' | 'rows'>): void {
    const rows = this.#rows
    this.#rows = []
    const isEmpty = rows.length + commit.persons.length + commit.definitions.length === 0
    if (isEmpty) return
    const batch = { kind: 'batch', rows, ...commit } as const
    for (const listener of this.#listeners) listener.put(batch)
  }

  subscribe(rowsMax: number, wants: EventTest = () => true): Subscription {
    const listener = new Listener(rowsMax, wants, () => this.#listeners.delete(listener))
    this.#listeners.add(listener)
    return listener
  }
}

class Listener implements Subscription {
  readonly wants: EventTest
  readonly #rowsMax: number
  readonly #onClose: () => void
  #batches: OutboxBatch[] = []
  #waitingRows = 0
  /**
   * The events that were dropped since the last delivery, by project. `after` is the sequence number before the first
   * dropped event, and `through` is that of the last one.
   */
  readonly #missed = new Map<number, { readonly after: number; through: number }>()
  #missedPosition: number | null = null
  #isClosed = false
  #wake: () => void = () => {}

  constructor(rowsMax: number, wants: EventTest, onClose: () => void) {
    this.wants = wants
    this.#rowsMax = rowsMax
    this.#onClose = onClose
  }

  put(batch: OutboxBatch): void {
    this.#batches.push(batch)
    this.#waitingRows += batch.rows.length
    const isFull = this.#waitingRows > this.#rowsMax || this.#batches.length > BATCHES_MAX
    // After earlier batches were dropped, the subscriber must learn of the gap before it gets later events. Until then,
    // further batches are dropped, too.
    if (isFull || this.#missedPosition !== null) this.#giveUp()
    this.#wake()
  }

  take(): OutboxBatch | OutboxGap | null {
    if (this.#missedPosition !== null) return this.#takeGap(this.#missedPosition)
    const batch = this.#batches.shift() ?? null
    this.#waitingRows -= batch?.rows.length ?? 0
    return batch
  }

  async next(): Promise<OutboxBatch | OutboxGap | null> {
    while (!this.#isClosed) {
      const delivery = this.take()
      if (delivery !== null) return delivery
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return null
  }

  close(): void {
    this.#isClosed = true
    this.#batches = []
    this.#onClose()
    this.#wake()
  }

  #giveUp(): void {
    for (const { rows, position } of this.#batches) {
      this.#missedPosition = position
      for (const { projectId, sequence } of rows) {
        const known = this.#missed.get(projectId)
        if (known === undefined) {
          this.#missed.set(projectId, { after: sequence - 1, through: sequence })
        } else known.through = sequence
      }
    }
    this.#batches = []
    this.#waitingRows = 0
  }

  #takeGap(position: number): OutboxGap {
    const missed = [...this.#missed].map(([projectId, gap]) => ({ projectId, ...gap }))
    this.#missed.clear()
    this.#missedPosition = null
    return { kind: 'gap', position, missed }
  }
}
