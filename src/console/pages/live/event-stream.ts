/**
 * Events as they come: a stream of the daemon that is read by `fetch`, as only that sends the header of the
 * console. What came while nobody listened is read from the list of events.
 */
import { ApiError, get, type Shapes, send } from '../../kit.ts'

/** An event as lists have it. */
export type LiveEvent = Shapes['Event']

/** Which events; '' is any. */
export interface LiveFilter {
  readonly event: string
  readonly distinct_id: string
}

/** How events come: `polling` where the stream cannot be had, `replaced` when newer ones of this session have taken its place. */
export type LiveState = 'connecting' | 'live' | 'polling' | 'waiting' | 'replaced' | 'refused'

/** Who watches. */
export interface Watcher {
  readonly filter: LiveFilter
  readonly signal: AbortSignal
  /** Events, the newest last; some may have come before. */
  readonly take: (events: readonly LiveEvent[]) => void
  /** So many more came, which the stream leaves out. */
  readonly miss: (count: number) => void
  /** What it is now, and why, where the daemon has said so. */
  readonly change: (state: LiveState, error?: ApiError) => void
}

const RECENT_ROWS = 50
const POLL_MS = 1000
const RETRY_MS = 1000
const RETRY_MS_MAX = 15_000

/** Watches until the signal says stop, through ends of the connection. */
export async function watchEvents(watcher: Watcher): Promise<void> {
  const { signal, change, take } = watcher
  let isPolling = false
  let retryMs = RETRY_MS
  while (!signal.aborted) {
    try {
      const stream = isPolling ? null : await openStream(watcher)
      take(await askRecent(watcher))
      change(isPolling ? 'polling' : 'live')
      retryMs = isPolling ? POLL_MS : RETRY_MS
      const detail = stream === null ? null : await readStream(stream, watcher)
      if (detail !== null) return change('replaced', new ApiError(0, { code: 'replaced', detail }))
      if (!isPolling) change('waiting')
    } catch (error) {
      if (signal.aborted) return
      const status = error instanceof ApiError ? error.status : 0
      if (status === 401 || status === 403) return change('refused', error as ApiError)
      if (status === 404 && !isPolling) {
        isPolling = true
        continue
      }
      change('waiting')
      retryMs = Math.min(RETRY_MS_MAX, retryMs * 2)
    }
    await pause(retryMs, signal)
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Filters that are set, as parameters. */
function given({ event, distinct_id }: LiveFilter) {
  return { ...(event === '' ? {} : { event }), ...(distinct_id === '' ? {} : { distinct_id }) }
}

async function openStream({ filter, signal }: Watcher): Promise<ReadableStream<Uint8Array>> {
  const { body } = await send('get', 'project/events/stream/', { values: given(filter), signal })
  return body ?? new ReadableStream()
}

async function askRecent({ filter, signal }: Watcher): Promise<readonly LiveEvent[]> {
  const { results } = await get('project/events/', { ...given(filter), limit: RECENT_ROWS }, signal)
  return results.toReversed()
}

/** Reads messages until the stream ends; why, if newer ones have taken its place. */
async function readStream(
  stream: ReadableStream<Uint8Array>,
  watcher: Watcher,
): Promise<string | null> {
  const reader = stream.pipeThrough(new TextDecoderStream() as never).getReader()
  let text = ''
  for (;;) {
    const { done, value } = (await reader.read()) as ReadableStreamReadResult<string>
    if (done) return null
    const messages = (text + value).split('\n\n')
    text = messages.pop() ?? ''
    const events: LiveEvent[] = []
    for (const message of messages) {
      const { name, data } = readMessage(message)
      if (name === 'event') events.push(data as LiveEvent)
      else if (name === 'missed') watcher.miss((data as { count: number }).count)
      else if (name === 'replaced') return (data as { detail: string }).detail
    }
    watcher.take(events)
  }
}

/** Name and data of a message; pings have neither. */
function readMessage(message: string): { name: string; data: unknown } {
  const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(message)?.[1] ?? ''
  const data = field('data')
  return { name: field('event'), data: data === '' ? null : JSON.parse(data) }
}
