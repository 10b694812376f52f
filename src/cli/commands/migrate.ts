/** `tenrec migrate`. */
import {
  MIGRATIONS,
  type Migration,
  planMigration,
  runMigration,
} from '../../store/care/migrations.ts'
import { FORMAT_VERSION } from '../../store/directory/data-dir.ts'
import { type CommandIo, type Commands, JSON_OPTION } from '../lib/command.ts'
import { noteInStore } from '../lib/with-store.ts'

/** `tenrec migrate`. */
export const COMMANDS: Commands = [
  {
    name: 'migrate',
    sentence:
      'Turn a store of an older format, with no daemon running, into one of the current format.',
    options: {
      '--dry-run': 'Only say what would be done; a daemon may run meanwhile.',
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

/** A step as the operator is told of it, with the end of the line. */
export function stepText({ from, sentence }: Migration): string {
  return `${from} to ${from + 1}: ${sentence}\n`
}

/**
 * Runs the command over a table of steps; `onDone` is told from which format to which the store was
 * brought. Throws `OperatorError` as the plan and the steps do.
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
    io.out(`${plan.path} has the format ${plan.format}, which is the current one: nothing to do\n`)
  } else if (isDry) {
    for (const step of plan.steps) io.out(stepText(step))
    io.out(
      'nothing was changed: make a backup with the program that wrote the store, then run it\n',
    )
  } else {
    io.out(`${plan.path} has the format ${FORMAT_VERSION} now\n`)
  }
  return 0
}
