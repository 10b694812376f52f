/**
 * Limits how much of the log one commit takes while the disk is short of space. A commit needs space in the data file
 * for every page that it may write (data-file-room.ts); the next commits reuse most of that space. With little space,
 * commits are therefore smaller, down to a single event. If there is not enough space for one event, processing waits.
 * The space that a commit needs is learnt from earlier commits. If a commit fails, its need is remembered while the
 * store is reopened.
 */
import { DISK_PLENTY_BYTES, DiskRoom } from '../../base/disk-room.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import { SHORT_COMMIT_BYTES_MAX } from './limits.ts'

/** The assumed bytes that a commit adds and touches for each byte of the log, before any commit was measured. */
const FIRST_RATIO = 4
const RATIO_MIN = 0.5
/** The next commit may change other pages, so more than the measured space is assumed. */
const RATIO_SAFETY = 1.5
/** The fraction of the difference by which a ratio falls with each commit that needed less. */
const SINKING_PART = 0.2
/** The extra space for the unknown cost of a small commit. */
const LEAST_BYTES = 256 * 1024
/** Commits smaller than this do not show the cost of a byte. */
const TELLING_BYTES = 64 * 1024
/** A commit of this many bytes of the log must always be possible; otherwise no more events are accepted. */
const USUAL_BYTES = 1024 * 1024
/** The fraction of the space that one commit may need, so that enough is left for the next one. */
const ROOM_PART = 0.5

/** Decides how much is committed at a time. There is one for each processor. */
export class CommitRoom {
  readonly #store: Pick<ProcessingWriter, 'room'>
  readonly #shared: DiskRoom
  #usedBytes: number | null = null

  constructor(store: Pick<ProcessingWriter, 'room'>, shared: DiskRoom = new DiskRoom()) {
    this.#store = store
    this.#shared = shared
    // The last commit has failed, so it needed more than expected.
    if (shared.commitLogBytes > 0) this.#learnRatios(true)
  }

  /**
   * Returns the number of log bytes that the next commit may gather, or 0 if it has to wait. The rest of the next block
   * has `nextBytes` bytes and `nextEvents` events. If the result is less than `nextBytes`, the commit must take only
   * that part of the block, but at least one event.
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

  /** Returns the bytes of pages that a commit of this many log bytes may write. */
  #commitBytes(logBytes: number): number {
    const { commitFixedBytes, leafBytes, touchedRatio, addedRatio } = this.#shared
    const touchedBytes = Math.min(leafBytes, logBytes * (touchedRatio || FIRST_RATIO))
    return LEAST_BYTES + commitFixedBytes + touchedBytes + logBytes * (addedRatio || FIRST_RATIO)
  }

  /** True if segments may be merged: only if the space is not needed for accepted events. */
  get mayMerge(): boolean {
    const { diskBytes, insideBytes } = this.#store.room()
    return diskBytes >= DISK_PLENTY_BYTES || diskBytes + insideBytes >= this.#shared.promisedBytes
  }

  /** Records that a commit of this many log bytes begins. */
  begin(logBytes: number): void {
    this.#shared.commitLogBytes = logBytes
  }

  /** Records that the commit has succeeded. */
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

  /** Records the free pages in the store. Pages that merging and erasing have freed do not count as negative growth. */
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

/** Follows a rising value at once, and a falling value slowly. */
function follow(known: number, seen: number): number {
  return known === 0 || seen > known ? seen : known + (seen - known) * SINKING_PART
}
