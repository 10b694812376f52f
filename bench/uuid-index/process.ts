/**
 * The helper process of the bench `uuid-index`. It opens one layout and adds entries, so that its memory is the memory
 * of the layout. Entries are derived from their numbers, so only the index itself is stored.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Memory, memory } from '../proc.ts'
import { type Entry, type Layout, type LayoutOptions, openLayout } from './layouts.ts'

/** The requests of the main process. */
export type UuidRequest =
  | ({ readonly ask: 'open' } & LayoutOptions)
  | ({ readonly ask: 'insert'; readonly commit: number } & UuidRange)
  | ({ readonly ask: 'find' } & UuidRange)
  /** Adds the entries again that were only in memory when the last process ended. */
  | ({ readonly ask: 'enter' } & UuidRange)

/** The range of entries. */
export interface UuidRange {
  readonly first: number
  readonly count: number
  /** The kind of uuids: ordered by time with some late ones (`v7`), or random (`v4`). */
  readonly ids: 'v7' | 'v4'
  /**
   * If 0, fingerprints are random. Otherwise, fingerprints ascend through 64 equal parts of their range, and this is
   * the number of entries in each part.
   */
  readonly partitionEntries: number
}

/** The cost of a request, and the size of the process and its files after it. */
export interface UuidAnswer {
  readonly elapsedMs: number
  readonly cpuUs: number
  /** The number of entries that were found. */
  readonly found: number
  readonly memory: Memory
  readonly fileBytes: number
  /** The number of bytes that the process has written to the kernel so far. */
  readonly writtenBytes: number
  /** The number of entries that are only in memory; see `Layout`. */
  readonly unwritten: number
}

const EVENTS_PER_MS = 5
const START_MS = Date.UTC(2024, 5, 1)
const LATE_SHARE = 0.05
const LATE_MS_MAX = 3_600_000
const PREPARED = 65_536

/** Serves the main process, one request after the other. */
export function serveUuidIndex(): void {
  let layout: Layout | null = null
  let folder = ''
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message: unknown) => {
    // uuid-index.ts of the same build writes the message.
    const request = message as UuidRequest
    const spent = { cpuUs: 0, elapsedMs: 0, found: 0 }
    if (request.ask === 'open') {
      folder = request.folder
      layout = timed(spent, () => openLayout(request))
    } else if (layout !== null) {
      run(layout, request, spent)
    }
    const { unwritten = 0 } = layout ?? {}
    const state = { memory: memory(process.pid), ...sizesOf(folder), unwritten }
    process.send?.({ ...spent, ...state } satisfies UuidAnswer)
  })
}

interface Spent {
  cpuUs: number
  elapsedMs: number
  found: number
}

function run(
  layout: Layout,
  request: Exclude<UuidRequest, { readonly ask: 'open' }>,
  spent: Spent,
): void {
  const size = request.ask === 'insert' ? request.commit : PREPARED
  const found: number[] = []
  for (let done = 0; done < request.count; done += size) {
    const entries = entriesOf(request, request.first + done, Math.min(size, request.count - done))
    timed(spent, () => {
      for (const entry of entries) {
        if (request.ask !== 'enter') {
          found.length = 0
          layout.find(entry, found)
          if (found.includes(entry.sequence)) spent.found++
        }
        if (request.ask !== 'find') layout.add(entry)
      }
      if (request.ask === 'insert') {
        layout.commit()
        layout.maintain()
      }
    })
  }
}

function timed<T>(spent: Spent, action: () => T): T {
  const startedMs = performance.now()
  const before = process.cpuUsage()
  const result = action()
  const { user, system } = process.cpuUsage(before)
  spent.cpuUs += user + system
  spent.elapsedMs += performance.now() - startedMs
  return result
}

function entriesOf(range: UuidRange, first: number, count: number): readonly Entry[] {
  const entries: Entry[] = []
  for (let sequence = first; sequence < first + count; sequence++) {
    entries.push(entryOf(range, sequence))
  }
  return entries
}

/** Returns the entry with this number. */
function entryOf({ ids, partitionEntries }: UuidRange, sequence: number): Entry {
  const partOf = (hash: number): number =>
    partitionEntries === 0
      ? hash
      : (hash >>> 6) | (Math.floor((sequence - 1) / partitionEntries) << 26)
  const high = partOf(mixed(sequence, 1))
  const low = mixed(sequence, 2)
  if (ids === 'v4') {
    const [uuidHigh, uuidLow] = [partOf(mixed(sequence, 3)) >>> 0, mixed(sequence, 4) >>> 0]
    return { high, low, uuidHigh, uuidLow, sequence }
  }
  const chance = (mixed(sequence, 3) >>> 0) / 2 ** 32
  const lateMs = chance < LATE_SHARE ? (chance / LATE_SHARE) * LATE_MS_MAX : 0
  const timeMs = START_MS + Math.floor(sequence / EVENTS_PER_MS - lateMs)
  const uuidHigh = Math.floor(timeMs / 2 ** 16)
  const uuidLow = (((timeMs % 2 ** 16) << 16) | 0x7000 | (mixed(sequence, 4) & 0xfff)) >>> 0
  return { high, low, uuidHigh, uuidLow, sequence }
}

/** Returns 32 bits that are derived from a number and a purpose. */
function mixed(number: number, purpose: number): number {
  let hash = Math.imul(number, 0x9e3779b1) ^ Math.imul(purpose, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad)
  hash = Math.imul(hash ^ (hash >>> 15), 0x735a2d97)
  return hash ^ (hash >>> 15)
}

function sizesOf(folder: string): { fileBytes: number; writtenBytes: number } {
  const files = readdirSync(folder).filter((name) => name.startsWith('data'))
  const fileBytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).blocks * 512, 0)
  const [, written] = /^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8')) ?? []
  return { fileBytes, writtenBytes: Number(written) }
}
