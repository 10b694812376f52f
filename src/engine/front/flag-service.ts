/**
 * Everything about flags that lives in the main thread, put together: the flags and definitions of all
 * projects, what is stored about persons, and the decisions made of both.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { FlagDirectory } from '../../store/catalog/flag-store.ts'
import { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import type { OrganizationPort } from '../threads/organization-tasks.ts'
import type { DamageReports } from './damage-reports.ts'
import { DecisionService, type DistantSources } from './decisions.ts'
import { type DefinitionSource, FlagSnapshots, type ProjectSource } from './flag-snapshots.ts'
import { FlagUsage } from './flag-usage.ts'
import type { GroupCommit } from './group-commit.ts'
import { OverrideLog } from './override-log.ts'
import { UsageKeeper } from './usage-keeper.ts'

/** What the flag service works with. */
export interface FlagServiceOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly damage: Pick<DamageReports, 'report'>
  readonly projects: ProjectSource
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly queries: OrganizationPort
  /** On a machine of a cluster: where what others store comes from; `definitions` given those that are here. */
  readonly elsewhere?:
    | (DistantSources & { definitionsWith(stored: DefinitionSource): DefinitionSource })
    | undefined
  /** Receives what could not be kept; a `Logger` will do. */
  readonly log: { error(fields: object, message: string): void }
  /** Why nothing can be written now, or null. */
  readonly refusal: () => ServiceError | null
  /** Told how long a decision took, and whether some flag could not be decided. */
  readonly onDecision: (elapsedMs: number, hasErrors: boolean) => void
  /** Told of each decision that was known from before. */
  readonly onRepeat: () => void
}

/** Flags in the main thread. Close it before the thread ends. */
export class FlagService {
  readonly directory: FlagDirectory
  readonly snapshots: FlagSnapshots
  readonly decisions: DecisionService
  readonly usage: UsageKeeper
  /** What is stored here. */
  readonly stored: DecisionSourceReader

  /** Opens the stores in `dataDir` and compiles all flags. Throws `DamagedRecordError`. */
  constructor(options: FlagServiceOptions) {
    const { dataDir, clock, groupCommit, refusal } = options
    const onDamage = (error: unknown): void => {
      // A refusal to write is the daemon's own and known to it.
      if (!(error instanceof ServiceError)) options.damage.report(error)
    }
    const usage = new FlagUsage(clock)
    this.directory = new FlagDirectory(dataDir)
    const { elsewhere } = options
    this.stored = new DecisionSourceReader(dataDir)
    this.snapshots = new FlagSnapshots({
      flags: this.directory,
      projects: options.projects,
      definitions: elsewhere?.definitionsWith(this.stored) ?? this.stored,
      onDamage,
      usage,
    })
    this.decisions = new DecisionService({
      snapshots: this.snapshots,
      stored: this.stored,
      distant: elsewhere,
      overrides: new OverrideLog({ groupCommit, clock, refusal }),
      clock,
      onDecision: options.onDecision,
      onRepeat: options.onRepeat,
      onDamage,
      usage,
    })
    this.usage = new UsageKeeper({
      ...{ usage, refusal, queries: options.queries, log: options.log },
      collect: () => this.decisions.collectUsage(),
    })
  }

  /** Processing has committed; `changedDefinitions` are the projects whose cohorts or group types changed. */
  processed(changedDefinitions: readonly number[]): void {
    this.snapshots.definitionsChanged(changedDefinitions)
  }

  async close(): Promise<void> {
    await this.stored.close()
    await this.directory.close()
  }
}
