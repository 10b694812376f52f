/**
 * How much of the log one commit may take while the disk is short of room. A commit needs room in the data file for
 * every page that it can write (data-file-room.ts), most of which the next commits use again. So with little room
 * there are smaller commits, down to a single event. If there is not even room for that, processing waits. How much room
 * a commit needs is learnt from earlier commits, and is remembered when one fails and the store is opened again.
 */
import { DISK_PLENTY_BYTES, DiskRoom } from '../../base/disk-room.ts'
import type { EventStoreWriter } from '../../store/warehouse/write/event-store.ts'
import { SHORT_COMMIT_BYTES_MAX } from './limits.ts'

/** What a commit adds for each byte of the log, and what it touches, before any was seen. */
const FIRST_RATIO = 4
const RATIO_MIN = 0.5
/** More than was seen: another commit may change other pages. */
const RATIO_SAFETY = 1.5
/** The part of the difference by which a ratio sinks with each commit that took less. */
const SINKING_PART = 0.2
/** What is not known of a small commit. */
const LEAST_BYTES = 256 * 1024
/** Smaller commits say nothing about what a byte takes. */
const TELLING_BYTES = 64 * 1024
/** Bytes of the log whose commit must always be possible: more are accepted only then. */
const USUAL_BYTES = 1024 * 1024
/** The part of the room that one commit may need, so that the next one finds some. */
const ROOM_PART = 0.5

/** Decides how much is committed at a time. One per processor. */
export class CommitRoom {
  readonly #store: Pick<EventStoreWriter, 'room'>
  readonly #shared: DiskRoom
  #usedBytes: number | null = null

  constructor(store: Pick<EventStoreWriter, 'room'>, shared: DiskRoom = new DiskRoom()) {
    this.#store = store
    this.#shared = shared
    // The last commit has failed, so what it needed was more than expected.
    if (shared.commitLogBytes > 0) this.#learnRatios(true)
  }

  /**
   * Returns how many bytes of the log the next commit may gather, or 0 if it has to wait. The rest of the next block has
   * `nextBytes` bytes and `nextEvents` events. If the result is less than `nextBytes`, the commit must take only that
   * part of the block, but at least one event.
   */
  bytesMax(nextBytes: number, nextEvents: number): number {
    const shared = this.#shared
    const { diskBytes, insideBytes, usedBytes } = this.#store.room()
    this.#usedBytes ??= usedBytes
    shared.insideBytes = insideBytes
    shared.neededBytes = 0
    if (diskBytes >= DISK_PLENTY_BYTES) return Number.POSITIVE_INFINITY
    const roomBytes = diskBytes + insideBytes
    const eventBytes = nextBytes / Math.max(1, nextEvents)
    const leastBytes = this.#commitBytes(eventBytes)
    shared.commitLeastBytes = this.#commitBytes(USUAL_BYTES)
    if (roomBytes < leastBytes) {
      shared.neededBytes = leastBytes
      return 0
    }
    let bytes = SHORT_COMMIT_BYTES_MAX
    while (bytes > eventBytes && this.#commitBytes(bytes) > roomBytes * ROOM_PART) bytes /= 2
    return Math.max(eventBytes, bytes)
  }

  /** Bytes of pages that a commit of so many bytes of the log can write. */
  #commitBytes(logBytes: number): number {
    const { commitFixedBytes, leafBytes, touchedRatio, addedRatio } = this.#shared
    const touchedBytes = Math.min(leafBytes, logBytes * (touchedRatio || FIRST_RATIO))
    return LEAST_BYTES + commitFixedBytes + touchedBytes + logBytes * (addedRatio || FIRST_RATIO)
  }

  /** Whether segments may be merged: only with room that nothing accepted needs. */
  get mayMerge(): boolean {
    const { diskBytes, insideBytes } = this.#store.room()
    return diskBytes >= DISK_PLENTY_BYTES || diskBytes + insideBytes >= this.#shared.promisedBytes
  }

  /** A commit of so many bytes of the log begins. */
  begin(logBytes: number): void {
    this.#shared.commitLogBytes = logBytes
  }

  /** It has succeeded. */
  end(): void {
    const shared = this.#shared
    const logBytes = shared.commitLogBytes
    const { insideBytes, usedBytes } = this.#store.room()
    shared.insideBytes = insideBytes
    this.#learnRatios(false)
    const grownBytes = usedBytes - (this.#usedBytes ?? usedBytes)
    this.#usedBytes = usedBytes
    if (logBytes < TELLING_BYTES) return
    shared.growth = follow(shared.growth, Math.max(0, grownBytes) / logBytes)
  }

  /** Pages that merging and erasing have freed do not count as growth. */
  noteReusable(reusableBytes: number): void {
    this.#shared.reusableBytes = reusableBytes
    this.#usedBytes = null
  }

  #learnRatios(hasFailed: boolean): void {
    const shared = this.#shared
    const { commitLogBytes, commitTouchedBytes, commitAddedBytes } = shared
    shared.commitLogBytes = 0
    if (commitTouchedBytes + commitAddedBytes === 0) return
    if (commitLogBytes < TELLING_BYTES && !hasFailed) return
    const seen = (bytes: number): number => (bytes / commitLogBytes) * RATIO_SAFETY
    shared.touchedRatio = Math.max(RATIO_MIN, follow(shared.touchedRatio, seen(commitTouchedBytes)))
    shared.addedRatio = Math.max(RATIO_MIN, follow(shared.addedRatio, seen(commitAddedBytes)))
  }
}

/** Rises at once, sinks slowly. */
function follow(known: number, seen: number): number {
  return known === 0 || seen > known ? seen : known + (seen - known) * SINKING_PART
}
