/**
 * The log: accepted requests that are not processed yet, as blocks in order of arrival. Blocks are numbered from 1
 * without gaps. A number is never used twice, even after its block was removed. The format of a block is described in
 * rules/capture/log-block.ts. One process appends blocks; any process may read them.
 */

/** The numbers of the first and the last block of a range of blocks. */
export interface LogExtent {
  readonly first: number
  readonly last: number
}

/**
 * In a cluster, the blocks come from a log that all machines share. The origin says how far this shared log was read.
 * It is stored in the same transaction as the results of the blocks that were read.
 */
export interface LogOrigin {
  readonly incarnation: string
  readonly sequence: number
  /**
   * For each edge that has sent blocks since the previous origin, the place of its newest block. A place is one number,
   * which combines the run of the edge's outbox and the number of the block in the outbox (cluster/block-message.ts).
   */
  readonly places: Readonly<Record<string, number>>
  /**
   * The partition whose log this is. It never changes. It is absent if it is 0 or if an earlier origin contained it.
   */
  readonly partition?: number
}

/** The writing end of the log. */
export interface LogAppender {
  /**
   * Appends all blocks or none, and removes blocks up to the number `trimThrough`, immediately or later. The blocks are
   * durable when the call is done. Returns the number of the last block in the log. If the call throws, it is unknown
   * whether the blocks were appended, and the appender must not be used again. The checksum of each block is written
   * into the given memory of the block (`seal` in log-block.ts).
   */
  append(blocks: readonly Buffer[], trimThrough: number): number | Promise<number>
  /**
   * Releases the disk space that the log needed during a burst of events, once the burst is over. Must be called from
   * time to time.
   */
  shrink(): void
  close(): Promise<void>
}

/** The reading end of the log, for processing. */
export interface LogReader {
  /** Makes the blocks that were appended since the last call visible to `extent` and `block`. */
  refresh(): void
  /** Returns the numbers of the first and the last stored block, or null if there are none. */
  extent(): LogExtent | null
  /** Returns a block, valid until the next call, or undefined if the block was removed or never written. */
  block(sequence: number): Buffer | undefined
  /**
   * Returns how far the shared log was read for the blocks up to the number `sequence`. The caller stores this origin
   * together with the results of these blocks, and therefore calls this method once for each commit. A log that is not
   * filled from a shared log lacks this method.
   */
  origin?(sequence: number): LogOrigin
  close(): Promise<void>
}
