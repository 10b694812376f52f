/**
 * Keeps LMDB away from a full disk, where it would corrupt the memory of the process: below a reserve
 * of free space nothing more is accepted. The reserve also covers what is already on its way.
 */

import { diskSpace } from '../../base/disk-space.ts'

/** What bytes in flight can become on the disk: the log, the segments, and pages beside them. */
const WRITE_FACTOR = 4
/** The reserve if none is set, and the part of a small disk that it is at most. */
export const DISK_RESERVE_BYTES = 256 * 1024 ** 2
const RESERVE_DIVISOR = 8
/** Erasing stops below this part of the reserve. */
const FLOOR_DIVISOR = 4
/** With less than this not even one commit of processing is sure to end well. */
const EXHAUSTED_BYTES = 8 * 1024 ** 2
/** The reserve that is set, or what suits a disk of that size, in bytes. */
export function reserveBytesOf(configuredBytes: number | null, sizeBytes: number): number {
  return configuredBytes ?? Math.min(DISK_RESERVE_BYTES, sizeBytes / RESERVE_DIVISOR)
}

/** Knows how much space was free a moment ago. */
export class DiskGuard {
  readonly #path: string
  readonly #configuredBytes: number | null
  #freeBytes = 0
  #reserveBytes: number

  /** Call `refresh` before the first question: until then everything is refused. Null: see `reserveBytesOf`. */
  constructor(path: string, configuredBytes: number | null) {
    this.#path = path
    this.#configuredBytes = configuredBytes
    this.#reserveBytes = configuredBytes ?? DISK_RESERVE_BYTES
  }

  /** Below this many free bytes nothing more is accepted. */
  get reserveBytes(): number {
    return this.#reserveBytes
  }

  /** Bytes that were free at the last `refresh`; 0 when that could not be found out. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  /** Asks the file system. Never throws: a folder that cannot be asked about has no space. */
  async refresh(): Promise<void> {
    try {
      const { freeBytes, sizeBytes } = await diskSpace(this.#path)
      this.#freeBytes = freeBytes
      this.#reserveBytes = reserveBytesOf(this.#configuredBytes, sizeBytes)
    } catch {
      this.#freeBytes = 0
    }
  }

  /** Whether too little space is left to write anything: what was accepted waits in the log. */
  get isExhausted(): boolean {
    return this.#freeBytes < EXHAUSTED_BYTES
  }

  /**
   * Whether too little space is left even to erase. Erasing writes little, and gives pages back for what
   * comes next: it goes on when everything else has stopped, down to a part of the reserve.
   */
  isBelowFloor(bytesInFlight: number): boolean {
    const floorBytes = Math.max(this.#reserveBytes / FLOOR_DIVISOR, EXHAUSTED_BYTES)
    return this.#freeBytes < Math.max(floorBytes, bytesInFlight * WRITE_FACTOR)
  }

  /** Whether too little space is left to accept more, with `bytesInFlight` accepted and not yet written. */
  isBelowReserve(bytesInFlight: number): boolean {
    return this.#freeBytes < Math.max(this.#reserveBytes, bytesInFlight * WRITE_FACTOR)
  }
}
