/** `tenrec migrate`. */
import { FORMAT_VERSION } from '../store/data-dir.ts'
import { MIGRATIONS, type Migration, planMigration, runMigration } from '../store/migrations.ts'
import { type Command, type CommandIo, JSON_OPTION } from './command.ts'

/** `tenrec migrate`. */
export const MIGRATE: Command = {
  name: 'migrate',
  sentence:
    'Turn a store of an older format, with no daemon running, into one of the current format.',
  operands: [],
  options: [
    {
      name: 'dry-run',
      placeholder: null,
      sentence: 'Only say what would be done; a daemon may run meanwhile.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run({ io, options, settings }) {
    const how = { isDry: options.has('dry-run'), isJson: options.has('json') }
    return migrateAndReport(io, settings().dataDir, how, MIGRATIONS)
  },
}

/** Runs the command over a table of steps. Throws `OperatorError` as the plan and the steps do. */
export async function migrateAndReport(
  io: Pick<CommandIo, 'out' | 'err'>,
  dataDir: string,
  { isDry, isJson }: { readonly isDry: boolean; readonly isJson: boolean },
  migrations: readonly Migration[],
): Promise<number> {
  const plan = planMigration(dataDir, migrations)
  const describe = ({ from, sentence }: Migration): string =>
    `${from} to ${from + 1}: ${sentence}\n`
  if (isJson) {
    if (!isDry && plan.steps.length > 0) await runMigration(plan, (step) => io.err(describe(step)))
    const steps = plan.steps.map(({ from, sentence }) => ({ from, to: from + 1, does: sentence }))
    const row = { format: plan.format, current_format: FORMAT_VERSION, steps, is_dry_run: isDry }
    io.out(`${JSON.stringify(row)}\n`)
    return 0
  }
  if (plan.steps.length === 0) {
    io.out(`${plan.path} has the format ${plan.format}, which is the current one: nothing to do\n`)
    return 0
  }
  if (isDry) {
    for (const step of plan.steps) io.out(describe(step))
    io.out(
      'nothing was changed: make a backup with the program that wrote the store, then run it\n',
    )
    return 0
  }
  await runMigration(plan, (step) => io.out(describe(step)))
  io.out(`${plan.path} has the format ${FORMAT_VERSION} now\n`)
  return 0
}
