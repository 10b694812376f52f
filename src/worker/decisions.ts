/**
 * Decisions as the rest of the daemon asks for them: the flags of a project, what is stored about the
 * person and groups, and the rules. Everything runs in the main thread, in microseconds; what cannot be
 * read makes the flags that need it fail, and no others.
 */
import type { Clock } from '../base/clock.ts'
import { decide } from '../flags/decide.ts'
import type {
  DecisionRequest,
  DecisionSources,
  Decisions,
  FlagDecision,
  JsonObject,
} from '../flags/types.ts'
import type { FlagSnapshot, FlagSnapshots } from './flag-snapshots.ts'

/** Stored persons, groups and overrides; see store/decision-sources.ts. Every method may throw. */
export interface StoredSources {
  /** Begins a decision. */
  freshen(): void
  /** 0: nobody. */
  personNumber(projectId: number, distinctId: string): number
  personProperties(projectId: number, distinctId: string): JsonObject | null
  groupProperties(projectId: number, typeIndex: number, key: string): JsonObject | null
  isInStaticCohort(projectId: number, distinctId: string, cohortId: number): boolean
  overrides(projectId: number, number: number): ReadonlyMap<string, string>
}

/** Keeps what was hashed for persons; see worker/override-log.ts. */
export interface OverrideSink {
  /** Throws when nothing can be written. */
  add(projectId: number, request: OverrideRequest): void
}

/** Identifiers to be kept for flags that have none on the persons of these distinct_ids. */
export interface OverrideRequest {
  readonly distinctIds: readonly string[]
  readonly flagKeys: readonly string[]
  readonly identifier: string
}

/** What decisions work with. */
export interface DecisionServiceOptions {
  readonly snapshots: Pick<FlagSnapshots, 'of'>
  readonly stored: StoredSources
  readonly overrides: OverrideSink
  /** Told of stored records that could not be read. */
  readonly onDamage: (error: unknown) => void
  readonly clock: Clock
  /** Told how long a decision took, and whether some flag could not be decided. */
  readonly onDecision: (elapsedMs: number, hasErrors: boolean) => void
}

const NO_DECISIONS: readonly FlagDecision[] = Object.freeze([])

/** Decides. For the main thread. */
export class DecisionService {
  readonly #options: DecisionServiceOptions

  constructor(options: DecisionServiceOptions) {
    this.#options = options
  }

  /** The flags of a project as they are now; null for an unknown one. */
  snapshot(projectId: number): FlagSnapshot | null {
    return this.#options.snapshots.of(projectId)
  }

  /** Decides about the flags of a project. Never throws for what is stored. */
  decide(projectId: number, request: DecisionRequest): Decisions {
    const snapshot = this.#options.snapshots.of(projectId)
    if (snapshot === null) return { decisions: NO_DECISIONS, hasErrors: false }
    const { clock, onDecision } = this.#options
    const startedAtMs = clock.monotonic()
    const decisions = decide(snapshot.compiled, request, this.sources(snapshot, request))
    onDecision(clock.monotonic() - startedAtMs, decisions.hasErrors)
    return decisions
  }

  /** What is stored about the person and the groups of a request. */
  sources(
    snapshot: FlagSnapshot,
    request: Pick<DecisionRequest, 'distinctId' | 'anonDistinctId'>,
  ): DecisionSources {
    return new RequestSources(this.#options, snapshot, request)
  }
}

/** Reads for one request, each when a flag asks for it first. */
class RequestSources implements DecisionSources {
  readonly #options: DecisionServiceOptions
  readonly #snapshot: FlagSnapshot
  readonly #request: Pick<DecisionRequest, 'distinctId' | 'anonDistinctId'>
  #isFresh = false

  constructor(
    options: DecisionServiceOptions,
    snapshot: FlagSnapshot,
    request: Pick<DecisionRequest, 'distinctId' | 'anonDistinctId'>,
  ) {
    this.#options = options
    this.#snapshot = snapshot
    this.#request = request
  }

  personProperties(): JsonObject | null {
    const { distinctId } = this.#request
    return this.#read((stored, projectId) => stored.personProperties(projectId, distinctId))
  }

  groupProperties(typeIndex: number, key: string): JsonObject | null {
    return this.#read((stored, projectId) => stored.groupProperties(projectId, typeIndex, key))
  }

  isInStaticCohort(cohortId: number): boolean {
    const { distinctId } = this.#request
    return this.#read((stored, projectId) =>
      stored.isInStaticCohort(projectId, distinctId, cohortId),
    )
  }

  continuityOverrides(): ReadonlyMap<string, string> {
    const { distinctId, anonDistinctId } = this.#request
    return this.#read((stored, projectId) => {
      const own = overridesOf(stored, projectId, distinctId)
      if (anonDistinctId === null || anonDistinctId === distinctId) return own
      const known = new Map([...overridesOf(stored, projectId, anonDistinctId), ...own])
      const flagKeys = this.#snapshot.continuityKeys.filter((key) => !known.has(key))
      if (flagKeys.length > 0) {
        const distinctIds = [distinctId, anonDistinctId]
        this.#options.overrides.add(projectId, {
          distinctIds,
          flagKeys,
          identifier: anonDistinctId,
        })
      }
      return known
    })
  }

  #read<T>(action: (stored: StoredSources, projectId: number) => T): T {
    const { stored, onDamage } = this.#options
    try {
      if (!this.#isFresh) stored.freshen()
      this.#isFresh = true
      return action(stored, this.#snapshot.set.projectId)
    } catch (error) {
      onDamage(error)
      throw error
    }
  }
}

function overridesOf(
  stored: StoredSources,
  projectId: number,
  distinctId: string,
): ReadonlyMap<string, string> {
  const number = stored.personNumber(projectId, distinctId)
  return number === 0 ? NO_OVERRIDES : stored.overrides(projectId, number)
}

const NO_OVERRIDES: ReadonlyMap<string, string> = new Map()
