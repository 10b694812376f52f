/** Opens the way to the store for a command that works beside a running daemon or without one. */
import { resolve } from 'node:path'
import { type EnvironmentName, requireStore } from '../../store/directory/data-dir.ts'
import { lockForCommand } from '../../store/directory/data-dir-lock.ts'

/**
 * Runs `action` with the absolute path of a store whose environments `names` may be opened. `isWriting`:
 * nobody but a daemon has it meanwhile. Throws `OperatorError` for a store that cannot be opened, and
 * what `action` throws.
 */
export async function withStore<T>(
  dataDir: string,
  names: readonly EnvironmentName[],
  isWriting: boolean,
  action: (path: string) => Promise<T>,
): Promise<T> {
  for (const name of names) requireStore(dataDir, name)
  const path = resolve(dataDir)
  if (!isWriting) return action(path)
  const release = await lockForCommand(path)
  try {
    // Before the lock a restore may have replaced it.
    for (const name of names) requireStore(path, name)
    return await action(path)
  } finally {
    release()
  }
}
