/**
 * Calculates the maximum number of pages that an LMDB transaction can write. A transaction writes each changed tree
 * page once, to a new page. Values that do not fit into a leaf have pages of their own. The transaction also writes the
 * list of free pages.
 */

const PAGE_BYTES = 4096
/**
 * A larger record counts as a value with overflow pages of its own, because two such records do not fit into one leaf.
 */
const LEAF_RECORD_BYTES = 1990
const PAGE_HEADER_BYTES = 24
/** The number of leaves that a changed record can change: its own leaf and a neighboring one. */
const LEAVES_OF_CHANGE = 2
/**
 * The number of free pages that fit into one page of the list of free pages, and the number of pages that every commit
 * changes.
 */
const LISTED_ON_PAGE = 480
const EVERY_COMMIT_PAGES = 24
/**
 * A transaction that splits one page and merges another may leave the page counts as they were. This number of pages is
 * reserved in each table for such changes.
 */
const UNSEEN_PAGES = 4

/** The number of pages of a tree, by kind. */
export interface PageCounts {
  readonly branch: number
  readonly leaf: number
  /** Pages of values that are too large for a leaf. */
  readonly overflow: number
}

/** The changes of a transaction to a table. */
export class TableChanges {
  /** The number of records that were stored or removed. */
  records = 0
  /** The number of overflow pages of the large values that were stored. */
  overflowPages = 0

  /** Counts a change. `bytes` is the size of the key and the value, or 0 for a removal. */
  add(bytes: number): void {
    this.records++
    if (bytes > LEAF_RECORD_BYTES) {
      this.overflowPages += Math.ceil((bytes + PAGE_HEADER_BYTES) / PAGE_BYTES)
    }
  }

  clear(): void {
    this.records = 0
    this.overflowPages = 0
  }
}

/** Returns how many pages of each kind a tree has, from the statistics of LMDB. */
export function addPages(tree: {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}): number {
  return tree.treeBranchPageCount + tree.treeLeafPageCount + tree.overflowPages
}

/** The pages that a transaction can write, by kind. */
export interface ChangedPages {
  /** Pages that hardly depend on the amount of changes: branches and the list of free pages. */
  readonly fixed: number
  /** Leaves that contain changed records. */
  readonly touched: number
  /** Pages of large values, and new pages of trees. */
  readonly added: number
  /**
   * The number of leaves of the tables after the transaction. `touched` is never larger than the number of leaves
   * before it.
   */
  readonly leaves: number
}

const NO_PAGES: PageCounts = { branch: 0, leaf: 0, overflow: 0 }

/**
 * Returns the pages that a transaction can write. `changes` are its changes to each table, `before` and `after` the
 * page counts of the tables, and `freePages` is the number of pages of the list of free pages.
 */
export function changedPages(
  changes: ReadonlyMap<string, TableChanges>,
  before: ReadonlyMap<string, PageCounts>,
  after: ReadonlyMap<string, PageCounts>,
  freePages: number,
): ChangedPages {
  let fixed = EVERY_COMMIT_PAGES + 2 * freePages
  let touched = 0
  let added = 0
  let leaves = 0
  let freed = 0
  for (const [name, { records, overflowPages }] of changes) {
    const old = before.get(name) ?? NO_PAGES
    const now = after.get(name) ?? NO_PAGES
    leaves += now.leaf
    if (records === 0) continue
    const oldLeaves = Math.min(LEAVES_OF_CHANGE * records, old.leaf)
    const oldBranches = Math.min(LEAVES_OF_CHANGE * records, old.branch)
    fixed += oldBranches + UNSEEN_PAGES
    touched += oldLeaves
    added += overflowPages + Math.max(0, now.leaf - old.leaf) + Math.max(0, now.branch - old.branch)
    freed += oldLeaves + oldBranches + Math.max(0, old.overflow + overflowPages - now.overflow)
  }
  fixed += 2 * Math.ceil(freed / LISTED_ON_PAGE)
  return { fixed, touched, added, leaves }
}
