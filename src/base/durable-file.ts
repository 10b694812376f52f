/** Files that survive a power failure: afterward a file has either its old or its new content, complete. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'

const DRAFT_SUFFIX = '.new'

/**
 * Writes a whole file that only its owner can read. After a power failure it has either the old or the new content.
 * Throws the errors of the file system.
 */
export function writeDurably(path: string, content: string): void {
  writeDraft(path, content)
  publishDraft(path)
}

/**
 * The first half of `writeDurably`: writes the content to disk in a file beside the final one, the draft. Returns its
 * path.
 */
export function writeDraft(path: string, content: string): string {
  const draft = path + DRAFT_SUFFIX
  writeFileSync(draft, content, { mode: 0o600 })
  flush(draft)
  return draft
}

/** The second half of `writeDurably`: renames the draft to its final name. Does nothing if there is no draft. */
export function publishDraft(path: string): void {
  const draft = path + DRAFT_SUFFIX
  if (!existsSync(draft)) return
  renameSync(draft, path)
  flush(dirname(path))
}

/** Removes the draft of a file, if there is one. Throws the errors of the file system. */
export function removeDraft(path: string): void {
  rmSync(path + DRAFT_SUFFIX, { force: true })
}

/** Waits until the content of a file or folder is on the disk. Throws the errors of the file system. */
export function flush(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
