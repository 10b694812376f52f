/**
 * Measures whether the disk has enough space for more events. If not, admission.ts refuses them. An accepted event is
 * written to the log first and to the store a moment later, where it takes a different amount of space. A part of the
 * disk therefore stays free for accepted events that are not processed yet. How large it is depends on the recent
 * growth of the store. In addition, a reserve stays free for unforeseen needs. Free space means the free space of the
 * disk plus the free space inside the store's data file.
 */

import { DiskRoom } from '../../base/disk-room.ts'
import { diskSpace } from '../../base/disk-space.ts'

/**
 * The assumed ratio until a commit has been measured: the store grows by this many bytes for each processed byte of the
 * log.
 */
const FIRST_GROWTH = 2
/**
 * The measured ratio is raised to at least `GROWTH_MIN`. It is then multiplied by `GROWTH_SAFETY`, because the next
 * events may need more space than the previous ones.
 */
const GROWTH_MIN = 0.5
const GROWTH_SAFETY = 1.5
/**
 * The share of the store's free pages that counts as free space. Free pages are scattered, so large values may not fit
 * into them.
 */
const REUSABLE_PART = 0.5
/**
 * The reserve in bytes if none is configured. On a small disk, it is the size of the disk divided by `RESERVE_DIVISOR`.
 */
export const DISK_RESERVE_BYTES = 256 * 1024 ** 2
const RESERVE_DIVISOR = 8
/**
 * When the disk is short of space, all other writes stop first, and erasing continues. Erasing stops when the free
 * space is less than the reserve divided by this number (see `isBelowFloor`).
 */
const FLOOR_DIVISOR = 4
/**
 * Erasing always stops when the free space is less than this number of bytes, because even a commit that erases events
 * may then fail. If the reserve is less than twice this number, half of the reserve is used instead.
 */
const FLOOR_BYTES = 8 * 1024 ** 2
/** Returns the configured reserve in bytes, or the default for a disk of this size. */
export function reserveBytesOf(configuredBytes: number | null, sizeBytes: number): number {
  return configuredBytes ?? Math.min(DISK_RESERVE_BYTES, sizeBytes / RESERVE_DIVISOR)
}

/** How many accepted bytes still need space, in the log or in the store. */
export interface AcceptedBytes {
  /** The number of bytes that are not in the log yet. */
  readonly inFlight: number
  /** The number of bytes in the log that are not processed yet. */
  readonly backlog: number
}

/** Tracks the free space of the disk. */
export class DiskReserve {
  readonly #path: string
  readonly #configuredBytes: number | null
  readonly #room: DiskRoom
  #freeBytes = 0
  #reserveBytes: number

  /**
   * The disk counts as full until `refresh` has been called. If `configuredBytes` is null, `reserveBytesOf` determines
   * the reserve.
   */
  constructor(path: string, configuredBytes: number | null, room: DiskRoom = new DiskRoom()) {
    this.#path = path
    this.#configuredBytes = configuredBytes
    this.#room = room
    this.#reserveBytes = configuredBytes ?? DISK_RESERVE_BYTES
  }

  /** If the free space is less than this number of bytes, nothing more is accepted. */
  get reserveBytes(): number {
    return this.#reserveBytes
  }

  /** The free bytes of the disk at the last call of `refresh`, or 0 if they could not be determined. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  /** The free space for accepted events and the store, in bytes. */
  get roomBytes(): number {
    const { insideBytes, reusableBytes } = this.#room
    return this.#freeBytes + insideBytes + reusableBytes * REUSABLE_PART
  }

  /**
   * Reads the free space of the disk, and tells the other threads how many bytes must stay free for a backlog of this
   * size. Never throws: if the space cannot be read, the disk counts as full.
   */
  async refresh(backlogBytes = 0): Promise<void> {
    try {
      const { freeBytes, sizeBytes } = await diskSpace(this.#path)
      this.#freeBytes = freeBytes
      this.#reserveBytes = reserveBytesOf(this.#configuredBytes, sizeBytes)
    } catch {
      this.#freeBytes = 0
    }
    this.#room.promisedBytes = this.#promisedBytes({ inFlight: 0, backlog: backlogBytes })
  }

  /** True if processing has reported that it needs more space than there is. Accepted events then wait in the log. */
  get isExhausted(): boolean {
    const { neededBytes, insideBytes } = this.#room
    return this.#freeBytes + insideBytes < neededBytes
  }

  /**
   * Returns whether there is too little space even to erase events. Erasing writes little and frees pages, so it may
   * use a part of the reserve when all other writes have stopped.
   */
  isBelowFloor(accepted: AcceptedBytes): boolean {
    const leastBytes = Math.min(FLOOR_BYTES, this.#reserveBytes / 2)
    const floorBytes = Math.max(this.#reserveBytes / FLOOR_DIVISOR, leastBytes)
    return this.roomBytes < Math.max(floorBytes, this.#neededBytes(accepted))
  }

  /** Returns whether there is too little space to accept anything more. */
  isBelowReserve(accepted: AcceptedBytes): boolean {
    return this.roomBytes < this.#promisedBytes(accepted)
  }

  #promisedBytes(accepted: AcceptedBytes): number {
    // There should be space for a commit of usual size, and half of the reserve must be left for unforeseen needs. At
    // most the size of the reserve is kept for the commit, because processing can make smaller commits, and because a
    // wrong estimate is corrected only by commits, which need events. A very small reserve is no such limit.
    const commitBytesMax = Math.max(this.#reserveBytes, FLOOR_BYTES)
    const commitBytes = Math.min(this.#room.commitLeastBytes, commitBytesMax)
    const least = Math.max(this.#reserveBytes, commitBytes + this.#reserveBytes / 2)
    return least + this.#neededBytes(accepted)
  }

  #neededBytes({ inFlight, backlog }: AcceptedBytes): number {
    const growth = Math.max(GROWTH_MIN, this.#room.growth || FIRST_GROWTH) * GROWTH_SAFETY
    return inFlight * (1 + growth) + backlog * growth
  }
}

/** The value if no accepted bytes wait. */
export const NOTHING_ACCEPTED: AcceptedBytes = { inFlight: 0, backlog: 0 }
