/**
 * The log: accepted requests that are not processed yet, as blocks in order of arrival. Blocks are numbered from 1
 * without gaps. A number is never used twice, even after the blocks before it were removed. The format of a block is
 * described in rules/capture/log-block.ts. One process appends blocks; any process may read them.
 */

/** The numbers of the first and last block in the log. If the log is empty, `last` is `first - 1`. */
export interface LogExtent {
  readonly first: number
  readonly last: number
}

/**
 * The position up to which a shared log was read to fill this log. It is stored together with the results of these
 * blocks.
 */
export interface LogOrigin {
  readonly incarnation: string
  readonly sequence: number
  /**
   * For each edge that has sent blocks since the last origin: the place of its newest block (cluster/block-message.ts).
   */
  readonly places: Readonly<Record<string, number>>
  /** The partition whose log this is; it never changes. Absent if it is 0, or was stated before. */
  readonly partition?: number
}

/** The writing end of the log. */
export interface LogAppender {
  /**
   * Appends all blocks or none, and removes blocks up to `trimThrough`, at once or later. The blocks are durable when
   * the call is done. Returns the number of the last block in the log. If it throws, the outcome is unknown, and the
   * appender must not be used again. Each block is sealed in place (`seal` in log-block.ts).
   */
  append(blocks: readonly Buffer[], trimThrough: number): number | Promise<number>
  /** Releases the disk space that a burst of events needed, once the burst is over. Call it from time to time. */
  shrink(): void
  close(): Promise<void>
}

/** The reading end of the log, for processing. */
export interface LogReader {
  /** Makes blocks that were appended meanwhile visible to `extent` and `block`. */
  refresh(): void
  /** Returns the range of stored blocks, or null if there are none. */
  extent(): LogExtent | null
  /** Returns a block, valid until the next call, or undefined if the block was removed or never written. */
  block(sequence: number): Buffer | undefined
  /**
   * Returns the origin to store together with the position `sequence`. The code that commits calls it once for each
   * commit.
   */
  origin?(sequence: number): LogOrigin
  close(): Promise<void>
}
