/**
 * Checks a whole LMDB data file by plain reads, before LMDB follows its pointers, because a reference to a wrong page
 * would make LMDB read outside of its map. Every page must contain its own number and belong to only one tree. The keys
 * of a page must be in order and within the bounds that the parent page gives. The trees must have as many pages and
 * entries as their records say. A free page must not belong to a tree. The format is described in lmdb-layout.ts.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import {
  BRANCH_FLAG,
  freeRuns,
  LAST_PAGE_OFFSET,
  LEAF_FLAG,
  META_BYTES,
  NO_PAGE,
  NODE_BIG,
  NODE_HEADER_BYTES,
  NODE_TREE,
  OVERFLOW_FLAG,
  PAGE_BYTES_OFFSET,
  PAGE_HEADER_BYTES,
  TREE_DEPTH_MAX,
} from './lmdb-layout.ts'

const FREE_TREE_OFFSET = 48
const MAIN_TREE_OFFSET = 96
const TRANSACTION_OFFSET = 152
const BIG_REFERENCE_BYTES = 24
const TREE_RECORD_BYTES = 48
const META_PAGES = 2

/** The newest state of a data file. */
export interface LmdbState {
  readonly transaction: bigint
  readonly meta: Buffer
}

/** A fault in a data file. The check ends at the first fault. */
export class LmdbFault extends Error {
  override readonly name = 'LmdbFault'
}

/** The size of a data file that was checked. */
export interface LmdbExtent {
  readonly pages: number
  readonly pageBytes: number
  readonly freePages: number
}

/** Returns the newest state of a file that `inspectLmdbFile` found sound. Throws errors of the file system. */
export function newestState(path: string): LmdbState {
  const descriptor = openSync(path, 'r')
  try {
    const first = readExactly(descriptor, 0, META_BYTES)
    const second = readExactly(descriptor, first.readUInt32LE(PAGE_BYTES_OFFSET), META_BYTES)
    const firstTransaction = first.readBigUInt64LE(TRANSACTION_OFFSET)
    const secondTransaction = second.readBigUInt64LE(TRANSACTION_OFFSET)
    return secondTransaction > firstTransaction
      ? { transaction: secondTransaction, meta: second }
      : { transaction: firstTransaction, meta: first }
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Checks all trees of a state. If other processes use the file, the state must be pinned. Reads every used page once.
 * Throws `LmdbFault`, whose message contains the number of the faulty page.
 */
export function walkLmdbFile(path: string, state: LmdbState): LmdbExtent {
  const descriptor = openSync(path, 'r')
  try {
    return new Walk(descriptor, state.meta).run()
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Checks the list of free pages of a file that `inspectLmdbFile` found sound. Returns the fault, or null. LMDB takes
 * the pages for its next writes from this list, so if the list contains a used page, LMDB overwrites that page. Use it
 * only for a file that is rarely written, because a write during the call looks like damage. Throws errors of the file
 * system. Reads the whole list.
 */
export function freeListFault(path: string): string | null {
  const descriptor = openSync(path, 'r')
  try {
    new Walk(descriptor, newestState(path).meta).checkFreeList()
    return null
  } catch (cause) {
    if (cause instanceof LmdbFault) return cause.message
    throw cause
  } finally {
    closeSync(descriptor)
  }
}

/** A run of consecutive pages. */
export interface PageRun {
  readonly first: number
  readonly pages: number
}

/**
 * Returns the pages that are free in a state and were freed before the transaction `before`, in the order of the file.
 * Throws `LmdbFault` if a page of the file is neither free nor used, or is counted twice, because it is then unknown
 * which pages are free. No process may write to the file during the call. The call reads the list of free pages and the
 * tree of all tables.
 */
export function freePagesBefore(
  path: string,
  state: LmdbState,
  before: bigint,
): readonly PageRun[] {
  const descriptor = openSync(path, 'r')
  try {
    return new Walk(descriptor, state.meta).freePagesBefore(before)
  } finally {
    closeSync(descriptor)
  }
}

/** What the record of a tree says about the tree. */
export interface TreeRecord {
  readonly depth: number
  readonly branchPages: number
  readonly leafPages: number
  readonly overflowPages: number
  readonly entries: number
  readonly root: bigint
}

/** Receives each value of a tree. `isTree` is true if the value is the record of another tree. */
type LeafListener = (value: Buffer, isTree: boolean, key: Buffer) => void

interface TreeCount {
  branchPages: number
  leafPages: number
  overflowPages: number
  entries: number
}

class Walk {
  readonly #descriptor: number
  readonly #meta: Buffer
  readonly #pageBytes: number
  readonly #lastPage: number
  /** One bit for each page that was visited. */
  readonly #met: Uint8Array
  /** The number of visited pages, including the two meta pages. */
  #metCount = META_PAGES
  #freePages = 0
  #compare: (a: Buffer, b: Buffer) => number = Buffer.compare

  constructor(descriptor: number, meta: Buffer) {
    this.#descriptor = descriptor
    this.#meta = meta
    this.#pageBytes = meta.readUInt32LE(PAGE_BYTES_OFFSET)
    this.#lastPage = Number(meta.readBigUInt64LE(LAST_PAGE_OFFSET))
    this.#met = new Uint8Array(Math.floor(this.#lastPage / 8) + 1)
    this.#met[0] = 3
  }

  run(): LmdbExtent {
    const trees: TreeRecord[] = []
    this.#walkTree('main', treeRecord(this.#meta, MAIN_TREE_OFFSET), (value, isTree) => {
      if (isTree) trees.push(treeRecord(value, 0))
    })
    for (const [index, tree] of trees.entries()) this.#walkTree(`table ${index + 1}`, tree, null)
    this.checkFreeList()
    const pages = this.#lastPage + 1
    const lost = pages - this.#metCount
    if (lost > 0) {
      throw new LmdbFault(
        `its newest meta page says that it has ${pages} pages, and ${lost} of them are neither in use nor free`,
      )
    }
    return { pages, pageBytes: this.#pageBytes, freePages: this.#freePages }
  }

  checkFreeList(): void {
    for (const { list } of this.#freeLists()) this.#checkFree(list)
  }

  freePagesBefore(before: bigint): readonly PageRun[] {
    const trees = [
      treeRecord(this.#meta, MAIN_TREE_OFFSET),
      treeRecord(this.#meta, FREE_TREE_OFFSET),
    ]
    this.#walkTree('main', treeRecord(this.#meta, MAIN_TREE_OFFSET), (value, isTree) => {
      if (isTree) trees.push(treeRecord(value, 0))
    })
    const runs: PageRun[] = []
    for (const { transaction, list } of this.#freeLists()) {
      this.#checkFree(list)
      if (transaction >= before) continue
      for (const [first, pages] of freeRuns(list)) runs.push({ first, pages })
    }
    let accounted = META_PAGES + this.#freePages
    for (const { root, branchPages, leafPages, overflowPages } of trees) {
      if (root !== NO_PAGE) accounted += branchPages + leafPages + overflowPages
    }
    const pages = this.#lastPage + 1
    if (accounted !== pages) {
      throw new LmdbFault(`it has ${pages} pages, and its trees and free pages are ${accounted}`)
    }
    return joinedRuns(runs)
  }

  #freeLists(): readonly { readonly transaction: bigint; readonly list: Buffer }[] {
    const lists: { transaction: bigint; list: Buffer }[] = []
    const compare = this.#compare
    this.#compare = compareNumbers
    this.#walkTree('free list', treeRecord(this.#meta, FREE_TREE_OFFSET), (value, _isTree, key) => {
      lists.push({ transaction: key.readBigUInt64LE(), list: Buffer.from(value) })
    })
    this.#compare = compare
    return lists
  }

  #walkTree(name: string, tree: TreeRecord, onLeaf: LeafListener | null): void {
    if (tree.root === NO_PAGE) return
    const count: TreeCount = { branchPages: 0, leafPages: 0, overflowPages: 0, entries: 0 }
    if (tree.depth < 1 || tree.depth > TREE_DEPTH_MAX) {
      throw new LmdbFault(`the tree '${name}' cannot have the depth ${tree.depth}`)
    }
    this.#walkPage(Number(tree.root), tree.depth, null, null, count, onLeaf)
    const isRight =
      count.branchPages === tree.branchPages &&
      count.leafPages === tree.leafPages &&
      count.overflowPages === tree.overflowPages &&
      count.entries === tree.entries
    if (!isRight) {
      throw new LmdbFault(
        `the tree '${name}' has ${count.entries} entries and ` +
          `${count.leafPages} leaf pages, and its record says ${tree.entries} and ${tree.leafPages}`,
      )
    }
  }

  /** Checks a page and the pages below it. Every key of the page must be at least `low` and less than `high`. */
  #walkPage(
    number: number,
    levels: number,
    low: Buffer | null,
    high: Buffer | null,
    count: TreeCount,
    onLeaf: LeafListener | null,
  ): void {
    const page = this.#page(number)
    const isLeaf = levels === 1
    const flags = page.readUInt16LE(18) & (BRANCH_FLAG | LEAF_FLAG | OVERFLOW_FLAG)
    if (flags !== (isLeaf ? LEAF_FLAG : BRANCH_FLAG)) {
      throw new LmdbFault(`page ${number} has a kind that its tree cannot have there`)
    }
    if (isLeaf) count.leafPages++
    else count.branchPages++
    const keys = this.#keys(page, number, isLeaf)
    let before = low
    for (const [index, key] of keys.entries()) {
      // The first key of a branch page is always empty, because its child contains all keys before the second key. So
      // the first key is not compared.
      if (isLeaf || index > 0) {
        const isBehind = before === null || this.#compare(key, before) >= (index === 0 ? 0 : 1)
        const isWithin = high === null || this.#compare(key, high) < 0
        if (!isBehind || !isWithin) throw new LmdbFault(`page ${number} has keys out of order`)
        before = key
      }
    }
    for (const [index, key] of keys.entries()) {
      const node = nodeOffset(page, index)
      if (isLeaf) {
        count.entries++
        this.#checkValue(page, number, node, key, count, onLeaf)
        continue
      }
      const child = page.readUInt32LE(node) + page.readUInt16LE(node + 4) * 2 ** 32
      const from = index === 0 ? low : key
      this.#walkPage(child, levels - 1, from, keys[index + 1] ?? high, count, onLeaf)
    }
  }

  /** Returns the keys of a page, after it has checked that every node lies inside the page. */
  #keys(page: Buffer, number: number, isLeaf: boolean): readonly Buffer[] {
    const space = this.#pageBytes - PAGE_HEADER_BYTES
    const lower = page.readUInt16LE(20)
    const upper = page.readUInt16LE(22)
    if (lower % 2 !== 0 || lower > upper || upper > space) {
      throw new LmdbFault(`page ${number} has a damaged header`)
    }
    const keys: Buffer[] = []
    for (let index = 0; index < lower / 2; index++) {
      const node = nodeOffset(page, index)
      const keyStart = node + NODE_HEADER_BYTES
      const isInside = node >= PAGE_HEADER_BYTES + upper && keyStart <= this.#pageBytes
      const keyEnd = isInside ? keyStart + page.readUInt16LE(node + 6) : Number.POSITIVE_INFINITY
      if (keyEnd > this.#pageBytes) throw new LmdbFault(`page ${number} has a damaged node`)
      keys.push(page.subarray(keyStart, keyEnd))
    }
    if (keys.length < (isLeaf ? 1 : 2)) throw new LmdbFault(`page ${number} has too few nodes`)
    return keys
  }

  #checkValue(
    page: Buffer,
    number: number,
    node: number,
    key: Buffer,
    count: TreeCount,
    onLeaf: LeafListener | null,
  ): void {
    const flags = page.readUInt16LE(node + 4)
    const start = node + NODE_HEADER_BYTES + page.readUInt16LE(node + 6)
    const bytes = page.readUInt16LE(node) + page.readUInt16LE(node + 2) * 2 ** 16
    const isBig = (flags & NODE_BIG) !== 0
    const isTree = (flags & NODE_TREE) !== 0
    const inPage = isBig ? BIG_REFERENCE_BYTES : bytes
    const isKnown = (flags & ~(NODE_BIG | NODE_TREE)) === 0 && !(isBig && isTree)
    if (!isKnown || start + inPage > page.length || (isTree && bytes !== TREE_RECORD_BYTES)) {
      throw new LmdbFault(`page ${number} has a damaged node`)
    }
    if (isBig) {
      const first = Number(page.readBigUInt64LE(start))
      const pages = Number(page.readBigUInt64LE(start + 16))
      const value = this.#overflow(number, first, pages, bytes, onLeaf !== null)
      count.overflowPages += pages
      if (value !== null && onLeaf !== null) onLeaf(value, false, key)
    } else if (onLeaf !== null) {
      onLeaf(page.subarray(start, start + bytes), isTree, key)
    }
  }

  /** Checks the overflow pages of a large value. Returns the bytes of the value only if `isWanted` is true. */
  #overflow(
    parent: number,
    first: number,
    pages: number,
    bytes: number,
    isWanted: boolean,
  ): Buffer | null {
    const isPlausible =
      pages >= 1 &&
      PAGE_HEADER_BYTES + bytes <= pages * this.#pageBytes &&
      first + pages - 1 <= this.#lastPage
    if (!isPlausible)
      throw new LmdbFault(`page ${parent} refers to a large value at an impossible place`)
    for (let page = first; page < first + pages; page++) this.#meet(page)
    const head = readExactly(this.#descriptor, first * this.#pageBytes, PAGE_HEADER_BYTES)
    const isOverflow = (head.readUInt16LE(18) & OVERFLOW_FLAG) !== 0
    if (Number(head.readBigUInt64LE(0)) !== first || !isOverflow) {
      throw new LmdbFault(`page ${first}, a large value, was overwritten`)
    }
    if (!isWanted) return null
    return readExactly(this.#descriptor, first * this.#pageBytes + PAGE_HEADER_BYTES, bytes)
  }

  #checkFree(list: Buffer): void {
    try {
      for (const [first, pages] of freeRuns(list)) this.#meetFree(first, pages)
    } catch (cause) {
      throw cause instanceof RangeError ? new LmdbFault(cause.message) : cause
    }
  }

  #meetFree(first: number, pages: number): void {
    if (first < 2 || first + pages - 1 > this.#lastPage) {
      throw new LmdbFault(`the free list names page ${first}, which does not exist`)
    }
    const end = first + pages
    for (let page = first; page < end; ) {
      // Eight pages are marked at a time where possible, because after a large erasure there can be millions of free
      // pages.
      if ((page & 7) === 0 && page + 8 <= end && this.#met[page >>> 3] === 0) {
        this.#met[page >>> 3] = 0xff
        this.#metCount += 8
        page += 8
        continue
      }
      if (this.#isMet(page))
        throw new LmdbFault(`page ${page} is in use and also in the list of free pages`)
      this.#meet(page)
      page++
    }
    this.#freePages += pages
  }

  #page(number: number): Buffer {
    this.#meet(number)
    const page = readExactly(this.#descriptor, number * this.#pageBytes, this.#pageBytes)
    if (Number(page.readBigUInt64LE(0)) !== number) {
      throw new LmdbFault(`page ${number} was overwritten: it has the number of another page`)
    }
    return page
  }

  #isMet(number: number): boolean {
    return ((this.#met[number >>> 3] ?? 0) & (1 << (number & 7))) !== 0
  }

  #meet(number: number): void {
    if (number < 2 || number > this.#lastPage) {
      throw new LmdbFault(`a page refers to page ${number}, which does not exist`)
    }
    if (this.#isMet(number)) throw new LmdbFault(`page ${number} is in use twice`)
    this.#metCount++
    this.#met[number >>> 3] = (this.#met[number >>> 3] ?? 0) | (1 << (number & 7))
  }
}

/** Sorts runs by their position in the file, and joins runs that follow each other without a gap. */
function joinedRuns(runs: PageRun[]): readonly PageRun[] {
  runs.sort((a, b) => a.first - b.first)
  const joined: { first: number; pages: number }[] = []
  for (const { first, pages } of runs) {
    const last = joined.at(-1)
    if (last !== undefined && last.first + last.pages === first) last.pages += pages
    else joined.push({ first, pages })
  }
  return joined
}

/** Compares keys of the free list, which are transaction numbers, little-endian. */
function compareNumbers(a: Buffer, b: Buffer): number {
  if (a.length !== 8 || b.length !== 8) throw new LmdbFault('the free list has a damaged key')
  const difference = a.readBigUInt64LE() - b.readBigUInt64LE()
  return difference < 0n ? -1 : Number(difference > 0n)
}

/** Returns the offset of a node in its page. */
export function nodeOffset(page: Buffer, index: number): number {
  return page.readUInt16LE(PAGE_HEADER_BYTES + index * 2) + PAGE_HEADER_BYTES
}

/** Returns the record of the tree of all tables. */
export function mainTree({ meta }: LmdbState): TreeRecord {
  return treeRecord(meta, MAIN_TREE_OFFSET)
}

/** Reads the record of a tree, which has 48 bytes. */
export function treeRecord(bytes: Buffer, offset: number): TreeRecord {
  const number = (at: number): number => Number(bytes.readBigUInt64LE(offset + at))
  return {
    depth: bytes.readUInt16LE(offset + 6),
    branchPages: number(8),
    leafPages: number(16),
    overflowPages: number(24),
    entries: number(32),
    root: bytes.readBigUInt64LE(offset + 40),
  }
}

function readExactly(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  if (readSync(descriptor, bytes, 0, length, position) === length) return bytes
  throw new LmdbFault(`the file ends before byte ${position + length}`)
}
