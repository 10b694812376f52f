/**
 * Cross-origin headers of the public routes. Any page may send events with the project's key, which
 * is public; private routes never answer with these headers.
 * Source: docs/compatibility/ingestion.md, "CORS".
 */

/** Seconds that a browser may remember the answer to a preflight. */
const PREFLIGHT_SECONDS_MAX = '86400'
const DEFAULT_HEADERS = 'X-Requested-With,Content-Type'

/**
 * The header pairs for an answer to `origin` (never ''; `null` is an origin too). `requestedHeaders`
 * is the value of Access-Control-Request-Headers or ''. Every requested header is allowed: SDKs add
 * tracing headers under names of their users' choice.
 */
export function corsHeaders(
  origin: string,
  requestedHeaders: string,
  isPreflight: boolean,
): readonly (readonly [string, string])[] {
  const headers: (readonly [string, string])[] = [
    ['Access-Control-Allow-Origin', origin],
    ['Access-Control-Allow-Credentials', 'true'],
    ['Access-Control-Allow-Methods', 'GET, POST, OPTIONS'],
    ['Access-Control-Allow-Headers', requestedHeaders === '' ? DEFAULT_HEADERS : requestedHeaders],
    ['Vary', 'Origin'],
  ]
  if (isPreflight) headers.push(['Access-Control-Max-Age', PREFLIGHT_SECONDS_MAX])
  return headers
}
