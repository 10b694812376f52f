/** Files that are whole after a power cut: with their new content or the old. */
import { closeSync, existsSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const DRAFT_SUFFIX = '.new'

/**
 * Writes a whole file, readable by its owner only: after a power cut it has the new content or the
 * old. Throws what the file system throws.
 */
export function writeDurably(path: string, content: string): void {
  writeDraft(path, content)
  publishDraft(path)
}

/** The first half of `writeDurably`: the content is on the disk, under the name of a draft. */
export function writeDraft(path: string, content: string): void {
  const draft = path + DRAFT_SUFFIX
  writeFileSync(draft, content, { mode: 0o600 })
  flush(draft)
}

/** The second half: the draft takes its name. Does nothing if there is no draft. */
export function publishDraft(path: string): void {
  const draft = path + DRAFT_SUFFIX
  if (!existsSync(draft)) return
  renameSync(draft, path)
  flush(dirname(path))
}

/** Waits until a file or folder is on the disk. Throws what the file system throws. */
export function flush(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
