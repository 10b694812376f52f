/** Properties of an event that was read into cells, for the few that somebody wants as an object. */
import type { OwnObject } from '../../../base/json.ts'
import type { EventCells } from '../types.ts'

/** All properties that the event is stored with, as `normaliseEvent` would have them. Costs what parsing them does. */
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
