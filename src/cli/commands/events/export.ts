/** `tenrec export`: writes events as lines of JSON from the data directory, whether or not a daemon runs. */
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { given, isObject, parseJson } from '../../../base/json.ts'
import { JsonBytes } from '../../../base/json-bytes.ts'
import type { EventExportQuery } from '../../../rules/events/event-queries.ts'
import type { ExportedEvent, ExportedSegment } from '../../../rules/events/exported-event.ts'
import type { EventReader } from '../../../store/events/read/event-reader.ts'
import { openEvents } from '../../../store/open-store.ts'
import { type CommandInput, type Commands, PROJECT_OPTION } from '../../lib/command.ts'
import { CHUNK_BYTES, LineFile, type LineTarget, standardOutput } from '../../lib/line-file.ts'
import { writeParquet } from '../../lib/parquet-file.ts'
import { Progress } from '../../lib/progress.ts'
import { EXPORT_LAST_LINE_BYTES_MAX } from '../../limits.ts'
import { FILTER_OPTIONS, TIME_OPTIONS } from './event.ts'

const NEWLINE = 0x0a
/** The text with which each exported line begins. */
const LINE_HEAD = '{"id":'

/** Reasons why a file cannot be opened, by the error code of the system. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of the path is not a directory',
  EROFS: 'the file system is read-only',
}

/** `tenrec export`. */
export const COMMANDS: Commands = [
  {
    name: 'export',
    sentence:
      'Write stored events as JSON, one event per line, in the order in which they arrived.',
    options: {
      ...PROJECT_OPTION,
      '--format FORMAT': 'ndjson or parquet. Parquet requires --output. Default: ndjson.',
      '--output FILE': 'File to write. Default: standard output.',
      '--resume': 'Continue after the last complete line of the file in --output.',
      ...FILTER_OPTIONS,
      ...TIME_OPTIONS,
    },
    run(input) {
      const write = writerOf(input)
      // The file is created only after everything else was checked.
      return openEvents(input.dataDir, async (reader) => {
        const count = await write(reader, wantedEvents(input))
        input.io.err(`Exported ${count.toLocaleString('en')} events.\n`)
        return 0
      })
    },
  },
]

/** A function that writes events and returns how many. */
type Writer = (reader: EventReader, wanted: WantedEvents) => Promise<number>

/** Returns the function that writes the events where the options say. Throws `UsageError`. */
function writerOf(input: CommandInput): Writer {
  const path = input.text('output')
  const format = input.text('format') ?? 'ndjson'
  const isResumed = input.has('resume')
  if (format === 'parquet') {
    if (path === undefined || isResumed) {
      throw new UsageError(
        '--format parquet requires --output, and it cannot be combined with --resume.',
      )
    }
    return (reader, wanted) => exportParquet(input, reader, path, wanted)
  }
  if (format !== 'ndjson') {
    throw new UsageError(`--format: ${JSON.stringify(format)} is not ndjson or parquet.`)
  }
  if (path === undefined) {
    if (isResumed) throw new UsageError('--resume requires --output.')
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

/**
 * Returns the query for the events that the options select. It begins with the first event of the project. Throws
 * `UsageError`.
 */
function wantedEvents(input: CommandInput): WantedEvents {
  const filters = given({
    event: input.text('event'),
    distinctId: input.text('distinct-id'),
    afterMs: input.time('after'),
    beforeMs: input.time('before'),
  })
  return { projectId: input.projectId, afterId: 0, ...filters }
}

/** Yields the requested events, segment by segment, and shows the progress. */
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
  throw new OperatorError(
    `${path} already exists. Remove it, choose another file, or add --resume.`,
  )
}

/**
 * Opens the file to which events are exported. With `isResumed`, the file may exist, and an incomplete last line is
 * removed from it. Without `isResumed`, it must not exist.
 */
function openTarget(path: string, isResumed: boolean): LineFile {
  if (!isResumed) refuseExisting(path)
  const descriptor = openFile(path, isResumed && existsSync(path) ? 'r+' : 'wx')
  const { size } = fstatSync(descriptor)
  const { end, lastId } = lastLine(descriptor, size, path)
  if (end < size) ftruncateSync(descriptor, end)
  return new LineFile(descriptor, end, lastId)
}

/** Opens a file for writing. Throws `OperatorError` with the reason if it cannot be opened. */
function openFile(path: string, flags: 'r+' | 'wx'): number {
  try {
    return openSync(path, flags, 0o600)
  } catch (cause) {
    const folder = dirname(resolve(path))
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
    const known = Object.hasOwn(REASONS, code) ? REASONS[code] : code
    const reason = existsSync(folder) ? known : `there is no directory ${folder}`
    throw new OperatorError(`${path} cannot be written: ${reason}.`, { cause })
  }
}

/** Returns the offset after the last complete line of a file, and the event ID in that line. */
function lastLine(
  descriptor: number,
  size: number,
  path: string,
): { readonly end: number; readonly lastId: number } {
  const start = Math.max(0, size - EXPORT_LAST_LINE_BYTES_MAX)
  const tail = Buffer.allocUnsafe(size - start)
  readSync(descriptor, tail, 0, tail.length, start)
  const end = tail.lastIndexOf(NEWLINE) + 1
  // If the file has no complete line, it is emptied, but only if it begins like an exported event. Any other file may
  // have been named by mistake.
  const isBegun = start === 0 && LINE_HEAD.startsWith(tail.toString('latin1', 0, LINE_HEAD.length))
  if (end === 0 && isBegun) return { end: 0, lastId: 0 }
  const lineStart = end >= 2 ? tail.lastIndexOf(NEWLINE, end - 2) + 1 : 0
  const line: unknown = parseJson(tail.toString('utf8', lineStart, end))
  const id = isObject(line) ? line['id'] : undefined
  if (typeof id === 'number') return { end: start + end, lastId: id }
  throw new OperatorError(
    `The last line of ${path} is not an exported event, so the export cannot be resumed. Choose another file.`,
  )
}
