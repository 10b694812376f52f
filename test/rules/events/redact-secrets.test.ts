/**
 * Tests that secrets are removed from samples of refused requests.
 *
 * @lane quick
 */
import t from 'tap'
import { redactSecrets } from '../../../src/rules/events/redact-secrets.ts'

/** No part of it occurs in anything else. */
const SECRET = 'Zq7-Xw5 Kj3"Vb9'
const NAMES = [
  'password',
  '$db_Passwd',
  'client_secret',
  'accessToken',
  'token',
  'X-API-Key',
  'api_key',
  'authorization',
  'Set-Cookie',
  'aws.credentials',
]

/** Returns a text and its prefixes, from the one that ends after the name and the separator. */
function prefixes(text: string, first: number): readonly string[] {
  return Array.from({ length: text.length - first + 1 }, (_, more) => text.slice(0, first + more))
}

/** The ways in which a member with a secret is sent. */
function textsWith(name: string): readonly string[] {
  const json = JSON.stringify({ event: 'a', properties: { [name]: SECRET, plan: 'pro' } })
  const nested = JSON.stringify({ body: json, kind: 'b' })
  return [
    json,
    JSON.stringify(JSON.parse(json), null, 2),
    nested,
    JSON.stringify({ outer: nested }),
    `data=${encodeURIComponent(json)}&event=x`,
    `data=${encodeURIComponent(nested)}&event=x`,
    JSON.stringify({ [name]: { old: [SECRET], new: SECRET }, plan: 'pro' }),
    JSON.stringify({ [name]: [SECRET, { value: SECRET }], plan: 'pro' }),
    `${name}=${encodeURIComponent(SECRET)}&event=x`,
    `GET /\r\n${name}: ${SECRET.replace('"', ';')}\r\nHost: x`,
    `{'${name}': '${SECRET}', 'plan': 'pro'}`,
  ]
}

t.test('no part of a secret is shown, however it was sent and wherever the text ends', (t) => {
  const parts = ['Zq7', 'Xw5', 'Kj3', 'Vb9']
  const shown = NAMES.flatMap((name) =>
    textsWith(name).flatMap((text) =>
      prefixes(text, text.indexOf('Zq7')).flatMap((prefix) => {
        const result = redactSecrets(prefix)
        return parts.some((part) => result.includes(part)) ? [`${prefix} -> ${result}`] : []
      }),
    ),
  )
  t.strictSame(shown.slice(0, 5), [])
  t.end()
})

/** Returns JSON in which every UTF-16 unit of the texts, or every second one, is written as an escape. */
function escaped(json: string, every: number): string {
  return json.replace(/"(?:[^"\\]|\\.)*"/g, (text) => {
    const units = String(JSON.parse(text)).split('')
    const codes = units.map((unit, at) =>
      at % every === 0
        ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
        : JSON.stringify(unit).slice(1, -1),
    )
    return `"${codes.join('')}"`
  })
}

function unescaped(text: string): string {
  return text.replace(/\\+u([0-9a-f]{4})/g, (_, code: string) =>
    code === '005c' ? '\\' : String.fromCharCode(Number.parseInt(code, 16)),
  )
}

t.test('no part of a secret is shown if its name or its value has escapes of JSON', (t) => {
  const shown = ['password', 'api_key'].flatMap((name) => {
    const json = JSON.stringify({ event: 'a', properties: { [name]: SECRET, plan: 'pro' } })
    const texts = [1, 2].flatMap((every) => {
      const inner = escaped(json, every)
      const nested = JSON.stringify({ body: inner })
      return [
        inner,
        nested,
        escaped(JSON.stringify({ body: json }), every),
        escaped(nested, every),
        `data=${encodeURIComponent(inner)}&event=x`,
        `data=${encodeURIComponent(nested)}&event=x`,
      ]
    })
    const whole = texts.flatMap((text) => prefixes(text, 1))
    return whole.flatMap((text) => {
      const result = redactSecrets(text)
      const read = unescaped(unescaped(result.replaceAll('%5C', '\\')))
      return /q7|Xw|w5|Kj|j3|Vb|b9/.test(read) ? [`${text} -> ${result}`] : []
    })
  })
  t.strictSame(shown.slice(0, 5), [])
  for (const [text, wanted] of [
    [
      String.raw`{"pass\u0077ord": "x", "plan": "a\u0062"}`,
      String.raw`{"pass\u0077ord": "[redacted]", "plan": "a\u0062"}`,
    ],
    [String.raw`{"k":"phx\u005fabc"}`, '{"k":"[redacted]"}'],
    [String.raw`{"k":"phx_a\u0062c"}`, '{"k":"[redacted]"}'],
    [String.raw`{"k":"a\nBearer\tabc.def"}`, String.raw`{"k":"a\nBearer\t[redacted]"}`],
    [
      String.raw`{"k":"https:\/\/ann:hunter2@example.com"}`,
      String.raw`{"k":"https:\/\/[redacted]@example.com"}`,
    ],
    [String.raw`{"a":"C:\\tok\u0065n: abc"}`, String.raw`{"a":"C:\\tok\u0065n: [redacted]"}`],
    [String.raw`\token=abc&b=\u00e9`, String.raw`\token=[redacted]&b=\u00e9`],
    [
      String.raw`{"body":"{\"pass\u005cu0077ord\":\"x\u005c\"y\"}"}`,
      String.raw`{"body":"{\"pass\u005cu0077ord\":\"[redacted]\"}"}`,
    ],
  ] as const)
    t.equal(redactSecrets(text), wanted)
  t.end()
})

t.test('secrets without a name are recognized by their form', (t) => {
  for (const [text, wanted] of [
    ['a phx_abc123, b', 'a [redacted], b'],
    ['{"k":"phs_abc"}', '{"k":"[redacted]"}'],
    ['x Bearer abc.def-123 y', 'x Bearer [redacted] y'],
    ['x Basic dXNlcjpwYXNzd29yZA== y', 'x Basic [redacted] y'],
    ['see https://ann:hunter2@example.com/x', 'see https://[redacted]@example.com/x'],
  ] as const)
    t.equal(redactSecrets(text), wanted)
  t.end()
})

t.test('everything else stays as it was sent', (t) => {
  for (const text of [
    '',
    '{"api_key":"phc_abc","event":"a","properties":{"token":"phc_abc","plan":"pro"}}',
    'token=phc_abc&data=x',
    '{"cookie_consent":true,"secret":null,"password":""}',
    '{"event":"Basic plan","url":"https://example.com:8080/a@b","key":"a","passive":"yes"}',
    '{"batch":[{"event":"password reset","distinct_id":"ann"}',
  ])
    t.equal(redactSecrets(text), text)
  const mixed = '{"password":"a\\"b","event":"x","token":12,"plan":"pro"}'
  const wanted = '{"password":"[redacted]","event":"x","token":[redacted],"plan":"pro"}'
  t.equal(redactSecrets(mixed), wanted)
  t.end()
})
