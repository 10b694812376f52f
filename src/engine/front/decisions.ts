/**
 * Decisions as the rest of the daemon asks for them: the flags of a project, what is stored about the
 * person and groups, and the rules. Everything runs in the main thread, in microseconds; what cannot be
 * read makes the flags that need it fail, and no others.
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
import type { FlagUsage, FlagUsageReport, RepeatedDecision } from './flag-usage.ts'

/** A person as decisions see it; see `StoredPerson`. */
interface SeenPerson {
  readonly number: number
  readonly version: number
  readonly properties: PropertyLookup | null
}

/** Stored persons, groups and overrides. Every method may throw, and every look-up. */
export interface StoredSources
  extends Pick<DecisionSourceReader, 'freshen' | 'position' | 'isInStaticCohort' | 'overrides'> {
  person(projectId: number, distinctId: string): SeenPerson
  groupProperties(projectId: number, typeIndex: number, key: string): PropertyLookup | null
}

/** All that deciding a request may need of what is stored. */
export interface WantedFacts {
  readonly projectId: number
  readonly distinctIds: readonly string[]
  readonly groups: readonly (readonly [typeIndex: number, key: string])[]
  /** With fixed lists. */
  readonly cohorts: readonly number[]
  /** Names of properties of persons and groups. Older machines name none: they get all. */
  readonly properties?: readonly string[]
}

/** Where events of projects are stored by other machines: what decisions need comes from there. */
export interface DistantSources {
  /** Whether those of a project are. */
  isElsewhere(projectId: number): boolean
  /** Resolves with what answers from memory; rejects when it does not come in time. */
  fetch(wanted: WantedFacts): Promise<StoredSources>
}

/** It is stored elsewhere, and was not fetched. */
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

/** A decision, and what it was made of; null: it cannot be repeated. */
export interface Repeatable {
  readonly decided: Decisions
  readonly basis: DecisionBasis | null
}

/** Keeps what was hashed for persons; see engine/front/override-log.ts. */
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
  readonly snapshots: Pick<FlagSnapshots, 'of' | 'compiled'>
  readonly stored: StoredSources
  /** In a cluster. `stored` is not asked for what is there. */
  readonly distant?: DistantSources | undefined
  readonly overrides: OverrideSink
  /** Told of stored records that could not be read. */
  readonly onDamage: (error: unknown) => void
  readonly clock: Clock
  /** Told how long a decision took, and whether some flag could not be decided. */
  readonly onDecision: (elapsedMs: number, hasErrors: boolean) => void
  /** Told of each decision that was known from before. */
  readonly onRepeat: () => void
  readonly usage: FlagUsage
}

/** What a decision was made of, besides the request. As long as all of it is the same, so is the decision. */
export interface DecisionBasis extends RepeatedDecision {
  readonly projectId: number
  readonly snapshotSerial: number
  /** What was read of stored things. */
  readonly reads: 'nothing' | 'person' | 'more'
  readonly distinctId: string
  readonly personNumber: number
  readonly personVersion: number
  /** The last position of processing at which this was found to be true. */
  position: number
}

/** Whom a request is about. */
type Subject = Pick<DecisionRequest, 'distinctId' | 'anonDistinctId'>

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

  /**
   * Decides and says what the decision was made of; `basis` is null when it cannot be repeated: something
   * failed, the time takes part, or the request itself changes what is stored.
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
   * As `decideRepeatably`. What is stored elsewhere is waited for, and when it does not come the flags that need it
   * fail. A promise only then: whoever needs nothing that is elsewhere gets the decision at once.
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
   * Whether a decision of earlier would be the same now. Counts as a decision when it is. Some lookups when
   * something was processed since, else none.
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
      // Deciding again meets the same trouble and says which flags it concerns.
      return false
    }
  }

  /** How often a flag was decided to be what, from a moment on. Cost: a look at each flag. */
  usage(flagId: number, fromMs: number): FlagUsageReport {
    this.collectUsage()
    return this.#options.usage.of(flagId, fromMs)
  }

  /** Assigns what was counted to the present hour. */
  collectUsage(): void {
    const { usage, snapshots } = this.#options
    usage.collect(snapshots.compiled())
  }

  /** What is stored about the person and the groups of a request; waited for as by `decideFully`. */
  async sources(snapshot: FlagSnapshot, request: DecisionRequest): Promise<DecisionSources> {
    const options = this.#optionsOf(snapshot.set.projectId)
    if (options.stored !== ELSEWHERE) return new RequestSources(options, snapshot, request)
    const fetched = options.distant?.fetch(wantedFor(snapshot, request)).catch(() => undefined)
    const stored = (await fetched) ?? ELSEWHERE
    return new RequestSources({ ...options, stored }, snapshot, request)
  }
}

const UNDECIDED: Repeatable = { decided: NO_DECISIONS, basis: null }

/** Everything that may be asked for: it is one question, whichever flags take part. */
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

/** Reads for one request, each when a flag asks for it first. */
class RequestSources implements DecisionSources {
  readonly #options: DecisionServiceOptions
  readonly #snapshot: FlagSnapshot
  readonly #request: Subject
  #isFresh = false
  #person: SeenPerson | null = null
  #hasReadMore = false
  #hasWritten = false
  /** Something is stored elsewhere and was not fetched. */
  isIncomplete = false

  constructor(options: DecisionServiceOptions, snapshot: FlagSnapshot, request: Subject) {
    this.#options = options
    this.#snapshot = snapshot
    this.#request = request
  }

  /** What was read so far; null when something was written. */
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

  /** The same look-ups; damage that one of them meets is told. */
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

/** The same that was wanted, in the same order. */
export interface Facts {
  readonly position: number
  readonly persons: readonly {
    readonly number: number
    readonly version: number
    readonly properties: JsonObject | null
    /** Names of properties that are there, and too large to be compared; older machines send them all. */
    readonly unread?: readonly string[]
    /** Of the cohorts that were named. */
    readonly lists: readonly number[]
    readonly overrides: ReadonlyMap<string, string>
  }[]
  readonly groups: readonly (JsonObject | null)[]
  /** Of each group, as for persons. */
  readonly unreadOfGroups?: readonly (readonly string[])[]
}

/** Looks all of it up: some lookups for each. Throws `DamagedRecordError`. */
export function factsOf(stored: DecisionSourceReader, wanted: WantedFacts): Facts {
  const { projectId, distinctIds, groups, cohorts, properties: names } = wanted
  // Who has just written may ask: the latest, not that of two milliseconds before.
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

/** Looks up what `wantedOf` found. */
function fetchedProperties(
  properties: JsonObject | null,
  unread: readonly string[] = [],
): PropertyLookup | null {
  if (properties === null || unread.length === 0) return properties && lookupIn(properties)
  const known = lookupIn(properties)
  return { get: (name) => (unread.includes(name) ? UNREAD_VALUE : known.get(name)) }
}

/** Answers from facts what was wanted, and nothing else. */
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
