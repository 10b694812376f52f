/** Creates request bodies for `tenrec bench`: new page views, clicks and sign-ups of several thousand users. */
import { randomInt } from 'node:crypto'
import { uuidV7 } from '../../base/ids.ts'

const USERS = 5000
const PATHS = ['/', '/pricing', '/docs', '/docs/install', '/blog', '/app', '/app/billing', '/login']
const BROWSERS = ['Chrome', 'Safari', 'Firefox', 'Microsoft Edge']
const SYSTEMS = ['Mac OS X', 'Windows', 'Android', 'iOS', 'Linux']
const COUNTRIES = ['DE', 'US', 'FR', 'IN', 'BR', 'JP']
const NAMES = ['$pageview', '$pageview', '$pageview', '$autocapture', '$autocapture', 'signed up']

/** Returns a request body with `count` events: for `/capture/` with one event, and otherwise for `/batch/`. */
export function benchBody(projectKey: string, count: number, nowMs: number): string {
  if (count === 1) return JSON.stringify({ api_key: projectKey, ...benchEvent(nowMs) })
  const batch = Array.from({ length: count }, () => benchEvent(nowMs))
  return JSON.stringify({ api_key: projectKey, batch, sent_at: new Date(nowMs).toISOString() })
}

function benchEvent(nowMs: number): Readonly<Record<string, unknown>> {
  const user = randomInt(USERS)
  const path = pick(PATHS)
  const name = pick(NAMES)
  return {
    uuid: uuidV7(nowMs),
    event: name,
    distinct_id: `bench-${user}`,
    timestamp: new Date(nowMs).toISOString(),
    properties: {
      $lib: 'tenrec-bench',
      $lib_version: '1.0.0',
      $browser: BROWSERS[user % BROWSERS.length],
      $browser_version: 120 + (user % 9),
      $os: SYSTEMS[user % SYSTEMS.length],
      $device_type: user % 3 === 0 ? 'Mobile' : 'Desktop',
      $screen_width: 1440,
      $screen_height: 900,
      $viewport_width: 1200 + (user % 200),
      $viewport_height: 780,
      $host: 'shop.example.com',
      $pathname: path,
      $current_url: `https://shop.example.com${path}?ref=${randomInt(50)}`,
      $referrer: '$direct',
      $session_id: uuidV7(nowMs),
      $window_id: uuidV7(nowMs),
      $geoip_country_code: COUNTRIES[user % COUNTRIES.length],
      plan: user % 10 === 0 ? 'pro' : 'free',
      load_ms: randomInt(3000),
      ...(name === 'signed up' ? { $set: { plan: user % 10 === 0 ? 'pro' : 'free' } } : {}),
    },
  }
}

function pick(items: readonly string[]): string {
  return items[randomInt(items.length)] ?? ''
}
