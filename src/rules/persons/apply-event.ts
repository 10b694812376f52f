/**
 * What one event does to the persons and groups of its project: the rules run once per event that is
 * stored, in order of arrival, after duplicates have been left out. They see the project through the port
 * `PersonWorld` and decide by nothing but the event, the context and what the port tells, so that the same
 * events always lead to the same persons. Source: docs/compatibility/persons.md, "Persons" and, for events with
 * `historical_migration`, docs/compatibility/persons.md, "Events of an import".
 *
 * What a store behind the port has to keep, per project, in the transaction that also moves the position
 * in the log (D is the number of a distinct_id, P that of a person):
 *
 * - person: P -> uuid, created_at, is_identified, version, properties. Properties as the text of
 *   `PropertyTable.toJson`: its length is then known exactly when it is read again.
 * - owner: D -> P and the log position since when, and "used without a person" as a flag beside it:
 *   that is only asked for a D without a P. An event belongs to the owner of its D now, unless it is
 *   older than the position (its person was deleted).
 * - ids: P, n -> D, in the order in which they were linked; a merge appends those of the other person.
 * - uuid -> P, also of persons that are gone (merged, deleted): a uuid is never given twice, and what
 *   still names it finds nobody.
 * - the last P that was given.
 * - group types: a list of at most five, in which deleted ones leave a gap for new ones; events keep `$group_0` to `$group_4`.
 * - group: type index, key -> created_at, properties. A key may be as long as an event.
 * - with each event: its mode and, in full mode, the version of its person. Versions grow by one with
 *   every change, so P and version name a state of the properties, and a merge continues above both.
 *
 * Persons and groups are changed in place: one write for each that `update` named, however many events
 * did so, and after a transaction that failed the changed objects must be read anew.
 */
import type { IngestionWarning, PersonMode } from '../capture/types.ts'
import { type GroupKey, groupKeysOf, identifyGroup } from './group-rules.ts'
import { isIllegalId, otherIdOf } from './joined-ids.ts'
import { laterPersonUuid, personUuid } from './person-uuid.ts'
import {
  type PersonContext,
  type PersonEvent,
  type PersonState,
  type PersonWorld,
  personState,
} from './person-world.ts'
import { PropertyTable } from './property-table.ts'
import {
  fillProperties,
  mergeProperties,
  type UpdateResult,
  updateProperties,
} from './property-updates.ts'

/** How much later than its person an event without one must be to ask for a person of its own. */
const FORCE_UPGRADE_MS = 60_000

/** What became of an event. */
export interface PersonOutcome {
  /** The person after the event: the living object, to be read before the next event. Null: nobody, or not read. */
  readonly person: PersonState | null
  readonly personMode: PersonMode
  /** What is stored as `$group_0` to `$group_4`; see `setGroupProperties`. */
  readonly groupKeys: readonly GroupKey[]
  readonly warnings: readonly IngestionWarning[]
}

/** Events with rules of their own. `$`-names are most of the traffic, these are few of them. */
const SPECIAL_NAMES: ReadonlySet<string> = new Set([
  ...['$identify', '$create_alias', '$merge_dangerously', '$groupidentify'],
  ...['$exception', '$$heatmap'],
])
const NO_WARNINGS: readonly IngestionWarning[] = Object.freeze([])
const NO_GROUP_KEYS: readonly GroupKey[] = Object.freeze([])
const NOBODY: PersonOutcome = Object.freeze({
  person: null,
  personMode: 'propertyless',
  groupKeys: NO_GROUP_KEYS,
  warnings: NO_WARNINGS,
})
/** Of an event whose person was not read. */
const NOT_READ: PersonOutcome = Object.freeze({ ...NOBODY, personMode: 'full' })

/** One event on its way through the rules. */
interface Step {
  readonly event: PersonEvent
  /** Bytes of the event's JSON: a bound for what it can add to a person. */
  readonly eventBytes: number
  readonly world: PersonWorld
  readonly context: PersonContext
  readonly warnings: IngestionWarning[]
}

/**
 * Applies one event. `eventBytes` are the bytes of its JSON as it was accepted (an upper bound will do).
 * Throws only what the world throws; what it reads of persons is read before any of them is changed.
 * About 1.5 us for an ordinary event, two thirds of parsing it; 4 us more for one that makes a person.
 */
export function applyEvent(
  event: PersonEvent,
  eventBytes: number,
  world: PersonWorld,
  context: PersonContext,
): PersonOutcome {
  const { properties } = event
  if (event.isPersonless) return applyPersonless(event, world.senderOf(event), world)
  const groupKeys =
    properties['$groups'] === undefined ? NO_GROUP_KEYS : groupKeysOf(properties, world, context)
  const isUsual = !isSpecial(event.name)
  const { propertiesBytesMax } = context
  const mayStayUnread = isUsual && context.isHistorical !== true
  if (mayStayUnread && world.updateUnread?.(event, eventBytes, propertiesBytesMax)) {
    return groupKeys.length === 0
      ? NOT_READ
      : { person: null, personMode: 'full', groupKeys, warnings: NO_WARNINGS }
  }
  const person = world.senderOf(event)
  if (person !== null && isUsual) {
    // The usual event, without a detour.
    const isFitting = updatePerson(person, event, eventBytes, world, context, false)
    const warnings = isFitting ? NO_WARNINGS : [sizeWarning(event, person, context)]
    return { person, personMode: 'full', groupKeys, warnings }
  }
  const step: Step = { event, eventBytes, world, context, warnings: [] }
  const resulting = applyByName(step, person)
  return { person: resulting, personMode: 'full', groupKeys, warnings: step.warnings }
}

function isSpecial(eventName: string): boolean {
  return eventName.charCodeAt(0) === 0x24 && SPECIAL_NAMES.has(eventName)
}

/**
 * The uuid that an event is stored with: that of its person or, without one, the one that a person made
 * from its distinct_id would have. About 2 us in the second case.
 */
export function personIdOf(
  outcome: PersonOutcome,
  event: PersonEvent,
  context: PersonContext,
): string {
  return outcome.person?.uuid ?? personUuid(context.projectId, event.distinctId)
}

function applyPersonless(
  event: PersonEvent,
  person: PersonState | null,
  world: PersonWorld,
): PersonOutcome {
  if (person === null) {
    world.notePersonless(event.distinctId)
    return NOBODY
  }
  const isLater = event.timestampMs > person.createdAtMs + FORCE_UPGRADE_MS
  const personMode = isLater ? 'force_upgrade' : 'propertyless'
  return { person, personMode, groupKeys: NO_GROUP_KEYS, warnings: NO_WARNINGS }
}

function applyByName(step: Step, person: PersonState | null): PersonState {
  const { event, eventBytes, world, context, warnings } = step
  if (event.name === '$groupidentify') {
    const { properties, timestampMs } = event
    if (identifyGroup(properties, timestampMs, eventBytes, world, context) === 'refused') {
      const bytesMax = context.propertiesBytesMax
      const details = { event: event.name, distinct_id: event.distinctId, bytes_max: bytesMax }
      warnings.push({ type: 'message_size_too_large', details })
    }
    return person ?? createPerson(step, event.distinctId, false)
  }
  const otherId = otherIdOf(event.name, event.properties)
  if (otherId !== null && otherId !== event.distinctId && areLegal(step, otherId)) {
    return mergePersons(step, person, otherId)
  }
  if (person === null) return createPerson(step, event.distinctId, false)
  // Errors are many and say little about people: they never touch a person who is known.
  if (event.name === '$exception' || event.name === '$$heatmap') return person
  applyUpdates(step, person, false)
  return person
}

function areLegal(step: Step, otherId: string): boolean {
  const { name, distinctId } = step.event
  const isOwnIllegal = isIllegalId(distinctId)
  if (!isOwnIllegal && !isIllegalId(otherId)) return true
  const illegal = isOwnIllegal ? distinctId : otherId
  const other = isOwnIllegal ? otherId : distinctId
  step.warnings.push({
    type: 'cannot_merge_with_illegal_distinct_id',
    details: { event: name, illegal_distinct_id: illegal, other_distinct_id: other },
  })
  return false
}

/** Two different, legal ids. `target` is the person of the event's distinct_id: it survives, whatever its age. */
function mergePersons(step: Step, target: PersonState | null, otherId: string): PersonState {
  const { event, world } = step
  const source = world.personOf(otherId)
  if (target === null && source === null) {
    const isOtherOlder =
      world.wasUsedPersonless(otherId) && !world.wasUsedPersonless(event.distinctId)
    const person = createPerson(step, isOtherOlder ? otherId : event.distinctId, true)
    world.addDistinctId(person, otherId)
    return person
  }
  if (target === null) {
    // Wanted as it is: whoever already is identified gains the new id all the same.
    if (source !== null) world.addDistinctId(source, event.distinctId)
  } else if (source === null) {
    world.addDistinctId(target, otherId)
  } else if (source.number !== target.number) {
    if (!source.isIdentified || event.name === '$merge_dangerously') {
      absorbPerson(step, target, source)
      return target
    }
    step.warnings.push({
      type: 'cannot_merge_already_identified',
      details: {
        event: event.name,
        source_distinct_id: otherId,
        target_distinct_id: event.distinctId,
      },
    })
  }
  const person = target ?? source
  if (person === null) throw new TypeError('a merge has no person')
  applyUpdates(step, person, true)
  return person
}

/** `source` becomes part of `target`, together with the event's own updates: one change, one version. */
function absorbPerson(step: Step, target: PersonState, source: PersonState): void {
  const { event, eventBytes, world, context, warnings } = step
  const { propertiesBytesMax } = context
  // First, because it may fail while it reads.
  world.merge(target, source)
  const isHistorical = context.isHistorical === true
  // What live events have said stays, on whichever side it is.
  const isSourceStronger = isHistorical && target.isImported && !source.isImported
  const [stronger, weaker] = isSourceStronger ? [source, target] : [target, source]
  const merged = mergeProperties(stronger.properties, weaker.properties, propertiesBytesMax)
  if (merged === null) warnings.push(sizeWarning(event, target, context))
  else target.properties = merged
  if (source.createdAtMs < target.createdAtMs) target.createdAtMs = source.createdAtMs
  target.isImported = isHistorical && target.isImported && source.isImported
  const result = updateTable(target, event, eventBytes, context)
  takeEarlierTime(target, event, context)
  if (result === 'refused') warnings.push(sizeWarning(event, target, context))
  target.isIdentified = true
  target.version = Math.max(target.version, source.version) + 1
  world.update(target)
}

function createPerson(step: Step, seedId: string, isIdentified: boolean): PersonState {
  const { event, eventBytes, world, context } = step
  const properties = new PropertyTable()
  const isFitting =
    event.name === '$groupidentify' ||
    updateProperties(
      properties,
      event.properties,
      eventBytes,
      context.propertiesBytesMax,
      event.automatic,
    ) !== 'refused'
  const number = world.nextPersonNumber()
  let uuid = personUuid(context.projectId, seedId)
  if (world.isUuidTaken(uuid, seedId)) uuid = laterPersonUuid(context.projectId, seedId, number)
  const isImported = context.isHistorical === true
  const { timestampMs } = event
  const person = personState(
    number,
    uuid,
    timestampMs,
    properties,
    isIdentified,
    0,
    number,
    isImported,
  )
  world.create(person, event.distinctId)
  if (!isFitting) step.warnings.push(sizeWarning(event, person, context))
  return person
}

function applyUpdates(step: Step, person: PersonState, becomesIdentified: boolean): void {
  const { event, eventBytes, world, context, warnings } = step
  if (updatePerson(person, event, eventBytes, world, context, becomesIdentified)) return
  warnings.push(sizeWarning(event, person, context))
}

/** False when the properties would have become too large: they are as they were. */
function updatePerson(
  person: PersonState,
  event: PersonEvent,
  eventBytes: number,
  world: PersonWorld,
  context: PersonContext,
  becomesIdentified: boolean,
): boolean {
  const result = updateTable(person, event, eventBytes, context)
  const isNewlyIdentified = becomesIdentified && !person.isIdentified
  const isMovedBack = takeEarlierTime(person, event, context)
  const isNewlyLive = person.isImported && context.isHistorical !== true
  if (isNewlyLive) person.isImported = false
  if (result === 'changed' || isNewlyIdentified || isMovedBack) {
    if (isNewlyIdentified) person.isIdentified = true
    person.version++
    world.update(person)
  } else if (isNewlyLive) world.update(person)
  return result !== 'refused'
}

/** Applies the updates of an event, or only what they add when live events have made the person what it is. */
function updateTable(
  person: PersonState,
  event: PersonEvent,
  eventBytes: number,
  context: PersonContext,
): UpdateResult {
  const bytesMax = context.propertiesBytesMax
  const { automatic, properties } = event
  const table = person.properties
  if (context.isHistorical !== true) {
    return updateProperties(table, properties, eventBytes, bytesMax, automatic)
  }
  const isEarlier = event.timestampMs < person.createdAtMs
  if (!person.isImported) {
    return fillProperties(table, properties, eventBytes, bytesMax, { automatic, isEarlier })
  }
  const result = updateProperties(table, properties, eventBytes, bytesMax, automatic)
  if (!isEarlier || result === 'refused') return result
  const first = fillProperties(table, properties, eventBytes, bytesMax, { automatic, isEarlier })
  return first === 'changed' ? first : result
}

/** Moves the beginning of a person back to an event of the past. */
function takeEarlierTime(
  person: PersonState,
  { timestampMs }: PersonEvent,
  { isHistorical }: PersonContext,
): boolean {
  if (isHistorical !== true || timestampMs >= person.createdAtMs) return false
  person.createdAtMs = timestampMs
  return true
}

function sizeWarning(
  event: PersonEvent,
  person: PersonState,
  context: PersonContext,
): IngestionWarning {
  const { name, distinctId } = event
  const bytesMax = context.propertiesBytesMax
  return {
    type: 'person_properties_size_violation',
    details: { event: name, distinct_id: distinctId, person_id: person.uuid, bytes_max: bytesMax },
  }
}
