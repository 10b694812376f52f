/**
 * The targets of the known attacks: figures that meet them, and figures that miss them.
 *
 * @lane quick
 */
import t from 'tap'
import { type JudgedRow, missedTargets } from './targets.ts'
import type { TrialReport } from './trial.ts'

const WAITS = {
  sent: 100,
  refused: 0,
  failed: 0,
  longestMs: 1000,
  p99Ms: 100,
  firstRefusal: '',
  refusedMs: null,
}
const PEAKS = {
  anonymousMib: 800,
  residentMib: 2000,
  diskMib: 900,
  fileSystemMib: null,
  cpuSeconds: 9,
}
const DECISIONS = {
  'decision of narrow': { medianMs: 1, p99Ms: 2 },
  'decision of wide1': { medianMs: 1, p99Ms: 4 },
}
const LISTS = {
  'two events': { status: 200, ms: 300, bytes: 9 },
  'two events again': { status: 200, ms: 300, bytes: 9 },
  'two properties': { status: 200, ms: 300, bytes: 9 },
  'a new event is listed': true,
  'a new property is listed': true,
}
const ANSWERED = { flags: 50, flagsAnswered: 50, reads: 50, readsAnswered: 50 }
const FULL = {
  full: { afterMs: 9, usedMib: 48, sizeMib: 64 },
  'while full': ANSWERED,
  'full after a restart': ANSWERED,
  'accepted events': 500,
  'stored events': 500,
  'stored events after a restart': 500,
}
const FIGURES: Readonly<Record<number, object>> = {
  7: DECISIONS,
  8: LISTS,
  13: FULL,
  15: { filled: { events: 1, seconds: 1 }, 'trends: detail': 'text', trends: { status: 200 } },
}

/** The figures of a row that just meets every target. */
function good(number: number): TrialReport {
  return {
    isAlive: true,
    ending: null,
    isStoppedByGuard: false,
    idleMib: 100,
    cpuSeconds: 9,
    peaks: PEAKS,
    seenMs: 30_000,
    lagMs: 20_000,
    wireBytes: 1,
    sendMs: 1,
    acceptedEvents: 1,
    statuses: {},
    attackerRefusedMs: null,
    captures: WAITS,
    flags: WAITS,
    reads: WAITS,
    restart: { readyMs: [5000], isAlive: true, seenMs: 30_000, peaks: PEAKS },
    figures: { ...FIGURES[number] },
    complaints: {},
    slowness: 1,
    ownStallMs: 0,
  }
}

const missed = (row: JudgedRow, change: object): readonly string[] =>
  missedTargets(row, { ...good(row.number), ...change })

t.test('figures that just meet the targets miss none', async (t) => {
  for (let number = 1; number <= 16; number++) t.strictSame(missed({ number }, {}), [], `${number}`)
  for (const variant of ['512', '768', '1024']) {
    t.strictSame(missed({ number: 15, variant }, {}), [], variant)
  }
})

t.test('each figure beyond its target is named, in those rows that have the target', async (t) => {
  const { restart } = good(1)
  const late = { ...WAITS, longestMs: 1001 }
  const cases: readonly (readonly [object, readonly number[], RegExp])[] = [
    [{ isAlive: false, ending: 'SIGKILL' }, range(1, 16), /^the daemon ended: SIGKILL$/],
    [{ restart: { ...restart, isAlive: false } }, range(1, 16), /does not live after a restart/],
    [
      { restart: { ...restart, readyMs: [null, 5001] } },
      [...range(1, 6), 13, 14, 16],
      /^ready after no time \(5000 ms\), ready after 5001 ms/,
    ],
    [{ seenMs: null }, [...range(1, 6), 14, 16], /^an event after the attack .* no time/],
    [
      { restart: { ...restart, seenMs: 30_001 } },
      [...range(1, 6), 13, 14, 16],
      /^an event after a restart is seen after 30001 ms/,
    ],
    [
      { peaks: { ...PEAKS, anonymousMib: 801 } },
      [...range(1, 6), 9, 16],
      /^memory 801 MiB \(800 MiB\)$/,
    ],
    [
      { restart: { ...restart, peaks: { ...PEAKS, anonymousMib: 900 } } },
      [...range(1, 6), 9, 16],
      /^memory 900 MiB/,
    ],
    [{ captures: late }, [...range(1, 9), 12], /^others wait 1001 ms \(1000 ms\)$/],
    [{ captures: { ...WAITS, refused: 2 } }, [...range(1, 9), 12], /^2 requests of others/],
    [{ flags: { ...WAITS, refused: 3 } }, [...range(1, 9), 12, 13], /^3 requests of others/],
    [{ reads: { ...WAITS, failed: 1 } }, [...range(1, 9), 12, 13], /^1 requests of others/],
    [{ lagMs: 20_001 }, [6], /^all is processed after 20001 ms/],
    [
      { figures: { ...DECISIONS, 'decision of wide1': { p99Ms: 4.1 } } },
      [7],
      /^a decision of a large person takes 4.1 ms \(2 times 2 ms\)$/,
    ],
  ]
  for (const [change, rows, expected] of cases) {
    const found = range(1, 16).filter((number) => {
      const figures = { figures: good(number).figures }
      return missed({ number }, number === 7 ? change : { ...change, ...figures }).length > 0
    })
    t.strictSame(found, rows, JSON.stringify(change))
    t.match(missed({ number: rows[0] ?? 0 }, change).join(', '), expected)
  }
})

t.test(
  'rows 7, 8 and 15 have targets of their own, and a missing figure misses its target',
  async (t) => {
    t.equal(missed({ number: 7 }, { figures: {} }).length, 1)
    t.equal(missed({ number: 8 }, { figures: {} }).length, 5)
    const figures = { ...LISTS, 'two events': { ms: 301 }, 'a new property is listed': false }
    t.strictSame(missed({ number: 8 }, { figures }), [
      'the list "two events" takes 301 ms (300 ms)',
      'not: a new property is listed',
    ])
    t.strictSame(missed({ number: 15 }, { figures: { funnel: { status: 503 } } }), [
      'the question "funnel" is answered 503',
    ])
    const slow = { captures: { ...WAITS, p99Ms: 101 } }
    t.match(missed({ number: 15, variant: '512' }, slow), [/99% of captures take up to 101 ms/])
    t.strictSame(missed({ number: 15, variant: '1024' }, slow), [])
    const refused = { captures: { ...WAITS, refused: 1 } }
    t.match(missed({ number: 15, variant: '1024' }, refused), [/^1 requests of others/])
  },
)

t.test('row 13 misses its targets if the disk was not full, or not all was stored', async (t) => {
  const { full: _, ...never } = FULL
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ figures: never }, /^the disk was not full/],
    [
      { figures: { ...FULL, full: { usedMib: 47, sizeMib: 64 } } },
      /^the disk was not full: 47 of 64 MiB/,
    ],
    [
      { figures: { ...FULL, 'while full': { ...ANSWERED, flagsAnswered: 49 } } },
      /^while full, 49 of 50 requests for flags are answered$/,
    ],
    [
      { figures: { ...FULL, 'full after a restart': { ...ANSWERED, readsAnswered: 0 } } },
      /^full after a restart, 0 of 50 requests for reads are answered$/,
    ],
    [
      { figures: { ...FULL, 'while full': { ...ANSWERED, reads: 0, readsAnswered: 0 } } },
      /^while full, 0 of 0 requests for reads/,
    ],
    [{ figures: { ...FULL, 'stored events': 499 } }, /^stored events: 499 of 500/],
    [
      { figures: { ...FULL, 'stored events after a restart': null } },
      /^stored events after a restart: null of 500/,
    ],
    [{ lagMs: null }, /^not all is processed without more room$/],
  ]
  for (const [change, expected] of cases) {
    const found = missed({ number: 13 }, change)
    t.match(found, [expected])
    t.equal(found.length, 1)
  }
})

t.test('targets follow the setting of the memory and the speed of the machine', async (t) => {
  const peaks = { ...PEAKS, anonymousMib: 450 }
  const small = { peaks, restart: { ...good(1).restart, peaks } }
  t.strictSame(missed({ number: 1, memoryMaxMib: 400 }, small), [])
  t.match(missed({ number: 1, memoryMaxMib: 399 }, small), [/^memory 450 MiB \(449 MiB\)$/])
  const late = { seenMs: 60_000, captures: { ...WAITS, longestMs: 2500 } }
  t.equal(missed({ number: 1 }, late).length, 2)
  t.strictSame(missed({ number: 1 }, { ...late, slowness: 2, ownStallMs: 500 }), [])
})

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
