/**
 * Migrations from older formats of the store to the current one, step by step. Each new format adds one step to
 * `MIGRATIONS`. The command `tenrec migrate` runs the steps. A start of the daemon does not run them, because it should
 * never change a store unasked. The steps from format 2 to 7 are an exception: they cost almost nothing, so a start
 * runs them too.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import {
  checkEnvironment,
  ENVIRONMENT_NAMES,
  FORMAT_VERSION,
  markFormat,
  requireComplete,
  takeOver,
} from '../directory/data-dir.ts'
import { lockDataDir } from '../directory/data-dir-lock.ts'
import { joinEnvironment } from '../directory/environment-lock.ts'

/** Converts a store from one format to the next one. */
export interface Migration {
  /** The format that the step converts. The result has the format with the next number. */
  readonly from: number
  /** Says what the step does and what it costs in time and space. The operator reads it. */
  readonly sentence: string
  /**
   * Converts the store at an absolute path. This process must have locked it. The step may be interrupted at any time.
   * It is then run again from the beginning, so it must be harmless to repeat work that is already done. Throws
   * `OperatorError` if the store cannot be converted.
   */
  run(path: string): Promise<void>
}

/** The steps that lead from the format of a store to the current one. */
export interface MigrationPlan {
  /** The absolute path of the data directory. */
  readonly path: string
  readonly format: number
  /** The steps in order. The list is empty if the format is current. */
  readonly steps: readonly Migration[]
}

/**
 * All steps, by format. There is no step from format 1: it was never released, and it lacks data that persons and flags
 * need.
 */
export const MIGRATIONS: readonly Migration[] = [
  {
    from: 2,
    sentence: 'Copies the unprocessed blocks of the log from LMDB to files.',
    run: takeOver,
  },
  {
    from: 3,
    sentence:
      'Changes only the format number. From now on persons can have deltas, which older versions cannot read.',
    run: () => Promise.resolve(),
  },
  {
    from: 4,
    sentence:
      'Changes only the format number. From now on large persons and groups store their properties in pages, and a merged ' +
      'person can keep another number. Older versions can read neither.',
    run: () => Promise.resolve(),
  },
  {
    from: 5,
    sentence:
      'Changes only the format number. From now on long texts of events are compressed with LZ4, which older versions ' +
      'cannot read.',
    run: () => Promise.resolve(),
  },
  {
    from: 6,
    sentence:
      'Changes only the format number. From now on large blocks of the log that repeat themselves are deflated, which ' +
      'older versions cannot read.',
    run: () => Promise.resolve(),
  },
]

/**
 * Returns the steps that a store needs. Reads only the format of the store. Throws `OperatorError`: with exit code 1 if
 * there is no store, and with exit code 78 if the store is incomplete, if it has a newer format than this version
 * supports, or if no steps lead from its format to the current one.
 */
export function planMigration(
  dataDir: string,
  migrations: readonly Migration[] = MIGRATIONS,
): MigrationPlan {
  const path = resolve(dataDir)
  const format = existsSync(path) ? requireComplete(path) : null
  if (format === null) {
    throw new OperatorError(`There is no store in ${path}. Name another directory with --data-dir.`)
  }
  if (format > FORMAT_VERSION) {
    throw new OperatorError(
      `${path} has the format ${format}, but this version of Tenrec supports only format ${FORMAT_VERSION}. A store cannot be converted ` +
        `to an older format. Use the newer version, or run \`tenrec restore\` with a backup that was ` +
        'made before the upgrade.',
      { exitCode: 78 },
    )
  }
  return { path, format, steps: stepsFrom(format, path, migrations) }
}

/**
 * Returns the steps from an older format to the current one, in order. Throws `OperatorError` with exit code 78 if a
 * step is missing. The message begins with `what`, the store or backup that has the older format.
 */
export function stepsFrom(
  format: number,
  what: string,
  migrations: readonly Migration[],
): readonly Migration[] {
  const steps: Migration[] = []
  for (let from = format; from < FORMAT_VERSION; from++) {
    const step = migrations.find((candidate) => candidate.from === from)
    if (step === undefined) throw noMigration(what, format, from)
    steps.push(step)
  }
  return steps
}

/**
 * Runs all steps of a plan. After each step the store has the next format. Calls `onStep` before each step. Throws
 * `OperatorError` with exit code 1 if a process has the store open, and with 78 if the store is damaged.
 */
export async function runMigration(
  plan: MigrationPlan,
  onStep: (step: Migration) => void,
): Promise<void> {
  const release = await lockDataDir(plan.path, 'migrate')
  try {
    if (requireComplete(plan.path) !== plan.format) {
      throw new OperatorError(
        `Another process has changed ${plan.path}. Start the migration again.`,
      )
    }
    for (const name of ENVIRONMENT_NAMES) {
      checkEnvironment(plan.path, name, true)
      joinEnvironment(plan.path, name)
    }
    for (const step of plan.steps) {
      onStep(step)
      await step.run(plan.path)
      markFormat(plan.path, step.from + 1)
    }
  } finally {
    release()
  }
}

function noMigration(what: string, format: number, from: number): OperatorError {
  return new OperatorError(
    `${what} has the format ${format}, and there is no migration from format ${from} to ${from + 1}. Run ` +
      `\`tenrec export\` for each project with the version that wrote the store. Then run \`tenrec init\` and ` +
      `\`tenrec project create\` with this version, a new data directory and the same keys, and \`tenrec import\`. ` +
      'Events and their persons are moved. Flags, users, split persons and deletions are not.',
    { exitCode: 78 },
  )
}
