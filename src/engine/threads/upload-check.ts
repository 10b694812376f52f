/** Checks an upload on a thread. check-queue.ts decides in which lane, when and on which thread the check runs. */

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

/** If a scanner has allocated more than this number of bytes for a body, the scanner is released after the check. */
const SCANNER_BYTES_KEPT = 16 * 1024 * 1024

/** The scanner of this thread. The slow lane parses bodies without a scanner. */
let kept: Scanner | undefined

/**
 * Checks a body. Returns a finished block, a refusal, or the body itself if a later lane must check it. Throws any
 * error that is not a refusal.
 */
export function checkUpload(stores: ThreadStores, { lane, request, slab }: CheckTask): CheckResult {
  const { directory } = stores
  // The slow lane needs no scanner, because it parses the body instead.
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
  // The block may overwrite the body. By then, nothing reads the body any more, because the scanner and the parsed
  // events have copies of their own.
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
    // A scanner keeps the memory that its largest body needed, and each thread has a scanner. A scanner that keeps much
    // memory is therefore released.
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
