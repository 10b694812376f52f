/**
 * The metrics of the process, in Prometheus text format 0.0.4. A value is a plain field: code that counts keeps a
 * reference to the metric and writes `counter.value++`. Names, labels and formatting only cost time when `/metrics` is
 * read. Each family has a fixed set of label names and a bounded number of label values, so that clients cannot make it
 * grow.
 */
import { METRIC_LABEL_SETS_MAX } from './limits.ts'
/** A total since the start of the process. `value` only grows. */
export class Counter {
  value = 0
}

/** A current quantity, which may rise and fall. */
export class Gauge {
  value = 0
}

/** Counts values in intervals that are given by their upper bounds. One observation costs a scan of the bounds. */
export class Histogram {
  /** The upper bounds, ascending. */
  readonly bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  /** @param bounds upper bounds, ascending, in the unit of the values. The bound `+Inf` is added. */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    let index = 0
    while (index < this.bounds.length && value > (this.bounds[index] ?? Infinity)) index++
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  /**
   * For each bound, the number of values up to this bound and above the previous one. The last entry counts the values
   * above all bounds.
   */
  get counts(): Iterable<number> & ArrayLike<number> {
    return this.#counts
  }

  /** Returns the lines of this histogram. `labels` is the text between the braces, or ''. */
  render(name: string, labels: string): string {
    const prefix = labels === '' ? '' : `${labels},`
    let text = ''
    let total = 0
    for (const [index, count] of this.#counts.entries()) {
      total += count
      const bound = this.bounds[index] ?? Infinity
      text += `${name}_bucket{${prefix}le="${formatNumber(bound)}"} ${total}\n`
    }
    const suffix = labels === '' ? '' : `{${labels}}`
    return `${text}${name}_sum${suffix} ${formatNumber(this.#sum)}\n${name}_count${suffix} ${total}\n`
  }
}

type Metric = Counter | Gauge | Histogram

const OVERFLOW_LABEL = 'other'

/** All metrics of one name, one for each set of label values. */
export class MetricFamily<T extends Metric> {
  readonly #labelNames: readonly string[]
  readonly #create: () => T
  readonly #labelSetsMax: number
  readonly #children = new Map<string, T>()

  constructor(
    labelNames: readonly string[],
    create: () => T,
    labelSetsMax = METRIC_LABEL_SETS_MAX,
  ) {
    this.#labelNames = labelNames
    this.#create = create
    this.#labelSetsMax = labelSetsMax
  }

  /**
   * Returns the metric for these label values, in the order of the label names. Each call builds a string, so code that
   * counts often should keep the result.
   */
  with(...labelValues: readonly string[]): T {
    const labels = this.#format(labelValues)
    const known = this.#children.get(labels)
    if (known !== undefined) return known
    const isFull = this.#children.size >= this.#labelSetsMax
    const key = isFull ? this.#format(this.#labelNames.map(() => OVERFLOW_LABEL)) : labels
    const child = this.#children.get(key) ?? this.#create()
    this.#children.set(key, child)
    return child
  }

  /**
   * Removes all label sets. Use it for gauges that are filled at each collection, because some of their label sets may
   * no longer exist.
   */
  clear(): void {
    this.#children.clear()
  }

  /** All metrics of this family that were used. */
  get all(): Iterable<T> {
    return this.#children.values()
  }

  /** Returns the lines of all metrics, in the order in which they were first used. */
  render(name: string): string {
    let text = ''
    for (const [labels, child] of this.#children) {
      if (child instanceof Histogram) text += child.render(name, labels)
      else text += `${name}${labels === '' ? '' : `{${labels}}`} ${formatNumber(child.value)}\n`
    }
    return text
  }

  #format(labelValues: readonly string[]): string {
    return this.#labelNames
      .map((name, index) => `${name}="${escapeLabel(labelValues[index] ?? '')}"`)
      .join(',')
  }
}

interface Registered {
  readonly name: string
  readonly head: string
  readonly family: MetricFamily<Metric>
}

/** The list of families that `/metrics` shows. */
export class MetricPage {
  readonly #families: Registered[] = []
  readonly #collectors: (() => void)[] = []

  /** Registers counters of one name. By convention the name ends in `_total`. */
  counters(name: string, help: string, labelNames: readonly string[]): MetricFamily<Counter> {
    return this.#add(name, 'counter', help, new MetricFamily(labelNames, () => new Counter()))
  }

  /** Registers gauges of one name. */
  gauges(name: string, help: string, labelNames: readonly string[]): MetricFamily<Gauge> {
    return this.#add(name, 'gauge', help, new MetricFamily(labelNames, () => new Gauge()))
  }

  /** Registers histograms of one name. `bounds` as in `Histogram`. */
  histograms(
    name: string,
    help: string,
    labelNames: readonly string[],
    bounds: readonly number[],
  ): MetricFamily<Histogram> {
    const family = new MetricFamily(labelNames, () => new Histogram(bounds))
    return this.#add(name, 'histogram', help, family)
  }

  /** Calls `collect` before each rendering, to fill gauges that are cheaper to read than to maintain. */
  onCollect(collect: () => void): void {
    this.#collectors.push(collect)
  }

  /** Returns the whole page. Its content type is `text/plain; version=0.0.4; charset=utf-8`. */
  render(): string {
    for (const collect of this.#collectors) collect()
    let text = ''
    for (const { name, head, family } of this.#families) text += head + family.render(name)
    return text
  }

  #add<T extends Metric>(name: string, type: string, help: string, family: MetricFamily<T>) {
    if (this.#families.some((other) => other.name === name)) {
      throw new TypeError(`the metric ${name} is registered twice`)
    }
    const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    this.#families.push({ name, head, family })
    return family
  }
}

function formatNumber(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
