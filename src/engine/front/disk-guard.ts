/**
 * Accepts nothing that could not be processed later for lack of room. What is accepted is written to the log at once,
 * and to the store a moment later; the store grows by more or less than the log did. So a part of the disk stays free
 * for what was accepted and is not processed, as much as the store has grown lately for as many bytes; and a reserve
 * for what nobody foresees. Room is what is free on the disk, and what is free inside the data file of the store.
 */

import { DiskRoom } from '../../base/disk-room.ts'
import { diskSpace } from '../../base/disk-space.ts'

/** By how much the store grows for a byte of the log, before any was processed. */
const FIRST_GROWTH = 2
/** Events that come next may make it grow more than those before. */
const GROWTH_MIN = 0.5
const GROWTH_SAFETY = 1.5
/** Pages that are free in the store lie here and there: large values may not fit. */
const REUSABLE_PART = 0.5
/** The reserve if none is set, and the part of a small disk that it is at most. */
export const DISK_RESERVE_BYTES = 256 * 1024 ** 2
const RESERVE_DIVISOR = 8
/** Erasing stops below this part of the reserve. */
const FLOOR_DIVISOR = 4
/** With less than this not even one commit of erasing is sure to end well, unless the reserve is smaller. */
const FLOOR_BYTES = 8 * 1024 ** 2
/** The reserve that is set, or what suits a disk of that size, in bytes. */
export function reserveBytesOf(configuredBytes: number | null, sizeBytes: number): number {
  return configuredBytes ?? Math.min(DISK_RESERVE_BYTES, sizeBytes / RESERVE_DIVISOR)
}

/** What was accepted and takes room that it does not have yet, in bytes. */
export interface AcceptedBytes {
  /** Not written to the log. */
  readonly inFlight: number
  /** In the log, and not processed. */
  readonly backlog: number
}

/** Knows how much space was free a moment ago. */
export class DiskGuard {
  readonly #path: string
  readonly #configuredBytes: number | null
  readonly #room: DiskRoom
  #freeBytes = 0
  #reserveBytes: number

  /** Call `refresh` before the first question: until then everything is refused. Null: see `reserveBytesOf`. */
  constructor(path: string, configuredBytes: number | null, room: DiskRoom = new DiskRoom()) {
    this.#path = path
    this.#configuredBytes = configuredBytes
    this.#room = room
    this.#reserveBytes = configuredBytes ?? DISK_RESERVE_BYTES
  }

  /** With less room than this nothing more is accepted. */
  get reserveBytes(): number {
    return this.#reserveBytes
  }

  /** Bytes of the disk that were free at the last `refresh`; 0 when that could not be found out. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  /** Bytes that accepted events and the store could still take. */
  get roomBytes(): number {
    const { insideBytes, reusableBytes } = this.#room
    return this.#freeBytes + insideBytes + reusableBytes * REUSABLE_PART
  }

  /**
   * Asks the file system, and tells the other threads what is promised to a backlog of so many bytes. Never throws: a
   * folder that cannot be asked about has no space.
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

  /** Whether processing said that it needs more room than there is: what was accepted waits in the log. */
  get isExhausted(): boolean {
    const { neededBytes, insideBytes } = this.#room
    return this.#freeBytes + insideBytes < neededBytes
  }

  /**
   * Whether too little space is left even to erase. Erasing writes little, and gives pages back for what
   * comes next: it goes on when everything else has stopped, down to a part of the reserve.
   */
  isBelowFloor(accepted: AcceptedBytes): boolean {
    const leastBytes = Math.min(FLOOR_BYTES, this.#reserveBytes / 2)
    const floorBytes = Math.max(this.#reserveBytes / FLOOR_DIVISOR, leastBytes)
    return this.roomBytes < Math.max(floorBytes, this.#neededBytes(accepted))
  }

  /** Whether too little space is left to accept more than what was accepted. */
  isBelowReserve(accepted: AcceptedBytes): boolean {
    return this.roomBytes < this.#promisedBytes(accepted)
  }

  #promisedBytes(accepted: AcceptedBytes): number {
    // Half of the reserve is enough for what nobody foresees.
    const commitBytes = this.#room.commitLeastBytes + this.#reserveBytes / 2
    return Math.max(this.#reserveBytes, commitBytes) + this.#neededBytes(accepted)
  }

  #neededBytes({ inFlight, backlog }: AcceptedBytes): number {
    const growth = Math.max(GROWTH_MIN, this.#room.growth || FIRST_GROWTH) * GROWTH_SAFETY
    return inFlight * (1 + growth) + backlog * growth
  }
}

/** Nothing waits. */
export const NOTHING_ACCEPTED: AcceptedBytes = { inFlight: 0, backlog: 0 }
