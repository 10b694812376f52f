/**
 * A search for bodies that cost the daemon much and the sender little. It chooses shapes (shapes.ts) at random, changes
 * and combines the most expensive ones, and reports each shape that breaks an invariant.
 */
import { Dice } from '../fixtures/dice.ts'
import { packedBytes } from './bodies.ts'
import type { Client, Reply } from './client.ts'
import { crossShapes, drawShape, mutateShape, type Shape, shapeBodies } from './shapes.ts'
import { type Attack, runTrial, type TrialReport, type TrialSettings } from './trial.ts'

const MIB = 1024 ** 2
const CONCURRENCY = 2
const SHAPES_MAX = 3
const ELITES_MAX = 4
const DRAWN_SHARE = 0.35
/** CPU time that a trial may take. */
const CPU_SECONDS = 20
/** The limit of all bodies before compression. Beyond it, creating them takes longer than processing them. */
const TRIAL_BYTES_MAX = 200 * MIB

/** Invariants that must hold in each trial. */
export interface Invariants {
  /** Anonymous memory, MiB. */
  readonly memoryMibMax: number
  readonly restartMsMax: number
  readonly seenMsMax: number
  readonly waitMsMax: number
  /** Time for a list of names, persons or events with a key. */
  readonly readMsMax: number
  /** Bytes on disk for each byte on the wire. Only the bytes beyond 64 MiB on disk count. */
  readonly diskRatioMax: number
}

export const INVARIANTS: Invariants = {
  memoryMibMax: 800,
  restartMsMax: 5000,
  seenMsMax: 30_000,
  waitMsMax: 1000,
  readMsMax: 1000,
  diskRatioMax: 400,
}

export interface SearchOptions {
  readonly seed: number
  readonly seconds: number
  readonly wireBytesMax: number
  readonly settings: TrialSettings
  readonly invariants: Invariants
  /** Called after each trial. */
  readonly onTrial: (trial: SearchTrial) => void
}

/** The result of a trial. */
export interface SearchTrial {
  readonly number: number
  readonly seed: number
  readonly shapes: readonly Shape[]
  readonly report: TrialReport
  readonly violations: readonly string[]
  readonly scores: Scores
}

/** Each score is 1 if an invariant is just met. */
export interface Scores {
  readonly life: number
  readonly memory: number
  readonly disk: number
  readonly lag: number
  /** CPU time, which is more reliable than the lag on a machine with other load. */
  readonly work: number
  readonly waits: number
  readonly reads: number
}

/** Searches until the time is over. */
export async function search(options: SearchOptions): Promise<readonly SearchTrial[]> {
  const { seed, seconds, onTrial } = options
  const dice = new Dice(seed)
  const endMs = performance.now() + seconds * 1000
  const trials: SearchTrial[] = []
  while (performance.now() < endMs) {
    const shapes = nextShapes(dice, trials)
    const number = trials.length + 1
    const trial = await tryShapes(shapes, { number, trialSeed: seed * 10_000 + number, options })
    trials.push(trial)
    onTrial(trial)
  }
  return trials
}

interface Turn {
  readonly number: number
  readonly trialSeed: number
  readonly options: Omit<SearchOptions, 'onTrial' | 'seconds' | 'seed'>
}

/** Sends the bodies of shapes one after another and judges the result. */
export async function tryShapes(shapes: readonly Shape[], turn: Turn): Promise<SearchTrial> {
  const { settings, invariants, wireBytesMax } = turn.options
  const bounds = {
    wireBytesMax: wireBytesMax / shapes.length,
    bytesMax: TRIAL_BYTES_MAX / shapes.length,
  }
  const bodies = shapes.flatMap((shape, index) =>
    shapeBodies(shape, turn.trialSeed + index, bounds),
  )
  const attack: Attack = {
    send: ({ attacker, endMs }) => attacker.sendAll(bodies, CONCURRENCY, endMs),
    async read(scene) {
      for (const [name, ask] of READS) {
        if (!scene.daemon.isAlive) return
        const { status, ms } = await ask(scene.reader)
        scene.note(name, { status, ms: Math.round(ms) })
        // Further reads would wait just as long.
        if (status === 0) return
      }
    },
  }
  const report = await runTrial(attack, settings)
  const scores = scoresOf(report, invariants, packedBytes(bodies))
  const violations = violationsOf(report, scores, invariants)
  return { number: turn.number, seed: turn.trialSeed, shapes, report, violations, scores }
}

const SERIES = [{ kind: 'EventsNode', event: null }]

function ask(client: Client, value: object): Promise<Reply> {
  return client.api('POST', 'query/', { query: value })
}

/** Reads with a key after the bodies were processed. Queries may take longer than lists. */
const READS: ReadonlyMap<string, (client: Client) => Promise<Reply>> = new Map([
  ['list of events', (client: Client) => client.api('GET', 'event_definitions/?limit=2')],
  ['list of properties', (client: Client) => client.api('GET', 'property_definitions/?limit=5')],
  [
    'list of person properties',
    (client: Client) => client.api('GET', 'property_definitions/?type=person&limit=5'),
  ],
  ['list of persons', (client: Client) => client.api('GET', 'persons/?limit=2')],
  ['list of newest', (client: Client) => client.api('GET', 'events/?limit=2')],
  ['list of groups', (client: Client) => client.api('GET', 'groups/?group_type_index=0&limit=2')],
  ['question of days', (client: Client) => ask(client, { kind: 'TrendsQuery', series: SERIES })],
  [
    'question over all',
    (client: Client) => {
      const dateRange = { date_from: 'all' }
      return ask(client, { kind: 'TrendsQuery', series: SERIES, dateRange, interval: 'month' })
    },
  ],
  [
    'question of values',
    (client: Client) => {
      const breakdownFilter = { breakdown: 'p0', breakdown_type: 'event' }
      return ask(client, { kind: 'TrendsQuery', series: SERIES, breakdownFilter })
    },
  ],
])

function isList(name: string): boolean {
  return name.startsWith('list')
}

interface ReadFigure {
  readonly status: number
  readonly ms: number
}

function readsOf(report: TrialReport): readonly (readonly [string, ReadFigure])[] {
  return Object.entries(report.figures).map(([name, figure]) => [name, figure as ReadFigure])
}

function scoresOf(report: TrialReport, invariants: Invariants, wireBytes: number): Scores {
  const { restart, captures, flags, slowness } = report
  const peakMib = Math.max(report.peaks.anonymousMib, restart.peaks.anonymousMib)
  const diskMib = Math.max(report.peaks.diskMib, restart.peaks.diskMib)
  const listMs = readsOf(report).map(([name, { ms }]) => (isList(name) ? ms : ms / 10))
  const isDead = !report.isAlive || !restart.isAlive
  const readyMs = Math.max(0, ...restart.readyMs.map((ms) => ms ?? 60_000))
  return {
    life: isDead ? 10 : readyMs / slowness / invariants.restartMsMax,
    memory: peakMib / invariants.memoryMibMax,
    disk: (Math.max(0, diskMib - 64) * MIB) / Math.max(1, wireBytes) / invariants.diskRatioMax,
    lag: (report.seenMs ?? 4 * invariants.seenMsMax) / slowness / invariants.seenMsMax,
    work: report.cpuSeconds / CPU_SECONDS,
    waits: Math.max(captures.longestMs, flags.longestMs) / slowness / invariants.waitMsMax,
    reads: Math.max(0, ...listMs) / slowness / invariants.readMsMax,
  }
}

function violationsOf(report: TrialReport, scores: Scores, invariants: Invariants): string[] {
  const found: string[] = []
  const note = (isBroken: boolean, text: string): void => {
    if (isBroken) found.push(text)
  }
  const { restart, captures, flags, peaks, slowness } = report
  note(!report.isAlive, `dead: ${report.ending ?? ''}${report.isStoppedByGuard ? ' (guard)' : ''}`)
  note(!restart.isAlive, `dead after each start: ready in ${JSON.stringify(restart.readyMs)} ms`)
  note(restart.isAlive && scores.life > 1, `ready in ${JSON.stringify(restart.readyMs)} ms`)
  const { memoryMibMax } = invariants
  note(peaks.anonymousMib > memoryMibMax, `memory ${peaks.anonymousMib} MiB`)
  const afterMib = restart.peaks.anonymousMib
  note(afterMib > memoryMibMax, `memory ${afterMib} MiB after a restart`)
  note(scores.disk > 1, `disk ${peaks.diskMib} MiB`)
  note(report.isAlive && scores.lag > 1, `an event seen after ${report.seenMs ?? 'ever'} ms`)
  const isSeenLate = (restart.seenMs ?? Number.POSITIVE_INFINITY) > invariants.seenMsMax * slowness
  note(restart.isAlive && isSeenLate, `an event seen ${restart.seenMs ?? 'n'} ms after a restart`)
  for (const [name, waits] of Object.entries({ captures, flags })) {
    note(
      waits.longestMs > invariants.waitMsMax * slowness,
      `${name} of others wait ${waits.longestMs} ms`,
    )
    note(report.isAlive && waits.refused > 0, `${name} of others: ${waits.refused} refused`)
  }
  for (const [name, { status, ms }] of readsOf(report)) {
    note(isList(name) && ms > invariants.readMsMax * slowness, `${name} takes ${ms} ms`)
    note(status !== 200 && status !== 400, `${name} answers ${status}`)
  }
  return found
}

/** Draws shapes, or takes those of a trial with a high score and changes them. */
function nextShapes(dice: Dice, trials: readonly SearchTrial[]): readonly Shape[] {
  if (trials.length < 3 || dice.chance(DRAWN_SHARE)) {
    return dice.list(dice.between(1, SHAPES_MAX), () => drawShape(dice))
  }
  const score = dice.pick(['life', 'memory', 'disk', 'lag', 'work', 'waits', 'reads'] as const)
  const best = trials.toSorted((a, b) => b.scores[score] - a.scores[score]).slice(0, ELITES_MAX)
  const parent = dice.pick(best).shapes
  const other = dice.pick(best).shapes
  const turn = dice.below(4)
  if (turn === 0) return parent.map((shape) => crossShapes(dice, shape, dice.pick(other)))
  if (turn === 1 && parent.length < SHAPES_MAX) return [...parent, dice.pick(other)]
  if (turn === 2 && parent.length > 1) return [mutateShape(dice, dice.pick(parent))]
  return parent.map((shape) => mutateShape(dice, shape))
}
