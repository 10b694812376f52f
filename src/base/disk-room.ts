/**
 * Figures about free disk space that the threads of a daemon share. The main thread writes how much space is reserved
 * for accepted events. The processing thread writes how much space its data file has, and how much a commit needs. Each
 * figure has one writer, so plain reads and writes of shared memory are enough.
 */

/**
 * If the disk has at least this many free bytes, threads do not compare the free space with what they need, because no
 * single step needs nearly as much.
 */
export const DISK_PLENTY_BYTES = 2 * 1024 ** 3

/** The indexes of the figures in the shared memory. */
const PROMISED = 0
const INSIDE = 1
const REUSABLE = 2
const GROWTH = 3
const COMMIT_FIXED = 4
const COMMIT_TOUCHED = 5
const COMMIT_ADDED = 6
const LEAVES = 7
const TOUCHED_RATIO = 8
const ADDED_RATIO = 9
const COMMIT_LOG = 10
const COMMIT_LEAST = 11
const NEEDED = 12
const FIELDS = 13

/** The figures about disk space, shared by the threads of a daemon. */
export class DiskRoom {
  /** The shared memory. Pass it in `workerData`; the other thread creates its own `DiskRoom` from it. */
  readonly shared: Float64Array

  constructor(
    shared: Float64Array = new Float64Array(
      new SharedArrayBuffer(FIELDS * Float64Array.BYTES_PER_ELEMENT),
    ),
  ) {
    this.shared = shared
  }

  /**
   * Bytes of the disk that must stay free for accepted events, or 0 until the number is known. Written by the main
   * thread.
   */
  get promisedBytes(): number {
    return this.#get(PROMISED)
  }

  set promisedBytes(bytes: number) {
    this.shared[PROMISED] = bytes
  }

  /**
   * Free bytes at the end of the data file, which no other program can use. This and all figures below are written by
   * the processing thread.
   */
  get insideBytes(): number {
    return this.#get(INSIDE)
  }

  set insideBytes(bytes: number) {
    this.shared[INSIDE] = bytes
  }

  /** Bytes of free pages inside the data file. */
  get reusableBytes(): number {
    return this.#get(REUSABLE)
  }

  set reusableBytes(bytes: number) {
    this.shared[REUSABLE] = bytes
  }

  /**
   * How many bytes the store grows for each byte of the log that is processed, measured in recent commits. 0 until it
   * was measured.
   */
  get growth(): number {
    return this.#get(GROWTH)
  }

  set growth(ratio: number) {
    this.shared[GROWTH] = ratio
  }

  /** An upper bound for the bytes of pages that the last transaction had to write however few records it changed. */
  get commitFixedBytes(): number {
    return this.#get(COMMIT_FIXED)
  }

  set commitFixedBytes(bytes: number) {
    this.shared[COMMIT_FIXED] = bytes
  }

  /**
   * An upper bound for the bytes of leaf pages that the last transaction rewrote, because it changed records in them.
   */
  get commitTouchedBytes(): number {
    return this.#get(COMMIT_TOUCHED)
  }

  set commitTouchedBytes(bytes: number) {
    this.shared[COMMIT_TOUCHED] = bytes
  }

  /** An upper bound for the bytes of pages that the last transaction added. */
  get commitAddedBytes(): number {
    return this.#get(COMMIT_ADDED)
  }

  set commitAddedBytes(bytes: number) {
    this.shared[COMMIT_ADDED] = bytes
  }

  /** Bytes of all leaf pages of the store. A transaction cannot rewrite more bytes of leaf pages than this. */
  get leafBytes(): number {
    return this.#get(LEAVES)
  }

  set leafBytes(bytes: number) {
    this.shared[LEAVES] = bytes
  }

  /**
   * How many bytes of leaf pages a commit rewrites at most for each byte of the log that it covers, measured in recent
   * commits. 0 until this is known.
   */
  get touchedRatio(): number {
    return this.#get(TOUCHED_RATIO)
  }

  set touchedRatio(ratio: number) {
    this.shared[TOUCHED_RATIO] = ratio
  }

  /**
   * How many bytes of pages a commit adds at most for each byte of the log that it covers, measured in recent commits.
   * 0 until this is known.
   */
  get addedRatio(): number {
    return this.#get(ADDED_RATIO)
  }

  set addedRatio(ratio: number) {
    this.shared[ADDED_RATIO] = ratio
  }

  /**
   * Bytes of the log that the commit in progress covers, or 0 if there is none. The figure is not reset if the commit
   * fails, so that the next start recognizes the failure.
   */
  get commitLogBytes(): number {
    return this.#get(COMMIT_LOG)
  }

  set commitLogBytes(bytes: number) {
    this.shared[COMMIT_LOG] = bytes
  }

  /** Estimated bytes of pages that a commit of the usual size writes. Most of them are free again after the commit. */
  get commitLeastBytes(): number {
    return this.#get(COMMIT_LEAST)
  }

  set commitLeastBytes(bytes: number) {
    this.shared[COMMIT_LEAST] = bytes
  }

  /**
   * Bytes that the next commit needs, on the disk and at the end of the data file together, if it waits because fewer
   * bytes are free. 0 if no commit waits.
   */
  get neededBytes(): number {
    return this.#get(NEEDED)
  }

  set neededBytes(bytes: number) {
    this.shared[NEEDED] = bytes
  }

  #get(field: number): number {
    return this.shared[field] ?? 0
  }
}
