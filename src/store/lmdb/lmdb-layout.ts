/**
 * The format of an LMDB data file (data version 2, little-endian, 64 bit), for the code that reads it without LMDB: the
 * check before it is opened, the walk of `verify`, and backups.
 *
 *   page       number u64 at 0 | transaction that wrote it u64 at 8 | flags u16 at 18
 *              | end of the node table u16 at 20 | content from 24
 *   meta page  (pages 0 and 1) magic u32 at 24 | version u32 at 28 | page size u32 at 48
 *              | record of the free list at 48 | record of the main tree at 96
 *              | last page u64 at 144 | transaction u64 at 152
 *   record     (in a meta page, or as the value of a named tree) flags u16 at 4 | depth u16 at 6
 *              | branch, leaf and overflow pages u64 at 8, 16, 24 | entries u64 at 32 | root u64 at 40
 *
 * The meta page with the higher transaction describes the newest state. Each commit writes the older of the two meta
 * pages.
 */

/** The number of bytes before the content of a page. */
export const PAGE_HEADER_BYTES = 24
/** The number of bytes of a meta page that LMDB uses. */
export const META_BYTES = 192
/** The offset of the page size in a meta page. */
export const PAGE_BYTES_OFFSET = 48
/** The offset of the number of the last page in a meta page. */
export const LAST_PAGE_OFFSET = 144
/** The root of a tree that is empty. */
export const NO_PAGE = 0xffff_ffff_ffff_ffffn

/** The flag of a page whose nodes refer to other pages. */
export const BRANCH_FLAG = 0x01
/** The flag of a page whose nodes contain keys and values. */
export const LEAF_FLAG = 0x02
/** The flag of the first page of a large value. */
export const OVERFLOW_FLAG = 0x04
/** The flag of a meta page. */
export const META_FLAG = 0x08

/** The number of bytes before the key of a node. */
export const NODE_HEADER_BYTES = 8
/** The flag of a node whose value is stored in overflow pages. */
export const NODE_BIG = 0x01
/** The flag of a node whose value is the record of a tree. */
export const NODE_TREE = 0x02

/** The maximum depth of a tree. */
export const TREE_DEPTH_MAX = 32

/**
 * Returns the runs of pages in a record of the free list, as `[first page, pages]`. The record is the number of words
 * and then the words:
 *
 *   n > 0         the page n
 *   -n, first     a run of n pages that begins at the page `first`
 *   0             unused
 *
 * Throws `RangeError` if the record is not valid.
 */
export function* freeRuns(list: Buffer): Generator<readonly [number, number]> {
  const length = list.length >= 8 ? Number(list.readBigUInt64LE(0)) : -1
  if (length < 0 || (length + 1) * 8 > list.length) {
    throw new RangeError('a record of the free list has a wrong length')
  }
  for (let index = 1; index <= length; index++) {
    const word = Number(list.readBigInt64LE(index * 8))
    if (word === 0) continue
    if (word < 0 && index === length) throw new RangeError('the free list ends within a run')
    yield word > 0 ? [word, 1] : [Number(list.readBigInt64LE(++index * 8)), -word]
  }
}
