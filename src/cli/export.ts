/** `tenrec export`: events as lines of JSON, from the data directory with or without a running daemon. */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { OperatorError, UsageError } from '../base/errors.ts'
import { isJsonObject } from '../ingest/fields.ts'
import { type ExportedEvent, exportLine } from '../store/event-export.ts'
import type { EventReader } from '../store/event-reader.ts'
import { idOption, timeOption } from './arguments.ts'
import type { Command, CommandInput, CommandIo } from './command.ts'
import { PROJECT_OPTION, withEvents } from './event.ts'
import { writeParquet } from './parquet-file.ts'
import { Progress } from './progress.ts'

/** Bytes of the end of a file that hold its last line: a line is an event of at most this size. */
const LAST_LINE_BYTES_MAX = 32 * 1024 * 1024
const NEWLINE = 0x0a
/** Few enough that their texts are forgotten before they are moved in memory. */
const LINES_PER_WRITE = 64

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
      return withEvents(input, (reader) => exportTo(input, reader, streamOf(input.io), 0))
    }
    const target = openTarget(path, input.options.has('resume'))
    try {
      return await withEvents(input, (reader) => exportTo(input, reader, target, target.lastId))
    } finally {
      fsyncSync(target.descriptor)
      closeSync(target.descriptor)
    }
  },
}

/** Where lines go. */
interface LineTarget {
  /** Takes whole lines; resolves when more may come. */
  write(text: string): Promise<void>
}

async function exportTo(
  input: CommandInput,
  reader: EventReader,
  target: LineTarget,
  afterId: number,
): Promise<number> {
  let count = 0
  for (const events of exported(input, reader, afterId)) {
    let lines: string[] = []
    for (const event of events) {
      count++
      if (lines.push(exportLine(event)) < LINES_PER_WRITE) continue
      await target.write(lines.join(''))
      lines = []
    }
    if (lines.length > 0) await target.write(lines.join(''))
  }
  return reportCount(input.io, count)
}

function exportParquet(input: CommandInput, path: string | undefined): Promise<number> {
  if (path === undefined || input.options.has('resume')) {
    throw new UsageError('--format parquet needs --output, and cannot be resumed')
  }
  refuseExisting(path)
  return withEvents(input, async (reader) => {
    let count = 0
    const events = function* (): Generator<ExportedEvent> {
      for (const segment of exported(input, reader, 0)) {
        for (const event of segment) {
          count++
          yield event
        }
      }
    }
    await writeParquet(path, events())
    return reportCount(input.io, count)
  })
}

/** The wanted events, segment by segment, with the progress shown. */
function* exported(
  input: CommandInput,
  reader: EventReader,
  afterId: number,
): Generator<Iterable<ExportedEvent>> {
  const { options } = input
  const projectId = idOption(input, 'project', 1)
  const event = options.get('event')
  const distinctIdText = options.get('distinct-id')
  const afterMs = timeOption(input, 'after')
  const beforeMs = timeOption(input, 'before')
  const project = reader.statistics().projects.find((figures) => figures.projectId === projectId)
  const progress = new Progress(input.io, 'export', 'events')
  try {
    const segments = reader.exportEvents({
      projectId,
      afterId,
      ...(event === undefined ? {} : { event }),
      ...(distinctIdText === undefined ? {} : { distinctIdText }),
      ...(afterMs === undefined ? {} : { afterMs }),
      ...(beforeMs === undefined ? {} : { beforeMs }),
    })
    for (const { events, lastId } of segments) {
      yield events
      progress.update(lastId - afterId, (project?.rows ?? lastId) - afterId)
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

function streamOf(io: CommandIo): LineTarget {
  return {
    async write(text) {
      io.out(text)
      await io.drained?.()
    },
  }
}

interface FileTarget extends LineTarget {
  readonly descriptor: number
  /** Id of the last event that is in the file; 0 for a new one. */
  readonly lastId: number
}

/** Opens the file. Without `isResumed` it must not exist. A line that was cut is removed. */
function openTarget(path: string, isResumed: boolean): FileTarget {
  if (!isResumed) refuseExisting(path)
  const descriptor = openSync(path, isResumed && existsSync(path) ? 'r+' : 'w', 0o600)
  const { size } = fstatSync(descriptor)
  const { end, lastId } = lastLine(descriptor, size, path)
  if (end < size) ftruncateSync(descriptor, end)
  let position = end
  return {
    descriptor,
    lastId,
    write(text) {
      const bytes = Buffer.from(text, 'utf8')
      let written = 0
      while (written < bytes.length) {
        written += writeSync(descriptor, bytes, written, bytes.length - written, position + written)
      }
      position += written
      return Promise.resolve()
    },
  }
}

/** Where the last whole line of a file ends, and the id in it. */
function lastLine(
  descriptor: number,
  size: number,
  path: string,
): { readonly end: number; readonly lastId: number } {
  const start = Math.max(0, size - LAST_LINE_BYTES_MAX)
  const tail = Buffer.allocUnsafe(size - start)
  readSync(descriptor, tail, 0, tail.length, start)
  const end = tail.lastIndexOf(NEWLINE) + 1
  if (end === 0) return { end: 0, lastId: 0 }
  const lineStart = end >= 2 ? tail.lastIndexOf(NEWLINE, end - 2) + 1 : 0
  const line: unknown = parse(tail.toString('utf8', lineStart, end))
  const id = isJsonObject(line) ? line['id'] : undefined
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
