/**
 * Checks a running daemon for `tenrec doctor`, at the URL that clients use. This also checks a proxy in front of it:
 * the proxy must forward bodies and headers, and must not forward private paths.
 */
import { randomBytes } from 'node:crypto'
import { isObject, parseJson } from '../../base/json.ts'
import { ask } from '../lib/daemon-client.ts'
import { isLoopbackHost } from '../lib/loopback.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { printable } from '../lib/output.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

/** The bytes of a large body: more than most proxies allow by default, and more than browsers usually send. */
const BODY_BYTES = 3 * 1024 ** 2
const COOKIE_BYTES = 6000
const BACKLOG_SECONDS_MANY = 60
const LAG_SECONDS_MANY = 0.5

/**
 * Checks a daemon. Links are only checked if `personalKey` is given. Throws `OperatorError` if the daemon does not
 * answer.
 */
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
      `The answer of ${baseUrl}/_readyz, with status ${status}, is not from Tenrec. Check the address.`,
    )
  }
  if (status === 200) return fine(check, 'The daemon accepts events.')
  const reasons = String(answer['reasons'])
  return problem(check, `The daemon refuses events at the moment: ${printable(reasons)}`)
}

async function checkMetrics(baseUrl: string): Promise<readonly Finding[]> {
  const check = 'metrics'
  const isLocal = isLoopbackHost(new URL(baseUrl).hostname)
  const samples = await readMetrics(baseUrl)
  if (samples === null) {
    if (isLocal) return [warning(check, `${baseUrl}/metrics cannot be read. Check the address.`)]
    return [fine(check, 'The proxy does not forward /metrics.')]
  }
  const findings: Finding[] = []
  if (!isLocal) {
    const message =
      'Anybody who can reach this address can read /metrics. Refuse this path in the proxy.'
    findings.push(warning(check, message))
  }
  const backlogSeconds = samples.get('ingest_oldest_unprocessed_age_seconds') ?? 0
  if (backlogSeconds > BACKLOG_SECONDS_MANY) {
    const message = `The oldest accepted event has waited at least ${Math.round(backlogSeconds)} seconds, so processing is behind. Give the machine more cores or send fewer events.`
    findings.push(warning('processing', message))
  }
  const lagSeconds = samples.get('event_loop_lag_seconds') ?? 0
  if (lagSeconds > LAG_SECONDS_MANY) {
    const message = `The main thread was blocked for ${Math.round(lagSeconds * 1000)} ms. The machine is overloaded or short of memory.`
    findings.push(warning('event_loop', message))
  }
  return findings.length > 0 ? findings : [fine(check, 'All metrics are normal.')]
}

/** Sends a large batch with an unknown key. The daemon reads all of it and stores nothing. */
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
  if (status === 401) return fine(check, `A body of ${size} reaches the daemon.`)
  if (status === 413) {
    return problem(
      check,
      `A body of ${size} is refused. Allow 20 MiB in the proxy (client_max_body_size in nginx), and check \`body_limit\`.`,
    )
  }
  return warning(
    check,
    `A body of ${size} with an unknown key was answered with ${status} instead of 401. Check the proxy.`,
  )
}

/** Sends large headers. Browsers send the cookies of a whole domain with each event, so a proxy must allow them. */
async function checkLargeHeaders(baseUrl: string): Promise<Finding> {
  const check = 'large_headers'
  const { status } = await ask(baseUrl, '/_livez', {
    headers: { Cookie: `doctor=${'x'.repeat(COOKIE_BYTES)}` },
  })
  if (status === 200) return fine(check, `${COOKIE_BYTES} bytes of cookies reach the daemon.`)
  return warning(
    check,
    `A request with ${COOKIE_BYTES} bytes of cookies was answered with ${status}. Raise the limit of the proxy (large_client_header_buffers in nginx).`,
  )
}

/** Checks links to further pages. They must begin with the URL that the proxy names in its headers. */
async function checkLinks(baseUrl: string, personalKey: string): Promise<readonly Finding[]> {
  const check = 'proxy_headers'
  const headers = { Authorization: `Bearer ${personalKey}` }
  const { status, text } = await ask(baseUrl, '/api/projects/1/events/?limit=1', { headers })
  if (status !== 200) {
    return [
      warning(
        check,
        `A request with the personal key was answered with ${status}. Use a key that may read events.`,
      ),
    ]
  }
  const answer = parseJson(text)
  const next = isObject(answer) ? answer['next'] : null
  if (typeof next !== 'string') {
    return [
      fine(
        check,
        'Links were not checked, because project 1 has too few events for a second page.',
      ),
    ]
  }
  if (next.startsWith(`${baseUrl}/`))
    return [fine(check, `Links in answers begin with ${baseUrl}.`)]
  const message = `Links in answers begin with ${printable(new URL(next).origin)}. Set \`public_url\`, or let the proxy send X-Forwarded-Proto and X-Forwarded-Host and name the proxy in \`trusted_proxies\`.`
  return [warning(check, message)]
}
