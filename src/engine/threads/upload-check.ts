/**
 * Checks an upload on a thread. check-queue.ts chooses the lane, and thereby when and on which thread the check runs.
 */

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

/** If a scanner needed more memory than this number of bytes for a body, the memory is released afterward. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

/** The scanner of this thread. The slow lane parses bodies without a scanner. */
let kept: Scanner | undefined

/**
 * Checks a body. Returns a finished block, a refusal, or the body itself if a later lane must check it. Throws errors
 * that were not foreseen.
 */
export function checkUpload(stores: ThreadStores, { lane, request, slab }: CheckTask): CheckResult {
  const { directory } = stores
  // The slow lane parses the body instead, so do not spend memory on a scanner.
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
  // The block may be written over the body: the scanner and the parsed events have their own copies by now, so nothing
  // reads the body any more.
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
    // Each thread has a scanner, and a scanner keeps the memory that its largest body needed.
    if (kept !== undefined && kept.memoryBytes > SCANNER_BYTES_KEPT) kept = undefined
  }
}

/** Returns the buffers of a result that are transferred. If the body is returned, it is the only view of its memory. */
export function memoryOfCheck(result: CheckResult): readonly ArrayBuffer[] {
  if (result.kind === 'deferred') return transferable([result.body.buffer])
  return result.kind === 'accepted' ? transferable([result.block.buffer]) : []
}

/**
 * Returns a function that throws the `ServiceError` `server_error` as soon as this number of milliseconds has passed
 * since now.
 */
function timeLimit(milliseconds: number): () => void {
  const endMs = performance.now() + milliseconds
  return () => {
    if (performance.now() >= endMs) throw refusal('check_slow')
  }
}
