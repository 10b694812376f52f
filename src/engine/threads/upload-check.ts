/** Checks an upload on a thread. check-queue.ts chooses the lane and so the thread. */

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

/** If the memory of a scanner is larger than this number of bytes, it is released after the body. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

/** The scanner of this thread. The slow lane parses bodies without a scanner. */
let kept: Scanner | undefined

/**
 * Checks a body. Returns a finished block, a refusal, or the body itself if a later lane must check it. Throws errors
 * that were not foreseen.
 */
export function checkUpload(stores: ThreadStores, { lane, request, slab }: CheckTask): CheckResult {
  const { directory } = stores
  // The slow lane parses the body instead. Memory of a scanner would be needed in addition.
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
  // The block contains a copy of the events and a table. When it is written, the body is no longer read, because the
  // scanner and the parsed events have copies of their own.
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
    // A scanner keeps the memory that its largest body needed, and each thread has a scanner.
    if (kept !== undefined && kept.memoryBytes > SCANNER_BYTES_KEPT) kept = undefined
  }
}

/** Returns the buffers of a result, which are transferred. A body that is returned is the only view of its memory. */
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
