/**
 * Reads the tables of a pinned state by plain reads of the data file, page by page. Each entry is copied only once,
 * from the page to its destination. A read through LMDB would cost three copies and four objects for each entry. If a
 * page is damaged, the code here throws an error with the number of the page, whereas LMDB would crash the process. The
 * format is described in lmdb-layout.ts.
 */
import { readSync } from 'node:fs'
import {
  BRANCH_FLAG,
  LAST_PAGE_OFFSET,
  LEAF_FLAG,
  NO_PAGE,
  NODE_BIG,
  NODE_HEADER_BYTES,
  NODE_TREE,
  OVERFLOW_FLAG,
  PAGE_BYTES_OFFSET,
  PAGE_HEADER_BYTES,
  TREE_DEPTH_MAX,
} from '../../lmdb/lmdb-layout.ts'
import {
  LmdbFault,
  type LmdbState,
  mainTree,
  nodeOffset,
  type TreeRecord,
  treeRecord,
} from '../../lmdb/lmdb-walk.ts'
import { PAGE_CACHED_MS_MAX } from '../limits.ts'
import type { EntryCursor } from './chunks.ts'

/** The largest number of adjacent leaf pages that are read at once. */
const LEAVES_PER_READ = 16
const AROUND_BYTES = 256 * 1024
/**
 * The largest entry, in bytes, that is copied by a loop. Larger entries are copied by a call, which is faster for them.
 */
const SHORT_BYTES = 48

/** The name of a table, and the record of its tree. */
export interface TableTree {
  readonly name: string
  readonly tree: TreeRecord
}

/** Returns the tables of a state, in the order of their names. Throws `LmdbFault`. */
export function listTables(descriptor: number, state: LmdbState): readonly TableTree[] {
  const tables: TableTree[] = []
  const cursor = new TableCursor(descriptor, state, mainTree(state))
  while (cursor.next()) {
    const record = cursor.treeRecord()
    if (record !== null) tables.push({ name: cursor.keyText().replace(/\0$/, ''), tree: record })
  }
  return tables
}

interface Branch {
  readonly page: Buffer
  index: number
  count: number
}

/** Iterates over the entries of a table in the order of their keys. It starts before the first one. */
export class TableCursor implements EntryCursor {
  keyBytes = 0
  valueBytes = 0
  readonly #descriptor: number
  readonly #pageBytes: number
  /** The offset at which the last page of the state ends. Nothing after it is read. */
  readonly #fileBytes: number
  readonly #branches: Branch[] = []
  readonly #leaves: Buffer
  #around: Buffer | null = null
  /**
   * The offset of the current leaf page in `#leaves`, its page number, and the number of pages after it that `#leaves`
   * already contains.
   */
  #leaf = 0
  #leafNumber = 0
  #leavesLeft = 0
  #index = 0
  #count = 0
  #node = 0
  #keyStart = 0

  constructor(descriptor: number, { meta }: LmdbState, tree: TreeRecord) {
    this.#descriptor = descriptor
    this.#pageBytes = meta.readUInt32LE(PAGE_BYTES_OFFSET)
    this.#fileBytes = (Number(meta.readBigUInt64LE(LAST_PAGE_OFFSET)) + 1) * this.#pageBytes
    this.#leaves = Buffer.allocUnsafeSlow(this.#pageBytes * LEAVES_PER_READ)
    if (tree.root === NO_PAGE) return
    if (tree.depth < 1 || tree.depth > TREE_DEPTH_MAX)
      throw new LmdbFault('a tree has an impossible depth')
    for (let level = 1; level < tree.depth; level++) {
      this.#branches.push({ page: Buffer.allocUnsafeSlow(this.#pageBytes), index: 0, count: 0 })
    }
    this.#descend(Number(tree.root), 0)
  }

  /** Moves to the next entry. Returns false after the last one. Throws `LmdbFault`. */
  next(): boolean {
    while (this.#index >= this.#count) if (!this.#nextLeaf()) return false
    const leaves = this.#leaves
    const pageEnd = this.#leaf + this.#pageBytes
    const offset = this.#leaf + PAGE_HEADER_BYTES
    const node = offset + leaves.readUInt16LE(offset + this.#index * 2)
    this.#index++
    if (node + NODE_HEADER_BYTES > pageEnd) throw this.#damagedLeaf()
    this.#node = node
    this.#keyStart = node + NODE_HEADER_BYTES
    this.keyBytes = leaves.readUInt16LE(node + 6)
    this.valueBytes = leaves.readUInt16LE(node) + leaves.readUInt16LE(node + 2) * 2 ** 16
    const isBig = (leaves.readUInt16LE(node + 4) & NODE_BIG) !== 0
    const end = this.#keyStart + this.keyBytes + (isBig ? 24 : this.valueBytes)
    // The caller will allocate memory for the value, so an impossible size must be refused before that.
    if (end > pageEnd || this.valueBytes > this.#fileBytes) throw this.#damagedLeaf()
    return true
  }

  /** Copies the key, followed by the value. Throws `LmdbFault`. */
  copyTo(target: Buffer, offset: number): void {
    const leaves = this.#leaves
    const start = this.#keyStart
    const isBig = (leaves.readUInt16LE(this.#node + 4) & NODE_BIG) !== 0
    const length = isBig ? this.keyBytes : this.keyBytes + this.valueBytes
    if (length <= SHORT_BYTES) {
      for (let index = 0; index < length; index++) {
        target[offset + index] = leaves[start + index] ?? 0
      }
    } else {
      leaves.copy(target, offset, start, start + length)
    }
    if (!isBig) return
    const first = Number(leaves.readBigUInt64LE(start + this.keyBytes))
    const head = Buffer.allocUnsafe(PAGE_HEADER_BYTES)
    this.#read(head, 0, PAGE_HEADER_BYTES, first * this.#pageBytes)
    const isOverflow = (head.readUInt16LE(18) & OVERFLOW_FLAG) !== 0
    if (Number(head.readBigUInt64LE(0)) !== first || !isOverflow) {
      throw new LmdbFault(`page ${first}, a large value, was overwritten`)
    }
    const position = first * this.#pageBytes + PAGE_HEADER_BYTES
    this.#read(target, offset + this.keyBytes, this.valueBytes, position)
  }

  /** Returns the key as text with one character per byte. */
  keyText(): string {
    return this.#leaves.toString('latin1', this.#keyStart, this.#keyStart + this.keyBytes)
  }

  /** Returns the record of the tree that is the value of the entry, or null if the value is not a tree. */
  treeRecord(): TreeRecord | null {
    if ((this.#leaves.readUInt16LE(this.#node + 4) & NODE_TREE) === 0) return null
    return treeRecord(this.#leaves, this.#keyStart + this.keyBytes)
  }

  /**
   * Goes down from page `number` of the tree to the first leaf below it. `level` is the depth of page `number`, from 0
   * for the root.
   */
  #descend(number: number, level: number): void {
    const branch = this.#branches[level]
    if (branch === undefined) {
      this.#openLeaf(number)
      return
    }
    this.#read(branch.page, 0, this.#pageBytes, number * this.#pageBytes)
    branch.count = countNodes(branch.page, 0, this.#pageBytes, number, BRANCH_FLAG)
    branch.index = 0
    this.#descend(childOf(branch.page, 0), level + 1)
  }

  #nextLeaf(): boolean {
    for (let level = this.#branches.length - 1; level >= 0; level--) {
      const branch = this.#branches[level]
      if (branch === undefined || ++branch.index >= branch.count) continue
      this.#descend(childOf(branch.page, branch.index), level + 1)
      return true
    }
    return false
  }

  #openLeaf(number: number): void {
    if (this.#leavesLeft > 0 && number === this.#leafNumber + 1) {
      this.#leavesLeft--
      this.#leaf += this.#pageBytes
    } else {
      const pages = this.#neighbors(number)
      this.#read(this.#leaves, 0, pages * this.#pageBytes, number * this.#pageBytes)
      this.#leavesLeft = pages - 1
      this.#leaf = 0
    }
    this.#leafNumber = number
    this.#count = countNodes(this.#leaves, this.#leaf, this.#pageBytes, number, LEAF_FLAG)
    this.#index = 0
  }

  /**
   * Returns the number of leaves that can be read at once: leaf `number`, and the next leaves of the tree as long as
   * they are also the next pages of the file.
   */
  #neighbors(number: number): number {
    const branch = this.#branches.at(-1)
    if (branch === undefined) return 1
    let pages = 1
    const pagesMax = Math.min(LEAVES_PER_READ, branch.count - branch.index)
    while (pages < pagesMax && childOf(branch.page, branch.index + pages) === number + pages) {
      pages++
    }
    return pages
  }

  #read(target: Buffer, offset: number, length: number, position: number): void {
    if (position + length > this.#fileBytes) {
      throw new LmdbFault(
        `a page refers to page ${Math.floor(position / this.#pageBytes)}, which does not exist`,
      )
    }
    const startedAtMs = performance.now()
    if (readSync(this.#descriptor, target, offset, length, position) !== length) {
      throw new LmdbFault(`the file ends before byte ${position + length}`)
    }
    if (length >= AROUND_BYTES || performance.now() - startedAtMs < PAGE_CACHED_MS_MAX) return
    this.#around ??= Buffer.allocUnsafeSlow(AROUND_BYTES)
    const start = Math.floor(position / AROUND_BYTES) * AROUND_BYTES
    readSync(this.#descriptor, this.#around, 0, AROUND_BYTES, start)
  }

  #damagedLeaf(): LmdbFault {
    return new LmdbFault(`page ${this.#leafNumber} has a damaged node`)
  }
}

/** Returns the number of nodes of a page. Throws `LmdbFault` unless the page has this number and kind. */
function countNodes(
  pages: Buffer,
  offset: number,
  pageBytes: number,
  number: number,
  kind: number,
): number {
  const flags = pages.readUInt16LE(offset + 18) & (BRANCH_FLAG | LEAF_FLAG | OVERFLOW_FLAG)
  const lower = pages.readUInt16LE(offset + 20)
  const isPage = Number(pages.readBigUInt64LE(offset)) === number && flags === kind
  if (!isPage || lower % 2 !== 0 || PAGE_HEADER_BYTES + lower > pageBytes || lower === 0) {
    throw new LmdbFault(`page ${number} was overwritten: it is not the page that its tree needs`)
  }
  return lower / 2
}

function childOf(page: Buffer, index: number): number {
  const node = nodeOffset(page, index)
  if (node + NODE_HEADER_BYTES > page.length) throw new LmdbFault('a branch page is damaged')
  return page.readUInt32LE(node) + page.readUInt16LE(node + 4) * 2 ** 32
}
