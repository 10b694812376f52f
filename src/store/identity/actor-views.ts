/**
 * Writes the persons and groups of an analytic result as the API shows them, read from the snapshot of the reader. The
 * result is finished JSON as bytes. Bytes are copied to the main thread and sent faster than objects. The text of a
 * person is cached until the person changes.
 */
import { DISTINCT_IDS_SHOWN_MAX } from '../../base/limits.ts'
import type { RowFormat } from '../../base/pages.ts'
import { RowsWriter } from '../../base/rows-writer.ts'
import type { ActorPage, GroupActor, PersonActor } from '../../rules/analytics/analytic-query.ts'
import type { AnalyticAnswer } from '../../rules/analytics/analytics.ts'
import { withWireTimes } from '../../rules/persons/person-answer.ts'
import { countOfIds } from '../../rules/persons/person-views.ts'
import { ACTOR_TEXT_UNITS_MAX, ACTOR_TEXTS_MAX } from './limits.ts'
import type { PersonReader } from './person-reader.ts'
import { INLINE_IDS_MAX, type PersonRecord } from './person-records.ts'

/**
 * The cached text of a person, and the record from which it was made. The text lacks its last member, whose value
 * depends on the query.
 */
interface KnownText {
  /** The position in the log at which the cached text was last found to be current. */
  position: number
  readonly record: PersonRecord
  readonly text: string
}

/** Writes results for one reader. */
export class ActorTexts {
  readonly #persons: PersonReader
  /** The cached texts, by project and person number. */
  readonly #known = new Map<string, KnownText>()

  constructor(persons: PersonReader) {
    this.#persons = persons
  }

  /**
   * Returns the persons and groups of a page as JSON. Persons that no longer exist are left out, and their number is
   * part of the result. `position` is the position in the log that the snapshot of the reader has reached. It takes
   * about 20 us for each person whose text is not cached.
   */
  answerOf(
    page: ActorPage,
    projectId: number,
    position: number,
    format: RowFormat,
  ): AnalyticAnswer {
    const writer = new RowsWriter(format)
    let placeCount = 0
    for (const [index, actor] of page.actors.entries()) {
      const text =
        actor.kind === 'person'
          ? this.#personText(actor, projectId, position)
          : this.#groupText(actor, projectId)
      const appearances = page.appearances?.[index]
      const isAdded =
        text === null ||
        writer.addText(
          appearances === undefined
            ? text
            : `{"person":${text},"appearances":[${appearances.join(',')}]}`,
        )
      if (!isAdded) break
      placeCount++
    }
    const { rows, rowCount: count, isCut } = writer.finish()
    return {
      rows,
      count,
      total: page.total,
      totals: page.totals ?? null,
      isFull: page.isFull || isCut,
      cutAfter: isCut ? placeCount : null,
      missingPersons: placeCount - count,
    }
  }

  #personText({ person, value }: PersonActor, projectId: number, position: number): string | null {
    const name = `${projectId} ${person}`
    const known = this.#known.get(name)
    if (known?.position === position) return `${known.text}${String(value)}}`
    const record = this.#persons.actorRecord(projectId, person)
    if (record === null) {
      this.#known.delete(name)
      return null
    }
    if (known !== undefined && isSamePerson(known.record, record)) {
      known.position = position
      return `${known.text}${String(value)}}`
    }
    const text = this.#openText(projectId, record)
    this.#keep(name, { position, record, text })
    return `${text}${String(value)}}`
  }

  /**
   * Returns the JSON text of a person up to its last member. The caller adds that member, because its value depends on
   * the query.
   */
  #openText(projectId: number, record: PersonRecord): string {
    const view = this.#persons.actor(projectId, record)
    const text = JSON.stringify(
      withWireTimes({
        type: 'person',
        id: view.uuid,
        uuid: view.uuid,
        created_at: view.created_at,
        properties: view.properties,
        is_identified: view.is_identified,
        name: view.name,
        distinct_ids: view.distinct_ids,
        ...countOfIds(record.idCount, DISTINCT_IDS_SHOWN_MAX),
        matched_recordings: [],
      }),
    )
    return `${text.slice(0, -1)},"value_at_data_point":`
  }

  #keep(name: string, known: KnownText): void {
    const isKept =
      known.text.length <= ACTOR_TEXT_UNITS_MAX && known.record.idCount <= INLINE_IDS_MAX
    this.#known.delete(name)
    if (!isKept) return
    this.#known.set(name, known)
    if (this.#known.size <= ACTOR_TEXTS_MAX) return
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest)
      break
    }
  }

  #groupText({ typeIndex, key, value }: GroupActor, projectId: number): string {
    const group = this.#persons.group(projectId, typeIndex, key)
    return JSON.stringify(
      withWireTimes({
        type: 'group',
        id: key,
        group_key: key,
        group_type_index: typeIndex,
        created_at: group?.created_at ?? null,
        properties: group?.group_properties ?? {},
        matched_recordings: [],
        value_at_data_point: value,
      }),
    )
  }
}

/**
 * Returns whether two records of one person give the same text. Call it only for a person whose ids are all in the
 * record itself, because other ids are not compared.
 */
function isSamePerson(a: PersonRecord, b: PersonRecord): boolean {
  return (
    a.uuid === b.uuid &&
    a.version === b.version &&
    a.isIdentified === b.isIdentified &&
    a.createdAtMs === b.createdAtMs &&
    a.idCount === b.idCount &&
    a.firstIds.every((distinctId, index) => distinctId === b.firstIds[index]) &&
    a.json === b.json &&
    a.changesJson === b.changesJson &&
    a.deltas === b.deltas
  )
}
