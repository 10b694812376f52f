/**
 * Keeps LMDB away from a full disk, where it would corrupt the memory of the process: below a reserve
 * of free space nothing more is accepted. The reserve also covers what is already on its way.
 */
import { statfs } from 'node:fs/promises'
import { OperatorError } from '../base/errors.ts'

/** What bytes in flight can become on the disk: the log, the segments, and pages beside them. */
const WRITE_FACTOR = 4
/** Erasing stops below this part of the reserve. */
const FLOOR_DIVISOR = 4
/** What a command wants to be free before it writes its few pages. */
const COMMAND_BYTES = 16 * 1024 ** 2

/** Bytes that this process could still write to the file system of a folder. Throws what `statfs` throws. */
export async function freeDiskBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

/** Refuses a command that is about to write to a disk that is nearly full. Throws `OperatorError`. */
export async function requireFreeDisk(path: string): Promise<void> {
  const freeBytes = await freeDiskBytes(path)
  if (freeBytes >= COMMAND_BYTES) return
  const freeMib = Math.floor(freeBytes / 1024 ** 2)
  throw new OperatorError(
    `the disk of ${path} is nearly full (${freeMib} MiB free): make room, at least ` +
      `${COMMAND_BYTES / 1024 ** 2} MiB`,
  )
}

/** Knows how much space was free a moment ago. */
export class DiskGuard {
  readonly #path: string
  readonly #reserveBytes: number
  #freeBytes = 0

  /** Call `refresh` before the first question: until then everything is refused. */
  constructor(path: string, reserveBytes: number) {
    this.#path = path
    this.#reserveBytes = reserveBytes
  }

  /** Bytes that were free at the last `refresh`; 0 when that could not be found out. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  /** Asks the file system. Never throws: a folder that cannot be asked about has no space. */
  async refresh(): Promise<void> {
    try {
      this.#freeBytes = await freeDiskBytes(this.#path)
    } catch {
      this.#freeBytes = 0
    }
  }

  /**
   * Whether too little space is left even to erase. Erasing writes little, and gives pages back for what
   * comes next: it goes on when everything else has stopped, down to a part of the reserve.
   */
  isBelowFloor(bytesInFlight: number): boolean {
    const floorBytes = this.#reserveBytes / FLOOR_DIVISOR
    return this.#freeBytes < Math.max(floorBytes, bytesInFlight * WRITE_FACTOR)
  }

  /** Whether too little space is left to accept more, with `bytesInFlight` accepted and not yet written. */
  isBelowReserve(bytesInFlight: number): boolean {
    return this.#freeBytes < Math.max(this.#reserveBytes, bytesInFlight * WRITE_FACTOR)
  }
}
