/** Builds the properties object of an event that the kernel has read, for the few callers that need an object. */
import type { OwnObject } from '../../../base/json.ts'
import type { EventCells } from '../types.ts'

/**
 * Returns all properties with which the event is stored, as `normalizeEvent` would return them. It costs as much as
 * parsing the properties.
 */
export function propertiesOfCells(cells: EventCells): OwnObject {
  const properties: OwnObject = {}
  for (let cell = 0; cell < cells.cellCount; cell++) {
    if (!cells.isTakenOut(cell))
      properties[cells.nameOfKey(cells.keyAt(cell))] = cells.valueAt(cell)
  }
  for (let index = 0; index < cells.addedCount; index++) {
    properties[cells.addedNames[index] ?? ''] = cells.addedValues[index]
  }
  return properties
}
