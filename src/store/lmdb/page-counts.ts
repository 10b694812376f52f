/**
 * How many pages a transaction of LMDB can write at most. It writes each tree page that it changed once, to a new
 * place; values that do not fit into a leaf have pages of their own; and it writes the list of free pages.
 */

const PAGE_BYTES = 4096
/** Larger records do not fit into a leaf twice, and get pages of their own. */
const LEAF_RECORD_BYTES = 1990
const PAGE_HEADER_BYTES = 24
/** A change of a record can change its leaf and the one beside it. */
const LEAVES_OF_CHANGE = 2
/** Free pages that one page of their list names, and pages for what every commit changes. */
const LISTED_ON_PAGE = 480
const EVERY_COMMIT_PAGES = 24
/** Splits and merges of one table that leave no trace in the counts. */
const UNSEEN_PAGES = 4

/** Pages of a tree. */
export interface PageCounts {
  readonly branch: number
  readonly leaf: number
  /** Pages of values that are too large for a leaf. */
  readonly overflow: number
}

/** What a transaction has changed in a table. */
export class TableChanges {
  /** Records that were put or removed. */
  records = 0
  /** Pages of large values that were put. */
  overflowPages = 0

  /** `bytes`: of the key and the value; 0 for a removal. */
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

/** As LMDB counts them, in one number. */
export function addPages(tree: {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}): number {
  return tree.treeBranchPageCount + tree.treeLeafPageCount + tree.overflowPages
}

/** The pages that a transaction can write. */
export interface ChangedPages {
  /** What hardly depends on how much is changed: branches, the list of free pages. */
  readonly fixed: number
  /** Leaves whose records it changed. */
  readonly touched: number
  /** Large values and further pages of trees. */
  readonly added: number
  /** All leaves that there are: `touched` is never more than those before. */
  readonly leaves: number
}

const NO_PAGES: PageCounts = { branch: 0, leaf: 0, overflow: 0 }

/**
 * The pages that a transaction can write which changed tables as `changes` says, from `before` to `after`.
 * `freePages`: those of the list of free pages.
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
