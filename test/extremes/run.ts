/**
 * Runs attacks against the built daemon: `npm run extremes -- rows 4`, `npm run extremes -- search --seconds 3600`. The
 * README of this folder explains the figures.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ROWS, type Row } from './rows.ts'
import { INVARIANTS, type SearchTrial, search, tryShapes } from './search.ts'
import { parseShape } from './shapes.ts'
import { missedTargets } from './targets.ts'
import { runTrial, type TrialReport, type TrialSettings } from './trial.ts'

const USAGE = `npm run extremes -- rows all | NUMBER[VARIANT]...
npm run extremes -- search --seconds 600 --seed 1
npm run extremes -- shape FILE

  --seed N          other data, or another search; default 1
  --out FILE        appends a JSON line for each row or trial
  --heap MIB        Node's heap; default: Node's own, in a search 512
  --memory-max MIB  sets the setting memory_max
  --guard MIB       kills a daemon with more resident memory; default 6000
  --drain SECONDS   waits so long until everything is processed; default 120, in a search 60
  --attack SECONDS  sends what is refused again for so long; default 90, in a search 20
  --life SECONDS    a daemon must live so long after an attack and a restart; default 8, in a search 3
  --start SECONDS   a start may take so long; default 60
  --forwarded       clients come through a proxy that sends X-Forwarded-For
  --budget MIB      in a search: memory of the daemon; default ${INVARIANTS.memoryMibMax}
  --wire KIB        in a search: bytes that a trial sends at most; default 1536
`

const OPTIONS = {
  help: { type: 'boolean', default: false },
  seed: { type: 'string', default: '1' },
  out: { type: 'string' },
  heap: { type: 'string' },
  'memory-max': { type: 'string' },
  guard: { type: 'string', default: '6000' },
  drain: { type: 'string' },
  attack: { type: 'string' },
  life: { type: 'string' },
  start: { type: 'string', default: '60' },
  forwarded: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '600' },
  budget: { type: 'string', default: String(INVARIANTS.memoryMibMax) },
  wire: { type: 'string', default: '1536' },
} as const

const { values, positionals } = readArguments()

/** Prints the usage and ends the process if `--help` is given or an option is unknown. */
function readArguments() {
  try {
    const parsed = parseArgs({ allowPositionals: true, options: OPTIONS })
    if (!parsed.values.help) return parsed
    process.stdout.write(USAGE)
    process.exit(0)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exit(2)
  }
}

interface Defaults {
  readonly drain: number
  readonly attack: number
  readonly life: number
}

function settingsOf(defaults: Defaults): TrialSettings {
  const { heap, guard, drain, attack, life, start, forwarded } = values
  const memoryMax = values['memory-max']
  const machine: { heapMib?: number; memoryMaxMib?: number } = {}
  if (heap !== undefined) machine.heapMib = Number(heap)
  if (memoryMax !== undefined) machine.memoryMaxMib = Number(memoryMax)
  return {
    ...machine,
    guardMib: Number(guard),
    drainMsMax: Number(drain ?? defaults.drain) * 1000,
    attackMsMax: Number(attack ?? defaults.attack) * 1000,
    lifeMsMin: Number(life ?? defaults.life) * 1000,
    startMsMax: Number(start) * 1000,
    isForwarded: forwarded,
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function keep(value: object): void {
  if (values.out !== undefined) appendFileSync(values.out, `${JSON.stringify(value)}\n`)
}

function nameOf({ number, variant }: Row): string {
  return variant === undefined ? String(number) : `${number}-${variant}`
}

async function runRows(names: readonly string[]): Promise<void> {
  const seed = Number(values.seed)
  const wanted = ROWS.filter((row) => {
    return (
      names.includes('all') || names.includes(nameOf(row)) || names.includes(String(row.number))
    )
  })
  if (wanted.length === 0) {
    process.stderr.write(`There is no such row. Rows: ${ROWS.map(nameOf).join(' ')}\n`)
    process.exitCode = 2
    return
  }
  const given = settingsOf({ drain: 120, attack: 90, life: 8 })
  const verdicts: string[] = []
  for (const row of wanted) {
    const settings = { ...row.machine, ...given }
    const report = await runTrial(row.make(seed), settings)
    const { number, variant, title } = row
    const { memoryMaxMib } = settings
    const missed = missedTargets({ number, variant, memoryMaxMib }, report)
    if (missed.length > 0) verdicts.push(`row ${nameOf(row)} MISSED ${missed.join('; ')}`)
    const line = { row: nameOf(row), title, seed, settings, missed, report }
    keep(line)
    print(JSON.stringify(line))
    print(`row ${nameOf(row)}, ${title}`)
    print(`  ${summary(report)}`)
    for (const [name, figure] of Object.entries(report.figures)) {
      print(`  ${name}: ${JSON.stringify(figure)}`)
    }
    for (const [text, count] of Object.entries(report.complaints))
      print(`  log, ${count}x: ${text}`)
  }
  for (const verdict of verdicts) print(verdict)
  if (verdicts.length > 0) process.exitCode = 1
}

/** Prints the figures of a trial for people. */
function summary(report: TrialReport): string {
  const { restart, captures, flags, reads, peaks } = report
  const guard = report.isStoppedByGuard ? ', killed by the guard' : ''
  const refused = captures.refused + flags.refused
  const parts = [
    report.isAlive ? 'alive' : `DEAD ${report.ending ?? ''}${guard}`,
    `restart ${restart.isAlive ? 'alive' : 'DEAD'}, ready in ${restart.readyMs.join(', ')} ms`,
    `event seen after ${text(report.seenMs)}, after restart ${text(restart.seenMs)}`,
    `all processed after ${text(report.lagMs)}`,
    `memory ${peaks.anonymousMib} MiB anonymous, ${peaks.residentMib} resident (idle ${report.idleMib})`,
    `after restart ${restart.peaks.anonymousMib} MiB`,
    `CPU ${report.cpuSeconds} s`,
    `disk ${Math.max(peaks.diskMib, restart.peaks.diskMib)} MiB`,
    ...(peaks.fileSystemMib === null ? [] : [`file system ${peaks.fileSystemMib} MiB used`]),
    `wire ${Math.round(report.wireBytes / 1024)} KiB in ${Math.round(report.sendMs / 1000)} s`,
    `answers ${JSON.stringify(report.statuses)}`,
    `others wait ${captures.longestMs}/${flags.longestMs}/${reads.longestMs} ms (captures/flags/reads)`,
    `p99 ${captures.p99Ms}/${flags.p99Ms}/${reads.p99Ms}`,
    `refused ${refused} of ${captures.sent + flags.sent}, cut ${captures.failed + flags.failed}`,
    `machine slower by ${report.slowness}`,
    `own stall ${report.ownStallMs} ms`,
  ]
  const { attackerRefusedMs } = report
  if (attackerRefusedMs !== null) {
    parts.push(`attacker refused from ${attackerRefusedMs[0]} to ${attackerRefusedMs[1]} ms`)
  }
  if (captures.refusedMs !== null) {
    parts.push(`others refused from ${captures.refusedMs[0]} to ${captures.refusedMs[1]} ms`)
  }
  if (captures.firstRefusal !== '') parts.push(`first refusal ${captures.firstRefusal}`)
  return parts.join('; ')
}

function text(ms: number | null): string {
  return ms === null ? 'never' : `${ms} ms`
}

/** With the parts of a trial that are needed to run it again. */
function printTrial(trial: SearchTrial): void {
  const { number, seed, shapes, violations, scores, report } = trial
  keep(trial)
  const figures = Object.entries(scores).map(
    ([name, score]) => `${name} ${Number(score).toFixed(2)}`,
  )
  print(`${number}: ${figures.join(', ')}; wire ${Math.round(report.wireBytes / 1024)} KiB`)
  if (violations.length === 0) return
  print(`   VIOLATED ${violations.join('; ')}`)
  print(`   again: ${JSON.stringify({ seed, shapes })}`)
}

function searchSettings(): Parameters<typeof tryShapes>[1]['options'] {
  const settings = settingsOf({ drain: 60, attack: 20, life: 3 })
  return {
    settings: { heapMib: 512, ...settings },
    invariants: { ...INVARIANTS, memoryMibMax: Number(values.budget) },
    wireBytesMax: Number(values.wire) * 1024,
  }
}

async function runSearch(): Promise<void> {
  const options = { seed: Number(values.seed), seconds: Number(values.seconds) }
  const trials = await search({ ...options, ...searchSettings(), onTrial: printTrial })
  const broken = trials.filter(({ violations }) => violations.length > 0)
  print(`${trials.length} trials, ${broken.length} with violations`)
  if (broken.length > 0) process.exitCode = 1
}

/** Runs a shape again that a search printed: `{"seed": ..., "shapes": [...]}`. */
async function runShape(path: string): Promise<void> {
  const { seed, shapes } = JSON.parse(readFileSync(path, 'utf8')) as {
    seed: number
    shapes: unknown[]
  }
  const turn = { number: 1, trialSeed: seed, options: searchSettings() }
  const trial = await tryShapes(shapes.map(parseShape), turn)
  printTrial(trial)
  print(`   ${summary(trial.report)}`)
  print(`   ${JSON.stringify(trial.report.figures)}`)
  print(`   ${JSON.stringify(trial.report.complaints)}`)
  if (trial.violations.length > 0) process.exitCode = 1
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

const [task, ...words] = positionals
if (task === 'rows') await runRows(words)
else if (task === 'search') await runSearch()
else if (task === 'shape' && words[0] !== undefined) await runShape(words[0])
else {
  process.stderr.write(USAGE)
  process.exitCode = 2
}
