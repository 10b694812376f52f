/** Opens the store of projects and keys for one command, beside a running daemon or without one. */
import { requireStore } from '../store/data-dir.ts'
import { requireFreeDisk } from '../store/disk-guard.ts'
import { ProjectStore } from '../store/project-store.ts'
import type { CommandInput } from './command.ts'

/** Runs `action` with the store and closes it. `isWriting`: only if the disk has room. */
export async function withProjectStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: ProjectStore) => T,
): Promise<T> {
  const path = requireStore(input.settings().dataDir, 'flags')
  if (isWriting) await requireFreeDisk(path)
  const store = new ProjectStore(path, input.io.clock)
  try {
    return action(store)
  } finally {
    await store.close()
  }
}
