/** Opens the store of projects for one command, beside a running daemon or without one. */
import type { ProjectStore } from '../../store/catalog/project-store.ts'
import type { CommandInput } from './command.ts'
import { withOrganizationStore } from './with-organization-store.ts'

/** Runs `action` with the store and closes it; as `withOrganizationStore`. */
export async function withProjectStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: ProjectStore) => T,
): Promise<T> {
  return withOrganizationStore(input, isWriting, ({ projects }) => action(projects))
}
