/** Lists the names of the current properties of persons and groups. */
import type { EventTables } from '../../lmdb/keys.ts'
import { groupJsons } from '../group-store.ts'
import { ACTORS_READ_BYTES_MAX, NAMED_ACTORS_MAX } from '../limits.ts'
import { loadPersonCounters } from '../person-records.ts'
import { countedProperties, countPersons } from './kept-properties.ts'
import { type CountedFacts, PropertyCounts } from './property-counts.ts'

/**
 * Returns the properties that the newest persons of a project have. For a large project, they come from the stored
 * count (kept-properties.ts). `check` is called before each person that must be read. To stop, it throws. With a stored
 * count, it takes some milliseconds. Otherwise it takes some microseconds per person.
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

/**
 * Returns the properties that the groups of one type have. The groups are read in the order of their keys, up to a
 * limit.
 */
export function groupProperties(
  tables: EventTables,
  projectId: number,
  typeIndex: number,
  check: () => void,
) {
  const names = new PropertyCounts()
  let [count, bytes] = [0, 0]
  for (const { json, jsonBytes } of groupJsons(tables, projectId, typeIndex)) {
    check()
    bytes += jsonBytes
    if (bytes > ACTORS_READ_BYTES_MAX) break
    names.addNames(json)
    if (++count >= NAMED_ACTORS_MAX) break
  }
  return names.facts
}
