/** Reads a file of lines, also a packed one, in blocks of whole lines. */
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { OperatorError } from '../../base/errors.ts'
import { LINE_BYTES_MAX } from '../limits.ts'

const READ_BYTES = 1024 * 1024
const NEWLINE = 0x0a

/**
 * Blocks that end with a newline, the last one perhaps without. Unpacks what is called `.gz`. Rejects with
 * `OperatorError` for a line that is too long, and with what reading and unpacking say.
 */
export async function* lineBlocks(path: string): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: READ_BYTES })
  const isPacked = path.endsWith('.gz')
  const gunzip = createGunzip({ chunkSize: READ_BYTES })
  if (isPacked) file.on('error', (error) => gunzip.destroy(error))
  let pieces: Buffer[] = []
  let bytes = 0
  for await (const chunk of isPacked ? file.pipe(gunzip) : file) {
    if (!Buffer.isBuffer(chunk)) continue
    const end = chunk.lastIndexOf(NEWLINE) + 1
    if (end > 0) {
      pieces.push(chunk.subarray(0, end))
      yield pieces.length === 1 ? chunk.subarray(0, end) : Buffer.concat(pieces)
      pieces = []
      bytes = 0
    }
    if (end < chunk.length) pieces.push(chunk.subarray(end))
    bytes += chunk.length - end
    if (bytes > LINE_BYTES_MAX) {
      throw new OperatorError(`${path} has a line of more than ${LINE_BYTES_MAX} bytes: split it`)
    }
  }
  if (pieces.length > 0) yield Buffer.concat(pieces)
}
