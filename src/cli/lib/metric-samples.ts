/** Reads the `/metrics` of a daemon, as far as commands need it. */
import { ask } from './daemon-client.ts'

/** The samples of one reading. */
export class MetricSamples {
  readonly #values = new Map<string, number>()

  /** `text` is in the Prometheus text format; what is no sample is passed over. */
  constructor(text: string) {
    for (const line of text.split('\n')) {
      const match = /^([a-z_:][\w:]*(?:\{.*\})?) (\S+)$/.exec(line)
      if (match?.[1] !== undefined) this.#values.set(match[1], Number(match[2]))
    }
  }

  /** A sample by its name with its labels as they are written; null when it is not there. */
  get(series: string): number | null {
    return this.#values.get(series) ?? null
  }

  /** The sum of the samples of a family whose labels match all `labels`, such as `fate="accepted"`; 0 for none. */
  sum(family: string, ...labels: readonly string[]): number {
    let sum = 0
    for (const [series, value] of this.#values) if (isOf(series, family, labels)) sum += value
    return sum
  }

  /** A label of the first sample of a family; null when there is none. */
  label(family: string, name: string): string | null {
    const series = [...this.#values.keys()].find((text) => isOf(text, family, []))
    return series?.split(`${name}="`)[1]?.split('"')[0] ?? null
  }

  /** A label of all samples of a family, in their order. */
  labels(family: string, name: string): readonly string[] {
    const series = [...this.#values.keys()].filter((text) => isOf(text, family, []))
    return series.map((text) => text.split(`${name}="`)[1]?.split('"')[0] ?? '')
  }

  /** How much a counter grew since an earlier reading; null when it is not there. */
  since(earlier: MetricSamples, series: string): number | null {
    const now = this.get(series)
    return now === null ? null : now - (earlier.get(series) ?? 0)
  }
}

function isOf(series: string, family: string, labels: readonly string[]): boolean {
  if (series !== family && !series.startsWith(`${family}{`)) return false
  return labels.every((label) => series.includes(label))
}

/** Reads `/metrics`; null when it is not open to us. Throws `OperatorError` without an answer. */
export async function readMetrics(baseUrl: string): Promise<MetricSamples | null> {
  const { status, text } = await ask(baseUrl, '/metrics')
  return status === 200 ? new MetricSamples(text) : null
}
