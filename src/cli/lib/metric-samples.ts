/** Reads the metrics that commands need from `/metrics` of a daemon. */
import { ask } from './daemon-client.ts'

/** The values of all metrics at one moment. */
export class MetricSamples {
  readonly #values = new Map<string, number>()

  /** `text` is in the Prometheus text format. Lines that are not samples are ignored. */
  constructor(text: string) {
    for (const line of text.split('\n')) {
      const match = /^([a-z_:][\w:]*(?:\{.*\})?) (\S+)$/.exec(line)
      if (match?.[1] !== undefined) this.#values.set(match[1], Number(match[2]))
    }
  }

  /**
   * Returns the value of a metric by its name and labels, exactly as `/metrics` writes them. Returns null if it does
   * not exist.
   */
  get(series: string): number | null {
    return this.#values.get(series) ?? null
  }

  /**
   * Returns the sum of all values of a metric that have all `labels`, such as `fate="accepted"`. It is 0 if there are
   * none.
   */
  sum(family: string, ...labels: readonly string[]): number {
    let sum = 0
    for (const [series, value] of this.#values) if (isOf(series, family, labels)) sum += value
    return sum
  }

  /** Returns the value of a label in the first line of a metric, or null if there is no such line. */
  label(family: string, name: string): string | null {
    const series = [...this.#values.keys()].find((text) => isOf(text, family, []))
    return series?.split(`${name}="`)[1]?.split('"')[0] ?? null
  }

  /** Returns the value of a label in each line of a metric, in the order of the lines. */
  labels(family: string, name: string): readonly string[] {
    const series = [...this.#values.keys()].filter((text) => isOf(text, family, []))
    return series.map((text) => text.split(`${name}="`)[1]?.split('"')[0] ?? '')
  }

  /** Returns by how much a counter has grown since an earlier reading, or null if the counter does not exist. */
  since(earlier: MetricSamples, series: string): number | null {
    const now = this.get(series)
    return now === null ? null : now - (earlier.get(series) ?? 0)
  }
}

function isOf(series: string, family: string, labels: readonly string[]): boolean {
  if (series !== family && !series.startsWith(`${family}{`)) return false
  return labels.every((label) => series.includes(label))
}

/**
 * Reads `/metrics` of a daemon. Returns null if access is denied. Throws `OperatorError` if the daemon does not answer.
 */
export async function readMetrics(baseUrl: string): Promise<MetricSamples | null> {
  const { status, text } = await ask(baseUrl, '/metrics')
  return status === 200 ? new MetricSamples(text) : null
}
