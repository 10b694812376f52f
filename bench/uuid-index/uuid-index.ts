/**
 * Question: is a plain table of hashes as cheap as Tenrec's own uuid index?
 * Workload: random fingerprints of 64 bits. Each event is looked up and then added, in commits of 49,152 (a backlog)
 * without flushes, up to the requested number; then in flushed commits of 49,152 and of 1,000 (5,000 events a second).
 * Then a new process opens the index and looks up 100,000 known events. Each layout has its own process, and they take
 * turns. `--events` sets another number than 10 million; UUID_LAYOUTS=runs,hash-key selects some of the layouts. Beyond
 * a million, the first commits of a plain table contain one 64th of all keys after the other: the tree is the same as
 * with random keys, and takes a bounded time. Its measured cost until then is too low.
 * Baseline: the index in `store/`, including merges. CPU time of the process.
 * Reconsider: the index, if a plain layout is within 10 % in CPU, bytes and start.
 */
import type { Bench, BenchContext } from '../harness.ts'
import { type Role, startRole } from '../operate/roles.ts'
import { LAYOUTS, type LayoutName } from './layouts.ts'
import type { UuidAnswer, UuidRange, UuidRequest } from './process.ts'

export const UUID_INDEX: Bench = {
  name: 'uuid-index',
  group: 'ingest',
  question: 'Is a plain table of hashes as cheap as the uuid index?',
  workload: 'random fingerprints, found and added in commits; found again after a start',
  isOnlyByName: true,
  needsDaemon: false,
  run: measure,
}

const COMMIT_EVENTS = 49_152
const COMMIT_EVENTS_QUIET = 1000
/**
 * How many times as many events the layout `runs` gets after the first part. It writes a run only from time to time,
 * and the merges of eight runs are part of its cost.
 */
const RUNS_TAIL = 22
/** If there are more events than this, the tree of a plain table is filled one part after the other. */
const RANDOM_FILL_MAX = 1_000_000
const PARTS = 64
const LOOKUPS = 100_000

const NOTHING = { cpuUs: 0, writtenBytes: 0, fileBytes: 0 }

/** A layout with one kind of uuids. */
interface Side {
  readonly label: string
  readonly layout: LayoutName
  readonly ids: UuidRange['ids']
  readonly folder: string
  /** The entries that the last process of the side had only in memory. */
  unwritten: UuidRange
}

interface Found {
  readonly fillUs: number
  readonly backlogUs: number
  readonly quietUs: number
  readonly findUs: number
  readonly startMs: number
  readonly bytes: number
  readonly writtenBytes: number
  readonly anonymousBytes: number
}

async function measure(context: BenchContext): Promise<void> {
  const events = context.events(100_000, 10_000_000)
  const tail = context.size(10 * COMMIT_EVENTS_QUIET, 4 * COMMIT_EVENTS)
  const only = process.env['UUID_LAYOUTS']?.split(',')
  const sides = LAYOUTS.flatMap((layout): Side[] => {
    const kinds = layout === 'time-key' ? (['v7', 'v4'] as const) : (['v7'] as const)
    return kinds.map((ids) => {
      const label = layout === 'time-key' ? `${layout} ${ids}` : layout
      const unwritten = { first: 1, count: 0, ids, partitionEntries: 0 }
      return { label, layout, ids, folder: context.newFolder(), unwritten }
    })
  }).filter(({ label }) => only === undefined || only.includes(label))
  const found = await measureSides(context, sides, events, tail)
  const ours = found[0]
  if (ours === undefined) throw new Error('nothing was measured')
  for (const [index, side] of sides.entries()) {
    const one = found[index]
    if (one !== undefined) report(context, side.label, one, ours, events)
  }
}

async function measureSides(
  context: BenchContext,
  sides: readonly Side[],
  events: number,
  tail: number,
): Promise<readonly Found[]> {
  const partitionEntries = events > RANDOM_FILL_MAX ? Math.ceil(events / PARTS) : 0
  const inTurns = (turn: Turn): Promise<readonly Spent[]> => insertInTurns(context, sides, turn)
  const filling = { count: events, commit: COMMIT_EVENTS, partitionEntries, isFlushed: false }
  const flushed = { count: tail, partitionEntries: 0, isFlushed: true }
  const fill = await inTurns({ events, first: 1, ...filling })
  let first = events + 1
  const backlog = await inTurns({ events, first, commit: COMMIT_EVENTS, ...flushed })
  first += tail * RUNS_TAIL
  const quiet = await inTurns({ events, first, commit: COMMIT_EVENTS_QUIET, ...flushed })
  const found: Found[] = []
  for (const [index, side] of sides.entries()) {
    found.push({
      fillUs: fill[index]?.cpuUs ?? 0,
      bytes: (fill[index]?.fileBytes ?? 0) / events,
      backlogUs: backlog[index]?.cpuUs ?? 0,
      quietUs: quiet[index]?.cpuUs ?? 0,
      writtenBytes: quiet[index]?.writtenBytes ?? 0,
      ...(await measureStart(side, events, partitionEntries)),
    })
  }
  return found
}

interface Turn extends Omit<UuidRange, 'ids'> {
  /** The number of events in the whole index. */
  readonly events: number
  readonly commit: number
  readonly isFlushed: boolean
}

/** The cost per event of a turn, and the size of the file after the turn. */
interface Spent {
  readonly cpuUs: number
  readonly writtenBytes: number
  readonly fileBytes: number
}

/** Inserts a range into all sides. The sides take turns, and each turn inserts a tenth of the range. */
async function insertInTurns(
  context: BenchContext,
  sides: readonly Side[],
  turn: Turn,
): Promise<readonly Spent[]> {
  const opened = await Promise.all(
    sides.map(async (side) => {
      const role = await openSide(side, turn.events, turn.isFlushed)
      context.cleanUpWith(() => role.stop())
      const { writtenBytes } = await ask(role, { ask: 'enter', ...side.unwritten })
      return { side, role, writtenBefore: writtenBytes, cpuUs: 0, spent: NOTHING }
    }),
  )
  for (let tenth = 0; tenth < 10; tenth++) {
    for (const one of opened) {
      const { ids, layout } = one.side
      const partitionEntries = layout === 'runs' ? 0 : turn.partitionEntries
      const total = turn.isFlushed && layout === 'runs' ? turn.count * RUNS_TAIL : turn.count
      const begin = Math.floor((total * tenth) / 10)
      const count = Math.floor((total * (tenth + 1)) / 10) - begin
      const range = { ...turn, first: turn.first + begin, count, ids, partitionEntries }
      const answer = await ask(one.role, { ask: 'insert', ...range })
      if (answer.found > 0) throw new Error(`${answer.found} new events were known`)
      one.cpuUs += answer.cpuUs
      one.spent = {
        cpuUs: one.cpuUs / total,
        writtenBytes: (answer.writtenBytes - one.writtenBefore) / total,
        fileBytes: answer.fileBytes,
      }
      const { unwritten } = answer
      one.side.unwritten = {
        ...range,
        first: range.first + count - unwritten,
        count: unwritten,
      }
    }
  }
  for (const { role } of opened) await role.stop()
  return opened.map(({ spent }) => spent)
}

async function openSide(
  { layout, folder }: Side,
  entries: number,
  isFlushed: boolean,
): Promise<Role> {
  const role = startRole('uuid-index')
  await ask(role, { ask: 'open', layout, folder, entries, isFlushed })
  return role
}

async function measureStart(
  side: Side,
  events: number,
  partitionEntries: number,
): Promise<Pick<Found, 'startMs' | 'findUs' | 'anonymousBytes'>> {
  const { layout, folder, ids, unwritten } = side
  const role = startRole('uuid-index')
  const opened = await ask(role, { ask: 'open', layout, folder, entries: events, isFlushed: true })
  // A real store would also have to read segments to get these entries.
  const entered = await ask(role, { ask: 'enter', ...unwritten })
  const count = Math.min(LOOKUPS, Math.floor(events / 4))
  const partition = { partitionEntries: layout === 'runs' ? 0 : partitionEntries }
  const known = await ask(role, { ask: 'find', first: 1, count, ids, ...partition })
  await role.stop()
  if (known.found !== count) throw new Error(`${layout}: ${count - known.found} are not found`)
  return {
    startMs: opened.elapsedMs + entered.elapsedMs,
    findUs: known.cpuUs / count,
    anonymousBytes: known.memory.anonymousBytes,
  }
}

async function ask(role: Role, request: UuidRequest): Promise<UuidAnswer> {
  role.send(request)
  // process.ts of the same build writes the message.
  return (await role.receive()) as UuidAnswer
}

function report(
  context: BenchContext,
  label: string,
  one: Found,
  ours: Found,
  events: number,
): void {
  const rows: readonly (readonly [string, keyof Found, string, number])[] = [
    [`CPU per event, from none to ${events}, not flushed`, 'fillUs', 'us', 1],
    [`CPU per event, ${COMMIT_EVENTS} a commit, flushed`, 'backlogUs', 'us', 1],
    [`CPU per event, ${COMMIT_EVENTS_QUIET} a commit, flushed`, 'quietUs', 'us', 1],
    ['CPU per known event that is looked for', 'findUs', 'us', 1],
    ['file, bytes per event', 'bytes', 'bytes', 1],
    [`written per event, ${COMMIT_EVENTS_QUIET} a commit`, 'writtenBytes', 'bytes', 1],
    ['opening', 'startMs', 'ms', 1],
    ['memory of the process that opened it', 'anonymousBytes', 'MiB', 1024 ** 2],
  ]
  for (const [figure, name, unit, divisor] of rows) {
    const value = one[name] / divisor
    const figureInput = { figure: `${label}: ${figure}`, value, unit }
    context.report(one === ours ? figureInput : { ...figureInput, baseline: ours[name] / divisor })
  }
}
