/**
 * Finds out how far each actor got in a funnel, for each value of the breakdown that the actor has. Source:
 * docs/compatibility/queries.md, "FunnelsQuery".
 */
import {
  type ActorRows,
  gatherRows,
  orderRows,
  rowsByActor,
  splitActors,
} from '../../analytics/actor-rows.ts'
import type { EventColumns, ValueRequest } from '../../analytics/event-columns.ts'
import { hopelessKeys } from '../../analytics/funnel/hopeless-keys.ts'
import { inOwnMemory, NumberList } from '../../analytics/growing-arrays.ts'
import type { Periods } from '../../analytics/periods.ts'
import { groupIds, labelsOf, type ValueLabels } from '../../analytics/value-labels.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { propertyText } from '../../filters/property-text.ts'
import { PacedLimits } from '../paced-limits.ts'
import { breakdownText } from '../query-breakdown.ts'
import { bucketsOf } from '../query-buckets.ts'
import { type QueryShard, type ScannedShard, scanShard, scanShardChunks } from '../query-kind.ts'
import type { FunnelsPlan, StepRules } from './funnel-request.ts'
import { FunnelStream, isStreamed, type StreamFound } from './funnel-stream.ts'
import { walkOf } from './funnel-walks.ts'
import type { StepEvents } from './step-chains.ts'

/**
 * The walks of actors through the funnel. A walk is the best attempt of one actor, or its best attempt of one period.
 * There is one row for each walk that reached at least one step. Entry i of each list, except `texts` and `timesMs`,
 * belongs to row i. It is plain data.
 */
export interface FunnelRows {
  /** The values of the breakdown. Each has a text for each property, or the number of a cohort as its only text. */
  readonly texts: readonly (readonly string[])[]
  /** The person number of each row. It is 0 for groups. */
  readonly persons: Uint32Array
  /** For each row, the position of its breakdown value in `texts`. */
  readonly labels: Uint32Array
  /** The number of reached steps, at least one. */
  readonly reached: Uint8Array
  /** For each row, the period in which the actor entered the funnel. Empty unless the funnel is over time. */
  readonly periods: Uint32Array
  /**
   * The times of the reached steps, row after row: first the times of row 0, then those of row 1. Empty for a funnel
   * over time.
   */
  readonly timesMs: Float64Array
  /**
   * Facts about the events because of which `persons/funnel` may give other numbers than this query. All of them are
   * false unless the query asks for URLs of persons.
   */
  readonly doubts: FunnelDoubts
}

/** The walks of a funnel. For groups, `groupKeys` contains the key of each row's group. */
export interface FoundWalks {
  readonly rows: FunnelRows
  readonly groupKeys: readonly string[]
}

/** Facts about the events because of which the rules of `persons/funnel` may give another result than the query. */
export interface FunnelDoubts {
  /**
   * True if an actor has different steps at the same time, has one event that is several steps or, in a strict funnel,
   * repeats a step.
   */
  readonly hasShared: boolean
  /** True if a value of the breakdown is null. */
  readonly hasNull: boolean
}

/**
 * Returns the walks of a funnel that reached at least `needed` steps, which must be at least one. The cost is linear in
 * the number of found events times the number of steps. If the breakdown is attributed to a step, the cost is also
 * multiplied by the number of values that an actor has at this step. Throws the same errors as `EventScanner.scan`.
 */
export function walkFunnel(plan: FunnelsPlan, shard: QueryShard, needed: number): FoundWalks {
  const walks = new WalkCollector(plan, shard, needed)
  const { breakdown, range } = plan
  if (range.fromMs > range.toMs) return walks.result()
  const personEnd = shard.scanner.extent(shard.context.projectId).lastPerson + 1
  // If only some persons are wanted, collecting their events is faster than streaming.
  if (shard.part?.among === undefined && isStreamed(plan, personEnd)) {
    walks.stream(personEnd)
    return walks.result()
  }
  if (breakdown === null || breakdown.cohorts.length === 0) walks.scan(null, null)
  for (const id of breakdown?.cohorts ?? []) {
    const filter = { key: 'id', type: 'cohort', value: id }
    walks.scan(String(id), id === 'all' ? null : { type: 'AND', values: [filter] })
  }
  return walks.result()
}

/** Returns the value of `FunnelDoubts.hasShared` for these events. The cost is linear in the events. */
function hasSharedEvents(
  starts: Uint32Array,
  { timesMs, masks }: Pick<StepEvents, 'timesMs' | 'masks'>,
  { stepCount, order }: StepRules,
): boolean {
  const steps = 2 ** stepCount - 1
  const isFirst = new Uint8Array(timesMs.length + 1)
  for (const start of starts) isFirst[start] = 1
  for (let place = 0; place < timesMs.length; place++) {
    const own = (masks[place] ?? 0) & steps
    if ((own & (own - 1)) !== 0) return true
    if (isFirst[place] === 1) continue
    const before = masks[place - 1] ?? 0
    if (timesMs[place] === timesMs[place - 1] && masks[place] !== before) return true
    // The same later step occurs twice in a row. This query replaces the first event by the second one, but
    // `persons/funnel` does not.
    if (order === 'strict' && (own & before & ~1) !== 0) return true
  }
  return false
}

/** The number of walks for which memory is allocated at first. */
const LIST_START = 1024

class WalkCollector {
  readonly #plan: FunnelsPlan
  readonly #shard: QueryShard
  readonly #needed: number
  readonly #periods: Periods | null
  readonly #texts: (readonly string[])[] = []
  readonly #labels = new NumberList(new Uint32Array(LIST_START))
  readonly #reached = new NumberList(new Uint8Array(LIST_START))
  readonly #entrances = new NumberList(new Uint32Array(LIST_START))
  readonly #timesMs = new NumberList(new Float64Array(LIST_START))
  readonly #persons = new NumberList(new Uint32Array(LIST_START))
  readonly #groupKeys: string[] = []
  #doubts: FunnelDoubts = { hasShared: false, hasNull: false }
  /**
   * The walks of all persons, if `FunnelStream` found all of them. Otherwise null: some or all walks were computed from
   * collected events, and the lists above contain all walks.
   */
  #streamed: StreamFound | null = null

  constructor(plan: FunnelsPlan, shard: QueryShard, needed: number) {
    this.#plan = plan
    this.#shard = shard
    this.#needed = needed
    this.#periods = plan.visual === 'trends' ? bucketsOf(plan.range) : null
  }

  result(): FoundWalks {
    const walks = this.#streamed ?? {
      persons: this.#persons.toArray(),
      reached: this.#reached.toArray(),
      timesMs: this.#timesMs.toArray(),
    }
    const rows = {
      ...walks,
      texts: this.#texts,
      labels:
        this.#streamed === null
          ? this.#labels.toArray()
          : inOwnMemory(new Uint32Array(walks.persons.length)),
      periods: this.#entrances.toArray(),
      doubts: this.#doubts,
    }
    return { rows, groupKeys: this.#groupKeys }
  }

  /**
   * Computes the walks of all persons while events are read in the order of arrival. Persons whose events arrived out
   * of order are then computed again from their collected events.
   */
  stream(personEnd: number): void {
    const { range, filter, series } = this.#plan
    const { context, scanner, part } = this.#shard
    const whole = { by: 'persons', index: 0, count: 1 } as const
    const own = part?.by === 'persons' ? part : whole
    const stream = new FunnelStream(this.#plan, personEnd, own)
    const { fromMs, toMs } = range
    scanShardChunks(this.#shard, { fromMs, toMs, filter, series, order: 'unsorted' }, (chunk) =>
      stream.add(chunk),
    )
    this.#texts.push([])
    const found = stream.found(this.#needed, new PacedLimits(scanner))
    const among = stream.disordered()
    stream.release()
    if (among === null) {
      this.#streamed = found
      return
    }
    this.#add(found)
    this.scan(null, null, { context, scanner, part: { ...own, among } })
  }

  #add({ persons, reached, timesMs }: StreamFound): void {
    for (const [walk, person] of persons.entries()) {
      this.#labels.push(0)
      this.#persons.push(person)
      this.#reached.push(reached[walk] ?? 0)
    }
    for (const timeMs of timesMs) this.#timesMs.push(timeMs)
  }

  /** Collects the events of everybody, or of the members of a cohort, and computes their walks. */
  scan(
    cohort: string | null,
    members: FilterGroup | null,
    shard: ScannedShard = this.#shard,
  ): void {
    const { range, filter, series, rules, groupTypeIndex, breakdown } = this.#plan
    const groupValues: readonly ValueRequest[] =
      groupTypeIndex === null ? [] : [{ kind: 'group_key', typeIndex: groupTypeIndex }]
    const properties = breakdown?.properties ?? []
    const columns = scanShard(shard, {
      fromMs: range.fromMs,
      toMs: range.toMs,
      filter: allOf([filter, members]),
      series,
      values: [...groupValues, ...properties.map(({ value }) => value)],
      order: 'unsorted',
    })
    const groups = groupTypeIndex === null ? undefined : columns.values[0]
    const keys = groups === undefined ? columns.persons : groupIds(groups)
    const isHopeless = hopelessKeys(rules, this.#needed, keys, columns)
    const actors = rowsByActor(keys, columns.count, null, (key) => isHopeless[key] === 1)
    orderRows(actors, columns, this.#shard.scanner)
    const labels = labelsOf(
      columns.values.slice(groupValues.length),
      columns.count,
      (value, index) => breakdownText(value, properties[index]) ?? '',
    )
    const offset = this.#texts.length
    const texts = cohort === null ? labels.texts : [[cohort]]
    for (const text of texts) this.#texts.push(text)
    const split =
      properties.length > 0 && this.#plan.attribution === 'all_events'
        ? splitActors(
            actors.rows,
            keys,
            labels.ids.map((id) => id + 1),
            columns.count,
          )
        : actors
    const groupKeys = groups?.values.map(propertyText) ?? null
    this.#walkAll(split, columns, labels, offset, groupKeys)
    this.#shard.scanner.releaseResults()
  }

  #walkAll(
    { keys, starts, rows }: ActorRows,
    columns: EventColumns,
    labels: ValueLabels,
    offset: number,
    groupKeys: readonly string[] | null,
  ): void {
    const { visual, breakdown } = this.#plan
    const hasLabels = (breakdown?.properties.length ?? 0) > 0
    const labelOfPlace = hasLabels ? rows.map((row) => labels.ids[row] ?? 0) : null
    const { timesMs, masks } = gatherRows(columns, rows)
    const events = { timesMs, masks, labels: labelOfPlace }
    if (this.#plan.hasPersonsUrls) {
      const { hasShared, hasNull } = this.#doubts
      this.#doubts = {
        hasShared: hasShared || hasSharedEvents(starts, events, this.#plan.rules),
        hasNull: hasNull || columns.values.some(({ values }) => values.includes(null)),
      }
    }
    let key = 0
    let label = 0
    const limits = new PacedLimits(this.#shard.scanner)
    const walk = walkOf(this.#plan, events, this.#periods, limits, (walked, period) => {
      if (walked.reached < this.#needed) return
      this.#labels.push(offset + label)
      this.#reached.push(walked.reached)
      this.#persons.push(groupKeys === null ? key : 0)
      if (groupKeys !== null) this.#groupKeys.push(groupKeys[key] ?? '')
      if (visual === 'trends') {
        this.#entrances.push(period)
        return
      }
      for (let step = 0; step < walked.reached; step++) this.#timesMs.push(walked.timeMsOf(step))
    })
    const choice = new LabelChoice(this.#plan, masks, labelOfPlace, labels)
    for (let actor = 0; actor < keys.length; actor++) {
      key = keys[actor] ?? 0
      const start = starts[actor] ?? 0
      const end = starts[actor + 1] ?? 0
      if (choice.isByStep) {
        for (const one of choice.ofStep(start, end)) {
          label = one
          walk(start, end, one)
        }
        continue
      }
      label = choice.ofActor(start, end)
      walk(start, end, null)
    }
  }
}

/** Chooses the breakdown values under which an actor is counted. */
class LabelChoice {
  /** True if an actor is counted under each value of `ofStep`. Otherwise it is counted under the value of `ofActor`. */
  readonly isByStep: boolean
  readonly #isLast: boolean
  readonly #masks: Uint32Array
  readonly #stepsMask: number
  readonly #labels: Uint32Array | null
  readonly #isEmpty: readonly boolean[]

  constructor(
    { attribution, attributionStep, rules }: FunnelsPlan,
    masks: Uint32Array,
    labelOfPlace: Uint32Array | null,
    { texts }: ValueLabels,
  ) {
    this.isByStep = attribution === 'step' && labelOfPlace !== null
    this.#isLast = attribution === 'last_touch'
    this.#masks = masks
    // In an unordered funnel, events of every step can decide the value, because an attempt may begin with any step.
    const isAnyStep = rules.order === 'unordered'
    this.#stepsMask = isAnyStep ? 2 ** rules.stepCount - 1 : 1 << attributionStep
    this.#labels = labelOfPlace
    this.#isEmpty = texts.map((text) => text.every((part) => part === ''))
  }

  /** Returns the value of the actor's first or last event that has a value. */
  ofActor(start: number, end: number): number {
    const labels = this.#labels
    if (labels === null) return 0
    for (let index = 0; index < end - start; index++) {
      const label = labels[this.#isLast ? end - 1 - index : start + index] ?? 0
      if (this.#isEmpty[label] === false) return label
    }
    return labels[start] ?? 0
  }

  /** Returns the values of those events of the actor that match the attributed step. */
  ofStep(start: number, end: number): ReadonlySet<number> {
    const found = new Set<number>()
    for (let place = start; place < end; place++) {
      if (((this.#masks[place] ?? 0) & this.#stepsMask) !== 0) found.add(this.#labels?.[place] ?? 0)
    }
    return found
  }
}
