/** Checks an upload on a thread. check-queue.ts chooses the lane. */

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

/** The largest scanner memory that is kept for the next body. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

/** The scanner of this thread. The slow lane uses none. */
let kept: Scanner | undefined

/** Checks a body. Returns a finished block, a refusal, or the body for a later lane. Throws unforeseen errors. */
export function checkUpload(stores: ThreadStores, { lane, request, slab }: CheckTask): CheckResult {
  const { directory } = stores
  // A body in the slow lane was not suitable for the scanner, whose memory would only add to that of the parsed body.
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
  // The block holds a copy of the events plus a table. When it is written, the body is no longer read, because the
  // scanner and parsed events have their own copies.
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
    // A scanner keeps the memory of the largest body so far, and each thread has a scanner.
    if (kept !== undefined && kept.memoryBytes > SCANNER_BYTES_KEPT) kept = undefined
  }
}

/** Returns the memory of a result, which is transferred. A returned body is the only view of its memory. */
export function memoryOfCheck(result: CheckResult): readonly ArrayBuffer[] {
  if (result.kind === 'deferred') return transferable([result.body.buffer])
  return result.kind === 'accepted' ? transferable([result.block.buffer]) : []
}

/** Returns a function that throws the `ServiceError` `server_error` after this time. */
function timeLimit(milliseconds: number): () => void {
  const endMs = performance.now() + milliseconds
  return () => {
    if (performance.now() >= endMs) throw refusal('check_slow')
  }
}
