/**
 * Carries out the commands of the API and of the command line. The log contains commands between the events, and both
 * change persons in the order of the log. The effects of a command depend only on its record and on the stored state,
 * so a replay of the log repeats them exactly.
 */
import { createHash } from 'node:crypto'
import { formatUuid } from '../../base/ids.ts'
import { given, type JsonObject } from '../../base/json.ts'
import { DISTINCT_IDS_SHOWN_MAX } from '../../base/limits.ts'
import { timeText } from '../../base/time.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { NormalizedEvent } from '../../rules/capture/types.ts'
import { newJob } from '../../rules/events/erasure-job.ts'
import { type FilterGroup, refersToCohort } from '../../rules/filters/filter-group.ts'
import { applyEvent } from '../../rules/persons/apply-event.ts'
import {
  areMembersStored,
  type CohortDraft,
  type CohortRecord,
  calculationAfter,
  calculationOfRule,
  cohortView,
  isCalculated,
} from '../../rules/persons/cohort-shapes.ts'
import type { CommandResult, PersonCommand } from '../../rules/persons/commands.ts'
import { identifyGroup } from '../../rules/persons/group-rules.ts'
import { isIllegalId } from '../../rules/persons/joined-ids.ts'
import type { LoggedCommand } from '../../rules/persons/logged-command.ts'
import type {
  ActivityView,
  PersonReference,
  PersonView,
} from '../../rules/persons/person-queries.ts'
import {
  type PersonContext,
  type PersonState,
  personState,
} from '../../rules/persons/person-repository.ts'
import { countOfIds, groupView, personView } from '../../rules/persons/person-views.ts'
import { PropertyTable } from '../../rules/persons/property-table.ts'
import type { ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import { runActionCommand } from './action-commands.ts'
import { orderForPerson, runErasureCommand } from './erasure-commands.ts'

/** The data with which one command is carried out. */
interface Step {
  readonly persons: ReturnType<ProcessingWriter['persons']>
  readonly projectId: number
  readonly actor: Actor
  readonly atMs: number
  /**
   * The uuid of the command's record. An event that the command stores has the same uuid. Other uuids that the command
   * needs are derived from it.
   */
  readonly uuid: Uint8Array
}

type Of<Kind extends PersonCommand['kind']> = Extract<PersonCommand, { readonly kind: Kind }>

const NO_MEMBERS = { kind: 'no_members' } as const
const NOT_FOUND: CommandResult = { kind: 'not_found' }
const CIRCLE: CommandResult = { kind: 'circle' }

/** Carries out commands on the processing thread. */
export class CommandRunner {
  readonly #store: ProcessingWriter
  readonly #propertiesBytesMax: number

  constructor(store: ProcessingWriter, propertiesBytesMax: number) {
    this.#store = store
    this.#propertiesBytesMax = propertiesBytesMax
  }

  /** Carries out one command. The next commit stores its changes. `uuid` has 16 bytes. */
  run(projectId: number, logged: LoggedCommand, uuid: Uint8Array): CommandResult {
    const { actor, at: atMs, command } = logged
    const persons = this.#store.persons(projectId)
    const step: Step = { persons, projectId, actor, atMs, uuid }
    switch (command.kind) {
      case 'set_properties':
        return this.#setProperties(step, command)
      case 'delete_property':
        return this.#deleteProperty(step, command)
      case 'delete_person':
        return this.#deletePerson(step, command)
      case 'split_person':
        return this.#splitPerson(step, command)
      case 'merge_persons':
        return this.#mergePersons(step, command)
      case 'set_group_properties':
        return this.#setGroupProperties(step, command)
      case 'describe_group_types':
        return describeGroupTypes(step, command)
      case 'delete_group_type':
        return this.#deleteGroupType(step, command)
      case 'create_cohort':
        return createCohort(step, command)
      case 'update_cohort':
        return updateCohort(step, command)
      case 'count_cohort':
        return countCohort(step, command)
      case 'set_cohort_members':
        return setCohortMembers(step, command)
      case 'create_action':
      case 'update_action':
        return runActionCommand(step, command)
      case 'erase_events':
      case 'finish_erasure':
      case 'set_retention':
      case 'run_retention':
        return runErasureCommand(
          { persons, actor, atMs, lastSequence: this.#store.warehouse.lastSequence(projectId) },
          command,
        )
      case 'set_flag_overrides':
        return setFlagOverrides(step, command)
    }
  }

  #setProperties(step: Step, command: Of<'set_properties'>): CommandResult {
    const person = find(step, command.person)
    if (person === null) return NOT_FOUND
    const isFitting = this.#apply(step, person, '$set', { $set: command.set })
    if (!isFitting) return { kind: 'too_large', bytesMax: this.#propertiesBytesMax }
    const change = { type: 'Person', action: 'changed', field: 'properties' }
    const changes = [{ ...change, before: null, after: null }]
    note(step, person, 'updated', changes, null)
    return done(step, person)
  }

  #deleteProperty(step: Step, command: Of<'delete_property'>): CommandResult {
    const person = find(step, command.person)
    if (person === null) return NOT_FOUND
    this.#apply(step, person, '$delete_person_property', { $unset: [command.key] })
    note(step, person, 'delete_property', null, person.uuid)
    return done(step, person)
  }

  #deletePerson(step: Step, command: Of<'delete_person'>): CommandResult {
    const { persons, atMs, actor, projectId } = step
    const person = find(step, command.person)
    if (person === null) return NOT_FOUND
    const sequence = this.#store.warehouse.lastSequence(projectId)
    const ids = persons.idsOf(person)
    const spans = ids.map((id) => [id, persons.owners.sinceOf(id), sequence] as const)
    persons.addSeparation({
      kind: 'deleted',
      sequence,
      atMs,
      ids,
      keptId: 0,
      keepsProperties: false,
    })
    persons.deletePerson(person, sequence, atMs)
    note(step, person, 'deleted', null, person.uuid)
    if (command.deletesEvents) {
      const order = orderForPerson(
        { persons, actor, atMs, lastSequence: sequence },
        person.uuid,
        spans,
      )
      persons.addJob(newJob(order))
    }
    return { kind: 'done' }
  }

  #splitPerson(step: Step, command: Of<'split_person'>): CommandResult {
    const { persons, atMs, uuid, projectId } = step
    const person = find(step, command.person)
    if (person === null) return NOT_FOUND
    const ids = persons.idsOf(person)
    const texts = ids.map((id) => persons.ids.textOf(id))
    const main = command.mainDistinctId
    const keptIndex = main === null ? 0 : texts.indexOf(main)
    const keptId = ids[keptIndex]
    if (keptId === undefined) return { kind: 'unknown_distinct_id' }
    const keepsProperties = main !== null
    const sequence = this.#store.warehouse.lastSequence(projectId)
    if (ids.length > 1) persons.keepOnly(person, keptId)
    for (const [index, id] of ids.entries()) {
      if (index === keptIndex) continue
      const number = persons.nextPersonNumber()
      const table = new PropertyTable()
      persons.separate(personState(number, splitUuid(uuid, index), atMs, table, false, 0), id)
    }
    const names = keepsProperties ? [] : [...person.properties.entries()].map(([name]) => name)
    for (const name of names) person.properties.remove(name)
    if (ids.length > 1 || names.length > 0) {
      person.version++
      persons.update(person)
      persons.addSeparation({ kind: 'split', sequence, atMs, ids, keptId, keepsProperties })
    }
    const change = { type: 'Person', action: 'split', field: null, before: null }
    const after = {
      distinct_ids: texts.slice(0, DISTINCT_IDS_SHOWN_MAX),
      ...countOfIds(texts.length, DISTINCT_IDS_SHOWN_MAX),
    }
    const changes = [{ ...change, after }]
    note(step, person, 'split_person', changes, person.uuid)
    return done(step, person)
  }

  #mergePersons(step: Step, command: Of<'merge_persons'>): CommandResult {
    const into = find(step, command.into)
    const from = find(step, command.from)
    if (into === null || from === null) return NOT_FOUND
    if (into.number === from.number) return done(step, into)
    const alias = mergeableId(step, from)
    this.#apply(step, into, '$merge_dangerously', { alias }, mergeableId(step, into))
    return done(step, into)
  }

  #setGroupProperties(step: Step, command: Of<'set_group_properties'>): CommandResult {
    const { persons, atMs } = step
    const { typeIndex, key, set } = command
    const type = persons.groupTypes()[typeIndex]
    const group = persons.group(typeIndex, key)
    if (type === undefined || type === '' || group === null) return NOT_FOUND
    const properties = { $group_type: type, $group_key: key, $group_set: set }
    const context = this.#context(step)
    const result = identifyGroup(properties, atMs, bytesOf(properties), persons, context)
    if (result === 'refused') return { kind: 'too_large', bytesMax: this.#propertiesBytesMax }
    return { kind: 'done', group: groupView(group, group.properties.toObject()) }
  }

  #deleteGroupType(
    { persons, projectId }: Step,
    { typeIndex }: Of<'delete_group_type'>,
  ): CommandResult {
    if (!hasGroupType(persons, typeIndex)) return NOT_FOUND
    persons.deleteGroupType(typeIndex, this.#store.warehouse.lastSequence(projectId))
    return { kind: 'done' }
  }

  /**
   * Makes an event named `name` with the person's first distinct_id (or `givenId`), applies it to the person, and
   * stores it. If a `$set` event would make the person too large, returns false and stores nothing.
   */
  #apply(
    step: Step,
    person: PersonState,
    name: string,
    properties: JsonObject,
    givenId?: string,
  ): boolean {
    const { projectId, atMs, uuid } = step
    const distinctId = givenId ?? firstTexts(step, person, 1)[0] ?? ''
    const event: NormalizedEvent = {
      name,
      distinctId,
      timestampMs: atMs,
      properties,
      elementsChain: '',
      isPersonless: false,
    }
    const identity = { projectId, event, uuidBytes: uuid, uuidOffset: 0, hasClientUuid: false }
    const admission = this.#store.admit(identity)
    if (admission === null) throw new TypeError('an event of a command is no duplicate')
    const persons = this.#store.persons(projectId, event, admission)
    const outcome = applyEvent(event, bytesOf(properties), persons, this.#context(step))
    const isRefused = outcome.warnings.some(
      ({ type }) => type === 'person_properties_size_violation',
    )
    if (isRefused && name === '$set') return false
    this.#store.append(identity, admission, atMs, 'full', false, 0)
    return true
  }

  #context({ projectId, atMs }: Step): PersonContext {
    return { projectId, arrivedAtMs: atMs, propertiesBytesMax: this.#propertiesBytesMax }
  }
}

function hasGroupType(persons: Step['persons'], typeIndex: number): boolean {
  return (persons.groupTypes()[typeIndex] ?? '') !== ''
}

function describeGroupTypes(
  { persons }: Step,
  { types }: Of<'describe_group_types'>,
): CommandResult {
  if (!types.every(({ typeIndex }) => hasGroupType(persons, typeIndex))) return NOT_FOUND
  for (const { typeIndex, ...facts } of types) persons.describeGroupType(typeIndex, facts)
  return { kind: 'done' }
}

function find({ persons }: Step, person: PersonReference): PersonState | null {
  return typeof person === 'number' ? persons.personById(person) : persons.personByUuid(person)
}

/**
 * Returns the first distinct_id of a person that is allowed in a merge. If there is none, returns the first of all.
 */
function mergeableId({ persons }: Step, person: PersonState): string {
  let first: string | null = null
  for (const id of persons.idsInOrder(person)) {
    const text = persons.ids.textOf(id)
    if (!isIllegalId(text)) return text
    first ??= text
  }
  return first ?? ''
}

function done(step: Step, person: PersonState): CommandResult {
  return { kind: 'done', person: viewOf(step, person) }
}

/** Returns the first distinct_ids of a person as texts, at most `idsMax`. */
function firstTexts({ persons }: Step, person: PersonState, idsMax: number): readonly string[] {
  const texts: string[] = []
  for (const id of persons.idsInOrder(person)) {
    texts.push(persons.ids.textOf(id))
    if (texts.length >= idsMax) break
  }
  return texts
}

function viewOf(step: Step, person: PersonState): PersonView {
  const distinctIds = firstTexts(step, person, DISTINCT_IDS_SHOWN_MAX)
  const properties = person.properties.toObject()
  const { id, uuid, createdAtMs, isIdentified } = person
  const facts = {
    id,
    uuid,
    createdAtMs,
    isIdentified,
    properties,
    distinctIds,
    idCount: step.persons.idCountOf(person),
  }
  return personView(facts, true, DISTINCT_IDS_SHOWN_MAX)
}

function note(
  { persons, actor, atMs }: Step,
  person: PersonState,
  activity: ActivityView['activity'],
  changes: readonly unknown[] | null,
  name: string | null,
): void {
  persons.addActivity(person.id, {
    user: { first_name: actor.firstName, email: actor.email },
    activity,
    scope: 'Person',
    item_id: String(person.id),
    detail: { changes, name, short_id: null, type: null, trigger: null },
    created_at: timeText(atMs),
  })
}

/**
 * Derives a uuid of version 7 from the uuid of the record, so that a replay returns the same one. Both uuids have the
 * same time. The other bytes cannot be guessed.
 */
function splitUuid(uuid: Uint8Array, index: number): string {
  const bytes = createHash('sha256').update(uuid).update(String(index)).digest()
  bytes.set(uuid.subarray(0, 6))
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  return formatUuid(bytes, 0)
}

function bytesOf(properties: JsonObject): number {
  return Buffer.byteLength(JSON.stringify(properties))
}

/**
 * Stores overrides of flags for the persons of the named distinct_ids. An override keeps the variant of a person the
 * same after login (store/identity/flag-overrides.ts). A distinct_id without a person is ignored.
 */
function setFlagOverrides({ persons }: Step, command: Of<'set_flag_overrides'>): CommandResult {
  const numbers = new Set(command.distinctIds.map((text) => persons.ownerNumber(text)))
  numbers.delete(0)
  persons.overrides.add([...numbers], command.flagKeys, command.identifier)
  return { kind: 'done' }
}

function createCohort(
  step: Step,
  { cohort: draft, needsMembers = false }: Of<'create_cohort'>,
): CommandResult {
  const { persons, actor, atMs } = step
  const members = namedPersons(step, draft)
  if (needsMembers && members.size === 0) return NO_MEMBERS
  const filters = draft.isStatic ? null : draft.filters
  const cohort: CohortRecord = {
    id: persons.nextCohort(),
    name: draft.name,
    description: draft.description,
    isStatic: draft.isStatic,
    filters,
    isDeleted: false,
    createdAt: timeText(atMs),
    createdBy: { id: actor.userId, first_name: actor.firstName, email: actor.email },
    changedAt: null,
    count: 0,
    ...given({ calculation: calculationOfRule(filters) }),
  }
  putCohort(step, cohort)
  return changedCohort(step, cohort.id, draft, members)
}

function updateCohort(
  step: Step,
  { id, changes, needsMembers = false }: Of<'update_cohort'>,
): CommandResult {
  const { cohorts } = step.persons
  const cohort = cohorts.cohort(id)
  if (cohort === null || cohort.isDeleted) return NOT_FOUND
  const members = namedPersons(step, changes)
  if (needsMembers && members.size === 0) return NO_MEMBERS
  const filters = cohort.isStatic ? null : (changes.filters ?? cohort.filters)
  // Filters are checked only if they have changed. Earlier versions could store a cohort that refers to itself through
  // other cohorts. It must still be possible to rename or delete such a cohort.
  if (filters !== null && filters !== cohort.filters) {
    const treeOf = (other: number) => ruleOf(cohorts.cohort(other))
    if (refersToCohort(filters, id, treeOf)) return CIRCLE
  }
  const isSameRule = JSON.stringify(filters) === JSON.stringify(cohort.filters)
  const calculation = isSameRule
    ? cohort.calculation
    : calculationOfRule(filters, cohort.calculation)
  putCohort(step, {
    ...cohort,
    name: changes.name ?? cohort.name,
    description: changes.description ?? cohort.description,
    filters,
    isDeleted: changes.deleted ?? false,
    ...given({ calculation }),
  })
  return changedCohort(step, id, changes, members)
}

/**
 * Returns the rule of a cohort. Returns null for a deleted cohort: it cannot be restored, so its rule does not matter.
 */
function ruleOf(cohort: CohortRecord | null): FilterGroup | null {
  return cohort === null || cohort.isDeleted ? null : cohort.filters
}

function putCohort({ persons }: Step, cohort: CohortRecord): void {
  persons.cohorts.put(cohort)
  if (areMembersStored(cohort)) persons.storeMembers(cohort.id)
}

function countCohort({ persons }: Step, { id }: Of<'count_cohort'>): CommandResult {
  const { cohorts } = persons
  const cohort = cohorts.cohort(id)
  if (cohort === null || cohort.isDeleted) return NOT_FOUND
  const { calculation } = cohort
  if (calculation !== undefined && isCalculated(cohort)) {
    // The number of requests is stored in the record of the cohort. The cohort schedule notices that the record has
    // changed, and calculates the members.
    const requests = calculation.requests + 1
    cohorts.put({ ...cohort, calculation: { ...calculation, requests } })
  }
  return { kind: 'done', cohort: cohortView(cohorts.cohort(id) ?? cohort, null) }
}

/**
 * Stores changes of the members of a calculated or static cohort. If a person was deleted after the calculation, the
 * distinct ID number that names the person belongs to nobody and is ignored.
 */
function setCohortMembers(
  { persons, atMs }: Step,
  command: Of<'set_cohort_members'>,
): CommandResult {
  const { id, revision, added, removed, end } = command
  const { cohorts, owners } = persons
  const cohort = cohorts.cohort(id)
  if (cohort === null || cohort.isDeleted) return NOT_FOUND
  const { calculation } = cohort
  const isCurrent = revision === null ? cohort.isStatic : calculation?.revision === revision
  if (!isCurrent) return NOT_FOUND
  if (cohort.isStatic) cohorts.put({ ...cohort, changedAt: timeText(atMs) })
  for (const number of removed) cohorts.setMember(id, number, false)
  for (const distinctId of added) {
    const number = owners.ownerOf(distinctId)
    if (number !== 0) cohorts.setMember(id, number, true)
  }
  if (end !== null && calculation !== undefined)
    cohorts.setCalculation(id, calculationAfter(calculation, end))
  return { kind: 'done' }
}

/** Returns the person numbers of the persons named in a change of a cohort. Persons that do not exist are left out. */
function namedPersons(
  { persons }: Step,
  { personUuids = [], distinctIds = [] }: Partial<CohortDraft>,
): ReadonlySet<number> {
  const numbers = new Set(personUuids.map((uuid) => persons.personByUuid(uuid)?.number ?? 0))
  for (const distinctId of distinctIds) numbers.add(persons.ownerNumber(distinctId))
  numbers.delete(0)
  return numbers
}

/** Adds the named persons to a cohort if it is static, and returns the cohort. */
function changedCohort(
  step: Step,
  id: number,
  { personUuids = [], distinctIds = [] }: Partial<CohortDraft>,
  members: ReadonlySet<number>,
): CommandResult {
  const { persons, atMs } = step
  const { cohorts } = persons
  const cohort = cohorts.cohort(id)
  if (cohort === null) return NOT_FOUND
  if (cohort.isStatic && personUuids.length + distinctIds.length > 0) {
    cohorts.put({ ...cohort, changedAt: timeText(atMs) })
    for (const number of members) cohorts.setMember(id, number, true)
  }
  return { kind: 'done', cohort: cohortView(cohorts.cohort(id) ?? cohort, null) }
}
