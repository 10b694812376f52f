/**
 * Collects all texts in the saved insights, dashboards, actions and cohorts of a project, and the names of the event
 * properties that carry the variants of its flags. Any of these texts may be the name of an event or a property that
 * the project still uses. So a name that is not among them is not used.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from '../faults.ts'
import { Environment } from '../lmdb/environment.ts'
import { type EventTables, FLAGS_ENVIRONMENT, keysOf } from '../lmdb/keys.ts'
import { addTexts, jsonOf, recordsOf } from '../lmdb/records.ts'

const EVENT_TABLES = ['actions', 'cohorts'] as const
const SAVED_TABLES = ['insights', 'insight_queries', 'dashboards'] as const
/** The prefix of event properties that carry the variant of a flag. The key of the flag follows it. */
const FLAG_PROPERTY = '$feature/'

/** Reads the texts, for one thread. Close it before the thread ends. */
export class ReferredTexts {
  readonly #dataDir: string
  readonly #tables: Pick<EventTables, (typeof EVENT_TABLES)[number]>
  readonly #isReadOnly: boolean
  /** The environment is opened when it is first needed, because most threads never need it. */
  #saved: Environment | null = null

  constructor(
    dataDir: string,
    tables: Pick<EventTables, (typeof EVENT_TABLES)[number]>,
    isReadOnly: boolean,
  ) {
    this.#dataDir = dataDir
    this.#tables = tables
    this.#isReadOnly = isReadOnly
  }

  /** Returns the texts of a project. Records that cannot be read are skipped. Their damage is reported elsewhere. */
  of(projectId: number): ReadonlySet<string> {
    const texts = new Set<string>()
    attempt(
      () => this.#addAll(projectId, texts),
      () => undefined,
    )
    return texts
  }

  async close(): Promise<void> {
    await this.#saved?.close()
    this.#saved = null
  }

  #addAll(projectId: number, texts: Set<string>): void {
    const range = keysOf(projectId)
    for (const name of EVENT_TABLES) {
      for (const { value } of jsonOf(this.#tables[name], range)) addTexts(value, texts)
    }
    const saved = this.#openSaved()
    if (saved === null) return
    saved.refresh()
    for (const name of SAVED_TABLES) {
      const table = saved.find(name)
      if (table === undefined) continue
      for (const { value } of jsonOf(table, range)) addTexts(value, texts)
    }
    const flags = saved.find('flags')
    if (flags === undefined) return
    for (const { key } of recordsOf(flags, range)) texts.add(`${FLAG_PROPERTY}${String(key)}`)
  }

  #openSaved(): Environment | null {
    if (this.#saved !== null) return this.#saved
    if (!existsSync(join(this.#dataDir, FLAGS_ENVIRONMENT))) return null
    this.#saved = new Environment({
      dataDir: this.#dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: [...SAVED_TABLES, 'flags'],
      isReadOnly: this.#isReadOnly,
    })
    return this.#saved
  }
}
