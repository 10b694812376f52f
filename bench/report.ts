/**
 * Figures: whether they meet their targets, how they are printed for programs and people, and where they stand in
 * docs/BENCHMARKS.md.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Machine, repositoryFolder } from './machine.ts'

/** The target of a figure. `of` says whether the target is for the ratio to the baseline or for the value itself. */
export interface Target {
  readonly of: 'ratio' | 'value'
  readonly bound: 'at least' | 'at most' | 'under'
  readonly limit: number
}

/** A figure as a bench reports it. */
export interface FigureInput {
  readonly figure: string
  readonly value: number
  readonly unit: string
  /** The baseline, which was measured in the same run and has the same unit. */
  readonly baseline?: number
  readonly target?: Target
  /** A description of the baseline, and other information that a reader needs to judge the figure. */
  readonly note?: string
}

/** A figure as it is printed, as one line of JSON. */
export interface Figure {
  readonly bench: string
  readonly figure: string
  readonly value: number
  readonly unit: string
  readonly baseline: number | null
  readonly ratio: number | null
  readonly target: string | null
  readonly isMet: boolean | null
  readonly note: string
}

/** All figures of one bench, and the system that was measured. */
export interface BenchResult {
  readonly bench: string
  readonly question: string
  readonly workload: string
  readonly measuredAt: string
  readonly seconds: number
  readonly command: string
  readonly seed: number
  readonly workloadHash: string
  readonly machine: Machine
  readonly figures: readonly Figure[]
}

const SIGNIFICANT_DIGITS = 4
const BEGIN = '<!-- results: begin (written by npm run bench -- --write; do not edit) -->'
const END = '<!-- results: end -->'
const SECTION = /<!-- bench: ([a-z-]+) -->\n[\s\S]*?<!-- end of bench -->/g

/** Compares a figure with its target. The ratio is the value divided by the baseline. */
export function judge(bench: string, input: FigureInput): Figure {
  const baseline = input.baseline ?? null
  const ratio = baseline === null ? null : input.value / baseline
  const target = input.target
  const judged = target?.of === 'ratio' ? ratio : input.value
  return {
    bench,
    figure: input.figure,
    value: rounded(input.value),
    unit: input.unit,
    baseline: baseline === null ? null : rounded(baseline),
    ratio: ratio === null ? null : rounded(ratio),
    target: target === undefined ? null : `${target.of} ${target.bound} ${target.limit}`,
    isMet: target === undefined || judged === null ? null : reaches(judged, target),
    note: input.note ?? '',
  }
}

/** Returns a table for people, in Markdown that is also readable on a terminal. */
export function figureTable(figures: readonly Figure[]): string {
  const head = ['Figure', 'Value', 'Baseline', 'Ratio', 'Target', 'Met', 'Note']
  const rows = figures.map((figure) => [
    figure.figure,
    `${format(figure.value)} ${figure.unit}`,
    figure.baseline === null ? '' : `${format(figure.baseline)} ${figure.unit}`,
    figure.ratio === null ? '' : format(figure.ratio),
    figure.target ?? '',
    figure.isMet === null ? '' : figure.isMet ? 'yes' : 'no',
    figure.note,
  ])
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => (column === 6 ? cell : cell.padEnd(widths[column] ?? 0))).join(' | ')} |`
  const rule = `|${widths.map((width, column) => '-'.repeat(column === 6 ? 6 : width + 2)).join('|')}|`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

/**
 * Writes results to docs/BENCHMARKS.md: a section for each bench, in the order of `benches`. Sections of benches that
 * did not run, and the text around the sections, stay unchanged.
 */
export function writeDocument(results: readonly BenchResult[], benches: readonly string[]): void {
  const path = join(repositoryFolder(), 'docs', 'BENCHMARKS.md')
  const previous = existsSync(path) ? readFileSync(path, 'utf8') : ''
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, documentText(previous, results, benches))
}

/** Returns the text of the document with the results replaced. */
export function documentText(
  previous: string,
  results: readonly BenchResult[],
  benches: readonly string[],
): string {
  const [before, rest] = splitOnce(previous === '' ? EMPTY_DOCUMENT : previous, BEGIN)
  const [kept, after] = splitOnce(rest, END)
  const sections = new Map<string, string>()
  for (const match of kept.matchAll(SECTION)) sections.set(match[1] ?? '', match[0])
  for (const result of results) sections.set(result.bench, section(result))
  const written = benches.flatMap((bench) => sections.get(bench) ?? [])
  const missing = benches.filter((bench) => !sections.has(bench))
  if (missing.length > 0) written.push(`Not measured yet: ${missing.join(', ')}.`)
  return `${before}${BEGIN}\n\n${written.join('\n\n')}\n\n${END}${after}`
}

const EMPTY_DOCUMENT = `# Benchmarks

Every figure stands beside a baseline that was measured in the same run, on the same machine, with
the same requests from the same load generator, which shares the machine with the server. Runs are
interleaved and medians are taken; CPU time is user and system time of all threads of the process.
The questions, workloads and targets are in \`bench/\`, one file each; \`npm run bench -- --list\` names
them, \`npm run bench -- NAME --write\` measures one and rewrites its section here.

${BEGIN}
${END}
`

function section(result: BenchResult): string {
  const machine = result.machine
  const facts = [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB`,
    `4 KiB written and flushed: p50 ${machine.fsyncMsP50} ms, p99 ${machine.fsyncMsP99} ms`,
    `Node ${machine.node}`,
    `commit ${machine.commit}`,
    `load average at the start ${machine.loadAtStart}`,
    `seed ${result.seed}, events ${result.workloadHash}`,
    `${result.measuredAt.slice(0, 10)}, ${Math.round(result.seconds)} s`,
  ]
  return [
    `<!-- bench: ${result.bench} -->\n## ${result.bench}`,
    `${result.question}`,
    `Workload: ${result.workload}`,
    figureTable(result.figures),
    `\`${result.command}\`. ${facts.join('; ')}.\n<!-- end of bench -->`,
  ].join('\n\n')
}

function reaches(value: number, target: Target): boolean {
  if (target.bound === 'at least') return value >= target.limit
  if (target.bound === 'at most') return value <= target.limit
  return value < target.limit
}

/** Rounds a number to `SIGNIFICANT_DIGITS`. A whole number, such as a count, stays unchanged. */
function rounded(value: number): number {
  if (Number.isInteger(value)) return value
  return Number(value.toPrecision(SIGNIFICANT_DIGITS))
}

function format(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en-US')
  return value.toLocaleString('en-US', { maximumSignificantDigits: SIGNIFICANT_DIGITS })
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)]
}
