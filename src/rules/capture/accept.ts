/**
 * From a request to a record of the log: decode, parse, find the project, check the structure. The first
 * check that fails decides the answer, and then nothing of the request is kept. The same function runs
 * on the front for small bodies and in the pool for large ones.
 * Source: docs/compatibility/ingestion.md, "Order of checks".
 */
import { parseUuid } from '../../base/ids.ts'
import { EVENT_VALUES_MAX } from '../../base/limits.ts'
import type { Project, ProjectDirectory } from '../access/project-directory.ts'
import { outlineOf } from './body-outline.ts'
import { type CaptureV1Headers, takeCaptureV1 } from './capture-v1.ts'
import { type DecodedPayload, decodeCaptureV1, decodePayload, SlowBodyError } from './decode.ts'
import { checkEvents, type Envelope, outlinedEnvelope, parseEnvelope } from './envelope.ts'
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
import { requestSentAt } from './time.ts'

/** What the path of a request asks for. */
export const CAPTURE_KINDS = ['capture', 'engage', 'session_recording', 'capture_v1'] as const
/** One of `CAPTURE_KINDS`. */
export type CaptureKind = (typeof CAPTURE_KINDS)[number]

/** A capture request as it arrived. Header values are '' when absent; `query` has no `?`. */
export interface CaptureRequest {
  readonly kind: CaptureKind
  readonly method: 'GET' | 'POST'
  readonly contentType: string
  readonly contentEncoding: string
  readonly query: string
  /** The sender's address as stored in `$ip`. */
  readonly address: string
  readonly arrivedAtMs: number
  readonly body: Uint8Array
  /** What the headers of a request of the kind `capture_v1` say; null for the other kinds. */
  readonly v1?: CaptureV1Headers | null
}

/** What `acceptCapture` works with. */
export interface AcceptTools {
  /** Null for a body that the scanner has not recognised before. */
  readonly scanner: Scanner | null
  readonly directory: ProjectDirectory
  /** Bytes that a body may decode to. */
  readonly decodedBytesMax: number
  /** Bytes of lz64, and of JSON whose events have to be parsed. Beyond: `SlowBodyError`. */
  readonly slowBytesMax: number
  /** Bytes of JSON whose outline and key are looked at before that. Beyond: `SlowBodyError`. */
  readonly outlinedBytesMax: number
  /** Called now and then while a large body is parsed; what it throws ends that. */
  readonly checkTime?: () => void
}

/** Bytes of JSON from which on a body is parsed event by event, behind a look at its outline and its key. */
const OUTLINE_BYTES_MIN = 64 * 1024

/** What was accepted. */
export interface Accepted {
  readonly projectId: number
  /** Events in the record; 0 when there is nothing to write. */
  readonly eventCount: number
  /** The JSON of the answer to a request of the kind `capture_v1`. */
  readonly answer?: string
}

/** Where accepted requests go: a block, or the group commit that fills one. */
export interface RecordSink {
  add(header: RecordHeader, events: RecordEvents): unknown
}

/**
 * Checks a request and adds its events to `sink`; without events nothing is added. Throws ServiceError
 * with the code that the client gets, and then has added nothing. Linear in the decoded size.
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
    // A text has more bytes than values. Events that are too wide for the other path must not pass here.
    const isWide = json.length > EVENT_VALUES_MAX && scanner.longestEventBytes > EVENT_VALUES_MAX
    if (isWide) outlineOf(json)
    return acceptRegular(request, scanner, tools.directory, payload, sink)
  }
  return acceptParsed(request, tools, payload, sink)
}

/** The scanner has proved the body well-formed and cut out its events. */
function acceptRegular(
  request: CaptureRequest,
  scanner: Scanner,
  directory: ProjectDirectory,
  payload: DecodedPayload,
  sink: RecordSink,
): Accepted {
  const { form, query } = payload
  // On a GET the query names the key before the body does, and so do the fields of a form.
  const named =
    (request.method === 'GET' && (query.token || query.apiKey)) || form.apiKey || form.token
  const key = named || scanner.key
  const project =
    directory.projectByKey(key) ?? resolveProject(key, query.projectId || form.projectId, directory)
  write(request, project, scanner.sentAt, scanner.isHistorical, payload, scanner, sink)
  return { projectId: project.id, eventCount: scanner.eventCount }
}

/** Everything else: JSON.parse and the schemas decide. */
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
