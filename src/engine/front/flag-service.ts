/**
 * Everything about flags that runs in the main thread: the flags and definitions of all projects, the stored data of
 * persons, and the decisions.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { FlagDirectory } from '../../store/catalog/flag-store.ts'
import { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import type { OrganizationPort } from '../threads/organization-tasks.ts'
import type { DamageReports } from './damage-reports.ts'
import { DecisionService, type DistantSources } from './decisions.ts'
import { type FlagListenerMetrics, FlagListeners } from './flag-listeners.ts'
import { type DefinitionSource, FlagSnapshots, type ProjectSource } from './flag-snapshots.ts'
import { FlagUsage } from './flag-usage.ts'
import type { GroupCommit } from './group-commit.ts'
import { OverrideLog } from './override-log.ts'
import { UsageKeeper } from './usage-keeper.ts'

/**
 * The time between a change and the messages about it in a cluster, in milliseconds. A client may request its flags
 * from another machine, which usually has the change by then.
 */
const CLUSTER_DELAY_MS = 500

/** The dependencies of the flag service. */
export interface FlagServiceOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly damage: Pick<DamageReports, 'report'>
  readonly projects: ProjectSource
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly queries: OrganizationPort
  /**
   * Fetches data that other machines store. Only set in a cluster. `definitionsWith` combines the cohorts and group
   * types of other machines with the local ones.
   */
  readonly elsewhere?:
    | (DistantSources & { definitionsWith(stored: DefinitionSource): DefinitionSource })
    | undefined
  /** Receives the errors if usage counts could not be stored. A `Logger` can be passed. */
  readonly log: { error(fields: object, message: string): void }
  /** Returns the error with which writes are refused at the moment, or null if they are possible. */
  readonly refusal: () => ServiceError | null
  /** Called with the duration of each decision in milliseconds. `hasErrors` is true if a flag could not be decided. */
  readonly onDecision: (elapsedMs: number, hasErrors: boolean) => void
  /** Called for each decision that is answered from the cache. */
  readonly onRepeat: () => void
  /** The largest number of clients that listen for changes. 0 switches the streams off. */
  readonly listenersMax: number
  readonly listenerMetrics: FlagListenerMetrics
}

/** The flags in the main thread. Close it before the thread ends. */
export class FlagService {
  readonly directory: FlagDirectory
  readonly snapshots: FlagSnapshots
  readonly decisions: DecisionService
  /** The clients that are informed about changes of flags. */
  readonly listeners: FlagListeners
  readonly usage: UsageKeeper
  /** Reads the data that is stored on this machine. */
  readonly stored: DecisionSourceReader

  /** Opens the stores in `dataDir` and compiles all flags. Throws `DamagedRecordError`. */
  constructor(options: FlagServiceOptions) {
    const { dataDir, clock, groupCommit, refusal } = options
    const onDamage = (error: unknown): void => {
      // A `ServiceError` only means that the daemon refuses to write at the moment, so it is not reported as damage.
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
      onChanged: (projectId) => this.listeners.changed(projectId),
    })
    this.listeners = new FlagListeners({
      snapshots: this.snapshots,
      clock,
      metrics: options.listenerMetrics,
      listenersMax: options.listenersMax,
      delayMs: elsewhere === undefined ? 0 : CLUSTER_DELAY_MS,
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
      usage,
      refusal,
      queries: options.queries,
      log: options.log,
      collect: () => this.decisions.collectUsage(),
    })
  }

  /**
   * Call it after each commit of processing. `changedDefinitions` are the ids of the projects whose cohorts or group
   * types have changed.
   */
  processed(changedDefinitions: readonly number[]): void {
    this.snapshots.definitionsChanged(changedDefinitions)
  }

  async close(): Promise<void> {
    await this.stored.close()
    await this.directory.close()
  }
}
