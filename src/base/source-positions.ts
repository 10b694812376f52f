/**
 * Replaces positions in the built files by those in the sources, with the source maps that the build writes. Node does
 * the same with `--enable-source-maps`, but reads every map at each start and in each thread, which costs 150 MB and 50
 * % more processor time (docs/decisions/045-bundled-program.md). Here a map is read when an error is reported.
 */
import { readFileSync } from 'node:fs'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A file and a position, as in `at run (file:///opt/tenrec/dist/main.js:12:5)`. */
const POSITION = /((?:file:\/\/)?\/[^\s():]+\.js):(\d+):(\d+)/
/** A line of a stack trace. */
const FRAME = /^ {4}at .*$/gm

/** The maps by file. Null if a file has none, such as a file of a package. */
const maps = new Map<string, SourceMap | null>()

/**
 * Returns a stack trace with the positions of the sources. A position without a source map stays as it is. `message` is
 * the message of the error, which the stack repeats at its beginning. It is left unchanged, because it may contain text
 * that only looks like a position.
 */
export function withSourcePositions(stack: string, message: string): string {
  const messageAt = stack.indexOf(message)
  const framesAt = messageAt < 0 ? 0 : messageAt + message.length
  const frames = stack.slice(framesAt).replace(FRAME, (frame) =>
    frame.replace(POSITION, (built, place: string, line: string, column: string) => {
      const file = place.startsWith('file:') ? fileURLToPath(place) : place
      return sourcePosition(file, Number(line), Number(column)) ?? built
    }),
  )
  return stack.slice(0, framesAt) + frames
}

/** Returns the position in the source, or null if it is unknown. `line` and `column` count from 1. */
function sourcePosition(file: string, line: number, column: number): string | null {
  const found = mapOf(file)?.findEntry(line - 1, column - 1)
  // Code that the build itself added has no source position.
  if (found === undefined || !('originalSource' in found) || !found.originalSource) return null
  const { originalSource, originalLine, originalColumn } = found
  const source = resolve(dirname(file), originalSource)
  return `${source}:${originalLine + 1}:${originalColumn + 1}`
}

function mapOf(file: string): SourceMap | null {
  let map = maps.get(file)
  if (map === undefined) {
    map = readMap(file)
    maps.set(file, map)
  }
  return map
}

function readMap(file: string): SourceMap | null {
  try {
    // The cast is right, because the build wrote the file. If the file is damaged, the constructor throws, or the map
    // has no entries.
    return new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')) as SourceMapPayload)
  } catch {
    return null
  }
}
