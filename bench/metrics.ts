/** Parses the Prometheus text format, as far as the benches need it for counters and gauges. */

/** One line of the text. */
export interface MetricLine {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

/** Returns all samples of the text. Comments and empty lines are left out. */
export function parseMetrics(text: string): MetricLine[] {
  const lines: MetricLine[] = []
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line)
    if (match?.[1] === undefined) continue
    lines.push({ name: match[1], labels: parseLabels(match[2] ?? ''), value: Number(match[3]) })
  }
  return lines
}

/** Returns the only sample of a name. Throws if it is missing, so that a renamed metric is noticed. */
export function readMetric(lines: readonly MetricLine[], name: string): number {
  const line = lines.find((candidate) => candidate.name === name)
  if (line === undefined) throw new Error(`/metrics has no ${name}`)
  return line.value
}

/** Returns the sum of all samples of a name that have these labels. It is 0 if there are none. */
export function sumMetric(
  lines: readonly MetricLine[],
  name: string,
  labels: Readonly<Record<string, string>>,
): number {
  const wanted = Object.entries(labels)
  let sum = 0
  for (const line of lines) {
    if (line.name !== name) continue
    if (wanted.every(([key, value]) => line.labels.get(key) === value)) sum += line.value
  }
  return sum
}

function parseLabels(text: string): Map<string, string> {
  const labels = new Map<string, string>()
  for (const match of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels.set(match[1] ?? '', match[2] ?? '')
  }
  return labels
}
