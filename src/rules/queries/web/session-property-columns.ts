/**
 * Computes properties of sessions. A property is computed for all sessions of a table when it is first read. Source:
 * docs/compatibility/queries.md, "Sessions".
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { ValueColumn, ValueRequest } from '../../analytics/event-columns.ts'
import { ascendingOrder } from '../../analytics/number-order.ts'
import { CLICK_IDS } from '../../events/session-property-names.ts'
import type { PropertyFilter } from '../../filters/filter-group.ts'
import { propertyText } from '../../filters/property-text.ts'
import { type ChannelRule, channelTypeOf } from '../../web/channel-type.ts'
import { type QueryShard, scanShard } from '../query-kind.ts'
import { columnOf, combined, relabeled } from './columns.ts'
import {
  type EdgeEvents,
  edgeOf,
  namedSeries,
  type SessionEdge,
  type SessionTable,
  VIEW_SERIES,
} from './sessions.ts'
import { hostOf, pathOf } from './urls.ts'

const UTM_NAMES = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content']
/**
 * The session properties that the built-in rules for channels read, and the event property that each one comes from.
 */
const CHANNEL_KEYS: readonly (readonly [name: string, key: string])[] = [
  ['$entry_referring_domain', '$referring_domain'],
  ...[...UTM_NAMES.slice(0, 3), 'gad_source', 'gclid', 'fbclid'].map(
    (key) => [`$entry_${key}`, key] as const,
  ),
]
const NO_VALUES: ValueColumn = { ids: new Uint32Array(0), values: [undefined] }
/** Further session properties, which only the channel rules of a project can read. */
const ADDRESS_INPUTS = [
  ['url', '$entry_current_url'],
  ['pathname', '$entry_pathname'],
  ['hostname', '$entry_hostname'],
] as const
const EXTERNAL_CLICK = '$external_click_url'

/** The value of `$is_bounce` for each number in `SessionTable.bounces`. A session with NaN there has no value. */
const BOUNCES = new Map([
  [0, false],
  [1, true],
])

type Make = (properties: SessionProperties) => ValueColumn

const MAKERS: ReadonlyMap<string, Make> = new Map([
  one('session_id', ({ ids }, session) => ids[session]),
  one('$start_timestamp', ({ first }, session) => timeText(first.timesMs[session])),
  one('$end_timestamp', ({ last }, session) => timeText(last.timesMs[session])),
  one('$session_duration', ({ durations }, session) => durations[session]),
  one('$pageview_count', ({ pageviews }, session) => pageviews[session]),
  one('$screen_count', ({ screens }, session) => screens[session]),
  one('$autocapture_count', ({ autocaptures }, session) => autocaptures[session]),
  one('$is_bounce', ({ bounces }, session) => BOUNCES.get(bounces[session] ?? 0)),
  ['$urls', (of) => of.urls()],
  ['$num_uniq_urls', (of) => relabeled(of.column('$urls'), countOf)],
  ['$last_external_click_url', (of) => of.lastExternalClick()],
  ['$channel_type', (of) => of.channels()],
  ['distinct_id', (of) => of.atEdge('last', { kind: 'distinct_id' })],
  ['person_id', (of) => of.persons()],
  atEdge('entry', '$entry_referring_domain', '$referring_domain'),
  ...UTM_NAMES.map((name) => atEdge('entry', `$entry_${name}`, name)),
  ...CLICK_IDS.map((name) => atEdge('entry', `$entry_${name}`, name)),
  ...CLICK_IDS.map((name): [string, Make] => [`$entry_has_${name}`, (of) => of.hasEntry(name)]),
  ...(['entry', 'end'] as const).flatMap((edge): [string, Make][] => {
    const url = `$${edge}_current_url`
    return [
      atEdge(edge, url, '$current_url'),
      [`$${edge}_pathname`, (of) => relabeled(of.column(url), partOf(pathOf))],
      [`$${edge}_hostname`, (of) => relabeled(of.column(url), partOf(hostOf))],
    ]
  }),
])
const ALIASES = new Map([
  ['id', 'session_id'],
  ['duration', '$session_duration'],
  ['$exit_current_url', '$end_current_url'],
  ['$exit_pathname', '$end_pathname'],
])

/** Returns whether sessions have a property with a name. */
export function isSessionProperty(name: string): boolean {
  return MAKERS.has(ALIASES.get(name) ?? name)
}

/**
 * The properties of the sessions in a table. The table caches them. All methods throw the same errors as
 * `EventScanner.scan`.
 */
export class SessionProperties {
  readonly table: SessionTable
  readonly #shard: QueryShard
  readonly #channelRules: readonly ChannelRule[]

  constructor(shard: QueryShard, table: SessionTable) {
    this.table = table
    this.#shard = shard
    // The rules were checked when they were saved.
    this.#channelRules = (shard.context.channelTypeRules ?? []) as readonly ChannelRule[]
  }

  /**
   * Returns the column of a property, with one entry for each session number. Throws RangeError for an unknown
   * property.
   */
  column(name: string): ValueColumn {
    const known = ALIASES.get(name) ?? name
    const make = MAKERS.get(known)
    if (make === undefined) throw new RangeError(`sessions have no ${name}`)
    const isRuled = known === '$channel_type' && this.#channelRules.length > 0
    const key = isRuled ? `${known} ${JSON.stringify(this.#channelRules)}` : known
    return getOrAdd(this.table.columns, key, () => make(this))
  }

  /**
   * Returns, for each session, the requested value of its entry, end or last event. An empty text and the text `null`
   * count as missing.
   */
  atEdge(edge: SessionEdge, request: ValueRequest): ValueColumn {
    const [column] = this.#atEdge(edge, [request])
    return column ?? NO_VALUES
  }

  /** Reads several values at once, so that each segment is opened only once. */
  #atEdge(edge: SessionEdge, requests: readonly ValueRequest[]): readonly ValueColumn[] {
    const { context, scanner } = this.#shard
    const { sequences, sessions } = this.#eventsAt(edge)
    return scanner.valuesAt(context.projectId, sequences, requests).map(({ ids, values }) => {
      const { size } = this.table
      if (values.length === 1) return { ids: new Uint32Array(size), values }
      const ofSessions = new Uint32Array(size)
      for (let index = 0; index < ids.length; index++) {
        ofSessions[sessions[index] ?? 0] = ids[index] ?? 0
      }
      return relabeled({ ids: ofSessions, values }, presentText)
    })
  }

  /** Returns, for each session, whether the entry event has a click id. */
  hasEntry(name: string): ValueColumn {
    const { ids } = this.column(`$entry_${name}`)
    return perSession(this.table, (_, session) => ids[session] !== 0)
  }

  /** Returns, for each session, the list of different addresses of its views. */
  urls(): ValueColumn {
    const { count, values } = scanShard(this.#shard, {
      ...this.#everywhere(),
      series: [VIEW_SERIES],
      values: [{ kind: 'session' }, { kind: 'event_property', key: '$current_url' }],
    })
    const [sessions, addresses] = values
    const found = new Map<number, Set<string>>()
    for (let row = 0; row < count; row++) {
      const url = presentText(addresses?.values[addresses.ids[row] ?? 0])
      if (url === undefined) continue
      getOrAdd(found, sessions?.ids[row] ?? 0, () => new Set<string>()).add(url)
    }
    return perSession(this.table, (_, session) => [...(found.get(session) ?? [])])
  }

  /** Returns, for each session, the address of the last event that has an external click. */
  lastExternalClick(): ValueColumn {
    const isSet: PropertyFilter = { key: EXTERNAL_CLICK, operator: 'is_set', type: 'event' }
    const { count, timesMs, sequences, values } = scanShard(this.#shard, {
      ...this.#everywhere(),
      series: [namedSeries(null)],
      filter: { type: 'AND', values: [isSet] },
      values: [{ kind: 'session' }, { kind: 'event_property', key: EXTERNAL_CLICK }],
      order: 'unsorted',
    })
    const [sessions, column] = values
    const { size } = this.table
    const [lastMs, lastSequences] = [new Float64Array(size), new Uint32Array(size)]
    const ids = new Uint32Array(size)
    for (let row = 0; row < count; row++) {
      const session = sessions?.ids[row] ?? 0
      const [timeMs = 0, sequence = 0] = [timesMs[row], sequences[row]]
      const id = column?.ids[row] ?? 0
      if (presentText(column?.values[id]) === undefined) continue
      const isLater =
        timeMs > (lastMs[session] ?? 0) ||
        (timeMs === lastMs[session] && sequence > (lastSequences[session] ?? 0))
      if (!isLater && lastSequences[session] !== 0) continue
      lastMs[session] = timeMs
      lastSequences[session] = sequence
      ids[session] = id
    }
    return relabeled({ ids, values: column?.values ?? [undefined] }, presentText)
  }

  /** Returns the channel of each session, by the rules of the project and then the built-in rules. */
  channels(): ValueColumn {
    this.#readEntries()
    const names = ['utm_source', 'utm_medium', 'utm_campaign', 'referring_domain', 'gad_source']
    const inputs = names.map((name) => [name, this.column(`$entry_${name}`)] as const)
    // Channel rules only ask whether there is a click id, not which one.
    for (const name of ['gclid', 'fbclid']) {
      const column = this.column(`$entry_${name}`)
      inputs.push([name, relabeled(column, (id) => (id === undefined ? id : '1'))])
    }
    const ruled = new Set(this.#channelRules.flatMap(({ items }) => items.map(({ key }) => key)))
    for (const [key, name] of ADDRESS_INPUTS) {
      if (ruled.has(key)) inputs.push([key, this.column(name)])
    }
    const { ids, values } = relabeled(combined(inputs.map(([, column]) => column)), (list) => {
      const given = list as readonly unknown[]
      const named = inputs.map(([name], index): [string, unknown] => [name, given[index]])
      return channelTypeOf(Object.fromEntries<unknown>(named), this.#channelRules)
    })
    return { ids: ids.map((id, session) => (this.table.marks[session] === 1 ? id : 0)), values }
  }

  /**
   * Returns, for each session, the uuid of the person that owns its last event now. Each uuid needs a read of the
   * person's record.
   */
  persons(): ValueColumn {
    const { context, scanner } = this.#shard
    return perSession(this.table, ({ lastPersons }, session) =>
      scanner.personUuid(context.projectId, lastPersons[session] ?? 0),
    )
  }

  /** Reads, in one scan, all event properties that decide channels. */
  #readEntries(): void {
    const missing = CHANNEL_KEYS.filter(([name]) => !this.table.columns.has(name))
    const requests = missing.map(([, key]) => ({ kind: 'event_property', key }) as const)
    const columns = this.#atEdge('entry', requests)
    for (const [index, [name]] of missing.entries()) {
      this.table.columns.set(name, columns[index] ?? NO_VALUES)
    }
  }

  #everywhere() {
    return {
      fromMs: Number.NEGATIVE_INFINITY,
      toMs: Number.POSITIVE_INFINITY,
      sessions: this.table.marks,
    }
  }

  /** Returns the entry, end or last events of all sessions. */
  #eventsAt(edge: SessionEdge): EdgeEvents {
    const { edges, marks, size } = this.table
    return getOrAdd(edges, edge, () => {
      const [sequences, sessions] = [new Uint32Array(size), new Uint32Array(size)]
      let count = 0
      for (let session = 1; session < size; session++) {
        if (marks[session] !== 1) continue
        sequences[count] = edgeOf(this.table, edge, session)
        sessions[count++] = session
      }
      const order = ascendingOrder(sequences.subarray(0, count))
      return {
        sequences: order.map((place) => sequences[place] ?? 0),
        sessions: order.map((place) => sessions[place] ?? 0),
      }
    })
  }
}

/** Returns a property as text, or undefined for a value that counts as missing. */
function presentText(value: unknown): string | undefined {
  const text = propertyText(value)
  return text === '' || text === 'null' ? undefined : text
}

function one(
  name: string,
  make: (table: SessionTable, session: number) => unknown,
): [string, Make] {
  return [name, ({ table }) => perSession(table, make)]
}

function atEdge(edge: SessionEdge, name: string, key: string): [string, Make] {
  return [name, (of) => of.atEdge(edge, { kind: 'event_property', key })]
}

function perSession(
  table: SessionTable,
  make: (table: SessionTable, session: number) => unknown,
): ValueColumn {
  return columnOf(table.size, (session) =>
    table.marks[session] === 1 ? make(table, session) : undefined,
  )
}

function partOf(part: (url: string) => string): (url: unknown) => string | undefined {
  return (url) => (typeof url === 'string' ? part(url) || undefined : undefined)
}

function countOf(list: unknown): number | undefined {
  return Array.isArray(list) ? list.length : undefined
}

function timeText(timeMs = 0): string {
  return new Date(timeMs).toISOString()
}
