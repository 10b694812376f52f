/**
 * Calculates the maximum number of pages that an LMDB transaction can write. A transaction writes each changed tree
 * page once, to a new page. It also writes new pages for values that do not fit into a leaf, and the list of free
 * pages.
 */

const PAGE_BYTES = 4096
/**
 * The value of a record with more than this number of bytes counts as stored in overflow pages. LMDB requires that a
 * leaf has space for two records, and two larger records may not fit.
 */
const LEAF_RECORD_BYTES = 1990
const PAGE_HEADER_BYTES = 24
/** The largest number of leaves that one changed record can change: its own leaf and a neighboring one. */
const LEAVES_OF_CHANGE = 2
/**
 * `LISTED_ON_PAGE` is the number of free pages that one page of the list of free pages can name. `EVERY_COMMIT_PAGES`
 * is the number of pages that every commit changes.
 */
const LISTED_ON_PAGE = 480
const EVERY_COMMIT_PAGES = 24
/**
 * If a transaction splits one page and merges two others, the number of pages of the table stays the same, although
 * pages were written. This number of pages is added for each table to allow for that.
 */
const UNSEEN_PAGES = 4

/** The numbers of pages of a tree, by kind. */
export interface PageCounts {
  readonly branch: number
  readonly leaf: number
  /** The number of pages with values that are too large for a leaf. */
  readonly overflow: number
}

/** Counts the changes of a transaction to one table. */
export class TableChanges {
  /** The number of records that were stored or removed. */
  records = 0
  /** The number of overflow pages of the large values that were stored. */
  overflowPages = 0

  /** Counts one change. `bytes` is the size of the key and the value together, or 0 for a removal. */
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

/** Returns the number of pages of a tree, all kinds together, from the statistics of LMDB. */
export function addPages(tree: {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}): number {
  return tree.treeBranchPageCount + tree.treeLeafPageCount + tree.overflowPages
}

/** The numbers of pages that a transaction can write at most, by kind. */
export interface ChangedPages {
  /**
   * The number of branch pages and of pages of the list of free pages. It hardly depends on the number of changed
   * records.
   */
  readonly fixed: number
  /** The number of leaves that contain changed records. */
  readonly touched: number
  /** The number of overflow pages for large values, plus the number of pages by which the trees grow. */
  readonly added: number
  /**
   * The number of all leaves of the tables after the transaction. It is an upper bound for `touched` in the next
   * transaction.
   */
  readonly leaves: number
}

const NO_PAGES: PageCounts = { branch: 0, leaf: 0, overflow: 0 }

/**
 * Returns the largest numbers of pages that a transaction can write. `changes` contains the changes to each table,
 * `before` and `after` contain the page counts of each table before and after the transaction, and `freePages` is the
 * number of pages of the list of free pages.
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
