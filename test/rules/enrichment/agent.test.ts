/**
 * Compares the properties read from a user agent with those that the browser SDK reads from the same text.
 *
 * @lane quick
 */
import {
  detectBrowser,
  detectBrowserVersion,
  detectDevice,
  detectDeviceType,
  detectOS,
} from '@posthog/core/utils'
import t from 'tap'
import {
  agentOf,
  agentProperties,
  isBot,
  isUndescribed,
} from '../../../src/rules/enrichment/agent.ts'
import { AGENT_UNITS_MAX } from '../../../src/rules/enrichment/limits.ts'

const WEBKIT = 'AppleWebKit/537.36 (KHTML, like Gecko)'
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)'
const WINDOWS = `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/124.0.0.0 Safari/537.36`
const MAC = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'
const PHONE = `Mozilla/5.0 (Linux; Android 14; SM-S921B) ${WEBKIT}`

/** User agents of visitors. */
const AGENTS = [
  WINDOWS,
  `${WINDOWS} Edg/124.0.2478.51`,
  `${WINDOWS} OPR/109.0.0.0`,
  `${WINDOWS} Vivaldi/6.7.3329.21`,
  `${MAC} ${WEBKIT} Chrome/123.0.0.0 Safari/537.36`,
  `${MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15`,
  `${MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15 Ddg/17.4`,
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:125.0) Gecko/20100101 Firefox/125.0',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:125.0) Gecko/20100101 Firefox/125.0',
  'Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0',
  `Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} Chrome/122.0.6261.94 Safari/537.36`,
  `Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${WEBKIT} Chrome/124.0.0.0 Safari/537.36`,
  `${IPHONE} Version/17.4.1 Mobile/15E148 Safari/604.1`,
  `${IPHONE} CriOS/124.0.6367.88 Mobile/15E148 Safari/604.1`,
  `${IPHONE} FxiOS/125.0 Mobile/15E148 Safari/605.1.15`,
  `${IPHONE} EdgiOS/124.0.2478.50 Version/17.0 Mobile/15E148 Safari/604.1`,
  `${IPHONE} Mobile/15E148 [FBAN/FBIOS;FBAV/461.0.0.34.109]`,
  `${IPHONE} Version/17.0 Mobile/15E148 Safari/604.1 Brave/1.65`,
  'Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (iPod touch; CPU iPhone OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Mobile/15E148 Safari/604.1',
  `${PHONE} Chrome/124.0.6367.82 Mobile Safari/537.36`,
  `${PHONE} SamsungBrowser/24.0 Chrome/117.0.0.0 Mobile Safari/537.36`,
  `${PHONE} Chrome/124.0.6367.82 Mobile Safari/537.36 EdgA/124.0.2478.50`,
  `${PHONE} Chrome/124.0.0.0 YaBrowser/24.4.1.84 Mobile Safari/537.36`,
  `Mozilla/5.0 (Linux; Android 13; SM-X200) ${WEBKIT} Chrome/124.0.0.0 Safari/537.36`,
  'Mozilla/5.0 (Linux; Android 7.1.1; Pixel C) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Android 14; Mobile; rv:125.0) Gecko/125.0 Firefox/125.0',
  'Mozilla/5.0 (Linux; U; Android 4.0.3; de-de; GT-I9100) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30',
  'Mozilla/5.0 (Linux; U; Android 12; en-US; RMX3085) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.58 UCBrowser/13.4.2.1307 Mobile Safari/537.36',
  'Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko',
  'Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0)',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/58.0.3029.110 Safari/537.36 Edge/16.16299',
  'Mozilla/5.0 (PlayStation 4 8.03) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.0 Safari/605.1.15',
  'Mozilla/5.0 (BB10; Touch) AppleWebKit/537.10+ (KHTML, like Gecko) Version/10.0.9.2372 Mobile Safari/537.10+',
  'Mozilla/5.0 (compatible; Konqueror/4.5; FreeBSD) KHTML/4.5.4 (like Gecko)',
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) OculusBrowser/33.0 Chrome/124.0.0.0 VR Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:102.0) Gecko/20100101 Goanna/6.7 Firefox/102.0 PaleMoon/33.0.2',
]

function fromSdk(agent: string): Readonly<Record<string, unknown>> {
  const told = {
    $browser: detectBrowser(agent, ''),
    $browser_version: detectBrowserVersion(agent, ''),
    $os: detectOS(agent)[0],
    $device: detectDevice(agent),
    $device_type: detectDeviceType(agent),
  }
  return Object.fromEntries(
    Object.entries(told).filter(([, value]) => value !== '' && value !== null),
  )
}

t.test('user agents of visitors are described as the browser SDK describes them', async (t) => {
  for (const agent of AGENTS) t.strictSame(agentProperties(agent), fromSdk(agent), agent)
})

t.test('values that the SDK guesses for unknown user agents are left out', async (t) => {
  const unknown = [
    'Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/606.4 (KHTML, like Gecko) NF/6.0.0.15.4 NintendoBrowser/5.1.0.20393',
    'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)',
  ]
  for (const agent of unknown) {
    t.equal(fromSdk(agent)['$browser'], 'Firefox')
    t.notOk('$browser' in agentProperties(agent), agent)
  }
  t.match(agentProperties(unknown[0] ?? ''), { $os: 'Nintendo', $device_type: 'Console' })
  t.strictSame(agentProperties(unknown[1] ?? ''), {})
})

t.test('a user agent without information adds no property', async (t) => {
  t.strictSame(agentProperties('curl/8.5.0'), {})
  t.strictSame(agentProperties('x'.repeat(AGENT_UNITS_MAX)), {})
  t.strictSame(agentProperties('Chrome'), { $browser: 'Chrome', $device_type: 'Desktop' })
  t.strictSame(agentProperties('Chrome/x'), { $browser: 'Chrome', $device_type: 'Desktop' })
})

t.test('a hostile user agent is cut before it is read', async (t) => {
  const parts = [
    'Android ',
    'Windows ',
    ' OPR/',
    'watch',
    'Mini',
    'kobo ',
    'KFAAAAAA',
    'Mozilla/5.0 (',
  ]
  for (const part of parts) {
    const agent = agentOf({ $user_agent: part.repeat(10_000) })
    t.equal(agent.length, AGENT_UNITS_MAX, part)
    t.type(agentProperties(agent), 'object', part)
    t.type(isBot(agent), 'boolean', part)
  }
})

t.test('the user agent is the first text among its property names', async (t) => {
  t.equal(agentOf({}), '')
  t.equal(agentOf({ '$user-agent': 'd' }), 'd')
  t.equal(agentOf({ '$user-agent': 'd', $useragent: 'c' }), 'c')
  t.equal(agentOf({ $useragent: 'c', $user_agent: 'b' }), 'b')
  t.equal(agentOf({ $user_agent: 'b', $raw_user_agent: 'a' }), 'a')
  t.equal(agentOf({ $user_agent: 'b', $raw_user_agent: '' }), 'b')
  t.equal(agentOf({ $raw_user_agent: ['a'] }), '')
  t.equal(agentOf({ $raw_user_agent: 'a'.repeat(AGENT_UNITS_MAX * 2) }).length, AGENT_UNITS_MAX)
})

t.test('an event is described unless its client sent any of the properties', async (t) => {
  t.equal(isUndescribed({ $raw_user_agent: 'a', $os_version: '1' }), true)
  for (const name of ['$browser', '$browser_version', '$os', '$device', '$device_type']) {
    t.equal(isUndescribed({ [name]: null }), false, name)
    t.equal(isUndescribed({ [name]: undefined }), true, 'the property is removed')
  }
})

t.test('crawlers and programs are bots, visitors are not', async (t) => {
  const bots = [
    'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
    'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)',
    'python-requests/2.31.0',
    'curl/8.5.0',
    `Mozilla/5.0 (X11; Linux x86_64) ${WEBKIT} HeadlessChrome/124.0.0.0 Safari/537.36`,
  ]
  for (const agent of bots) t.equal(isBot(agent), true, agent)
  for (const agent of AGENTS) t.equal(isBot(agent), false, agent)
})
