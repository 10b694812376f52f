/**
 * What decisions need of what other machines store, looked up where it is stored and answered from where it is
 * decided.
 */
import type { JsonObject } from '../base/json.ts'
import type { StoredSources, WantedFacts } from '../engine/front/decisions.ts'
import type { DecisionSourceReader } from '../store/identity/decision-sources.ts'

/** The answer to what was wanted, in the same order. */
export interface Facts {
  readonly position: number
  readonly persons: readonly {
    readonly number: number
    readonly version: number
    readonly properties: JsonObject | null
    /** Of the cohorts that were named. */
    readonly lists: readonly number[]
    readonly overrides: ReadonlyMap<string, string>
  }[]
  readonly groups: readonly (JsonObject | null)[]
}

/** Looks all of it up: some lookups for each. Throws `DamagedRecordError`. */
export function factsOf(stored: DecisionSourceReader, wanted: WantedFacts): Facts {
  const { projectId, distinctIds, groups, cohorts } = wanted
  // Who has just written may ask: the latest, not that of two milliseconds before.
  stored.refresh()
  return {
    position: stored.position,
    persons: distinctIds.map((distinctId) => {
      const { number, version, properties } = stored.person(projectId, distinctId)
      const lists = cohorts.filter((id) => number !== 0 && stored.isMember(projectId, id, number))
      const overrides = number === 0 ? new Map() : stored.overrides(projectId, number)
      return { number, version, properties, lists, overrides }
    }),
    groups: groups.map(([typeIndex, key]) => stored.groupProperties(projectId, typeIndex, key)),
  }
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
    person: (_, distinctId) => personOf(distinctId),
    groupProperties: (_, typeIndex, key) => {
      const place = wanted.groups.findIndex(([type, name]) => type === typeIndex && name === key)
      const properties = facts.groups[place]
      if (properties === undefined) throw new RangeError('nobody has asked for this group')
      return properties
    },
    isInStaticCohort: (_, distinctId, cohortId) => personOf(distinctId).lists.includes(cohortId),
    overrides: (_, number) => {
      const person = facts.persons.find((one) => one.number === number)
      return person?.overrides ?? new Map()
    },
  }
}
