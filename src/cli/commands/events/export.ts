/** `tenrec export`: events as lines of JSON, from the data directory with or without a running daemon. */
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { given, isObject, parseJson } from '../../../base/json.ts'
import { JsonBytes } from '../../../base/json-bytes.ts'
import type { EventExportQuery } from '../../../rules/events/event-queries.ts'
import type { ExportedEvent, ExportedSegment } from '../../../rules/events/exported-event.ts'
import { openEvents } from '../../../store/open-store.ts'
import type { EventReader } from '../../../store/warehouse/read/event-reader.ts'
import { type CommandInput, type Commands, PROJECT_OPTION } from '../../lib/command.ts'
import { CHUNK_BYTES, LineFile, type LineTarget, standardOutput } from '../../lib/line-file.ts'
import { writeParquet } from '../../lib/parquet-file.ts'
import { Progress } from '../../lib/progress.ts'
import { EXPORT_LAST_LINE_BYTES_MAX } from '../../limits.ts'
import { FILTER_OPTIONS, TIME_OPTIONS } from './event.ts'

const NEWLINE = 0x0a
/** How each line begins. */
const LINE_HEAD = '{"id":'

/** Why a file cannot be opened, by the code of the system. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of the path is no folder',
  EROFS: 'the file system can only be read',
}

/** `tenrec export`. */
export const COMMANDS: Commands = [
  {
    name: 'export',
    sentence: 'Write stored events as lines of JSON, oldest arrival first.',
    options: {
      ...PROJECT_OPTION,
      '--format FORMAT': 'ndjson (the default), or parquet with --output.',
      '--output FILE': 'Where to; without it standard output.',
      '--resume': 'Go on behind the last whole line of the file of --output.',
      ...FILTER_OPTIONS,
      ...TIME_OPTIONS,
    },
    run(input) {
      const write = writerOf(input)
      // A file is made once nothing else can be wrong.
      return openEvents(input.dataDir, async (reader) => {
        const count = await write(reader, wantedEvents(input))
        input.io.err(`exported ${count.toLocaleString('en')} events\n`)
        return 0
      })
    },
  },
]

/** Writes events and answers how many. */
type Writer = (reader: EventReader, wanted: WantedEvents) => Promise<number>

/** The way in which the options want events to be written. Throws `UsageError`. */
function writerOf(input: CommandInput): Writer {
  const path = input.text('output')
  const format = input.text('format') ?? 'ndjson'
  const isResumed = input.has('resume')
  if (format === 'parquet') {
    if (path === undefined || isResumed) {
      throw new UsageError('--format parquet needs --output, and cannot be resumed')
    }
    return (reader, wanted) => exportParquet(input, reader, path, wanted)
  }
  if (format !== 'ndjson') {
    throw new UsageError(`--format: ${JSON.stringify(format)} is not ndjson or parquet`)
  }
  if (path === undefined) {
    if (isResumed) throw new UsageError('--resume needs --output')
    return (reader, wanted) => exportLines(input, reader, standardOutput(input.io), wanted)
  }
  return async (reader, wanted) => {
    const target = openTarget(path, isResumed)
    try {
      return await exportLines(input, reader, target, { ...wanted, afterId: target.lastId })
    } finally {
      await target.close()
    }
  }
}

async function exportLines(
  input: CommandInput,
  reader: EventReader,
  target: LineTarget,
  wanted: WantedEvents,
): Promise<number> {
  let count = 0
  let chunk = new JsonBytes(CHUNK_BYTES + CHUNK_BYTES / 4)
  for (const segment of exported(input, reader, wanted)) {
    count += segment.count
    for (let place = 0; place < segment.count; place++) {
      segment.writeLine(place, chunk)
      if (chunk.length >= CHUNK_BYTES) chunk = await target.write(chunk)
    }
  }
  await target.write(chunk)
  return count
}

async function exportParquet(
  input: CommandInput,
  reader: EventReader,
  path: string,
  wanted: WantedEvents,
): Promise<number> {
  refuseExisting(path)
  closeSync(openFile(path, 'wx'))
  let count = 0
  const events = function* (): Generator<ExportedEvent> {
    for (const segment of exported(input, reader, wanted)) {
      count += segment.count
      yield* segment.events
    }
  }
  await writeParquet(path, events())
  return count
}

type WantedEvents = EventExportQuery

/** What the options ask for, from the first event on. Throws `UsageError`. */
function wantedEvents(input: CommandInput): WantedEvents {
  const filters = given({
    event: input.text('event'),
    distinctId: input.text('distinct-id'),
    afterMs: input.time('after'),
    beforeMs: input.time('before'),
  })
  return { projectId: input.projectId, afterId: 0, ...filters }
}

/** The wanted events, segment by segment, with the progress shown. */
function* exported(
  input: CommandInput,
  reader: EventReader,
  wanted: WantedEvents,
): Generator<ExportedSegment> {
  const { projectId, afterId } = wanted
  const project = reader.statistics().projects.find((figures) => figures.projectId === projectId)
  const progress = new Progress(input.io, 'export', 'events')
  try {
    for (const segment of reader.exportEvents(wanted)) {
      yield segment
      progress.update(segment.lastId - afterId, (project?.rows ?? segment.lastId) - afterId)
    }
  } finally {
    progress.finish()
  }
}

function refuseExisting(path: string): void {
  if (!existsSync(path)) return
  throw new OperatorError(`${path} exists: remove it, choose another file, or add --resume`)
}

/** Opens the file. Without `isResumed` it must not exist. A line that was cut is removed. */
function openTarget(path: string, isResumed: boolean): LineFile {
  if (!isResumed) refuseExisting(path)
  const descriptor = openFile(path, isResumed && existsSync(path) ? 'r+' : 'wx')
  const { size } = fstatSync(descriptor)
  const { end, lastId } = lastLine(descriptor, size, path)
  if (end < size) ftruncateSync(descriptor, end)
  return new LineFile(descriptor, end, lastId)
}

/** Opens a file for writing. Throws `OperatorError` that says what is in the way. */
function openFile(path: string, flags: 'r+' | 'wx'): number {
  try {
    return openSync(path, flags, 0o600)
  } catch (cause) {
    const folder = dirname(resolve(path))
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
    const known = Object.hasOwn(REASONS, code) ? REASONS[code] : code
    const reason = existsSync(folder) ? known : `there is no folder ${folder}`
    throw new OperatorError(`--output: ${path} cannot be written: ${reason}`, { cause })
  }
}

/** Where the last whole line of a file ends, and the id in it. */
function lastLine(
  descriptor: number,
  size: number,
  path: string,
): { readonly end: number; readonly lastId: number } {
  const start = Math.max(0, size - EXPORT_LAST_LINE_BYTES_MAX)
  const tail = Buffer.allocUnsafe(size - start)
  readSync(descriptor, tail, 0, tail.length, start)
  const end = tail.lastIndexOf(NEWLINE) + 1
  // Without a whole line, only what can be the beginning of one is removed.
  const isBegun = start === 0 && LINE_HEAD.startsWith(tail.toString('latin1', 0, LINE_HEAD.length))
  if (end === 0 && isBegun) return { end: 0, lastId: 0 }
  const lineStart = end >= 2 ? tail.lastIndexOf(NEWLINE, end - 2) + 1 : 0
  const line: unknown = parseJson(tail.toString('utf8', lineStart, end))
  const id = isObject(line) ? line['id'] : undefined
  if (typeof id === 'number') return { end: start + end, lastId: id }
  throw new OperatorError(`the last line of ${path} is no exported event: it cannot be resumed`)
}
