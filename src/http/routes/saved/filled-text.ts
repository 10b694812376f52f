/**
 * Inserts query results into the texts of insights and dashboards (rules/saved/shown-text.ts). Such a text has a gap
 * for each result. Texts and results come from other threads as bytes. They are neither parsed nor copied here: the
 * answer is a list of the parts of the text and the results between them.
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import { sentenceHtml } from '../../../rules/saved/result-html.ts'
import type { ShownText } from '../../../rules/saved/shown-text.ts'
import { WrittenJson } from '../../server/router.ts'
import { DASHBOARD_RESULTS_BYTES_MAX, DASHBOARD_RESULTS_MS_MAX } from '../limits.ts'
import type { ComputeInsight, SavedServices } from './saved-services.ts'

/** The services that compute the results. */
export interface Filling {
  /** Computes the result of an insight. Null if no result is to be inserted into the text. */
  readonly compute: ComputeInsight | null
  readonly clock: Pick<SavedServices['clock'], 'now' | 'monotonic'>
}

/**
 * What is inserted into a gap: a result, or the error that explains why there is none. If the insight has no query,
 * both are null.
 */
interface Found {
  readonly result: Uint8Array | null
  readonly error: ServiceError | null
}

const NOTHING: Found = { result: null, error: null }
const NO_NUMBERS = Buffer.from(sentenceHtml('There is no data.'))
const NO_RESULT = Buffer.from('"result":null,"columns":null,"hasMore":null')
const LATE = new ServiceError(
  'query_timeout',
  'The insights above this one took too long. Open this insight alone.',
)
const FULL = new ServiceError(
  'query_too_large',
  'The results of the insights above this one are too large. Open this insight alone.',
)

/**
 * Returns the parts of a text, with the results in its gaps. The results are computed one after the other, within
 * limits of time and size. If a query fails with a `ServiceError`, the error is inserted. Rejects with any other error.
 */
export async function filledParts(
  shown: ShownText,
  { compute, clock }: Filling,
): Promise<readonly Uint8Array[]> {
  const { text, gaps, projectId, format } = shown
  const untilMs = clock.monotonic() + DASHBOARD_RESULTS_MS_MAX
  const parts: Uint8Array[] = []
  let begin = 0
  let resultBytes = 0
  const find = async (question: string): Promise<Found> => {
    if (compute === null || question === '') return NOTHING
    if (clock.monotonic() > untilMs) return { result: null, error: LATE }
    if (resultBytes > DASHBOARD_RESULTS_BYTES_MAX) return { result: null, error: FULL }
    try {
      const result = await compute(projectId, question, format === 'json' ? 'insight' : 'html')
      return { result, error: null }
    } catch (error) {
      if (error instanceof ServiceError) return { result: null, error }
      throw error
    }
  }
  for (const [index, gap] of gaps.entries()) {
    const found = await find(questionOfGap(shown, index))
    resultBytes += found.result?.length ?? 0
    parts.push(text.subarray(begin, gap))
    parts.push(...(format === 'json' ? jsonOf(shown, found, clock.now()) : htmlOf(found)))
    begin = gap
  }
  parts.push(text.subarray(begin))
  return parts
}

/** Returns a text with the results in its gaps, as a complete JSON value. */
export async function filledJson(shown: ShownText, filling: Filling): Promise<WrittenJson> {
  return new WrittenJson(await filledParts(shown, filling))
}

function questionOfGap({ questions, questionEnds }: ShownText, index: number): string {
  const bytes = questions.subarray(questionEnds[index - 1] ?? 0, questionEnds[index])
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
}

/**
 * Returns the parts that fill a gap in JSON: the members of the insight that depend on the result, the result, and the
 * members of its dashboard tile.
 */
function jsonOf({ within }: ShownText, found: Found, nowMs: number): readonly Uint8Array[] {
  const { result, error } = found
  const members = JSON.stringify({
    last_refresh: result === null ? null : timeText(nowMs),
    error: error && { type: error.code, message: error.message },
  }).slice(1, -1)
  const behind = within === 'tile' ? `},${members}` : ''
  return [Buffer.from(`${members},`), result ?? NO_RESULT, Buffer.from(behind)]
}

function htmlOf({ result, error }: Found): readonly Uint8Array[] {
  if (error !== null) return [Buffer.from(sentenceHtml(error.message))]
  return [result ?? NO_NUMBERS]
}
