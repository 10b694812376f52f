/**
 * Applies one event to the persons and groups of its project. The rules run once for each stored event, in the order of
 * arrival, after duplicates were removed. They read and change the project through the port `PersonRepository`. Their
 * decisions depend only on the event, the context and the port, so the same events always produce the same persons.
 * Source: docs/compatibility/persons.md, "Persons" and, for events with `historical_migration`,
 * docs/compatibility/persons.md, "Events of an import".
 *
 * A store behind the port must keep the following data for each project, in the same transaction that moves the
 * position in the log:
 *
 * - Person: for each person number, its uuid, created_at, is_identified, version and properties. The properties are
 *   stored as the text of `PropertyTable.toJson`, so that their exact length is known when they are read again.
 * - Owner: for each distinct ID number, the number of the person that owns it, and the log position since which the
 *   person owns it. An event belongs to the current owner of its distinct_id, unless the event is older than that
 *   position. Then the person of the event was deleted. For a distinct ID number without a person, a flag says whether
 *   personless events have used it.
 * - Ids: for each person number and index, a distinct ID number, in the order of linking. A merge appends the ids of
 *   the other person.
 * - Uuid: for each uuid, a person number, also for persons that were merged or deleted. A uuid is never assigned twice,
 *   and the uuid of a merged or deleted person finds no person.
 * - The person number that was assigned last.
 * - Group types: a list of at most five. A deleted type leaves a gap that a new type fills. Events keep `$group_0` to
 *   `$group_4`.
 * - Group: for each type index and key, created_at and properties. A key may be as long as an event.
 * - With each event: its mode and, in full mode, the version of its person. A version increases by one with every
 *   change, so person number and version identify a state of the properties. After a merge the version is higher than
 *   both versions before.
 *
 * Persons and groups are changed in place. Each object that was passed to `update` is written once, however many events
 * changed it. After a failed transaction, the changed objects must be read again.
 */
import type { IngestionWarning, PersonMode } from '../capture/types.ts'
import { type GroupKey, groupKeysOf, identifyGroup } from './group-rules.ts'
import { isIllegalId, otherIdOf } from './joined-ids.ts'
import {
  type PersonContext,
  type PersonEvent,
  type PersonRepository,
  type PersonState,
  personState,
} from './person-repository.ts'
import { laterPersonUuid, personUuid } from './person-uuid.ts'
import { PropertyTable } from './property-table.ts'
import {
  fillProperties,
  mergeProperties,
  type UpdateResult,
  updateProperties,
} from './property-updates.ts'

/**
 * A personless event gets the mode `force_upgrade` if its time is more than this number of milliseconds after the
 * creation of the person that owns its distinct_id.
 */
const FORCE_UPGRADE_MS = 60_000

/** The outcome of an event. */
export interface PersonOutcome {
  /**
   * The person after the event. This is the object that later events change, so read it before the next event. Null if
   * there is no person, or if the person was not read.
   */
  readonly person: PersonState | null
  readonly personMode: PersonMode
  /** The keys that are stored as `$group_0` to `$group_4`; see `setGroupProperties`. */
  readonly groupKeys: readonly GroupKey[]
  readonly warnings: readonly IngestionWarning[]
}

/**
 * The names of events that have rules of their own. A check for `$` at the beginning of the name is not enough, because
 * most other names begin with `$` too.
 */
const SPECIAL_NAMES: ReadonlySet<string> = new Set([
  '$identify',
  '$create_alias',
  '$merge_dangerously',
  '$groupidentify',
  '$exception',
  '$$heatmap',
])
const NO_WARNINGS: readonly IngestionWarning[] = Object.freeze([])
const NO_GROUP_KEYS: readonly GroupKey[] = Object.freeze([])
const NOBODY: PersonOutcome = Object.freeze({
  person: null,
  personMode: 'propertyless',
  groupKeys: NO_GROUP_KEYS,
  warnings: NO_WARNINGS,
})
/** The outcome of an event whose person was not read. */
const NOT_READ: PersonOutcome = Object.freeze({ ...NOBODY, personMode: 'full' })

/** An event and everything that is needed while the rules are applied to it. */
interface Step {
  readonly event: PersonEvent
  /** The number of bytes of the event's JSON, which limits what the event can add to a person. */
  readonly eventBytes: number
  readonly repository: PersonRepository
  readonly context: PersonContext
  readonly warnings: IngestionWarning[]
}

/**
 * Applies one event. `eventBytes` is the number of bytes of its JSON as it was accepted, or an upper bound. It throws
 * only the errors of the repository. All persons are read before any of them is changed. An ordinary event takes about
 * 1.5 us, which is two thirds of the time to parse it. An event that creates a person takes 4 us more.
 */
export function applyEvent(
  event: PersonEvent,
  eventBytes: number,
  repository: PersonRepository,
  context: PersonContext,
): PersonOutcome {
  const { properties } = event
  if (event.isPersonless) return applyPersonless(event, repository.senderOf(event), repository)
  const groupKeys =
    properties['$groups'] === undefined
      ? NO_GROUP_KEYS
      : groupKeysOf(properties, repository, context)
  const isUsual = !isSpecial(event.name)
  const { propertiesBytesMax } = context
  const mayStayUnread = isUsual && context.isHistorical !== true
  if (mayStayUnread && repository.updateUnread?.(event, eventBytes, propertiesBytesMax)) {
    return groupKeys.length === 0
      ? NOT_READ
      : { person: null, personMode: 'full', groupKeys, warnings: NO_WARNINGS }
  }
  const person = repository.senderOf(event)
  if (person !== null && isUsual) {
    // Most events only update the properties of a person that exists, so they take this shorter way.
    const isFitting = updatePerson(person, event, eventBytes, repository, context, false)
    const warnings = isFitting ? NO_WARNINGS : [sizeWarning(event, person, context)]
    return { person, personMode: 'full', groupKeys, warnings }
  }
  const step: Step = { event, eventBytes, repository, context, warnings: [] }
  const resulting = applyByName(step, person)
  return { person: resulting, personMode: 'full', groupKeys, warnings: step.warnings }
}

function isSpecial(eventName: string): boolean {
  return eventName.charCodeAt(0) === 0x24 && SPECIAL_NAMES.has(eventName)
}

/**
 * Returns the person uuid that an event is stored with: the uuid of its person or, without a person, the uuid that a
 * person created from its distinct_id would have. The second case takes about 2 us.
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
  repository: PersonRepository,
): PersonOutcome {
  if (person === null) {
    repository.notePersonless(event.distinctId)
    return NOBODY
  }
  const isLater = event.timestampMs > person.createdAtMs + FORCE_UPGRADE_MS
  const personMode = isLater ? 'force_upgrade' : 'propertyless'
  return { person, personMode, groupKeys: NO_GROUP_KEYS, warnings: NO_WARNINGS }
}

function applyByName(step: Step, person: PersonState | null): PersonState {
  const { event, eventBytes, repository, context, warnings } = step
  if (event.name === '$groupidentify') {
    const { properties, timestampMs } = event
    if (identifyGroup(properties, timestampMs, eventBytes, repository, context) === 'refused') {
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
  // Errors and heatmaps are frequent and say little about people, so they never change an existing person.
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

/**
 * Merges the persons of two different ids. The caller has checked that both ids may be merged (joined-ids.ts). `target`
 * is the person of the event's distinct_id. It is the person that remains, even if it is the younger one.
 */
function mergePersons(step: Step, target: PersonState | null, otherId: string): PersonState {
  const { event, repository } = step
  const source = repository.personOf(otherId)
  if (target === null && source === null) {
    const isOtherOlder =
      repository.wasUsedPersonless(otherId) && !repository.wasUsedPersonless(event.distinctId)
    const person = createPerson(step, isOtherOlder ? otherId : event.distinctId, true)
    repository.addDistinctId(person, otherId)
    return person
  }
  if (target === null) {
    // Nothing is merged here: the distinct_id of the event has no person yet. So it does not matter whether the other
    // person is already identified.
    if (source !== null) repository.addDistinctId(source, event.distinctId)
  } else if (source === null) {
    repository.addDistinctId(target, otherId)
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

/**
 * Merges `source` into `target` and applies the event's own updates. Both together are one change and raise the version
 * once.
 */
function absorbPerson(step: Step, target: PersonState, source: PersonState): void {
  const { event, eventBytes, repository, context, warnings } = step
  const { propertiesBytesMax } = context
  // The merge comes first, because it may fail while it reads.
  repository.merge(target, source)
  const isHistorical = context.isHistorical === true
  // During an import, `target` may have been changed by imported events only, and `source` also by live events. Then
  // the values of `source` take precedence.
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
  repository.update(target)
}

function createPerson(step: Step, seedId: string, isIdentified: boolean): PersonState {
  const { event, eventBytes, repository, context } = step
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
  const number = repository.nextPersonNumber()
  let uuid = personUuid(context.projectId, seedId)
  if (repository.isUuidTaken(uuid, seedId))
    uuid = laterPersonUuid(context.projectId, seedId, number)
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
  repository.create(person, event.distinctId)
  if (!isFitting) step.warnings.push(sizeWarning(event, person, context))
  return person
}

function applyUpdates(step: Step, person: PersonState, becomesIdentified: boolean): void {
  const { event, eventBytes, repository, context, warnings } = step
  if (updatePerson(person, event, eventBytes, repository, context, becomesIdentified)) return
  warnings.push(sizeWarning(event, person, context))
}

/** Updates the properties of a person. Returns false if they would become too large; they are then unchanged. */
function updatePerson(
  person: PersonState,
  event: PersonEvent,
  eventBytes: number,
  repository: PersonRepository,
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
    repository.update(person)
  } else if (isNewlyLive) repository.update(person)
  return result !== 'refused'
}

/**
 * Applies the updates of an event. If live events have changed the person, an imported event only adds missing
 * properties.
 */
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

/** Sets the creation time of a person to the time of an imported event, if the event is older than the person. */
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
