/**
 * Limits how much of the log one commit processes while the disk is short of space. A commit writes changed pages to
 * free space in the data file (data-file-room.ts), and later commits can reuse most of that space. With little space,
 * commits are therefore smaller, down to a single event. If there is not enough space even for one event, processing
 * waits. How much space a commit needs is estimated from earlier commits. The estimates are kept when a commit fails and
 * the store is opened again.
 */
import { DISK_PLENTY_BYTES, DiskRoom } from '../../base/disk-room.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import { SHORT_COMMIT_BYTES_MAX } from './limits.ts'

/**
 * The first estimate, until a commit has been measured: for each byte of the log, a commit adds this many bytes of
 * pages, and also rewrites this many bytes of pages.
 */
const FIRST_RATIO = 4
const RATIO_MIN = 0.5
/** Measured space is multiplied by this factor, because the next commit may change more pages than the measured one. */
const RATIO_SAFETY = 1.5
/** If a commit needed less space than estimated, the estimate falls by this share of the difference. */
const SINKING_PART = 0.2
/** The number of bytes that every estimate includes, because even the smallest commit writes some pages. */
const LEAST_BYTES = 256 * 1024
/** Commits of fewer bytes of the log are not measured. Their fixed costs would distort the costs per byte. */
const TELLING_BYTES = 64 * 1024
/** Events are accepted only while there is space for a commit of this many bytes of the log (see disk-reserve.ts). */
const USUAL_BYTES = 1024 * 1024
/** The largest share of the space that one commit may need, so that enough is left for the next one. */
const ROOM_PART = 0.5

/** Decides how much of the log each commit processes. Each processor has one instance. */
export class CommitRoom {
  readonly #store: Pick<ProcessingWriter, 'room'>
  readonly #shared: DiskRoom
  #usedBytes: number | null = null
  /** If the last commit was small and has failed: its bytes of the log, and the bytes of its pages. Otherwise 0. */
  #failedLogBytes = 0
  #failedBytes = 0

  constructor(store: Pick<ProcessingWriter, 'room'>, shared: DiskRoom = new DiskRoom()) {
    this.#store = store
    this.#shared = shared
    // If the last commit has begun but not ended, it has failed. The estimate is then corrected by the number of pages
    // that it needed.
    if (shared.commitLogBytes > 0) this.#learnFailure()
  }

  /**
   * Returns the maximum number of bytes of the log for the next commit, or 0 if the commit has to wait. `nextBytes` and
   * `nextEvents` are the size of the unprocessed rest of the next block. If the result is less than `nextBytes`, the
   * commit must take only a part of the block, but at least one event.
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
    // After a small commit has failed, the next one takes at most half as much. One event cannot be divided, so it must
    // find the space that it needed.
    const halfBytes = this.#failedLogBytes === 0 ? SHORT_COMMIT_BYTES_MAX : this.#failedLogBytes / 2
    const neededBytes = halfBytes < eventBytes ? this.#failedBytes : 0
    const leastBytes = Math.max(neededBytes, this.#commitBytes(eventBytes))
    this.#renewLeast()
    if (roomBytes < leastBytes) {
      shared.neededBytes = leastBytes
      return 0
    }
    let bytes = Math.min(SHORT_COMMIT_BYTES_MAX, halfBytes)
    while (bytes > eventBytes && this.#commitBytes(bytes) > roomBytes * ROOM_PART) bytes /= 2
    return Math.max(eventBytes, bytes)
  }

  /** Tells the main thread that events wait until `bytes` bytes are free. */
  wait(bytes: number): void {
    this.#shared.insideBytes = this.#store.room().insideBytes
    this.#shared.neededBytes = bytes
  }

  #renewLeast(): void {
    this.#shared.commitLeastBytes = this.#commitBytes(USUAL_BYTES)
  }

  /** Returns how many bytes of pages a commit is estimated to write if it processes `logBytes` bytes of the log. */
  #commitBytes(logBytes: number): number {
    const { commitFixedBytes, leafBytes, touchedRatio, addedRatio } = this.#shared
    const touchedBytes = Math.min(leafBytes, logBytes * (touchedRatio || FIRST_RATIO))
    return LEAST_BYTES + commitFixedBytes + touchedBytes + logBytes * (addedRatio || FIRST_RATIO)
  }

  /** True if segments may be merged. False if the space is needed for events that were accepted. */
  get mayMerge(): boolean {
    const { diskBytes, insideBytes } = this.#store.room()
    return diskBytes >= DISK_PLENTY_BYTES || diskBytes + insideBytes >= this.#shared.promisedBytes
  }

  /** Records that a commit of `logBytes` bytes of the log begins. */
  begin(logBytes: number): void {
    const shared = this.#shared
    shared.commitLogBytes = logBytes
    // The transaction of the commit sets them, unless the disk has plenty of space.
    shared.commitTouchedBytes = 0
    shared.commitAddedBytes = 0
  }

  /** Records that the commit has succeeded. */
  end(): void {
    const shared = this.#shared
    const logBytes = shared.commitLogBytes
    shared.commitLogBytes = 0
    this.#failedLogBytes = 0
    this.#failedBytes = 0
    const { insideBytes, usedBytes } = this.#store.room()
    shared.insideBytes = insideBytes
    if (logBytes >= TELLING_BYTES) this.#learnRatios(logBytes)
    this.#renewLeast()
    const grownBytes = usedBytes - (this.#usedBytes ?? usedBytes)
    this.#usedBytes = usedBytes
    if (logBytes < TELLING_BYTES) return
    shared.growth = follow(shared.growth, Math.max(0, grownBytes) / logBytes)
  }

  /** Records how many bytes of pages are free in the store. */
  noteReusable(reusableBytes: number): void {
    this.#shared.reusableBytes = reusableBytes
    this.measureAnew()
  }

  /**
   * Must be called after anything but a commit has changed the size of the store. The growth of the store is then
   * measured from its present size. Otherwise, pages that merging and erasing have freed would count as negative growth,
   * and the index of UUIDs as growth by the next events.
   */
  measureAnew(): void {
    this.#usedBytes = null
  }

  /**
   * Corrects the estimates by the pages that the failed commit needed. For a small commit, most of these pages are
   * fixed costs. They tell what the same commit needs, and nothing about the costs for each byte of a larger one.
   */
  #learnFailure(): void {
    const shared = this.#shared
    const { commitLogBytes, commitFixedBytes, commitTouchedBytes, commitAddedBytes } = shared
    shared.commitLogBytes = 0
    const pageBytes = commitTouchedBytes + commitAddedBytes
    // Without pages, the commit failed before it was known how many it needs.
    if (pageBytes === 0) return
    if (commitLogBytes >= TELLING_BYTES) {
      this.#learnRatios(commitLogBytes)
      return
    }
    this.#failedLogBytes = commitLogBytes
    this.#failedBytes = commitFixedBytes + pageBytes
  }

  #learnRatios(logBytes: number): void {
    const shared = this.#shared
    const { commitTouchedBytes, commitAddedBytes } = shared
    if (commitTouchedBytes + commitAddedBytes === 0) return
    const seen = (bytes: number): number => (bytes / logBytes) * RATIO_SAFETY
    shared.touchedRatio = Math.max(RATIO_MIN, follow(shared.touchedRatio, seen(commitTouchedBytes)))
    shared.addedRatio = Math.max(RATIO_MIN, follow(shared.addedRatio, seen(commitAddedBytes)))
  }
}

/** Returns the new estimate after a measurement. The estimate rises immediately and falls slowly. */
function follow(known: number, seen: number): number {
  return known === 0 || seen > known ? seen : known + (seen - known) * SINKING_PART
}
