/** The names of the properties that persons or groups have now. */
import type { EventTables } from '../../lmdb/keys.ts'
import { allGroups } from '../group-store.ts'
import { ACTORS_READ_BYTES_MAX, NAMED_ACTORS_MAX } from '../limits.ts'
import { loadPersonCounters } from '../person-records.ts'
import { countedProperties, countPersons } from './kept-properties.ts'
import { type CountedFacts, PropertyCounts } from './property-counts.ts'

/**
 * What is known about the properties of persons, of the newest first: counted ahead where they are many
 * (kept-properties.ts). `check` is asked before each who has to be read, and throws to give up. Cost: some
 * milliseconds, or some microseconds for each person.
 */
export function personProperties(
  tables: EventTables,
  projectId: number,
  check: () => void,
): readonly CountedFacts[] {
  const kept = countedProperties(tables, projectId)
  if (kept !== null) return kept.facts
  const counts = new PropertyCounts()
  const { lastPerson } = loadPersonCounters(tables.person_projects, projectId)
  const isOver = (): boolean => {
    check()
    return false
  }
  const bytesMax = ACTORS_READ_BYTES_MAX
  countPersons(tables, projectId, counts, lastPerson, NAMED_ACTORS_MAX, isOver, bytesMax)
  return counts.facts
}

/** The same of the groups of a type, in the order of their keys. */
export function groupProperties(
  tables: EventTables,
  projectId: number,
  typeIndex: number,
  check: () => void,
) {
  const names = new PropertyCounts()
  let [count, bytes] = [0, 0]
  for (const group of allGroups(tables, projectId, typeIndex)) {
    check()
    bytes += group.bytes
    if (bytes > ACTORS_READ_BYTES_MAX) break
    names.add(group.properties)
    if (++count >= NAMED_ACTORS_MAX) break
  }
  return names.facts
}
