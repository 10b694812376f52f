/**
 * Where things lie in a data file of LMDB (data version 2, little-endian, 64 bit), for those who read it
 * without LMDB: the look before it is opened, the walk of `verify`, and backups.
 *
 * A page begins with a header: page number u64 at 0, the transaction that wrote it u64 at 8, flags u16 at
 * 18, end of the node table u16 at 20.
 * Pages 0 and 1 are the meta pages; behind the header: magic u32 at 24, version u32 at 28, page size u32 at
 * 48, the records of the free list and of the main tree at 48 and 96, last page u64 at 144, transaction u64
 * at 152. The higher transaction is the newest state; each commit writes the older of the two pages.
 *
 * The record of a tree, in a meta page or as the value of a named tree: flags u16 at 4, depth u16 at 6,
 * branch, leaf and overflow pages u64 at 8, 16, 24, entries u64 at 32, root u64 at 40.
 */

/** Bytes before the content of a page. */
export const PAGE_HEADER_BYTES = 24
/** Bytes of a meta page that mean something. */
export const META_BYTES = 192
/** Where a meta page has the size of all pages. */
export const PAGE_BYTES_OFFSET = 48
/** Where a meta page has the number of the last page. */
export const LAST_PAGE_OFFSET = 144
/** The root of an empty tree. */
export const NO_PAGE = 0xffff_ffff_ffff_ffffn

/** Flag of a page whose nodes lead to other pages. */
export const BRANCH_FLAG = 0x01
/** Flag of a page whose nodes hold keys and values. */
export const LEAF_FLAG = 0x02
/** Flag of the first of the pages that hold one large value. */
export const OVERFLOW_FLAG = 0x04
/** Flag of a meta page. */
export const META_FLAG = 0x08

/** Bytes before the key of a node. */
export const NODE_HEADER_BYTES = 8
/** Flag of a node whose value lies in pages of its own. */
export const NODE_BIG = 0x01
/** Flag of a node whose value is the record of a tree. */
export const NODE_TREE = 0x02

/** No tree is deeper. */
export const TREE_DEPTH_MAX = 32

/**
 * The runs of pages in a record of the free list, `[first page, pages]`: how many words follow, then the
 * words. A positive one is a page, a negative one the length of a run whose first page is the next word,
 * 0 is room for more. Throws `RangeError` when it makes no sense.
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
