/** `tenrec migrate`: converts a data directory to the format of this version. */

import { FORMAT_VERSION } from '../../store/directory/data-dir.ts'
import {
  MIGRATIONS,
  type Migration,
  planMigration,
  runMigration,
} from '../../store/maintenance/migrations.ts'
import { type CommandIo, type Commands, JSON_OPTION } from '../lib/command.ts'
import { noteInStore } from '../lib/with-store.ts'

/** `tenrec migrate`. */
export const COMMANDS: Commands = [
  {
    name: 'migrate',
    sentence:
      'Convert a store from an older format to the current format. No daemon may run on it.',
    options: {
      '--dry-run': 'Only print the steps. A daemon may run at the same time.',
      ...JSON_OPTION,
    },
    run(input) {
      const how = { isDry: input.has('dry-run'), isJson: input.isJson }
      return migrateAndReport(input.io, input.dataDir, how, MIGRATIONS, (steps) =>
        noteInStore(input, steps),
      )
    },
  },
]

/** Returns the line that describes a step to the operator. */
export function stepText({ from, sentence }: Migration): string {
  return `${from} to ${from + 1}: ${sentence}\n`
}

/**
 * Converts a data directory with the steps in `migrations`, prints the steps, and returns the exit code. `onDone`
 * receives a text such as `3 to 5`: the old and the new format. Throws `OperatorError`.
 */
export async function migrateAndReport(
  io: Pick<CommandIo, 'out' | 'err'>,
  dataDir: string,
  { isDry, isJson }: { readonly isDry: boolean; readonly isJson: boolean },
  migrations: readonly Migration[],
  onDone: (steps: string) => Promise<void> = async () => {},
): Promise<number> {
  const plan = planMigration(dataDir, migrations)
  const isCurrent = plan.steps.length === 0
  if (!isDry && !isCurrent) {
    await runMigration(plan, (step) => io[isJson ? 'err' : 'out'](stepText(step)))
    await onDone(`${plan.format} to ${FORMAT_VERSION}`)
  }
  if (isJson) {
    const steps = plan.steps.map(({ from, sentence }) => ({ from, to: from + 1, does: sentence }))
    const row = { format: plan.format, current_format: FORMAT_VERSION, steps, is_dry_run: isDry }
    io.out(`${JSON.stringify(row)}\n`)
  } else if (isCurrent) {
    io.out(`${plan.path} already has the current format, ${plan.format}. There is nothing to do.\n`)
  } else if (isDry) {
    for (const step of plan.steps) io.out(stepText(step))
    io.out(
      "Nothing was changed. Make a backup with the version of Tenrec that wrote the store, and then run 'tenrec migrate'.\n",
    )
  } else {
    io.out(`${plan.path} now has the format ${FORMAT_VERSION}.\n`)
  }
  return 0
}
