/**
 * The log: what was accepted and is not yet processed, as blocks in order of arrival. Blocks are numbered from
 * 1, without a gap, and no number is ever used twice, also not after the blocks before it are gone. What a
 * block holds: rules/capture/log-block.ts. One process appends, any may read.
 */

/** Blocks from `first` to `last` are there; `last` is `first - 1` when there are none. */
export interface LogExtent {
  readonly first: number
  readonly last: number
}

/** Of a log that is made of a shared one: how far that was read, to be stored with what it led to. */
export interface LogOrigin {
  readonly incarnation: string
  readonly sequence: number
  /** Of each edge that sent something since the last one: its place. */
  readonly places: Readonly<Record<string, number>>
  /** Of which partition the log is, for ever; absent: it is not said again, or 0. */
  readonly partition?: number
}

/** The writing end. */
export interface LogAppender {
  /**
   * Appends blocks, all or none, and forgets blocks up to `trimThrough`, now or later. When it is done they
   * are durable. Returns the number of the last block that there is. When it throws, the outcome is unknown
   * and the appender must not be used again. Each block is sealed in place (`seal` of log-block.ts).
   */
  append(blocks: readonly Buffer[], trimThrough: number): number | Promise<number>
  /** Gives back what a rush took, if it is over; call it now and then. */
  shrink(): void
  close(): Promise<void>
}

/** The reading end, for processing. */
export interface LogReader {
  /** Lets `extent` and `block` see what was appended since. */
  refresh(): void
  /** The stored blocks, or null when there are none. */
  extent(): LogExtent | null
  /** A block, valid until the next call; undefined when it was forgotten or never written. */
  block(sequence: number): Buffer | undefined
  /** What is to be stored with the position `sequence`; for who commits, once. */
  origin?(sequence: number): LogOrigin
  close(): Promise<void>
}
