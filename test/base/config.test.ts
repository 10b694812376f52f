/**
 * Tests settings: the sources of values, the refusal of invalid values, and the table in the documentation.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { addressRange } from '../../src/base/addresses.ts'
import { UsageError } from '../../src/base/errors.ts'
import { daemonSettings, loadSettings, type Settings } from '../../src/config/settings.ts'
import {
  describeDefault,
  formatSetting,
  SETTING_NAMES,
  SETTINGS,
} from '../../src/config/settings-table.ts'
import { closestWord } from '../../src/config/suggestion.ts'
import { formatBytes, isBaseUrl, parseBytes, parseDuration } from '../../src/config/value-kinds.ts'
import { parseWarehouse } from '../../src/config/warehouse-address.ts'
import { Differences } from '../fixtures/differences.ts'

interface Sources {
  readonly flags?: Readonly<Record<string, string>>
  readonly environment?: Readonly<Record<string, string>>
  readonly configPath?: string
  readonly isTerminal?: boolean
  readonly coreCount?: number
}

function load(sources: Sources = {}): Settings {
  return loadSettings({
    flags: new Map(Object.entries(sources.flags ?? {})),
    environment: sources.environment ?? {},
    configPath: sources.configPath,
    machine: { coreCount: sources.coreCount ?? 4, isTerminal: sources.isTerminal ?? false },
  })
}

function refusalOf(sources: Sources): string {
  try {
    load(sources)
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  throw new Error('nothing was refused')
}

t.test('without any source every setting has its default', async (t) => {
  const { origins, ...values } = load()
  t.strictSame(values, {
    dataDir: './data',
    host: '127.0.0.1',
    port: 8000,
    httpServer: 'auto',
    memoryBytesMax: 805_306_368,
    bodyBytesMax: 20_971_520,
    inFlightBytesMax: 268_435_456,
    backlogBytesMax: 4_294_967_296,
    processingLagMsMax: 30_000,
    eventPropertiesBytesMax: 1_048_576,
    aiEventPropertiesBytesMax: 8_388_608,
    diskReserveBytes: null,
    workerThreads: 3,
    analyticsThreads: 4,
    queryMsMax: 30_000,
    queryCacheBytes: 167_772_160,
    durability: 'fsync',
    cluster: [],
    clusterCopies: 2,
    partitions: [0],
    warehouse: null,
    warehouseKeepDays: null,
    logLevel: 'info',
    logFormat: 'json',
    publicUrl: null,
    trustedProxies: ['127.0.0.0/8', '::1/128'],
    isConsoleOn: true,
    consolePath: '/',
    oidcIssuer: null,
    oidcClientId: null,
    oidcClientSecret: null,
    oidcLabel: 'Log in with single sign-on',
    oidcNewUsers: 'refuse',
    oidcEmailDomains: [],
    isForwardedForTrusted: true,
    isGetCaptureEnabled: true,
    isBotTagged: false,
    isUserAgentParsed: false,
    geoIpDatabase: null,
    isNetworkDiskAllowed: false,
    connectionsMax: 0,
    flagListenersMax: 20_000,
    addressConnectionsPerSecondMax: 0,
    addressRequestsPerSecondMax: 0,
    projectRequestsPerSecondMax: 0,
    projectEventsPerSecondMax: 0,
    bootstrapProjectKey: null,
    bootstrapPersonalKey: null,
  })
  const differences = new Differences()
  for (const name of SETTING_NAMES) {
    differences.same(origins[name], { kind: 'default', text: 'default' }, name)
  }
  t.strictSame(differences.list(), [], 'every setting comes from its default')
  t.equal(load({ coreCount: 1 }).workerThreads, 1)
  t.equal(load({ isTerminal: true }).logFormat, 'pretty')
})

t.test('settings cannot be changed', async (t) => {
  const settings = load()
  t.ok(Object.isFrozen(settings))
  t.ok(Object.isFrozen(settings.origins))
  t.ok(Object.isFrozen(load({ flags: { 'trusted-proxies': '10.0.0.1' } }).trustedProxies))
})

t.test('a flag wins over the environment, that over the file, that over the default', async (t) => {
  const configPath = join(t.testdir({ 'a.toml': 'port = 3\nhost = "::"\nworkers = 2\n' }), 'a.toml')
  const settings = load({
    flags: { port: '1' },
    environment: { TENREC_PORT: '2', TENREC_HOST: '0.0.0.0', TENREC_BODY_LIMIT: '' },
    configPath,
  })
  t.equal(settings.port, 1)
  t.equal(settings.host, '0.0.0.0')
  t.equal(settings.workerThreads, 2)
  t.strictSame(settings.origins.port, { kind: 'flag', text: '--port' })
  t.strictSame(settings.origins.host, { kind: 'environment', text: 'TENREC_HOST' })
  t.strictSame(settings.origins.workerThreads, {
    kind: 'file',
    text: `${configPath} line 3, column 1`,
  })
  t.equal(settings.origins.bodyBytesMax.kind, 'default', 'an empty variable is not set')
})

t.test('the environment may name the file, and the flag wins', async (t) => {
  const dir = t.testdir({ 'a.toml': 'port = 1', 'b.toml': 'port = 2' })
  const environment = { TENREC_CONFIG: join(dir, 'a.toml') }
  t.equal(load({ environment }).port, 1)
  t.equal(load({ environment, configPath: join(dir, 'b.toml') }).port, 2)
})

t.test('the file has its own types', async (t) => {
  const source = `
body_limit = "2MB"
inflight_limit = 1048576000
get_capture = false
trusted_proxies = ["10.0.0.0/8", "fd00::1"]
public_url = "https://events.example.com/"
`
  const settings = load({ configPath: join(t.testdir({ 'a.toml': source }), 'a.toml') })
  t.equal(settings.bodyBytesMax, 2_000_000)
  t.equal(settings.inFlightBytesMax, 1_048_576_000)
  t.equal(settings.isGetCaptureEnabled, false)
  t.strictSame(settings.trustedProxies, ['10.0.0.0/8', 'fd00::1'])
  t.equal(settings.publicUrl, 'https://events.example.com')
})

t.test('an invalid value is reported with its origin and the allowed values', async (t) => {
  const messages: readonly (readonly [Sources, RegExp])[] = [
    [
      { flags: { port: '80000' } },
      /^Setting `port`: "80000" from --port is not allowed\. Allowed: a whole number from 0 to 65535\.$/,
    ],
    [{ environment: { TENREC_WORKERS: '0' } }, /"0" from TENREC_WORKERS .* from 1 to 256\.$/],
    [{ flags: { workers: '1.5' } }, /"1.5"/],
    [{ flags: { port: '' } }, /"" from --port/],
    [{ flags: { 'body-limit': '20 apples' } }, /bytes from 1KiB to 256MiB, such as 20MiB/],
    [{ flags: { 'body-limit': '1' } }, /bytes from 1KiB/],
    [{ flags: { 'event-properties-limit': '1' } }, /or 0 for no limit/],
    [{ flags: { durability: 'maybe' } }, /one of fsync, commit, replicated\.$/],
    [{ flags: { 'log-level': 'INFO' } }, /one of trace, debug, info/],
    [{ flags: { 'get-capture': 'perhaps' } }, /true or false/],
    [{ flags: { 'trusted-proxies': '10.0.0.0/8,proxy' } }, /IP addresses or ranges/],
    [{ flags: { 'public-url': 'events.example.com' } }, /an address such as https/],
    [
      { flags: { 'public-url': 'https://example.com/analytics/' } },
      /^Setting `public_url`: "https:\/\/example.com\/analytics" from --public-url .* the console .* `console = false`\.$/,
    ],
    [
      {
        environment: { TENREC_PUBLIC_URL: 'http://127.0.0.1/a' },
        flags: { 'console-path': '/a/' },
      },
      /^Setting `public_url`: .* from TENREC_PUBLIC_URL is not allowed/,
    ],
    [{ flags: { 'data-dir': '' } }, /a path/],
    ...['console', '//', '/a//b', '/../', '/a b', '/api', '/api/x', ''].map((path) => {
      return [{ flags: { 'console-path': path } }, /a path such as \/ or \/console\/, but/] as const
    }),
    [{ flags: { host: 'a b' } }, /a host name/],
    [
      { flags: { 'body-limit': '8MiB', 'inflight-limit': '4MiB' } },
      /^Setting `inflight_limit`: 4MiB from --inflight-limit .* `body_limit`, which is 8MiB \(from --body-limit\)\.$/,
    ],
  ]
  const differences = new Differences()
  for (const [sources, message] of messages) {
    differences.match(refusalOf(sources), message, JSON.stringify(sources))
  }
  t.strictSame(differences.list(), [], 'every message names the origin and what is allowed')
})

t.test('a public address may have a path if the console is off', async (t) => {
  const settings = load({
    flags: { 'public-url': 'https://example.com/analytics/', console: 'false' },
  })
  t.equal(settings.publicUrl, 'https://example.com/analytics')
})

t.test('the path of the console ends with one slash, however it is written', async (t) => {
  for (const [given, read] of [
    ['/', '/'],
    ['/see', '/see/'],
    ['/apis/it/', '/apis/it/'],
  ] as const) {
    t.equal(load({ flags: { 'console-path': given } }).consolePath, read)
  }
})

t.test('the value of a secret never appears in a message', async (t) => {
  const message = refusalOf({ environment: { TENREC_BOOTSTRAP_PERSONAL_KEY: 'se cret' } })
  t.match(message, /\(hidden\) from TENREC_BOOTSTRAP_PERSONAL_KEY/)
  t.notMatch(message, 'se cret')
})

t.test('an unknown setting is reported with a suggestion', async (t) => {
  t.match(
    refusalOf({ environment: { TENREC_PROT: '1' } }),
    /Unknown setting `TENREC_PROT` in the environment\. Did you mean TENREC_PORT\?/,
  )
  const configPath = join(t.testdir({ 'a.toml': '\nhost = "::"\n  bodylimit = 1\n' }), 'a.toml')
  const message = refusalOf({ configPath })
  t.match(message, `Unknown setting \`bodylimit\` in ${configPath} line 3, column 3`)
  t.match(message, /Did you mean body_limit\?/)
  t.match(
    refusalOf({ configPath: join(t.testdir({ 'a.toml': '[server]\nport = 1\n' }), 'a.toml') }),
    /Unknown setting `server` in .* line 1, column 2/,
  )
  t.doesNotThrow(() => load({ environment: { PATH: '/bin', TENREC_CONFIG: '', TENREC_X: '' } }))
})

t.test('an invalid TOML file is reported with line and column', async (t) => {
  const configPath = join(t.testdir({ 'a.toml': 'port = 1\nhost = \n' }), 'a.toml')
  t.match(refusalOf({ configPath }), `${configPath} is not valid TOML: line 2, column `)
  t.match(refusalOf({ configPath: `${configPath}.none` }), /cannot be read: ENOENT/)
  const wrongType = join(t.testdir({ 'a.toml': 'port = "http"' }), 'a.toml')
  t.match(refusalOf({ configPath: wrongType }), /"http" from .*a.toml line 1, column 1/)
})

t.test('secrets are read from credentials of the service manager, too', async (t) => {
  const dir = t.testdir({ 'bootstrap-project-key': 'phc_file\n', 'bootstrap-personal-key': '' })
  const environment = { CREDENTIALS_DIRECTORY: dir }
  t.match(refusalOf({ environment }), /\(hidden\) from .*bootstrap-personal-key/)
  const settings = load({
    environment: { ...environment, TENREC_BOOTSTRAP_PERSONAL_KEY: 'phx_environment' },
  })
  t.equal(settings.bootstrapProjectKey, 'phc_file')
  t.equal(settings.bootstrapPersonalKey, 'phx_environment')
  t.equal(settings.origins.bootstrapProjectKey.kind, 'credential')
  t.equal(formatSetting('bootstrapProjectKey', settings.bootstrapProjectKey), '********')
  t.equal(formatSetting('bootstrapProjectKey', null), '')
  const folder = t.testdir({ 'bootstrap-project-key': {} })
  t.match(refusalOf({ environment: { CREDENTIALS_DIRECTORY: folder } }), /cannot be read/)
  t.doesNotThrow(() => load({ environment: { CREDENTIALS_DIRECTORY: join(dir, 'none') } }))
})

t.test('bytes have units', async (t) => {
  const cases: readonly (readonly [unknown, number | undefined])[] = [
    ['512', 512],
    ['0', 0],
    ['1KiB', 1024],
    ['1 kib', 1024],
    ['1KB', 1000],
    ['20MiB', 20 * 1024 ** 2],
    ['20MB', 20_000_000],
    ['1.5GiB', 1.5 * 1024 ** 3],
    ['2TB', 2e12],
    ['7B', 7],
    [1024, 1024],
    [-1, undefined],
    [1.5, undefined],
    ['-1', undefined],
    ['MiB', undefined],
    ['1M', undefined],
    ['1e3', undefined],
    ['', undefined],
    ['99999999999999999999', undefined],
    [null, undefined],
    [true, undefined],
  ]
  const differences = new Differences()
  for (const [raw, bytes] of cases) {
    differences.equal(parseBytes(raw), bytes, JSON.stringify(raw))
  }
  for (const bytes of [0, 1, 512, 1000, 1024, 1_500_000, 20_971_520, 2 ** 40]) {
    differences.equal(parseBytes(formatBytes(bytes)), bytes, `${bytes} is written and read back`)
  }
  t.strictSame(differences.list(), [], 'every size is read')
  t.equal(formatBytes(20_971_520), '20MiB')
  t.equal(formatBytes(20_000_000), '20MB')
})

t.test('durations have units', async (t) => {
  t.equal(parseDuration('500ms'), 500)
  t.equal(parseDuration('30s'), 30_000)
  t.equal(parseDuration('1.5h'), 5_400_000)
  t.equal(parseDuration('90d'), 7_776_000_000)
  for (const text of ['', '30', 's', '-1s', '1w', '1 s']) t.equal(parseDuration(text), undefined)
})

t.test('address ranges and base addresses', async (t) => {
  for (const good of ['10.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8', '0.0.0.0/0', '::/128']) {
    t.ok(addressRange(good) !== null, good)
  }
  for (const bad of ['', 'host', '10.0.0.0/33', '10.0.0.0/', '1.2.3/8', '::/129', '10.0.0.0/8/8']) {
    t.notOk(addressRange(bad) !== null, bad)
  }
  for (const good of ['http://a', 'https://a.example:8443/path']) t.ok(isBaseUrl(good), good)
  for (const bad of ['', 'a', 'ftp://a', 'http://', 'http://a?b', 'http://a#b', 'http://u@a']) {
    t.notOk(isBaseUrl(bad), bad)
  }
})

t.test('an identity provider needs a client, TLS, and domains for new users', async (t) => {
  const issuer = { 'oidc-issuer': 'https://login.example.com' }
  const client = { ...issuer, 'oidc-client-id': 'tenrec' }
  t.match(refusalOf({ flags: issuer }), /requires `oidc_client_id`/)
  t.equal(load({ flags: client }).oidcNewUsers, 'refuse')
  const open = { ...client, 'oidc-new-users': 'viewer' }
  t.match(refusalOf({ flags: open }), /requires `oidc_email_domains`/)
  for (const domains of ['*', 'example.com, example.org']) {
    const flags = { ...open, 'oidc-email-domains': domains }
    t.equal(load({ flags }).oidcNewUsers, 'viewer', domains)
  }
  for (const bad of ['http://login.example.com', 'login.example.com', 'https://a?b', 'ftp://a']) {
    t.match(refusalOf({ flags: { ...client, 'oidc-issuer': bad } }), /oidc_issuer/, bad)
  }
  for (const good of ['http://localhost:9', 'http://127.0.0.1:9', 'http://[::1]:9/realm']) {
    t.equal(load({ flags: { ...client, 'oidc-issuer': good } }).oidcIssuer, good)
  }
  for (const bad of ['example', 'Example.com', '@example.com', '*.example.com']) {
    t.match(refusalOf({ flags: { ...client, 'oidc-email-domains': bad } }), /oidc_email_domains/)
  }
})

t.test('only similar words are suggested', async (t) => {
  const words = ['serve', 'project list', 'version']
  t.equal(closestWord('sevre', words), 'serve')
  t.equal(closestWord('versoin', words), 'version')
  t.equal(closestWord('banana', words), undefined)
  t.equal(closestWord('', words), undefined)
})

t.test('flags, variables and keys follow one pattern and are unique', async (t) => {
  const rows = SETTING_NAMES.map((name) => SETTINGS[name])
  const differences = new Differences()
  for (const { flag, variable, fileKey, isSecret, sentence } of rows) {
    differences.equal(variable, `TENREC_${fileKey.toUpperCase()}`, fileKey)
    // The address of a warehouse need not contain a password.
    const hasFlag = !isSecret || fileKey === 'warehouse'
    differences.equal(flag, hasFlag ? fileKey.replaceAll('_', '-') : null, fileKey)
    differences.match(sentence, /^[A-Z].*\.$/, fileKey)
  }
  t.strictSame(differences.list(), [], 'every row follows the pattern')
  t.equal(new Set(rows.map(({ fileKey }) => fileKey)).size, rows.length)
})

t.test('the default of every setting is allowed, and is read back from its text', async (t) => {
  const settings = load()
  const differences = new Differences()
  for (const name of SETTING_NAMES) {
    const { flag, variable, isSecret } = SETTINGS[name]
    const text = formatSetting(name, settings[name])
    if (text === '' || isSecret) continue
    const again = load({ environment: { [variable]: text } })
    differences.same(again[name], settings[name], flag ?? variable)
  }
  t.strictSame(differences.list(), [], 'every default is read back')
})

/** Returns the rows of the settings table in the document, cell by cell. */
function documentedRows(): readonly (readonly string[])[] {
  const text = readFileSync('docs/CONFIGURATION.md', 'utf8')
  const section = text.split('\n## ').find((part) => part.startsWith('Settings\n')) ?? ''
  return section
    .split('\n')
    .filter((line) => /^\| `[a-z_]+` \|/.test(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
}

t.test('docs/CONFIGURATION.md holds exactly the table of settings', async (t) => {
  const expected = SETTING_NAMES.map((name) => {
    const { flag, variable, fileKey, kind, sentence } = SETTINGS[name]
    return [
      `\`${fileKey}\``,
      flag === null ? 'none' : `\`--${flag}\``,
      `\`${variable}\``,
      describeDefault(name),
      kind.allowed,
      sentence,
    ]
  })
  t.strictSame(documentedRows(), expected)
})

t.test('the address of a warehouse is checked', async (t) => {
  const authorization = `Basic ${Buffer.from('me:p@ss %').toString('base64')}`
  t.strictSame(parseWarehouse('http://me:p%40ss%20%25@ch.example:8123/events'), {
    origin: 'http://ch.example:8123',
    database: 'events',
    authorization,
  })
  t.strictSame(parseWarehouse('https://[::1]/'), {
    origin: 'https://[::1]',
    database: 'default',
    authorization: null,
  })
  for (const text of [
    '',
    'ch:8123',
    'tcp://ch:9000',
    'http://ch/a/b',
    'http://ch/1a',
    'http://ch/a-b',
    'http://ch/a?x=1',
    'http://ch/a#b',
    'http://u:%zz@ch/a',
    `http://ch/${'a'.repeat(65)}`,
  ]) {
    t.equal(parseWarehouse(text), null, text)
  }
  t.throws(
    () => load({ flags: { warehouse: 'http://me:hush@ch/a-b' } }),
    /\(hidden\) from --warehouse/,
  )
})

t.test('a process stores some partitions of a cluster, or none', async (t) => {
  const cluster = 'nats://a:4222'
  for (const [text, partitions] of [
    ['0', [0]],
    ['63', [63]],
    ['none', []],
    ['2,0', [2, 0]],
    ['5, 0-2', [5, 0, 1, 2]],
    ['7-7', [7]],
  ] as const) {
    t.strictSame(load({ flags: { cluster, partitions: text } }).partitions, partitions, text)
  }
  const refusals = [
    '64',
    '-1',
    'all',
    '',
    '0,',
    '1,1',
    '0-3,2',
    '3-1',
    '0-64',
    '1-2-3',
    '0,none',
    '1.5',
  ]
  for (const text of refusals) {
    const refused = refusalOf({ flags: { cluster, partitions: text } })
    t.match(refused, /none, or numbers from 0 to 63 and ranges, each number once/, text)
  }
  for (const partitions of ['3', '1-2', 'none']) {
    t.match(refusalOf({ flags: { partitions } }), /allowed only in a cluster/)
    const copying = { cluster, partitions, warehouse: 'http://clickhouse:8123/tenrec' }
    t.match(refusalOf({ flags: copying }), /only events of partition 0 are copied/)
  }
  t.match(refusalOf({ flags: { partitions: '0-1' } }), /allowed only in a cluster/)
})

t.test('each partition of a process has a daemon, and the first one serves', async (t) => {
  const warehouse = 'http://clickhouse:8123/tenrec'
  const flags = { cluster: 'nats://a:4222', partitions: '3,0,5', warehouse, port: '8000' }
  const all = daemonSettings(load({ flags: { ...flags, 'data-dir': '/srv/tenrec' } }))
  t.match(all, [
    { partitions: [3], dataDir: '/srv/tenrec', port: 8000, warehouse: null, isConsoleOn: true },
    { partitions: [0], dataDir: '/srv/tenrec/partition-0', port: 8001, warehouse },
    { partitions: [5], dataDir: '/srv/tenrec/partition-5', port: 8002, warehouse: null },
  ])
  t.same(all.map(({ host }) => host).slice(1), ['127.0.0.1', '127.0.0.1'])
  t.same(
    all.map(({ isConsoleOn }) => isConsoleOn),
    [true, false, false],
  )
  const free = daemonSettings(load({ flags: { ...flags, port: '0' } }))
  t.same(
    free.map(({ port }) => port),
    [0, 0, 0],
    'any free port',
  )
  t.match(refusalOf({ flags: { ...flags, port: '65534' } }), /the last port would be 65536/)
  const edge = load({ flags: { cluster: 'nats://a:4222', partitions: 'none' } })
  t.same(daemonSettings(edge), [edge])
})
