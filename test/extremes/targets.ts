/**
 * The targets of the known attacks. `npm run extremes -- rows` fails if the figures of a row miss one of its targets. On
 * a slow machine, times may exceed their targets by the factor `slowness` of the report.
 */
import type { Waits } from './ordinary-clients.ts'
import type { TrialReport } from './trial.ts'

const READY_MS = 5000
const SEEN_MS = 30_000
const MEMORY_MIB = 800
/** What a daemon may use beyond the setting `memory_max`. */
const BEYOND_MEMORY_MAX_MIB = 50
const WAIT_MS = 1000
const LAG_MS = 20_000
const LIST_MS = 300
const CAPTURES_P99_MS = 100
/** The decision of a large person may take this many times as long as that of a small one. */
const DECISION_FACTOR = 2

/** After these rows, a restart and a new event must be fast. */
const RECOVERED_ROWS: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 13, 14, 16])
/** The row that fills the disk. */
const FULL_DISK_ROW = 13
/** The disk counts as full only if this part of it was used, because all of the rest is reserved. */
const FULL_PART = 0.75
const MEMORY_ROWS: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 9, 16])
/** Beside these rows, other clients must be answered as usual. */
const SHARED_ROWS: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, 12])

/** The row whose figures are judged, and the setting `memory_max` of its daemon if it was set. */
export interface JudgedRow {
  readonly number: number
  readonly variant?: string | undefined
  readonly memoryMaxMib?: number | undefined
}

/** Returns the figures of a row that miss their targets, as parts of one sentence. */
export function missedTargets(row: JudgedRow, report: TrialReport): readonly string[] {
  const { number } = row
  const missed = missedLife(report)
  // The figures of a daemon that ended say nothing more.
  if (missed.length > 0) return missed
  if (RECOVERED_ROWS.has(number)) missed.push(...missedRecovery(row, report))
  if (MEMORY_ROWS.has(number)) missed.push(...missedMemory(row, report))
  if (SHARED_ROWS.has(number)) missed.push(...missedByOthers(report))
  missed.push(...(OWN_TARGETS[number]?.(report, row) ?? []))
  return missed
}

function missedLife({ isAlive, ending, restart }: TrialReport): string[] {
  const missed: string[] = []
  if (!isAlive) missed.push(`the daemon ended: ${ending ?? 'unknown'}`)
  if (!restart.isAlive) missed.push('the daemon does not live after a restart')
  return missed
}

function missedRecovery({ number }: JudgedRow, report: TrialReport): string[] {
  const { restart, seenMs, slowness } = report
  const missed: string[] = []
  for (const ms of restart.readyMs) {
    if (isLate(ms, READY_MS * slowness)) missed.push(`ready after ${text(ms)} (${READY_MS} ms)`)
  }
  for (const [when, ms] of [
    ['after the attack', seenMs],
    ['after a restart', restart.seenMs],
  ] as const) {
    // A full disk accepts no event before the restart.
    if (number === FULL_DISK_ROW && when === 'after the attack') continue
    if (!isLate(ms, SEEN_MS * slowness)) continue
    missed.push(`an event ${when} is seen after ${text(ms)} (${SEEN_MS} ms)`)
  }
  return missed
}

function missedMemory({ memoryMaxMib }: JudgedRow, { peaks, restart }: TrialReport): string[] {
  const mib = Math.max(peaks.anonymousMib, restart.peaks.anonymousMib)
  const target = memoryMaxMib === undefined ? MEMORY_MIB : memoryMaxMib + BEYOND_MEMORY_MAX_MIB
  return mib > target ? [`memory ${mib} MiB (${target} MiB)`] : []
}

function missedByOthers(report: TrialReport): string[] {
  const { captures, flags, reads, slowness, ownStallMs } = report
  const longestMs = Math.max(captures.longestMs, flags.longestMs, reads.longestMs)
  // While the trial itself was blocked, its clients could not see their answers.
  const isSlow = longestMs > WAIT_MS * slowness + ownStallMs
  const late = isSlow ? [`others wait ${longestMs} ms (${WAIT_MS} ms)`] : []
  return [...late, ...refusalsOf(report)]
}

function refusalsOf({ captures, flags, reads }: TrialReport): string[] {
  const count = [captures, flags, reads].reduce(
    (sum, { refused, failed }: Waits) => sum + refused + failed,
    0,
  )
  return count > 0 ? [`${count} requests of others are refused (0)`] : []
}

type Judge = (report: TrialReport, row: JudgedRow) => readonly string[]

/** Targets of single rows. */
const OWN_TARGETS: Readonly<Record<number, Judge>> = {
  6: ({ lagMs, slowness }) =>
    isLate(lagMs, LAG_MS * slowness)
      ? [`all is processed after ${text(lagMs)} (${LAG_MS} ms)`]
      : [],
  7({ figures }) {
    const [small, large] = ['narrow', 'wide1'].map((id) =>
      numberIn(figures[`decision of ${id}`], 'p99Ms'),
    )
    if (small === undefined || large === undefined || !(large <= DECISION_FACTOR * small)) {
      return [
        `a decision of a large person takes ${large} ms (${DECISION_FACTOR} times ${small} ms)`,
      ]
    }
    return []
  },
  8({ figures, slowness }) {
    const lists = ['two events', 'two events again', 'two properties'].flatMap((name) => {
      const ms = numberIn(figures[name], 'ms')
      return ms <= LIST_MS * slowness ? [] : [`the list "${name}" takes ${ms} ms (${LIST_MS} ms)`]
    })
    const names = ['a new event is listed', 'a new property is listed']
    return [
      ...lists,
      ...names.filter((name) => figures[name] !== true).map((name) => `not: ${name}`),
    ]
  },
  [FULL_DISK_ROW](report) {
    const { figures, flags, reads, lagMs } = report
    const missed: string[] = []
    const [used, size] = ['usedMib', 'sizeMib'].map((name) => numberIn(figures['full'], name))
    if (!(Number(used) >= FULL_PART * Number(size))) {
      missed.push(`the disk was not full: ${used} of ${size} MiB when captures were refused`)
    }
    for (const when of ['while full', 'full after a restart']) {
      for (const kind of ['flags', 'reads']) {
        const [asked, answered] = [kind, `${kind}Answered`].map((name) =>
          numberIn(figures[when], name),
        )
        if (!(Number(asked) > 0 && answered === asked)) {
          missed.push(`${when}, ${answered} of ${asked} requests for ${kind} are answered`)
        }
      }
    }
    const refused = flags.refused + flags.failed + reads.refused + reads.failed
    if (refused > 0) missed.push(`${refused} flags and reads of others are refused (0)`)
    if (lagMs === null) missed.push('not all is processed without more room')
    const accepted = Number(figures['accepted events'])
    for (const name of ['stored events', 'stored events after a restart']) {
      const stored = figures[name]
      if (typeof stored === 'number' && stored >= accepted) continue
      missed.push(`${name}: ${String(stored)} of ${accepted} that were accepted`)
    }
    return missed
  },
  15(report, { variant }) {
    const { figures, captures, slowness } = report
    const missed = Object.entries(figures).flatMap(([name, figure]) => {
      const status = numberIn(figure, 'status')
      return Number.isNaN(status) || status === 200
        ? []
        : [`the question "${name}" is answered ${status}`]
    })
    if (variant === '1024') missed.push(...refusalsOf(report))
    if (variant === '512' && captures.p99Ms > CAPTURES_P99_MS * slowness) {
      missed.push(`99% of captures take up to ${captures.p99Ms} ms (${CAPTURES_P99_MS} ms)`)
    }
    return missed
  },
}

/** Returns a number in a figure, or NaN if the figure has no such number. */
function numberIn(figure: unknown, name: string): number {
  if (typeof figure !== 'object' || figure === null) return Number.NaN
  return Number((figure as Readonly<Record<string, unknown>>)[name])
}

/** Null means never. */
function isLate(ms: number | null, msMax: number): boolean {
  return ms === null || ms > msMax
}

function text(ms: number | null): string {
  return ms === null ? 'no time' : `${ms} ms`
}
