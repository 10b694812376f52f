/**
 * Measures whether the disk has room for more events (admission.ts refuses them, with a text of base/refusals.ts). An
 * accepted event is written to the log at once, and to the store a moment later; the store grows by more or less than
 * the log did. A part of the disk therefore stays free for accepted events that are not yet processed, in proportion to
 * the recent growth of the store. In addition, a reserve stays free for unforeseen needs. Room is the free space on the
 * disk plus the free space inside the store's data file.
 */

import { DiskRoom } from '../../base/disk-room.ts'
import { diskSpace } from '../../base/disk-space.ts'

/** The assumed growth of the store for each byte of the log, before anything was processed. */
const FIRST_GROWTH = 2
/** The next events may make the store grow more than the previous ones. */
const GROWTH_MIN = 0.5
const GROWTH_SAFETY = 1.5
/** Free pages in the store are scattered, so large values may not fit. */
const REUSABLE_PART = 0.5
/** The reserve if none is configured, and its largest fraction of a small disk. */
export const DISK_RESERVE_BYTES = 256 * 1024 ** 2
const RESERVE_DIVISOR = 8
/** Erasing stops below this fraction of the reserve. */
const FLOOR_DIVISOR = 4
/** Below this, not even one erasing commit is sure to succeed, unless the reserve is smaller. */
const FLOOR_BYTES = 8 * 1024 ** 2
/** Returns the configured reserve, or one that suits a disk of this size, in bytes. */
export function reserveBytesOf(configuredBytes: number | null, sizeBytes: number): number {
  return configuredBytes ?? Math.min(DISK_RESERVE_BYTES, sizeBytes / RESERVE_DIVISOR)
}

/** The accepted bytes that still need room. */
export interface AcceptedBytes {
  /** Bytes that are not in the log yet. */
  readonly inFlight: number
  /** Bytes in the log that are not processed yet. */
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
   * Call `refresh` before the first check: until then, everything is refused. A null `configuredBytes` means the
   * default of `reserveBytesOf`.
   */
  constructor(path: string, configuredBytes: number | null, room: DiskRoom = new DiskRoom()) {
    this.#path = path
    this.#configuredBytes = configuredBytes
    this.#room = room
    this.#reserveBytes = configuredBytes ?? DISK_RESERVE_BYTES
  }

  /** The room below which nothing more is accepted, in bytes. */
  get reserveBytes(): number {
    return this.#reserveBytes
  }

  /** The free bytes of the disk at the last `refresh`; 0 if they could not be read. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  /** The bytes that accepted events and the store can still take. */
  get roomBytes(): number {
    const { insideBytes, reusableBytes } = this.#room
    return this.#freeBytes + insideBytes + reusableBytes * REUSABLE_PART
  }

  /**
   * Reads the free space, and tells the other threads how many bytes are reserved for a backlog of this size. Never
   * throws: a folder that cannot be read counts as full.
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

  /** True if processing has reported that it needs more room than there is. Accepted events then wait in the log. */
  get isExhausted(): boolean {
    const { neededBytes, insideBytes } = this.#room
    return this.#freeBytes + insideBytes < neededBytes
  }

  /**
   * Returns true if there is too little space even to erase. Erasing writes little and frees pages for other writes, so
   * it continues when everything else has stopped, down to a fraction of the reserve.
   */
  isBelowFloor(accepted: AcceptedBytes): boolean {
    const leastBytes = Math.min(FLOOR_BYTES, this.#reserveBytes / 2)
    const floorBytes = Math.max(this.#reserveBytes / FLOOR_DIVISOR, leastBytes)
    return this.roomBytes < Math.max(floorBytes, this.#neededBytes(accepted))
  }

  /** Returns true if there is too little space to accept anything more. */
  isBelowReserve(accepted: AcceptedBytes): boolean {
    return this.roomBytes < this.#promisedBytes(accepted)
  }

  #promisedBytes(accepted: AcceptedBytes): number {
    // Half of the reserve is enough for unforeseen needs.
    const commitBytes = this.#room.commitLeastBytes + this.#reserveBytes / 2
    return Math.max(this.#reserveBytes, commitBytes) + this.#neededBytes(accepted)
  }

  #neededBytes({ inFlight, backlog }: AcceptedBytes): number {
    const growth = Math.max(GROWTH_MIN, this.#room.growth || FIRST_GROWTH) * GROWTH_SAFETY
    return inFlight * (1 + growth) + backlog * growth
  }
}

/** The accepted bytes when nothing waits. */
export const NOTHING_ACCEPTED: AcceptedBytes = { inFlight: 0, backlog: 0 }
