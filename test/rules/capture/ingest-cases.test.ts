/**
 * Runs the ingestion cases against the pure rules: every request passes through decoding, envelope, key and
 * normalization, without HTTP, persons or a store. Cases that need one of these are listed by name below.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { formatUuid, parseUuid, uuidV7 } from '../../../src/base/ids.ts'
import type { JsonObject } from '../../../src/base/json.ts'
import type { Project, ProjectDirectory } from '../../../src/rules/access/project-directory.ts'
import { clientAddress } from '../../../src/rules/capture/address.ts'
import { decodePayload } from '../../../src/rules/capture/decode.ts'
import { checkEvents, parseEnvelope } from '../../../src/rules/capture/envelope.ts'
import { requestSentAt } from '../../../src/rules/capture/event-time.ts'
import { findKey, findProjectId, resolveProject } from '../../../src/rules/capture/key.ts'
import { normalizeEvent } from '../../../src/rules/capture/normalize.ts'
import { expandProperties } from '../../../src/rules/persons/automatic-properties.ts'
import { Differences } from '../../fixtures/differences.ts'
import { mismatches } from '../../fixtures/matchers.ts'

const BODY_BYTES_MAX = 20 * 1024 * 1024
const PROPERTIES_BYTES_MAX = 1024 * 1024
/** Cases that only HTTP can answer: methods, CORS preflight, the status of the beacon, the recordings sink. */
const HTTP_CASES = new Set([
  'route-15',
  'route-19',
  'route-20',
  'route-21',
  'route-22',
  'route-23',
  'cors-01',
])
/** Fields of stored events that persons and groups add. */
const PERSON_FIELDS = ['person_id', 'person_mode', 'person_properties']
const GROUP_FIELD = /^\$group_\d$/

interface CaseRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly body_base64?: string
  readonly body_gen?: {
    readonly prefix: string
    readonly unit: string
    readonly count?: number
    readonly total?: number
    readonly suffix: string
    readonly encode?: string
  }
}

interface IngestionCase {
  readonly id: string
  readonly title: string
  readonly steps: readonly {
    readonly request: CaseRequest
    readonly response: { readonly status: number; readonly body: unknown }
  }[]
  readonly final: { readonly ingested?: number; readonly events?: readonly JsonObject[] }
}

interface CaseFile {
  readonly env: {
    readonly now: string
    readonly remote_addr: string
    readonly projects: readonly { id: number; api_key: string; anonymize_ips?: boolean }[]
    readonly personal_keys: readonly { key: string; projects: readonly number[] }[]
  }
  readonly cases: readonly IngestionCase[]
}

const file = JSON.parse(
  readFileSync(new URL('../../fixtures/ingestion-cases.json', import.meta.url), 'utf8'),
) as CaseFile
const projects: readonly Project[] = file.env.projects.map((project) => ({
  id: project.id,
  apiKey: project.api_key,
  isIpAnonymized: project.anonymize_ips === true,
}))
const directory: ProjectDirectory = {
  projectByKey: (key) => projects.find((project) => project.apiKey === key) ?? null,
  projectById: (id) => projects.find((project) => project.id === id) ?? null,
  personalKey: (text) => {
    const found = file.env.personal_keys.find(({ key }) => key === text)
    return found === undefined ? null : { ...found, scopes: ['*'] }
  },
}
const nowMs = Date.parse(file.env.now)

t.test('the matchers report the differences', async (t) => {
  const matching: [unknown, unknown][] = [
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: { '~absent': true } }, { b: 1 }],
    [{ a: { '~any': true } }, { a: null }],
    [{ '~set': ['b', 'a'] }, ['a', 'b']],
    [{ '~len': 1 }, '💻'],
    [{ '~regex': '^a+$' }, 'aa'],
    [{ '~type': 'null' }, null],
    [{ '~uuidv5Of': 'anon' }, '7318c711-4e13-553f-aa67-bd012837acb9'],
  ]
  const differences = new Differences()
  for (const [expected, actual] of matching) {
    differences.same(mismatches(expected, actual), [], JSON.stringify(expected))
  }
  const differing: [unknown, unknown][] = [
    [{ a: 1 }, {}],
    [[1], [1, 2]],
    [1, '1'],
    [{ a: { '~absent': true } }, { a: null }],
    [{ a: { '~any': true } }, {}],
    [{ '~set': ['a', 'a'] }, ['a', 'b']],
    [{ '~exact': { a: 1 } }, { a: 1, b: 2 }],
    [{ '~len': 2 }, '💻'],
    [{ a: [] }, { a: {} }],
    [{}, []],
  ]
  for (const [expected, actual] of differing) {
    differences.equal(mismatches(expected, actual).length, 1, JSON.stringify(expected))
  }
  t.strictSame(differences.list(), [], 'every difference is told, and nothing else')
  t.match(mismatches({ a: [{ b: 1 }] }, { a: [{ b: 2 }] }), ['$.a[0].b: 2, expected 1'])
})

for (const ingestionCase of file.cases) {
  if (HTTP_CASES.has(ingestionCase.id)) continue
  t.test(`${ingestionCase.id}: ${ingestionCase.title}`, async (t) => {
    const stored: JsonObject[] = []
    const seen = new Set<string>()
    const differences = new Differences()
    for (const [step, { request, response }] of ingestionCase.steps.entries()) {
      const answer = answerOf(request, stored, seen)
      const { status, body } = response
      differences.same(mismatches({ status, body }, answer), [], `answer ${step}`)
    }
    const { ingested = stored.length, events } = ingestionCase.final
    differences.equal(stored.length, ingested, 'the number of stored events is right')
    if (events !== undefined) {
      differences.same(mismatches(events.map(withoutState), stored), [], 'the events')
    }
    t.strictSame(differences.list(), [], 'the answers and events of the case')
  })
}

function answerOf(
  request: CaseRequest,
  stored: JsonObject[],
  seen: Set<string>,
): { status: number; body: unknown } {
  try {
    accept(request, stored, seen)
    return { status: 200, body: { status: 1 } }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { status: error.status, body: error.toBody() }
  }
}

function accept(request: CaseRequest, stored: JsonObject[], seen: Set<string>): void {
  const method = request.method === 'GET' ? 'GET' : 'POST'
  const [path = '', query = ''] = request.path.split('?')
  const headers = new Map(
    Object.entries(request.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  )
  const body = bodyOf(request)
  // HTTP enforces the size limit of the wire. It is repeated here because the cases test it.
  if (body.length > BODY_BYTES_MAX) throw new ServiceError('request_too_large', 'too large')
  const payload = decodePayload(
    {
      method,
      contentType: headers.get('content-type') ?? '',
      contentEncoding: headers.get('content-encoding') ?? '',
      query,
      body,
    },
    { decodedBytesMax: BODY_BYTES_MAX },
  )
  const envelope = parseEnvelope(payload.json, { isEngage: path.startsWith('/engage') })
  const sources = { method, query: payload.query, form: payload.form, envelope } as const
  const project = resolveProject(findKey(sources), findProjectId(sources), directory)
  const events = [...checkEvents(envelope)]
  const sentAt = requestSentAt(
    envelope.sentAt,
    payload.form.sentAt,
    payload.query.underscore,
    payload.query.sentAt,
  )
  const context = {
    ...sentAt,
    arrivedAtMs: nowMs,
    ip: clientAddress(headers.get('x-forwarded-for') ?? '', file.env.remote_addr, true),
    isIpAnonymized: project.isIpAnonymized,
    isHistorical: envelope.isHistorical,
    propertiesBytesMax: PROPERTIES_BYTES_MAX,
    aiPropertiesBytesMax: PROPERTIES_BYTES_MAX,
  }
  for (const event of events) {
    const json = JSON.stringify(event)
    const logged = JSON.parse(json) as JsonObject
    const uuid = uuidOf(logged)
    const outcome = normalizeEvent(logged, context, Buffer.byteLength(json))
    if (outcome.kind === 'drop') continue
    const normal = outcome.event
    const key = JSON.stringify([project.id, uuid, normal.name, normal.distinctId])
    if (seen.has(key)) continue
    seen.add(key)
    stored.push({
      uuid,
      event: normal.name,
      distinct_id: normal.distinctId,
      timestamp: new Date(normal.timestampMs).toISOString(),
      project_id: project.id,
      properties: expandProperties(normal.properties, normal.name, normal.isPersonless),
      elements_chain: normal.elementsChain,
    })
  }
}

function uuidOf(event: JsonObject): string {
  const bytes = typeof event['uuid'] === 'string' ? parseUuid(event['uuid']) : null
  return bytes === null ? uuidV7(nowMs) : formatUuid(bytes, 0)
}

function bodyOf(request: CaseRequest): Uint8Array {
  if (request.body_base64 !== undefined) return Buffer.from(request.body_base64, 'base64')
  const generated = request.body_gen
  if (generated === undefined) return Buffer.from(request.body ?? '')
  const { prefix, unit, suffix } = generated
  const around = Buffer.byteLength(prefix) + Buffer.byteLength(suffix)
  const count = generated.count ?? (generated.total ?? 0) - around
  const body = Buffer.from(prefix + unit.repeat(count) + suffix)
  return generated.encode === 'gzip' ? gzipSync(body) : body
}

/** Returns an expected event without the fields that persons and groups determine. */
function withoutState(event: JsonObject): JsonObject {
  const rest = Object.fromEntries(
    Object.entries(event).filter(([field]) => !PERSON_FIELDS.includes(field)),
  )
  const properties = rest['properties'] as JsonObject | undefined
  if (properties === undefined) return rest
  return {
    ...rest,
    properties: Object.fromEntries(
      Object.entries(properties).filter(([key]) => !GROUP_FIELD.test(key)),
    ),
  }
}
