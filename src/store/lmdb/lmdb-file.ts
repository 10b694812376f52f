/**
 * Checks a data file before LMDB maps it. LMDB trusts the file completely. If the file is truncated or overwritten, the
 * process is killed by SIGSEGV or SIGBUS. LMDB takes an empty file for a new store. If the newest meta page is damaged,
 * LMDB silently uses the previous state. If the meta page names a wrong page as the last one, LMDB overwrites used
 * pages. The code here therefore first reads and checks the two meta pages, the length of the file and the roots of the
 * trees.
 *
 * A crash does not damage a meta page: a commit writes 120 bytes within one sector of one meta page, and a new file
 * gets its name only when both meta pages are on the disk (data-dir.ts). The format is described in lmdb-layout.ts.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import {
  BRANCH_FLAG,
  freeRuns,
  LAST_PAGE_OFFSET,
  LEAF_FLAG,
  META_BYTES,
  META_FLAG,
  NO_PAGE,
  NODE_BIG,
  NODE_HEADER_BYTES,
  NODE_TREE,
  PAGE_BYTES_OFFSET,
  PAGE_HEADER_BYTES,
} from './lmdb-layout.ts'

/** The result of the check of a data file. */
export type LmdbFinding =
  | { readonly kind: 'sound' }
  /**
   * LMDB may open the file, but something about it is unusual, such as an interrupted commit. `what` describes it for
   * the operator.
   */
  | { readonly kind: 'sound_with_note'; readonly what: string }
  /** LMDB must not open the file. */
  | { readonly kind: 'damaged'; readonly what: string }

interface Meta {
  readonly pageBytes: number
  /** The root pages of the list of free pages and of the tree of all tables. Null stands for an empty tree. */
  readonly freeRoot: number | null
  readonly mainRoot: number | null
  readonly lastPage: number
  readonly transaction: bigint
}

const MAGIC = 0xbeefc0de
const VERSION = 2
const PAGE_BYTES_LEAST = 512
const PAGE_BYTES_MOST = 65_536
const PAGE_NUMBER_MAX = 2 ** 40

/** The offset, within a page, of the number of the transaction that wrote the page. */
const PAGE_TRANSACTION_OFFSET = 8

const FIXED_SIZE_FLAG = 0x20
/** The offset, within the record of a tree, of the number of its root page. */
const TREE_ROOT_OFFSET = 40

const LAST_COMMIT = ', and the last commit may have been in it'

/**
 * Checks a data file. Throws errors of the file system. Costs a few reads, or more if the length of the file does not
 * match the last page that its meta page names.
 */
export function inspectLmdbFile(path: string): LmdbFinding {
  const descriptor = openSync(path, 'r')
  try {
    return inspect(descriptor, fstatSync(descriptor).size)
  } finally {
    closeSync(descriptor)
  }
}

function inspect(descriptor: number, fileBytes: number): LmdbFinding {
  if (fileBytes === 0) return damaged('it is empty')
  const first = readMeta(readAt(descriptor, 0, META_BYTES))
  if (first === null) return damaged(`its first meta page is not valid${LAST_COMMIT}`)
  if (fileBytes < 2 * first.pageBytes) {
    return damaged(`it is cut to ${fileBytes} bytes, before its second meta page`)
  }
  // Both pages are read at once, so that a concurrent commit does not look like damage.
  const both = readAt(descriptor, 0, first.pageBytes + META_BYTES)
  const even = readMeta(both)
  const odd = readMeta(both.subarray(first.pageBytes))
  if (even === null || odd === null) {
    return damaged(`its second meta page is not valid${LAST_COMMIT}`)
  }
  const fault = findMetaFault(even, odd)
  if (fault !== null) return damaged(fault)
  const newest = odd.transaction > even.transaction ? odd : even
  const what = findFault(descriptor, newest, fileBytes)
  if (what !== null) return damaged(what)
  if (fileBytes >= (newest.lastPage + 1) * newest.pageBytes) return { kind: 'sound' }
  return { kind: 'sound_with_note', what: 'its end is missing, but nothing in use was there' }
}

function damaged(what: string): LmdbFinding {
  return { kind: 'damaged', what }
}

/**
 * Checks the two meta pages against each other. Returns the fault, or null. Each commit takes the next transaction
 * number. A commit with an even number writes the first meta page, and a commit with an odd number writes the second
 * one. The number of the last page never decreases.
 */
function findMetaFault(even: Meta, odd: Meta): string | null {
  if (odd.pageBytes !== even.pageBytes) return 'its meta pages name different sizes of a page'
  const step = odd.transaction - even.transaction
  const isNew = even.transaction === 0n && odd.transaction === 0n
  const isInOrder = even.transaction % 2n === 0n && (step === 1n || step === -1n)
  if (!isNew && !isInOrder) {
    return `its meta pages are of the transactions ${even.transaction} and ${odd.transaction}, which do not follow each other`
  }
  const [older, newer] = step > 0n ? [even, odd] : [odd, even]
  if (newer.lastPage >= older.lastPage) return null
  return `its newest meta page ends with page ${newer.lastPage}, but the older one with page ${older.lastPage}`
}

/** Returns the fault in the state that a meta page describes, or null. */
function findFault(descriptor: number, meta: Meta, fileBytes: number): string | null {
  const pageCount = Math.floor(fileBytes / meta.pageBytes)
  const cut = `it is cut: ${fileBytes} of ${(meta.lastPage + 1) * meta.pageBytes} bytes are there`
  for (const root of rootsOf(meta)) {
    if (root > meta.lastPage) return 'its newest meta page refers to a page that does not exist'
    if (root >= pageCount) return cut
    const header = readAt(descriptor, root * meta.pageBytes, PAGE_HEADER_BYTES)
    const isTree = (header.readUInt16LE(18) & (BRANCH_FLAG | LEAF_FLAG)) !== 0
    if (header.readBigUInt64LE(0) !== BigInt(root) || !isTree) {
      return `page ${root}, the root of a tree, was overwritten`
    }
  }
  if (pageCount === meta.lastPage + 1) return null
  try {
    if (pageCount > meta.lastPage) {
      // There are pages after the last page. An interrupted commit may leave such pages. But if the newest complete
      // commit has written one of them, the meta page is wrong.
      return leadsTo(descriptor, meta, meta.lastPage + 1, pageCount, meta.transaction)
        ? `its newest meta page names ${meta.lastPage} as the last page, but later pages are in use`
        : null
    }
    // The file may end before its last page if the missing pages were freed before they were ever written.
    if (leadsTo(descriptor, meta, pageCount, pageCount, null)) return cut
    const missing = meta.lastPage + 1 - pageCount
    const isFree = countFree(descriptor, meta, pageCount) === missing
    return isFree
      ? null
      : `its newest meta page names ${meta.lastPage} as the last page, but there are ${pageCount} pages`
  } catch (error) {
    if (error instanceof RangeError) return 'a page of a tree was overwritten'
    throw error
  }
}

function rootsOf({ freeRoot, mainRoot }: Meta): readonly number[] {
  return [freeRoot, mainRoot].filter((root) => root !== null)
}

/** Returns the contents of a meta page, or null if they are not valid. */
function readMeta(page: Buffer): Meta | null {
  if (page.length < META_BYTES) return null
  const pageBytes = page.readUInt32LE(PAGE_BYTES_OFFSET)
  const isPowerOfTwo = (pageBytes & (pageBytes - 1)) === 0
  const lastPage = page.readBigUInt64LE(LAST_PAGE_OFFSET)
  if (
    (page.readUInt16LE(18) & META_FLAG) === 0 ||
    page.readUInt32LE(24) !== MAGIC ||
    (page.readUInt32LE(28) & 0xffff) !== VERSION ||
    pageBytes < PAGE_BYTES_LEAST ||
    pageBytes > PAGE_BYTES_MOST ||
    !isPowerOfTwo ||
    lastPage < 1n ||
    lastPage > PAGE_NUMBER_MAX
  ) {
    return null
  }
  return {
    pageBytes,
    freeRoot: pageNumber(page.readBigUInt64LE(88)),
    mainRoot: pageNumber(page.readBigUInt64LE(136)),
    lastPage: Number(lastPage),
    transaction: page.readBigUInt64LE(152),
  }
}

function pageNumber(number: bigint): number | null {
  return number === NO_PAGE ? null : Number(number)
}

/**
 * Returns whether a tree refers to page `from` or a later one, in a file of `pageCount` pages. If `transaction` is
 * given, only the pages that this transaction wrote are read. That is enough to find every page that the transaction
 * added, and the cost depends only on what the transaction changed. If `transaction` is null, every page of the trees
 * is read. Throws `RangeError` if a page is not part of a tree.
 */
function leadsTo(
  descriptor: number,
  meta: Meta,
  from: number,
  pageCount: number,
  transaction: bigint | null,
): boolean {
  const pending = [...rootsOf(meta)]
  for (let visited = 0; visited <= pageCount; visited++) {
    const number = pending.pop()
    if (number === undefined) return false
    if (number >= from) return true
    const page = readAt(descriptor, number * meta.pageBytes, meta.pageBytes)
    const isWanted =
      transaction === null || page.readBigUInt64LE(PAGE_TRANSACTION_OFFSET) === transaction
    if (!isWanted) continue
    const { trees, lastValuePage } = linkedPages(page)
    if (lastValuePage >= from) return true
    for (const tree of trees) pending.push(tree)
  }
  throw new RangeError('the pages go round in a circle')
}

/** Counts the free pages whose page number is at least `from`. Throws `RangeError` if the list is not valid. */
function countFree(descriptor: number, meta: Meta, from: number): number {
  let count = 0
  const pending = meta.freeRoot === null ? [] : [meta.freeRoot]
  for (let visited = 0; pending.length > 0; visited++) {
    if (visited > from) throw new RangeError('the pages go round in a circle')
    const page = readAt(descriptor, (pending.pop() ?? 0) * meta.pageBytes, meta.pageBytes)
    pending.push(...linkedPages(page).trees)
    for (const list of leafValues(descriptor, meta, page)) {
      for (const [first, pages] of freeRuns(list)) {
        count += Math.max(0, first + pages - Math.max(first, from))
      }
    }
  }
  return count
}

/** Returns the values of a leaf page, including those in overflow pages. Returns nothing for a page of another kind. */
function* leafValues(descriptor: number, meta: Meta, page: Buffer): Generator<Buffer> {
  if ((page.readUInt16LE(18) & LEAF_FLAG) === 0) return
  const nodeCount = page.readUInt16LE(20) >> 1
  for (let index = 0; index < nodeCount; index++) {
    const node = page.readUInt16LE(PAGE_HEADER_BYTES + index * 2) + PAGE_HEADER_BYTES
    const bytes = page.readUInt16LE(node) + page.readUInt16LE(node + 2) * 2 ** 16
    const start = node + NODE_HEADER_BYTES + page.readUInt16LE(node + 6)
    const isBig = (page.readUInt16LE(node + 4) & NODE_BIG) !== 0
    if (!isBig) {
      yield page.subarray(start, start + bytes)
      continue
    }
    const position = Number(page.readBigUInt64LE(start)) * meta.pageBytes + PAGE_HEADER_BYTES
    yield readAt(descriptor, position, bytes)
  }
}

/**
 * Returns the numbers of the pages to which a page refers: of all tree pages in `trees`, and of the last overflow page
 * in `lastValuePage`, which is 0 if there is none.
 */
function linkedPages(page: Buffer): { trees: readonly number[]; lastValuePage: number } {
  const trees: number[] = []
  let lastValuePage = 0
  const flags = page.readUInt16LE(18)
  if ((flags & FIXED_SIZE_FLAG) !== 0) return { trees, lastValuePage }
  const isBranch = (flags & BRANCH_FLAG) !== 0
  // The page is part of a tree, but is neither a branch nor a leaf, so the file is damaged.
  if (!isBranch && (flags & LEAF_FLAG) === 0) throw new RangeError('not a page of a tree')
  const nodeCount = page.readUInt16LE(20) >> 1
  for (let index = 0; index < nodeCount; index++) {
    const node = page.readUInt16LE(PAGE_HEADER_BYTES + index * 2) + PAGE_HEADER_BYTES
    if (isBranch) {
      trees.push(page.readUInt32LE(node) + page.readUInt16LE(node + 4) * 2 ** 32)
      continue
    }
    const nodeFlags = page.readUInt16LE(node + 4)
    const data = node + NODE_HEADER_BYTES + page.readUInt16LE(node + 6)
    if ((nodeFlags & NODE_BIG) !== 0) {
      const end = page.readBigUInt64LE(data) + page.readBigUInt64LE(data + 16)
      lastValuePage = Math.max(lastValuePage, Number(end) - 1)
    } else if ((nodeFlags & NODE_TREE) !== 0) {
      const root = page.readBigUInt64LE(data + TREE_ROOT_OFFSET)
      if (root !== NO_PAGE) trees.push(Number(root))
    }
  }
  return { trees, lastValuePage }
}

/** Returns up to `length` bytes of the file from offset `position`. Fewer are returned at the end of the file. */
function readAt(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const count = readSync(descriptor, bytes, 0, length, position)
  return bytes.subarray(0, count)
}
