/** The check of an upload on a thread; check-queue.ts decides in which lane it runs. */

import { ServiceError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import { transferable } from '../../base/slabs.ts'
import { acceptCapture } from '../../rules/capture/accept.ts'
import { SlowBodyError } from '../../rules/capture/decode.ts'
import { LogBlockWriter } from '../../rules/capture/log-block.ts'
import { Scanner } from '../../rules/capture/scanner/scanner.ts'
import { LANE_LIMITS } from './check-queue.ts'
import { CHECK_MS_MAX } from './limits.ts'
import type { CheckResult, CheckTask } from './tasks.ts'
import type { ThreadStores } from './thread-stores.ts'

/** Bytes of the memory of a scanner that is kept for the next body. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

/** That of this thread; what gets to the slow lane needs none. */
let kept: Scanner | undefined

/** Checks a body: a finished block, a refusal, or the body back for a later lane. Throws what is unforeseen. */
export function checkUpload(stores: ThreadStores, { lane, request, slab }: CheckTask): CheckResult {
  const { directory } = stores
  // What gets to the slow lane was no body for the scanner, whose memory would lie beside the parsed one.
  if (lane !== 'slow') kept ??= new Scanner()
  directory.refreshIfChanged()
  const limits = LANE_LIMITS[lane]
  const tools = {
    ...limits,
    scanner: lane === 'slow' ? null : (kept ?? null),
    directory,
    decodedBytesMax: Math.min(limits.decodedBytesMax, stores.settings.decodedBytesMax),
    checkTime: timeLimit(CHECK_MS_MAX),
  }
  // The events are a copy of what the body holds, plus a table. The body is not read any more when they
  // are written: a scanner has its own copy, and so have parsed events.
  const block = new LogBlockWriter(
    slab === null ? Buffer.allocUnsafeSlow(request.body.length + 65_536) : Buffer.from(slab),
  )
  try {
    const { projectId, eventCount, answer = null } = acceptCapture(request, tools, block)
    const bytes = block.finish()
    return {
      kind: 'accepted',
      block: { buffer: bytes.buffer, bytes: bytes.length },
      projectId,
      eventCount,
      answer,
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const isTooLargeHere = lane === 'express' && error.code === 'request_too_large'
    if (error instanceof SlowBodyError || isTooLargeHere) {
      return { kind: 'deferred', body: request.body }
    }
    const { retryAfterSeconds } = error
    return { kind: 'refused', error: error.toBody(), retryAfterSeconds }
  } finally {
    // A scanner keeps the memory of the largest body it has seen, and each thread has one.
    if (kept !== undefined && kept.memoryBytes > SCANNER_BYTES_KEPT) kept = undefined
  }
}

/** The memory in a verdict, to change hands; a body that comes back is the only view of its memory. */
export function memoryOfCheck(result: CheckResult): readonly ArrayBuffer[] {
  if (result.kind === 'deferred') return transferable([result.body.buffer])
  return result.kind === 'accepted' ? transferable([result.block.buffer]) : []
}

/** Throws ServiceError `server_error` when it is called later than in `milliseconds`. */
function timeLimit(milliseconds: number): () => void {
  const endMs = performance.now() + milliseconds
  return () => {
    if (performance.now() >= endMs) throw refusal('check_slow')
  }
}
