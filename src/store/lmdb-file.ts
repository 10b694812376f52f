/**
 * Looks at a data file before LMDB maps it. LMDB trusts what it maps: a cut or overwritten file kills
 * the process with SIGSEGV or SIGBUS, and an empty one is taken for a new store. So the two meta pages,
 * the length and the roots of the trees are checked here first, in plain reads. Layout: lmdb-layout.ts.
 */
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import {
  BRANCH_FLAG,
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

/** What a look at a data file found. */
export type LmdbFinding =
  | { readonly kind: 'sound' }
  /** LMDB may open it, but it is not as it was left; `what` is for the operator. */
  | { readonly kind: 'sound_with_note'; readonly what: string }
  /** The second meta page is all zero: `restoreSecondMeta` before LMDB opens it. */
  | { readonly kind: 'second_meta_lost'; readonly what: string }
  /** LMDB must not open it. */
  | { readonly kind: 'damaged'; readonly what: string }

interface Meta {
  readonly pageBytes: number
  readonly roots: readonly number[]
  readonly lastPage: number
  readonly transaction: bigint
}

const MAGIC = 0xbeefc0de
const VERSION = 2
const PAGE_BYTES_LEAST = 512
const PAGE_BYTES_MOST = 65_536
const PAGE_NUMBER_MAX = 2 ** 40

const FIXED_SIZE_FLAG = 0x20
/** Where the root stands in the record of a named tree. */
const TREE_ROOT_OFFSET = 40

/** Inspects a data file. Throws what the file system throws. Cost: a few reads, unless the file is short. */
export function inspectLmdbFile(path: string): LmdbFinding {
  const descriptor = openSync(path, 'r')
  try {
    return inspect(descriptor, fstatSync(descriptor).size)
  } finally {
    closeSync(descriptor)
  }
}

/** Makes the second meta page a copy of the first, as in a store that was just created. */
export function restoreSecondMeta(path: string): void {
  const descriptor = openSync(path, 'r+')
  try {
    const first = readMeta(readAt(descriptor, 0, META_BYTES))
    if (first === null) throw new TypeError('the first meta page is not valid')
    const page = readAt(descriptor, 0, first.pageBytes)
    page.writeBigUInt64LE(1n, 0)
    writeSync(descriptor, page, 0, page.length, first.pageBytes)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

function inspect(descriptor: number, fileBytes: number): LmdbFinding {
  if (fileBytes === 0) return damaged('it is empty')
  const first = readMeta(readAt(descriptor, 0, META_BYTES))
  if (first === null) return damaged('its first meta page is not valid')
  if (fileBytes < 2 * first.pageBytes) {
    return damaged(`it is cut to ${fileBytes} bytes, before its second meta page`)
  }
  const secondPage = readAt(descriptor, first.pageBytes, first.pageBytes)
  const second = readMeta(secondPage)
  const isSecondLost = second === null && secondPage.every((byte) => byte === 0)
  if (second === null && !isSecondLost) return damaged('its second meta page is not valid')
  const newest = second !== null && second.transaction > first.transaction ? second : first
  const fault = findFault(descriptor, newest, fileBytes)
  if (fault !== null) return damaged(fault)
  if (isSecondLost) {
    const what = 'its second meta page was empty; the state of the first one is used'
    return { kind: 'second_meta_lost', what }
  }
  if (fileBytes >= (newest.lastPage + 1) * newest.pageBytes) return { kind: 'sound' }
  return { kind: 'sound_with_note', what: 'its end is missing, but nothing in use was there' }
}

function damaged(what: string): LmdbFinding {
  return { kind: 'damaged', what }
}

/** What is wrong with the state that a meta page describes, or null. */
function findFault(descriptor: number, meta: Meta, fileBytes: number): string | null {
  const pageCount = Math.floor(fileBytes / meta.pageBytes)
  const cut = `it is cut: ${fileBytes} of ${(meta.lastPage + 1) * meta.pageBytes} bytes are there`
  for (const root of meta.roots) {
    if (root > meta.lastPage) return 'its newest meta page names a page that it does not have'
    if (root >= pageCount) return cut
    const header = readAt(descriptor, root * meta.pageBytes, PAGE_HEADER_BYTES)
    const isTree = (header.readUInt16LE(18) & (BRANCH_FLAG | LEAF_FLAG)) !== 0
    if (header.readBigUInt64LE(0) !== BigInt(root) || !isTree) {
      return `page ${root}, the root of a tree, was overwritten`
    }
  }
  if (pageCount > meta.lastPage) return null
  // A file may lack pages at its end that were given back before they were ever written.
  return reachesBeyond(descriptor, meta, pageCount) ? cut : null
}

/** The content of a meta page, or null when it is none or makes no sense. */
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
  const roots = [page.readBigUInt64LE(88), page.readBigUInt64LE(136)]
  return {
    pageBytes,
    roots: roots.filter((root) => root !== NO_PAGE).map(Number),
    lastPage: Number(lastPage),
    transaction: page.readBigUInt64LE(152),
  }
}

/** Whether a tree leads to a page from `pageCount` on. Cost: reads every tree page of the file. */
function reachesBeyond(descriptor: number, meta: Meta, pageCount: number): boolean {
  const pending = [...meta.roots]
  for (let visited = 0; visited <= pageCount; visited++) {
    const number = pending.pop()
    if (number === undefined) return false
    if (number >= pageCount) return true
    const page = readAt(descriptor, number * meta.pageBytes, meta.pageBytes)
    try {
      const { trees, lastValuePage } = linkedPages(page)
      if (lastValuePage >= pageCount) return true
      pending.push(...trees)
    } catch (error) {
      if (error instanceof RangeError) return true
      throw error
    }
  }
  return true
}

/** What a tree page names: further tree pages, and the last of all pages of large values (or 0). */
function linkedPages(page: Buffer): { trees: readonly number[]; lastValuePage: number } {
  const trees: number[] = []
  let lastValuePage = 0
  const flags = page.readUInt16LE(18)
  if ((flags & FIXED_SIZE_FLAG) !== 0) return { trees, lastValuePage }
  const isBranch = (flags & BRANCH_FLAG) !== 0
  // A page that should be part of a tree and is not: the file is damaged.
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

/** Up to `length` bytes from `position`; fewer at the end of the file. */
function readAt(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const count = readSync(descriptor, bytes, 0, length, position)
  return bytes.subarray(0, count)
}
