/**
 * What the threads of a daemon tell each other about room on the disk. The front says how much of it is promised to
 * events that were accepted; the processing thread says how much room its data file has, and what a commit takes.
 * Each number has one writer, so plain reads and writes of shared memory are enough.
 */

/** With so many free bytes of the disk no thread looks closer: nothing that one of them does comes near. */
export const DISK_PLENTY_BYTES = 2 * 1024 ** 3

/** Positions in the shared memory. */
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

/** Numbers about room on the disk, shared by the threads of a daemon. */
export class DiskRoom {
  /** For `workerData`: another thread makes its `DiskRoom` of it. */
  readonly shared: Float64Array

  constructor(
    shared: Float64Array = new Float64Array(
      new SharedArrayBuffer(FIELDS * Float64Array.BYTES_PER_ELEMENT),
    ),
  ) {
    this.shared = shared
  }

  /** Bytes of the disk that must stay free for what was accepted; 0 until that is known. Written by the front. */
  get promisedBytes(): number {
    return this.#get(PROMISED)
  }

  set promisedBytes(bytes: number) {
    this.shared[PROMISED] = bytes
  }

  /** Bytes at the end of the data file that nobody else can take. Written by the processing thread, as all below. */
  get insideBytes(): number {
    return this.#get(INSIDE)
  }

  set insideBytes(bytes: number) {
    this.shared[INSIDE] = bytes
  }

  /** Bytes of pages in the data file that hold nothing now. */
  get reusableBytes(): number {
    return this.#get(REUSABLE)
  }

  set reusableBytes(bytes: number) {
    this.shared[REUSABLE] = bytes
  }

  /** Bytes by which the store has grown lately for each byte of the log; 0 until that is known. */
  get growth(): number {
    return this.#get(GROWTH)
  }

  set growth(ratio: number) {
    this.shared[GROWTH] = ratio
  }

  /** Bytes of pages that the last transaction could have written, however little it changed. */
  get commitFixedBytes(): number {
    return this.#get(COMMIT_FIXED)
  }

  set commitFixedBytes(bytes: number) {
    this.shared[COMMIT_FIXED] = bytes
  }

  /** Bytes of leaves that it could have written because it changed records in them. */
  get commitTouchedBytes(): number {
    return this.#get(COMMIT_TOUCHED)
  }

  set commitTouchedBytes(bytes: number) {
    this.shared[COMMIT_TOUCHED] = bytes
  }

  /** Bytes of pages that it could have added. */
  get commitAddedBytes(): number {
    return this.#get(COMMIT_ADDED)
  }

  set commitAddedBytes(bytes: number) {
    this.shared[COMMIT_ADDED] = bytes
  }

  /** Bytes of all leaves of the store: no transaction can change more of them. */
  get leafBytes(): number {
    return this.#get(LEAVES)
  }

  set leafBytes(bytes: number) {
    this.shared[LEAVES] = bytes
  }

  /** `commitTouchedBytes` for each byte of the log, of commits of the last time; 0 until that is known. */
  get touchedRatio(): number {
    return this.#get(TOUCHED_RATIO)
  }

  set touchedRatio(ratio: number) {
    this.shared[TOUCHED_RATIO] = ratio
  }

  /** The same of `commitAddedBytes`. */
  get addedRatio(): number {
    return this.#get(ADDED_RATIO)
  }

  set addedRatio(ratio: number) {
    this.shared[ADDED_RATIO] = ratio
  }

  /** Bytes of the log that the commit in flight is made of; 0 when there is none. Survives a commit that fails. */
  get commitLogBytes(): number {
    return this.#get(COMMIT_LOG)
  }

  set commitLogBytes(bytes: number) {
    this.shared[COMMIT_LOG] = bytes
  }

  /** Bytes that the next commit needs to be sure of its end, most of which it gives back. */
  get commitLeastBytes(): number {
    return this.#get(COMMIT_LEAST)
  }

  set commitLeastBytes(bytes: number) {
    this.shared[COMMIT_LEAST] = bytes
  }

  /** Bytes without which processing cannot go on; 0 while it can. */
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
