/**
 * Makes flag decisions from the flags of a project, the stored data of the person and the groups, and the rules.
 * Decisions are made in the main thread and take microseconds. If a record cannot be read, only the flags that need the
 * record fail.
 */
import type { Clock } from '../../base/clock.ts'
import type { JsonObject } from '../../base/json.ts'
import { decide, NO_DECISIONS } from '../../rules/flags/decide.ts'
import { propertyNamesOf } from '../../rules/flags/flag-references.ts'
import { lookupIn, UNREAD_VALUE } from '../../rules/flags/property-lookup.ts'
import type {
  DecisionRequest,
  DecisionSources,
  Decisions,
  PropertyLookup,
} from '../../rules/flags/types.ts'
import type { DecisionSourceReader, StoredPerson } from '../../store/identity/decision-sources.ts'
import type { FlagSnapshot, FlagSnapshots } from './flag-snapshots.ts'
import type {
  FlagsUsageReport,
  FlagUsage,
  FlagUsageReport,
  RepeatedDecision,
} from './flag-usage.ts'

/** The parts of a stored person that decisions need (see `StoredPerson`). */
interface SeenPerson {
  readonly number: number
  readonly version: number
  readonly properties: PropertyLookup | null
}

/** Reads stored persons, groups and overrides. Every method and every property lookup may throw an error. */
export interface StoredSources
  extends Pick<DecisionSourceReader, 'freshen' | 'position' | 'isInStaticCohort' | 'overrides'> {
  person(projectId: number, distinctId: string): SeenPerson
  groupProperties(projectId: number, typeIndex: number, key: string): PropertyLookup | null
}

/** The stored data that the decisions for a request may need. */
export interface WantedFacts {
  readonly projectId: number
  readonly distinctIds: readonly string[]
  readonly groups: readonly (readonly [typeIndex: number, key: string])[]
  /** The numbers of the cohorts whose members are stored: static cohorts, and cohorts whose members are calculated. */
  readonly cohorts: readonly number[]
  /**
   * The names of the wanted properties of persons and groups. If a machine with an older version sends no names, it
   * receives all properties.
   */
  readonly properties?: readonly string[]
}

/** Fetches the data of projects whose events are stored on other machines. */
export interface DistantSources {
  /** Returns true if another machine stores the events of the project. */
  isElsewhere(projectId: number): boolean
  /** Resolves with sources that contain the fetched data. Rejects if the data does not arrive in time. */
  fetch(wanted: WantedFacts): Promise<StoredSources>
}

/** Thrown if data is needed that is stored on another machine and was not fetched. */
class StoredElsewhereError extends Error {}

const ELSEWHERE: StoredSources = {
  position: -1,
  freshen: () => {},
  person: missing,
  groupProperties: missing,
  isInStaticCohort: missing,
  overrides: missing,
}

function missing(): never {
  throw new StoredElsewhereError('it is stored by other machines')
}

/** A decision, and the state on which it depends (`basis`). If `basis` is null, the decision must not be cached. */
export interface Repeatable {
  readonly decided: Decisions
  readonly basis: DecisionBasis | null
}

/** Stores the overrides of persons for experience continuity (see engine/front/override-log.ts). */
export interface OverrideSink {
  /** Throws if nothing can be written now. */
  add(projectId: number, request: OverrideRequest): void
}

/**
 * Asks to store an override for the persons of these distinct_ids: from now on, each of the flags is decided by a hash
 * of `identifier` instead of the distinct_id. Flags for which one of these persons already has an override are left
 * out.
 */
export interface OverrideRequest {
  readonly distinctIds: readonly string[]
  readonly flagKeys: readonly string[]
  readonly identifier: string
}

/** The dependencies of decisions. */
export interface DecisionServiceOptions {
  readonly snapshots: Pick<FlagSnapshots, 'of' | 'compiled'>
  readonly stored: StoredSources
  /**
   * Reads data from other machines of a cluster. Used instead of `stored` for projects whose events this machine does
   * not store.
   */
  readonly distant?: DistantSources | undefined
  readonly overrides: OverrideSink
  /** Called with the error if a stored record could not be read. */
  readonly onDamage: (error: unknown) => void
  readonly clock: Clock
  /** Called with the duration of each decision in milliseconds. `hasErrors` is true if a flag could not be decided. */
  readonly onDecision: (elapsedMs: number, hasErrors: boolean) => void
  /** Called for each decision that is answered from the cache. */
  readonly onRepeat: () => void
  readonly usage: FlagUsage
}

/**
 * The state on which a decision depends, apart from the request. While this state is unchanged, the decision is still
 * right.
 */
export interface DecisionBasis extends RepeatedDecision {
  readonly projectId: number
  readonly snapshotSerial: number
  /** The kinds of stored data that the decision has read: nothing, only the person, or more than the person. */
  readonly reads: 'nothing' | 'person' | 'more'
  readonly distinctId: string
  readonly personNumber: number
  readonly personVersion: number
  /** The position of processing at which the decision was last checked and found to be still right. */
  position: number
}

/** The identifiers of the person that a request is about. */
type Subject = Pick<DecisionRequest, 'distinctId' | 'anonDistinctId'>

/** Decides flags, in the main thread. */
export class DecisionService {
  readonly #options: DecisionServiceOptions

  constructor(options: DecisionServiceOptions) {
    this.#options = options
  }

  /** Returns the current flags of a project, or null if the project is unknown. */
  snapshot(projectId: number): FlagSnapshot | null {
    return this.#options.snapshots.of(projectId)
  }

  /**
   * Decides the flags for a request, and returns the state on which the decision depends. `basis` is null if the
   * decision must not be repeated: because a flag failed, because the result depends on the time, or because the
   * request itself changes stored data.
   */
  decideRepeatably(projectId: number, request: DecisionRequest): Repeatable {
    const snapshot = this.#options.snapshots.of(projectId)
    if (snapshot === null) return UNDECIDED
    const sources = new RequestSources(this.#optionsOf(projectId), snapshot, request)
    const startedAtMs = this.#options.clock.monotonic()
    const decided = decide(snapshot.compiled, request, sources)
    return this.#note(decided, sources, startedAtMs)
  }

  /**
   * Does the same as `decideRepeatably`, but waits for data that is stored on other machines. If the data does not
   * arrive, the flags that need it fail. Returns a promise only if it must wait; otherwise returns the decision itself.
   */
  decideFully(projectId: number, request: DecisionRequest): Repeatable | Promise<Repeatable> {
    const { distant, clock } = this.#options
    if (distant?.isElsewhere(projectId) !== true) return this.decideRepeatably(projectId, request)
    const snapshot = this.#options.snapshots.of(projectId)
    if (snapshot === null) return UNDECIDED
    const startedAtMs = clock.monotonic()
    const sources = new RequestSources(this.#optionsOf(projectId), snapshot, request)
    const decided = decide(snapshot.compiled, request, sources)
    if (!sources.isIncomplete) return this.#note(decided, sources, startedAtMs)
    return distant.fetch(wantedFor(snapshot, request)).then(
      (stored) => {
        const fetched = new RequestSources({ ...this.#options, stored }, snapshot, request)
        const complete = decide(snapshot.compiled, request, fetched)
        return { ...this.#note(complete, fetched, startedAtMs), basis: null }
      },
      () => this.#note(decided, sources, startedAtMs),
    )
  }

  /**
   * Decides the flags for a user who only looks at the values, for example in the console. The decision does not count
   * as usage, and its duration is not measured. Waits for data on other machines like `decideFully`.
   */
  async lookUp(projectId: number, request: DecisionRequest): Promise<Decisions> {
    const snapshot = this.#options.snapshots.of(projectId)
    if (snapshot === null) return NO_DECISIONS
    return decide(snapshot.compiled, request, await this.sources(snapshot, request))
  }

  #optionsOf(projectId: number): DecisionServiceOptions {
    const isElsewhere = this.#options.distant?.isElsewhere(projectId) === true
    return isElsewhere ? { ...this.#options, stored: ELSEWHERE } : this.#options
  }

  #note(decided: Decisions, sources: RequestSources, startedAtMs: number): Repeatable {
    const { clock, onDecision, usage } = this.#options
    onDecision(clock.monotonic() - startedAtMs, decided.hasErrors)
    const isRepeatable = !decided.hasErrors && !decided.isTimeBound
    usage.decided(decided)
    return { decided, basis: isRepeatable ? sources.basis(decided) : null }
  }

  /**
   * Returns whether an earlier decision is still right. If it is, one more decision is counted. Costs nothing if no
   * event was processed since the last check, and otherwise a few lookups.
   */
  isStillTrue(basis: DecisionBasis): boolean {
    const { snapshots, onRepeat, usage } = this.#options
    if (snapshots.of(basis.projectId)?.serial !== basis.snapshotSerial) return false
    if (basis.reads !== 'nothing' && !this.#areReadsTrue(basis)) return false
    onRepeat()
    usage.repeated(basis)
    return true
  }

  #areReadsTrue(basis: DecisionBasis): boolean {
    const { stored } = this.#options
    const { projectId, distinctId } = basis
    try {
      stored.freshen()
      const { position } = stored
      if (position === basis.position) return true
      if (basis.reads === 'more') return false
      const { number, version } = stored.person(projectId, distinctId)
      if (number !== basis.personNumber || version !== basis.personVersion) return false
      basis.position = position
      return true
    } catch {
      // The caller makes a new decision. That decision meets the same error, and reports which flags fail because of
      // it.
      return false
    }
  }

  /** Returns how often a flag had each value, from the time `fromMs` on. Costs one step for each flag. */
  usage(flagId: number, fromMs: number): FlagUsageReport {
    this.collectUsage()
    return this.#options.usage.of(flagId, fromMs)
  }

  /** Returns how often each of these flags was decided in the last days. Costs one step for each hour and flag. */
  usageOfFlags(ids: readonly number[], days: number): FlagsUsageReport {
    this.collectUsage()
    return this.#options.usage.ofFlags(ids, days)
  }

  /** Updates the counts of the current hour with the decisions that were made since the last call. */
  collectUsage(): void {
    const { usage, snapshots } = this.#options
    usage.collect(snapshots.compiled())
  }

  /**
   * Returns the stored data about the person and the groups of a request. Waits for data on other machines like
   * `decideFully`.
   */
  async sources(snapshot: FlagSnapshot, request: DecisionRequest): Promise<DecisionSources> {
    const options = this.#optionsOf(snapshot.set.projectId)
    if (options.stored !== ELSEWHERE) return new RequestSources(options, snapshot, request)
    const fetched = options.distant?.fetch(wantedFor(snapshot, request)).catch(() => undefined)
    const stored = (await fetched) ?? ELSEWHERE
    return new RequestSources({ ...options, stored }, snapshot, request)
  }
}

const UNDECIDED: Repeatable = { decided: NO_DECISIONS, basis: null }

/** Returns which data any flag of a project may need for a request. All of it is then fetched at once. */
function wantedFor({ set, compiled }: FlagSnapshot, request: DecisionRequest): WantedFacts {
  const { distinctId, anonDistinctId, groups } = request
  const cohorts = [...compiled.cohorts.values()].filter(({ cohort }) => cohort.isStatic)
  return {
    projectId: set.projectId,
    distinctIds: [...new Set([distinctId, anonDistinctId ?? distinctId])],
    groups: [...set.groupTypes].flatMap(([index, name]) => {
      const key = Object.hasOwn(groups, name) ? groups[name] : undefined
      const isKey = typeof key === 'string' || typeof key === 'number'
      return isKey ? [[index, String(key)] as const] : []
    }),
    cohorts: cohorts.map(({ cohort }) => cohort.id),
    properties: propertyNamesOf(set),
  }
}

/** Reads the stored data for one request. Reads each part only when a flag needs it. */
class RequestSources implements DecisionSources {
  readonly #options: DecisionServiceOptions
  readonly #snapshot: FlagSnapshot
  readonly #request: Subject
  #isFresh = false
  #person: SeenPerson | null = null
  #hasReadMore = false
  #hasWritten = false
  /** True if a flag needed data that is stored on another machine and was not fetched. */
  isIncomplete = false

  constructor(options: DecisionServiceOptions, snapshot: FlagSnapshot, request: Subject) {
    this.#options = options
    this.#snapshot = snapshot
    this.#request = request
  }

  /**
   * Returns the state on which the decision depends: the version of the flags and the stored data that was read.
   * Returns null if the decision has stored an override.
   */
  basis(decided: Decisions): DecisionBasis | null {
    if (this.#hasWritten) return null
    return {
      decided,
      repeats: 0,
      projectId: this.#snapshot.set.projectId,
      snapshotSerial: this.#snapshot.serial,
      reads: this.#hasReadMore ? 'more' : this.#person === null ? 'nothing' : 'person',
      distinctId: this.#request.distinctId,
      personNumber: this.#person?.number ?? 0,
      personVersion: this.#person?.version ?? -1,
      position: this.#isFresh ? this.#options.stored.position : -1,
    }
  }

  personProperties(): PropertyLookup | null {
    const { distinctId } = this.#request
    return this.#read((stored, projectId) => {
      this.#person = stored.person(projectId, distinctId)
      return this.#reporting(this.#person.properties)
    })
  }

  groupProperties(typeIndex: number, key: string): PropertyLookup | null {
    this.#hasReadMore = true
    return this.#read((stored, projectId) =>
      this.#reporting(stored.groupProperties(projectId, typeIndex, key)),
    )
  }

  isInStaticCohort(cohortId: number): boolean {
    this.#hasReadMore = true
    const { distinctId } = this.#request
    return this.#read((stored, projectId) =>
      stored.isInStaticCohort(projectId, distinctId, cohortId),
    )
  }

  continuityOverrides(): ReadonlyMap<string, string> {
    this.#hasReadMore = true
    const { distinctId, anonDistinctId } = this.#request
    return this.#read((stored, projectId) => {
      const own = overridesOf(stored, projectId, distinctId)
      if (anonDistinctId === null) return own
      const isSame = anonDistinctId === distinctId
      const other = isSame ? NO_OVERRIDES : overridesOf(stored, projectId, anonDistinctId)
      const known = new Map([...other, ...own])
      const flagKeys = this.#snapshot.continuityKeys.filter((key) => !known.has(key))
      if (flagKeys.length > 0) {
        this.#hasWritten = true
        const distinctIds = isSame ? [distinctId] : [distinctId, anonDistinctId]
        this.#options.overrides.add(projectId, {
          distinctIds,
          flagKeys,
          identifier: anonDistinctId,
        })
      }
      return known
    })
  }

  /** Wraps a property lookup so that damage that it finds is reported. */
  #reporting(properties: PropertyLookup | null): PropertyLookup | null {
    return properties && { get: (name) => this.#read(() => properties.get(name)) }
  }

  #read<T>(action: (stored: StoredSources, projectId: number) => T): T {
    const { stored, onDamage } = this.#options
    try {
      if (!this.#isFresh) stored.freshen()
      this.#isFresh = true
      return action(stored, this.#snapshot.set.projectId)
    } catch (error) {
      if (error instanceof StoredElsewhereError) this.isIncomplete = true
      else onDamage(error)
      throw error
    }
  }
}

function overridesOf(
  stored: StoredSources,
  projectId: number,
  distinctId: string,
): ReadonlyMap<string, string> {
  const { number } = stored.person(projectId, distinctId)
  return number === 0 ? NO_OVERRIDES : stored.overrides(projectId, number)
}

const NO_OVERRIDES: ReadonlyMap<string, string> = new Map()

/**
 * The fetched data. The lists `persons` and `groups` have the same order as `distinctIds` and `groups` in
 * `WantedFacts`.
 */
export interface Facts {
  readonly position: number
  readonly persons: readonly {
    readonly number: number
    readonly version: number
    readonly properties: JsonObject | null
    /**
     * The names of wanted properties that exist but are too large to be compared with a filter. Machines with an older
     * version send all properties instead.
     */
    readonly unread?: readonly string[]
    /** The numbers of the wanted cohorts that contain the person. */
    readonly lists: readonly number[]
    readonly overrides: ReadonlyMap<string, string>
  }[]
  readonly groups: readonly (JsonObject | null)[]
  /** For each group, the names of wanted properties that exist but are too large to be compared with a filter. */
  readonly unreadOfGroups?: readonly (readonly string[])[]
}

/** Reads all wanted data from the store. Throws `DamagedRecordError`. */
export function factsOf(stored: DecisionSourceReader, wanted: WantedFacts): Facts {
  const { projectId, distinctIds, groups, cohorts, properties: names } = wanted
  // The client may have written something just before its request. `refresh` therefore selects the latest commit.
  // Without it, the data could be two milliseconds old.
  stored.refresh()
  const wantedGroups = groups.map(([typeIndex, key]) =>
    wantedOf(stored.groupProperties(projectId, typeIndex, key), names),
  )
  return {
    position: stored.position,
    persons: distinctIds.map((distinctId) => {
      const person = stored.person(projectId, distinctId)
      const { number, version } = person
      const { properties, unread } = wantedOf(person.properties, names)
      const lists = cohorts.filter((id) => number !== 0 && stored.isMember(projectId, id, number))
      const overrides = number === 0 ? new Map() : stored.overrides(projectId, number)
      return { number, version, properties, unread, lists, overrides }
    }),
    groups: wantedGroups.map(({ properties }) => properties),
    unreadOfGroups: wantedGroups.map(({ unread }) => unread),
  }
}

function wantedOf(
  properties: StoredPerson['properties'],
  names: readonly string[] | undefined,
): { readonly properties: JsonObject | null; readonly unread: readonly string[] } {
  if (properties === null || names === undefined) {
    return { properties: properties?.all() ?? null, unread: [] }
  }
  const wanted: [string, unknown][] = []
  const unread: string[] = []
  for (const name of names) {
    const value = properties.get(name)
    if (value === UNREAD_VALUE) unread.push(name)
    else if (value !== undefined) wanted.push([name, value])
  }
  return { properties: Object.fromEntries(wanted), unread }
}

/** Returns a property lookup for properties that `wantedOf` has returned. */
function fetchedProperties(
  properties: JsonObject | null,
  unread: readonly string[] = [],
): PropertyLookup | null {
  if (properties === null || unread.length === 0) return properties && lookupIn(properties)
  const known = lookupIn(properties)
  return { get: (name) => (unread.includes(name) ? UNREAD_VALUE : known.get(name)) }
}

/** Returns sources that contain the fetched data. They throw for any other data. */
export function sourcesOf(facts: Facts, wanted: WantedFacts): StoredSources {
  const personOf = (distinctId: string): Facts['persons'][number] => {
    const person = facts.persons[wanted.distinctIds.indexOf(distinctId)]
    if (person === undefined) throw new RangeError('nobody has asked for this person')
    return person
  }
  return {
    position: facts.position,
    freshen: () => {},
    person: (_, distinctId) => {
      const { number, version, properties, unread } = personOf(distinctId)
      return { number, version, properties: fetchedProperties(properties, unread) }
    },
    groupProperties: (_, typeIndex, key) => {
      const place = wanted.groups.findIndex(([type, name]) => type === typeIndex && name === key)
      const properties = facts.groups[place]
      if (properties === undefined) throw new RangeError('nobody has asked for this group')
      return fetchedProperties(properties, facts.unreadOfGroups?.[place])
    },
    isInStaticCohort: (_, distinctId, cohortId) => personOf(distinctId).lists.includes(cohortId),
    overrides: (_, number) => {
      const person = facts.persons.find((one) => one.number === number)
      return person?.overrides ?? new Map()
    },
  }
}
