/**
 * Turns a capture request into a record of the log. The steps are: decode the body, parse it, find the project and
 * check the structure of the events. The first check that fails decides the answer, and nothing of the request is then
 * stored. Small bodies are handled on the thread that answers requests, large ones in a pool of worker threads. Source:
 * docs/compatibility/ingestion.md, "Order of checks".
 */
import { parseUuid } from '../../base/ids.ts'
import { EVENT_VALUES_MAX } from '../../base/limits.ts'
import type { Project, ProjectDirectory } from '../access/project-directory.ts'
import { outlineOf } from './body-outline.ts'
import { type CaptureV1Headers, takeCaptureV1 } from './capture-v1.ts'
import { type DecodedPayload, decodeCaptureV1, decodePayload, SlowBodyError } from './decode.ts'
import { checkEvents, type Envelope, outlinedEnvelope, parseEnvelope } from './envelope.ts'
import { requestSentAt } from './event-time.ts'
import { findKey, findProjectId, proveKey, resolveProject } from './key.ts'
import {
  ParsedEvents,
  RECORD_GROUP_TYPES_CLOSED,
  RECORD_HISTORICAL,
  RECORD_INVALID_SENT_AT,
  RECORD_IP_ANONYMIZED,
  type RecordEvents,
  type RecordHeader,
} from './log-block.ts'
import type { Scanner } from './scanner/scanner.ts'

/** The kinds of capture request. The path of the request decides the kind. */
export const CAPTURE_KINDS = ['capture', 'engage', 'session_recording', 'capture_v1'] as const
/** One of `CAPTURE_KINDS`. */
export type CaptureKind = (typeof CAPTURE_KINDS)[number]

/** A capture request as it arrived. A header that is absent has the value ''. `query` does not contain the `?`. */
export interface CaptureRequest {
  readonly kind: CaptureKind
  readonly method: 'GET' | 'POST'
  readonly contentType: string
  readonly contentEncoding: string
  readonly query: string
  /** The IP address of the sender, as it is stored in `$ip`. */
  readonly address: string
  readonly arrivedAtMs: number
  readonly body: Uint8Array
  /** The values of the headers that requests of the kind `capture_v1` carry. Null for the other kinds. */
  readonly v1?: CaptureV1Headers | null
}

/** What `acceptCapture` needs: the scanner, the projects and the limits. */
export interface AcceptTools {
  /**
   * The scanner that tries the fast path. Null if the scanner has already rejected this body, so only the slow path is
   * left.
   */
  readonly scanner: Scanner | null
  readonly directory: ProjectDirectory
  /** The maximum number of bytes that a body may decode to. */
  readonly decodedBytesMax: number
  /**
   * The maximum number of bytes of lz64 text, and of JSON whose events are parsed. If a JSON body is larger, only its
   * outline and its key are checked, so that a request without a valid key is refused at once. Then `SlowBodyError` is
   * thrown, and the caller may check the whole body on another thread.
   */
  readonly slowBytesMax: number
  /**
   * The maximum number of bytes of JSON whose outline and key are checked. If the JSON is larger, `SlowBodyError` is
   * thrown before any of it is checked.
   */
  readonly outlinedBytesMax: number
  /** Called from time to time while a large body is parsed. An error that it throws stops the parsing. */
  readonly checkTime?: () => void
}

/**
 * The number of bytes from which a JSON body is parsed event by event. Its outline and its key are checked first, so a
 * large body that must be refused is not parsed.
 */
const OUTLINE_BYTES_MIN = 64 * 1024

/** The outcome of an accepted request. */
export interface Accepted {
  readonly projectId: number
  /** The number of events in the record. It is 0 if there was nothing to write. */
  readonly eventCount: number
  /** The JSON of the answer to a request of the kind `capture_v1`. */
  readonly answer?: string
}

/** The target of accepted requests: a block of the log, or the group commit that fills a block. */
export interface RecordSink {
  add(header: RecordHeader, events: RecordEvents): unknown
}

/**
 * Checks a request and adds its events to `sink`. A request without events adds nothing. Throws a ServiceError with the
 * code that the client receives; in that case nothing was added. The cost is linear in the decoded size.
 */
export function acceptCapture(
  request: CaptureRequest,
  tools: AcceptTools,
  sink: RecordSink,
): Accepted {
  const isV1 = request.kind === 'capture_v1'
  const payload = isV1 ? decodeCaptureV1(request, tools) : decodePayload(request, tools)
  const { json } = payload
  const { scanner } = tools
  if (request.kind === 'capture' && scanner?.scan(json) === true) {
    // The slow path refuses an event with too many values, so this path must refuse it as well. No event has more
    // values than bytes, so the values are counted only if an event has more bytes than the limit. `outlineOf` throws
    // if an event has too many.
    const isWide = json.length > EVENT_VALUES_MAX && scanner.longestEventBytes > EVENT_VALUES_MAX
    if (isWide) outlineOf(json)
    return acceptRegular(request, scanner, tools.directory, payload, sink)
  }
  return acceptParsed(request, tools, payload, sink)
}

/** Accepts a body that the scanner has proved to be well-formed and has cut into events. */
function acceptRegular(
  request: CaptureRequest,
  scanner: Scanner,
  directory: ProjectDirectory,
  payload: DecodedPayload,
  sink: RecordSink,
): Accepted {
  const { form, query } = payload
  // A key in the query of a GET request takes precedence over a key in the form, and a key in the form over one in the
  // body.
  const named =
    (request.method === 'GET' && (query.token || query.apiKey)) || form.apiKey || form.token
  const key = named || scanner.key
  const project =
    directory.projectByKey(key) ?? resolveProject(key, query.projectId || form.projectId, directory)
  write(request, project, scanner.sentAt, scanner.isHistorical, payload, scanner, sink)
  return { projectId: project.id, eventCount: scanner.eventCount }
}

/** Accepts a body that the scanner did not recognize. JSON.parse and the schemas check it. */
function acceptParsed(
  request: CaptureRequest,
  { directory, slowBytesMax, outlinedBytesMax, checkTime }: AcceptTools,
  payload: DecodedPayload,
  sink: RecordSink,
): Accepted {
  const { json, query, form } = payload
  if (json.length > outlinedBytesMax) throw new SlowBodyError()
  const options = { isEngage: request.kind === 'engage', checkTime }
  const outline = json.length < OUTLINE_BYTES_MIN ? null : outlineOf(json)
  const isTooSlow = json.length > slowBytesMax
  if (outline === null && isTooSlow) throw new SlowBodyError()
  const envelope =
    outline === null ? parseEnvelope(json, options) : outlinedEnvelope(outline, options)
  const v1 = request.v1 ?? null
  const sources = { method: request.method, query, form, envelope, bearer: v1?.key }
  const proved = outline === null ? null : proveKey(sources, json, directory)
  if (request.kind === 'session_recording' && proved !== null) {
    return { projectId: proved.id, eventCount: 0 }
  }
  if (isTooSlow) throw new SlowBodyError()
  const project = resolveProject(findKey(sources), findProjectId(sources), directory)
  if (request.kind === 'session_recording') return { projectId: project.id, eventCount: 0 }
  if (v1 !== null) {
    const { events, answer } = takeCaptureV1(envelope, v1, json.length)
    write(request, project, v1.sentAt, envelope.isHistorical, payload, events, sink)
    return { projectId: project.id, eventCount: events.eventCount, answer }
  }
  const events = parsedEvents(envelope, json.length)
  write(request, project, envelope.sentAt, envelope.isHistorical, payload, events, sink)
  return { projectId: project.id, eventCount: events.eventCount }
}

function parsedEvents(envelope: Envelope, bytesExpected: number): ParsedEvents {
  const events = new ParsedEvents([], [], bytesExpected)
  for (const event of checkEvents(envelope)) {
    const uuid = event['uuid']
    const bytes = typeof uuid === 'string' && uuid !== '' ? parseUuid(uuid) : null
    events.add(JSON.stringify(event), bytes)
  }
  return events
}

function write(
  request: CaptureRequest,
  project: Project,
  rootSentAt: unknown,
  isHistorical: boolean,
  { form, query }: DecodedPayload,
  events: RecordEvents,
  sink: RecordSink,
): void {
  if (events.eventCount === 0) return
  const { sentAtMs, isSentAtInvalid } = requestSentAt(
    rootSentAt,
    form.sentAt,
    query.underscore,
    query.sentAt,
  )
  let flags = 0
  if (isHistorical) flags |= RECORD_HISTORICAL
  if (isSentAtInvalid) flags |= RECORD_INVALID_SENT_AT
  if (project.isIpAnonymized) flags |= RECORD_IP_ANONYMIZED
  if (project.areGroupTypesClosed) flags |= RECORD_GROUP_TYPES_CLOSED
  sink.add(
    {
      projectId: project.id,
      flags,
      arrivedAtMs: request.arrivedAtMs,
      sentAtMs: sentAtMs ?? Number.NaN,
      address: request.address,
    },
    events,
  )
}
