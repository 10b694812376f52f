/**
 * How long projects keep their events. Table `retention_rules`: project u32 -> JSON of `RetentionRules`,
 * sealed; a project without a record keeps everything.
 */
import { NO_RETENTION, type RetentionRules } from '../../../rules/events/erasure.ts'
import type { Table } from '../../lmdb/environment.ts'
import { numberInKey, numberKey } from '../../lmdb/keys.ts'
import { getJson, parseRecord, putJson } from '../../lmdb/records.ts'

const RULES = 'retention_rules'

/** The rules of one project in the processing thread. */
export class ProjectRetention {
  readonly #projectId: number
  readonly #table: Table
  #changed: RetentionRules | null = null

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  set(rules: RetentionRules): void {
    this.#changed = rules
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    if (this.#changed === null) return
    putJson(this.#table, numberKey(this.#projectId), this.#changed)
    this.#changed = null
  }
}

/** The rules of a project. Throws `DamagedRecordError`. */
export function loadRetention(table: Table, projectId: number): RetentionRules {
  return getJson<RetentionRules>(table, RULES, numberKey(projectId)) ?? NO_RETENTION
}

/** The projects whose rules let something go. Throws `DamagedRecordError`. */
export function retainedProjects(table: Table): readonly number[] {
  const projects: number[] = []
  for (const { key, value } of table.getRange({})) {
    const { days, bytesMax, events } = parseRecord<RetentionRules>(RULES, key, value)
    const hasRule = days !== null || bytesMax !== null || events.some((rule) => rule.days !== null)
    if (hasRule) projects.push(numberInKey(key, 0))
  }
  return projects
}
