/**
 * Checks of `tenrec doctor` on a daemon that runs, asked at the address that clients use, so that a
 * proxy in between is examined too: does it let bodies and headers through, and what it must not.
 */
import { randomBytes } from 'node:crypto'
import { isObject, parseJson } from '../../base/json.ts'
import { ask } from '../lib/daemon-client.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { printable } from '../lib/output.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

/** More than the limit that proxies have by default, and what browsers send seldom. */
const BODY_BYTES = 3 * 1024 ** 2
const COOKIE_BYTES = 6000
const BACKLOG_SECONDS_MANY = 60
const LAG_SECONDS_MANY = 0.5

/** Asks a daemon. `personalKey` null: links in answers are not looked at. Throws `OperatorError` when nobody answers. */
export async function checkDaemon(
  baseUrl: string,
  personalKey: string | null,
): Promise<readonly Finding[]> {
  return [
    await checkReadiness(baseUrl),
    ...(await checkMetrics(baseUrl)),
    await checkLargeBody(baseUrl),
    await checkLargeHeaders(baseUrl),
    ...(personalKey === null ? [] : await checkLinks(baseUrl, personalKey)),
  ]
}

async function checkReadiness(baseUrl: string): Promise<Finding> {
  const check = 'readiness'
  const { status, text } = await ask(baseUrl, '/_readyz')
  const answer = parseJson(text)
  const isOurs = isObject(answer) && Array.isArray(answer['reasons'])
  if (!isOurs) {
    return problem(
      check,
      `${baseUrl}/_readyz answers ${status}, not as Tenrec does: check the address`,
    )
  }
  if (status === 200) return fine(check, 'events are accepted')
  const reasons = String(answer['reasons'])
  return problem(check, `events are refused for now: ${printable(reasons)}`)
}

async function checkMetrics(baseUrl: string): Promise<readonly Finding[]> {
  const check = 'metrics'
  const isLocal = isLoopbackHost(new URL(baseUrl).hostname)
  const samples = await readMetrics(baseUrl)
  if (samples === null) {
    if (isLocal) return [warning(check, `${baseUrl}/metrics is not answered: check the address`)]
    return [fine(check, 'the proxy does not pass /metrics on')]
  }
  const findings: Finding[] = []
  if (!isLocal) {
    const message = 'anybody who reaches this address may read /metrics: have the proxy refuse it'
    findings.push(warning(check, message))
  }
  const backlogSeconds = samples.get('ingest_oldest_unprocessed_age_seconds') ?? 0
  if (backlogSeconds > BACKLOG_SECONDS_MANY) {
    const message = `the oldest accepted event has waited ${Math.round(backlogSeconds)} s: processing is behind; give the machine more cores or send less`
    findings.push(warning('processing', message))
  }
  const lagSeconds = samples.get('event_loop_lag_seconds') ?? 0
  if (lagSeconds > LAG_SECONDS_MANY) {
    const message = `the main thread was held for ${Math.round(lagSeconds * 1000)} ms: the machine is overloaded or short of memory`
    findings.push(warning('event_loop', message))
  }
  return findings.length > 0 ? findings : [fine(check, 'no figure is out of the ordinary')]
}

/** A batch with a key that nobody has: it is read as a whole, and nothing of it is stored. */
async function checkLargeBody(baseUrl: string): Promise<Finding> {
  const check = 'large_bodies'
  const key = `doctor-${randomBytes(12).toString('hex')}`
  const event = { event: 'x', distinct_id: 'x', properties: { filler: 'x'.repeat(BODY_BYTES) } }
  const body = JSON.stringify({ api_key: key, batch: [event] })
  const { status } = await ask(baseUrl, '/batch/', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body,
  })
  const size = `${BODY_BYTES / 1024 ** 2} MiB`
  if (status === 401) return fine(check, `a body of ${size} reaches the daemon`)
  if (status === 413) {
    return problem(
      check,
      `a body of ${size} is refused: allow 20 MiB in the proxy (client_max_body_size in nginx), and check body_limit`,
    )
  }
  return warning(check, `a body of ${size} with an unknown key got ${status} instead of 401`)
}

/** Browsers send the cookies of a whole domain along with each event. */
async function checkLargeHeaders(baseUrl: string): Promise<Finding> {
  const check = 'large_headers'
  const { status } = await ask(baseUrl, '/_livez', {
    headers: { Cookie: `doctor=${'x'.repeat(COOKIE_BYTES)}` },
  })
  if (status === 200) return fine(check, `${COOKIE_BYTES} bytes of cookies reach the daemon`)
  return warning(
    check,
    `a request with ${COOKIE_BYTES} bytes of cookies got ${status}: raise the limit of the proxy (large_client_header_buffers in nginx)`,
  )
}

/** Links to further pages begin with the address that the proxy names in its headers. */
async function checkLinks(baseUrl: string, personalKey: string): Promise<readonly Finding[]> {
  const check = 'proxy_headers'
  const headers = { Authorization: `Bearer ${personalKey}` }
  const { status, text } = await ask(baseUrl, '/api/projects/1/events/?limit=1', { headers })
  if (status !== 200) {
    return [warning(check, `the personal key is answered ${status}: name one that may read events`)]
  }
  const answer = parseJson(text)
  const next = isObject(answer) ? answer['next'] : null
  if (typeof next !== 'string') {
    return [fine(check, 'not checked: project 1 has too few events for a link to a next page')]
  }
  if (next.startsWith(`${baseUrl}/`)) return [fine(check, `links in answers begin with ${baseUrl}`)]
  const message = `links in answers begin with ${printable(new URL(next).origin)}: set public_url, or have the proxy send X-Forwarded-Proto and X-Forwarded-Host and name it in trusted_proxies`
  return [warning(check, message)]
}
