/**
 * Reads events as they arrive. The stream of the daemon is read with `fetch`, because EventSource cannot send the
 * header of the console. Events that arrived while there was no connection are read from the list of events.
 */
import { ApiError, get, type Shapes, send } from '../../kit.ts'

/** An event in the form in which lists contain it. */
export type LiveEvent = Shapes['Event']

/** The filter of the stream. An empty text matches everything. */
export interface LiveFilter {
  readonly event: string
  readonly distinct_id: string
}

/**
 * The state of the connection. `polling` means that the stream is not available and the list of events is read instead.
 * `replaced` means that the daemon has ended this stream, because the session has opened newer ones.
 */
export type LiveState = 'connecting' | 'live' | 'polling' | 'waiting' | 'replaced' | 'refused'

/** The filter of a stream, and the functions that receive its events. */
export interface Watcher {
  readonly filter: LiveFilter
  readonly signal: AbortSignal
  /** Receives events, the newest one last. It may receive an event several times. */
  readonly take: (events: readonly LiveEvent[]) => void
  /** Receives the number of events that the daemon has left out of the stream. */
  readonly miss: (count: number) => void
  /** Receives the new state of the connection. If the daemon has given a reason, it is in `error`. */
  readonly change: (state: LiveState, error?: ApiError) => void
}

const RECENT_ROWS = 50
const POLL_MS = 1000
const RETRY_MS = 1000
const RETRY_MS_MAX = 15_000

/** Reads events until the signal is aborted. If the connection is lost, it connects again. */
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

/** Returns the parameters for a filter. Empty filters are left out. */
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

/**
 * Reads messages until the stream ends. If the daemon has ended the stream because the session has opened newer ones,
 * returns the reason as a sentence. Otherwise returns null.
 */
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

/** Returns the name and the data of a message. A ping, which only keeps the connection open, has neither. */
function readMessage(message: string): { name: string; data: unknown } {
  const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(message)?.[1] ?? ''
  const data = field('data')
  return { name: field('event'), data: data === '' ? null : JSON.parse(data) }
}
