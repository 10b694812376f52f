/**
 * Tests that answers of queries do not depend on how they were computed: divided by rows or by persons, with cached
 * parts, while events arrive, visitors become persons, persons are merged, split and deleted, and events are erased.
 *
 * @lane all
 */
import t from 'tap'
import type { LongTools } from '../../src/engine/threads/call-kinds.ts'
import { PieceCounts } from '../../src/engine/threads/queries/query-parts.ts'
import {
  type MergeOutcome,
  mergeQuery,
  type QueryOutcome,
  type QueryTask,
  runQuery,
  runQueryPart,
} from '../../src/engine/threads/queries/query-tasks.ts'
import { RememberedParts } from '../../src/engine/threads/queries/remembered-parts.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import type { PlannedQuery } from '../../src/rules/queries/kinds.ts'
import type { QueryShard } from '../../src/rules/queries/query-kind.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { Dice } from '../fixtures/dice.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import { webProperties, webQueries } from '../fixtures/queries/divided-web.ts'

const START_MS = Date.UTC(2024, 0, 1)
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DAYS = 28
const NAMES = ['view', 'view', 'view', 'click', 'buy', '$pageview', '$screen', '$autocapture']
/** More than two segments that are not merged any more. */
const FIRST_EVENTS = 18_000
const EVENTS_PER_REQUEST = 500
const CHANGES = 10
/** After this change, queries are also computed in chunks, with repeated garbage collections. */
const PIECES_BEHIND = 3
const RANGE = { date_from: '2024-01-01', date_to: '2024-01-28' }

const view = (rest: object = {}) => ({ kind: 'EventsNode', event: 'view', ...rest })
const CHEAP = { key: 'price', value: 3, operator: 'lt', type: 'event' }
const NOT_RICH = { key: 'plan', value: 'rich', operator: 'is_not', type: 'person' }
const RICH = { key: 'plan', value: 'rich', operator: 'exact', type: 'person' }

/** Queries by name, with the ways in which each may be divided. */
const QUERIES: readonly (readonly [string, 'segments' | 'persons' | 'sessions', object])[] = [
  ['events', 'segments', { kind: 'TrendsQuery', series: [view({ math: 'total' })] }],
  ['persons', 'segments', { kind: 'TrendsQuery', series: [view({ math: 'dau' })] }],
  [
    'persons of two series in weeks, filtered and compared',
    'segments',
    {
      kind: 'TrendsQuery',
      interval: 'week',
      series: [view({ math: 'dau', properties: [CHEAP] }), view({ math: 'total' })],
      compareFilter: { compare: true },
    },
  ],
  [
    'persons of a week, and how many events',
    'segments',
    {
      kind: 'TrendsQuery',
      series: [view({ math: 'weekly_active' }), view({ math: 'total' }), view({ math: 'dau' })],
    },
  ],
  [
    'persons by what they are now',
    'segments',
    { kind: 'TrendsQuery', series: [view({ math: 'dau' })], properties: [RICH] },
  ],
  [
    'persons by what they are not',
    'segments',
    { kind: 'TrendsQuery', series: [view({ math: 'dau' })], properties: [NOT_RICH] },
  ],
  [
    'events by two properties',
    'segments',
    {
      kind: 'TrendsQuery',
      series: [view({ math: 'total' })],
      breakdownFilter: { breakdowns: [{ property: 'price' }, { property: 'shop' }] },
    },
  ],
  [
    'sums',
    'segments',
    { kind: 'TrendsQuery', series: [view({ math: 'sum', math_property: 'price' })] },
  ],
  [
    'persons by property',
    'persons',
    {
      kind: 'TrendsQuery',
      series: [view({ math: 'dau' })],
      breakdownFilter: { breakdown: 'shop', breakdown_type: 'event' },
    },
  ],
  [
    'retention by the same event',
    'segments',
    {
      kind: 'RetentionQuery',
      retentionFilter: {
        targetEntity: { id: 'view', type: 'events' },
        returningEntity: { id: 'view', type: 'events' },
        totalIntervals: DAYS,
      },
    },
  ],
  [
    'retention',
    'segments',
    {
      kind: 'RetentionQuery',
      retentionFilter: {
        targetEntity: { id: 'view', type: 'events' },
        returningEntity: { id: 'buy', type: 'events' },
        totalIntervals: DAYS,
      },
    },
  ],
  ['stickiness', 'segments', { kind: 'StickinessQuery', series: [view()] }],
  ['lifecycle', 'segments', { kind: 'LifecycleQuery', series: [view()] }],
  [
    'funnel',
    'persons',
    { kind: 'FunnelsQuery', series: [view(), view({ event: 'click' }), view({ event: 'buy' })] },
  ],
  [
    'funnel over time, by property',
    'persons',
    {
      kind: 'FunnelsQuery',
      series: [view(), view({ event: 'buy' })],
      funnelsFilter: { funnelVizType: 'trends' },
      breakdownFilter: { breakdown: 'shop', breakdown_type: 'event' },
    },
  ],
  [
    'how long a funnel takes',
    'persons',
    {
      kind: 'FunnelsQuery',
      series: [view(), view({ event: 'buy' })],
      funnelsFilter: { funnelVizType: 'time_to_convert' },
      properties: [CHEAP],
    },
  ],
  ['paths', 'persons', { kind: 'PathsQuery', pathsFilter: { edgeLimit: 1000 } }],
  ...webQueries(NOT_RICH),
]

/** Random changes of a project. */
class History {
  readonly log: PersonLog
  readonly #dice: Dice
  #sent = 0

  constructor(log: PersonLog, dice: Dice) {
    this.log = log
    this.#dice = dice
  }

  /** Most events arrive in order of time, some late. */
  send(count: number): void {
    for (let left = count; left > 0; left -= EVENTS_PER_REQUEST) {
      this.log.send(
        1,
        this.#dice.list(Math.min(left, EVENTS_PER_REQUEST), () => this.#event()),
      )
      this.log.process()
    }
  }

  /** Describes the changes in words. */
  change(): string {
    const dice = this.#dice
    const [one, other] = [this.#distinctId(), dice.pick([this.#distinctId(), this.#visitorId()])]
    const what = dice.below(8)
    if (what > 5) return this.#merge(dice.between(1, 12), dice.pick([0, 3, 90]))
    if (what === 0) {
      const properties = { $anon_distinct_id: other }
      this.log.send(1, [{ event: '$identify', distinct_id: one, properties }])
      this.log.process()
      return `${other} merged into ${one}`
    }
    const person = this.#number(one)
    if (what === 1 && person !== null) {
      this.#do({ kind: 'delete_person', person, deletesEvents: dice.chance(0.5) })
      return `person of ${one} deleted`
    }
    if (what === 2 && person !== null) {
      this.#do({ kind: 'split_person', person, mainDistinctId: null })
      return `person of ${one} split`
    }
    if (what === 3) {
      const criteria = { ...NO_CRITERIA, event: dice.pick(NAMES), distinctId: one }
      this.#do({ kind: 'erase_events', criteria })
      return `events of ${one} erased`
    }
    const count = dice.pick([1, 40, 700, 3000])
    this.send(count)
    return `${count} events`
  }

  /** Moves distinct_ids to other owners, some of them without an owner before, one by one or several at once. */
  #merge(count: number, events: number): string {
    const pairs = this.#dice.list(count, () => [
      this.#distinctId(),
      this.#dice.pick([this.#distinctId(), this.#visitorId()]),
    ])
    const merges = pairs.map(([one, other]): SentEvent => {
      const timestamp = new Date(START_MS + this.#dice.below(DAYS) * DAY_MS).toISOString()
      const properties = { alias: other }
      return { event: '$merge_dangerously', distinct_id: one, timestamp, properties }
    })
    const more = this.#dice.list(events, () => this.#event())
    this.log.send(1, [...merges.slice(1), ...more, ...merges.slice(0, 1)])
    this.log.process()
    return `${pairs.join(' ')} merged, ${events} events`
  }

  #do(command: PersonCommand): void {
    this.log.append(1, command)
    // Erasure continues when there is no other work.
    for (let round = 0; round < 4; round++) this.log.process()
  }

  #number(distinctId: string): number | null {
    const [person] = this.log.reader.persons().list({
      projectId: 1,
      distinctId,
      limit: 1,
      offset: 0,
      nowMs: START_MS,
    }).results
    return person?.id ?? null
  }

  #event(): SentEvent {
    const dice = this.#dice
    const progress = Math.min(1, this.#sent++ / FIRST_EVENTS)
    const lateMs = dice.chance(0.1) ? dice.below(3 * DAY_MS) : dice.below(5000)
    const timeMs = START_MS + Math.floor(progress * DAYS * DAY_MS) - lateMs
    const plan = dice.pick(['rich', 'poor'])
    const isVisitor = dice.chance(0.2)
    const hour = START_MS / HOUR_MS + Math.floor(progress * DAYS * 24 - dice.pick([0, 0, 1, 60]))
    return {
      event: dice.pick(NAMES),
      distinct_id: isVisitor ? this.#visitorId() : this.#distinctId(),
      timestamp: new Date(timeMs).toISOString(),
      properties: {
        price: dice.below(6),
        shop: dice.pick(['here', 'there', null]),
        ...webProperties(dice, hour),
        ...(dice.chance(0.1) ? { $set: { plan } } : {}),
        ...(isVisitor || dice.chance(0.05) ? { $process_person_profile: false } : {}),
      },
    }
  }

  /** New ones appear all the time. */
  #distinctId(): string {
    return `u${this.#dice.below(40 + Math.floor(this.#sent / 50))}`
  }

  /** A visitor without a person, unless merged into one. */
  #visitorId(): string {
    return `v${this.#dice.below(40 + Math.floor(this.#sent / 100))}`
  }
}

const NO_CRITERIA = {
  event: null,
  afterMs: null,
  beforeMs: null,
  distinctId: null,
  personId: null,
}

/** Counts the queries that it was used for. */
class CountedParts extends RememberedParts {
  helped = 0

  override again(planned: PlannedQuery, shard: QueryShard): unknown {
    const found = super.again(planned, shard)
    if (found !== null) this.helped++
    return found
  }
}

/** The memory of a thread. A query fills it a number of times, and each time it is computed in smaller chunks. */
class FilledMemory {
  readonly questionBytesMax = 1e9
  readonly #times: number
  #looks = 0

  constructor(times: number) {
    this.#times = times
  }

  /** The memory of a query is that of the thread minus this number, so a smaller number makes the query seem larger. */
  get cachedBytes(): number {
    const look = this.#looks++
    // The first check is at the beginning of a query, and three checks come before each time that the memory is full.
    return look > 0 && look <= 3 * this.#times ? -4e9 : 0
  }
}

/** The tools of an analytics thread. Its memory runs short a number of times for one query. */
function toolsOf(
  reader: EventReader,
  timesFull = 0,
): LongTools & { readonly remembered: CountedParts; readonly pieceCounts: PieceCounts } {
  const remembered = new CountedParts()
  const pieceCounts = new PieceCounts()
  const memory = new FilledMemory(timesFull)
  const stores = {
    warehouse: reader,
    reader,
    queryMsMax: 60_000,
    remembered,
    pieceCounts,
    questionBytesMax: memory.questionBytesMax,
    get cachedBytes() {
      return memory.cachedBytes
    },
  }
  const canceled = new Int32Array(1)
  return { stores: stores as unknown as LongTools['stores'], canceled, remembered, pieceCounts }
}

type Tools = ReturnType<typeof toolsOf>

function resultsOf(outcome: QueryOutcome | MergeOutcome): string {
  if (outcome.kind !== 'answer') return outcome.kind
  const { results } = JSON.parse(Buffer.from(outcome.text).toString()) as { results: unknown }
  return JSON.stringify(results)
}

/** Returns the answers of threads with too little memory for all of a part at once. */
function inPieces(
  reader: EventReader,
  task: QueryTask,
  by: 'segments' | 'persons' | 'sessions',
): Readonly<Record<string, string>> {
  const parts = [0, 1].map((index) =>
    runQueryPart(toolsOf(reader, index + 1), task, { by, index, count: 2 }),
  )
  return {
    'divided, and in pieces': resultsOf(mergeQuery(toolsOf(reader), task, parts)),
    'in pieces': resultsOf(runQuery(toolsOf(reader, 2), task, false)),
  }
}

t.test('a query that never fits is refused, and the next one is answered', async (t) => {
  const log = new PersonLog(t, t.testdir())
  new History(log, new Dice(4)).send(EVENTS_PER_REQUEST)
  const query = { kind: 'TrendsQuery', series: [view({ math: 'dau' })], dateRange: RANGE }
  const task: QueryTask = {
    projectId: 1,
    timezone: 'UTC',
    nowMs: START_MS + DAYS * DAY_MS,
    testAccountFilters: [],
    query,
    format: 'json',
  }
  const full = toolsOf(log.reader, Number.POSITIVE_INFINITY)
  t.throws(() => runQuery(full, task, false), { code: 'query_too_large' })
  const answer = resultsOf(runQuery(toolsOf(log.reader, 3), task, false))
  t.equal(answer, resultsOf(runQuery(toolsOf(log.reader), task, false)))
})

t.test('answers do not depend on what is divided and cached', async (t) => {
  for (const seed of [2, 3]) {
    const dice = new Dice(seed)
    const log = new PersonLog(t, `${t.testdir({ [seed]: {} })}/${seed}`)
    const history = new History(log, dice)
    const readers = dice.list(3, () => new EventReader({ dataDir: log.dataDir }))
    t.teardown(() => Promise.all(readers.map((reader) => reader.close())))
    const threads = readers.map(toolsOf)
    history.send(FIRST_EVENTS)
    const happened: string[] = []
    for (let change = 0; change < CHANGES; change++) {
      happened.push(history.change())
      const reader = new EventReader({ dataDir: log.dataDir })
      for (const [name, by, query] of QUERIES) {
        const asked = { ...query, dateRange: RANGE }
        const task: QueryTask = {
          projectId: 1,
          timezone: 'Europe/Berlin',
          nowMs: START_MS + DAYS * DAY_MS,
          testAccountFilters: [],
          query: asked,
          format: 'json',
        }
        const fresh = toolsOf(reader)
        const everybody = { by: 'persons', index: 0, count: 1 } as const
        const plain = runQueryPart(fresh, task, everybody)
        const right = resultsOf(mergeQuery(fresh, task, [plain]))
        const [one, merger] = threads as [Tools, Tools, Tools]
        const parts = () =>
          threads.map((tools, index) =>
            runQueryPart(tools, task, { by, index, count: threads.length }),
          )
        // No query has been asked yet.
        if (dice.below(2) === 0) runQuery(one, { ...task, asked: 'ahead' }, false)
        const answers = {
          'one thread alone': resultsOf(runQuery(one, task, false)),
          'what was merged before': resultsOf(runQuery(merger, task, false)),
          divided: resultsOf(mergeQuery(merger, task, parts().toReversed())),
          'nothing is new': resultsOf(runQuery(merger, task, false)),
          ...(seed === 2 && change === PIECES_BEHIND ? inPieces(reader, task, by) : {}),
        }
        for (const [how, answer] of Object.entries(answers)) {
          if (answer === right) continue
          t.equal(answer, right, `seed ${seed}, ${name}, ${how}: ${happened.join('; ')}`)
          await reader.close()
          return
        }
      }
      await reader.close()
    }
    const [one, merger] = threads
    t.ok((one?.remembered.helped ?? 0) > QUERIES.length, `seed ${seed}: ${happened.join('; ')}`)
    t.ok((merger?.remembered.helped ?? 0) > CHANGES * QUERIES.length, 'merges happened, too')
  }
})
