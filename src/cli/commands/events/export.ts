/** `tenrec export`: events as lines of JSON, from the data directory with or without a running daemon. */
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { JsonBytes } from '../../../base/json-bytes.ts'
import type { ExportedEvent, ExportedSegment } from '../../../rules/events/exported-event.ts'
import { openEvents } from '../../../store/open-store.ts'
import type { EventReader } from '../../../store/warehouse/read/event-reader.ts'
import { idOption, timeOption } from '../../lib/arguments.ts'
import type { Command, CommandInput, CommandIo } from '../../lib/command.ts'
import { CHUNK_BYTES, LineFile, type LineTarget, standardOutput } from '../../lib/line-file.ts'
import { writeParquet } from '../../lib/parquet-file.ts'
import { Progress } from '../../lib/progress.ts'
import { EXPORT_LAST_LINE_BYTES_MAX } from '../../limits.ts'
import { PROJECT_OPTION } from './event.ts'

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
export const EXPORT: Command = {
  name: 'export',
  sentence: 'Write stored events as lines of JSON, oldest arrival first.',
  operands: [],
  options: [
    PROJECT_OPTION,
    {
      name: 'format',
      placeholder: 'FORMAT',
      sentence: 'ndjson (the default), or parquet with --output.',
    },
    { name: 'output', placeholder: 'FILE', sentence: 'Where to; without it standard output.' },
    {
      name: 'resume',
      placeholder: null,
      sentence: 'Go on behind the last whole line of the file of --output.',
    },
    { name: 'event', placeholder: 'NAME', sentence: 'Only events of this name.' },
    { name: 'distinct-id', placeholder: 'ID', sentence: 'Only events of this distinct_id.' },
    { name: 'after', placeholder: 'TIME', sentence: 'Only later events: 2026-01-31T12:00Z.' },
    { name: 'before', placeholder: 'TIME', sentence: 'Only earlier events.' },
  ],
  settings: ['dataDir'],
  async run(input) {
    const path = input.options.get('output')
    const format = input.options.get('format') ?? 'ndjson'
    if (format !== 'ndjson' && format !== 'parquet') {
      throw new UsageError(`--format: ${JSON.stringify(format)} is not ndjson or parquet`)
    }
    if (format === 'parquet') return exportParquet(input, path)
    if (path === undefined) {
      if (input.options.has('resume')) throw new UsageError('--resume needs --output')
      return openEvents(input.settings().dataDir, (reader) =>
        exportTo(input, reader, standardOutput(input.io), wantedEvents(input)),
      )
    }
    // The file is made once nothing else can be wrong.
    return openEvents(input.settings().dataDir, async (reader) => {
      const wanted = wantedEvents(input)
      const target = openTarget(path, input.options.has('resume'))
      try {
        return await exportTo(input, reader, target, { ...wanted, afterId: target.lastId })
      } finally {
        await target.close()
      }
    })
  },
}

async function exportTo(
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
  return reportCount(input.io, count)
}

function exportParquet(input: CommandInput, path: string | undefined): Promise<number> {
  if (path === undefined || input.options.has('resume')) {
    throw new UsageError('--format parquet needs --output, and cannot be resumed')
  }
  return openEvents(input.settings().dataDir, async (reader) => {
    const wanted = wantedEvents(input)
    refuseExisting(path)
    closeSync(openFile(path, 'wx'))
    let count = 0
    const events = function* (): Generator<ExportedEvent> {
      for (const segment of exported(input, reader, wanted)) {
        for (const event of segment.events) {
          count++
          yield event
        }
      }
    }
    await writeParquet(path, events())
    return reportCount(input.io, count)
  })
}

type WantedEvents = Parameters<EventReader['exportEvents']>[0]

/** What the options ask for, from the first event on. Throws `UsageError`. */
function wantedEvents(input: CommandInput): WantedEvents {
  const { options } = input
  const event = options.get('event')
  const distinctIdText = options.get('distinct-id')
  const afterMs = timeOption(input, 'after')
  const beforeMs = timeOption(input, 'before')
  return {
    projectId: idOption(input, 'project', 1),
    afterId: 0,
    ...(event === undefined ? {} : { event }),
    ...(distinctIdText === undefined ? {} : { distinctIdText }),
    ...(afterMs === undefined ? {} : { afterMs }),
    ...(beforeMs === undefined ? {} : { beforeMs }),
  }
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

function reportCount(io: CommandIo, count: number): number {
  io.err(`exported ${count.toLocaleString('en')} events\n`)
  return 0
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
  const line: unknown = parse(tail.toString('utf8', lineStart, end))
  const id = isObject(line) ? line['id'] : undefined
  if (typeof id === 'number') return { end: start + end, lastId: id }
  throw new OperatorError(`the last line of ${path} is no exported event: it cannot be resumed`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
