/**
 * The command line, run in this process: the output and the exit code of each command.
 *
 * @lane quick
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { VERSION } from '../../src/base/version.ts'
import { allCommands } from '../../src/cli/commands.ts'
import type { CommandIo } from '../../src/cli/lib/command.ts'
import { firstStartMessage } from '../../src/cli/lib/first-start-message.ts'
import { runCommandLine } from '../../src/cli/run.ts'
import { SETTING_NAMES, SETTINGS } from '../../src/config/settings-table.ts'
import { ProjectDirectory } from '../../src/store/catalog/organization-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { updateBaseUrl } from '../../src/store/open-store.ts'
import { Differences } from '../fixtures/differences.ts'
import { eventInput, openWriter, uuidOf } from '../fixtures/stored-events.ts'
import { eventually } from '../fixtures/timed-command.ts'

const COMMANDS = await allCommands()

const NOW_MS = Date.UTC(2026, 0, 2)
const KEYS = {
  TENREC_BOOTSTRAP_PROJECT_KEY: 'phc_test',
  TENREC_BOOTSTRAP_PERSONAL_KEY: 'phx_test',
}

interface Outcome {
  readonly exitCode: number
  readonly out: string
  readonly err: string
}

/** A command line whose output is recorded. */
class Console implements CommandIo {
  readonly environment: Readonly<Record<string, string>>
  readonly machine = { coreCount: 4, isTerminal: false }
  readonly clock = { now: () => NOW_MS, monotonic: () => 0 }
  readonly stopListeners = new Set<() => void>()
  readonly hangupListeners = new Set<() => void>()
  readonly exits: (1 | 'kill')[] = []
  outText = ''
  errText = ''

  constructor(environment: Readonly<Record<string, string>> = {}) {
    this.environment = environment
  }

  out(text: string): void {
    this.outText += text
  }

  err(text: string): void {
    this.errText += text
  }

  onStopSignal(listener: () => void): () => void {
    this.stopListeners.add(listener)
    return () => this.stopListeners.delete(listener)
  }

  onHangup(listener: () => void): () => void {
    this.hangupListeners.add(listener)
    return () => this.hangupListeners.delete(listener)
  }

  exitNow(how: 1 | 'kill'): void {
    this.exits.push(how)
  }

  async run(...words: readonly string[]): Promise<Outcome> {
    const exitCode = await runCommandLine(words, this)
    return { exitCode, out: this.outText, err: this.errText }
  }
}

function run(...words: readonly string[]): Promise<Outcome> {
  return new Console().run(...words)
}

/** Creates a data directory with project 1 and known keys. Returns the arguments that select it. */
async function initialized(t: { testdir(): string }): Promise<[string, string]> {
  const path = join(t.testdir(), 'data')
  const { exitCode } = await new Console(KEYS).run('init', '--data-dir', path)
  if (exitCode !== 0) throw new Error('init failed')
  return ['--data-dir', path]
}

function jsonLines(text: string): readonly unknown[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

t.test('help lists and explains every command', async (t) => {
  const { exitCode, out, err } = await run('help')
  t.equal(exitCode, 0)
  t.equal(err, '')
  const differences = new Differences()
  for (const { name, sentence } of COMMANDS) {
    differences.ok(out.includes(`  ${name} `), `${name} is listed`)
    for (const words of [
      [...name.split(' '), '--help'],
      ['help', ...name.split(' ')],
    ]) {
      const help = await run(...words)
      differences.equal(help.exitCode, 0, words.join(' '))
      differences.match(help.out, `Usage: tenrec ${name}`, words.join(' '))
      differences.match(help.out.replaceAll(/\s+/g, ' '), sentence, words.join(' '))
    }
  }
  t.strictSame(differences.list(), [], 'every command is listed and explained')
  t.match((await run('--help')).out, out)
  const group = await run('help', 'project')
  t.match(group.out, 'project set')
  t.notMatch(group.out, 'serve')
  t.equal((await run('project', '--help')).out, group.out)
})

t.test('the help of serve lists every setting with its default, within 100 columns', async (t) => {
  const { out } = await run('help', 'serve')
  const differences = new Differences()
  for (const name of SETTING_NAMES) {
    const { flag, variable } = SETTINGS[name]
    if (flag !== null) differences.ok(out.includes(`--${flag}`), `--${flag}`)
    differences.ok(out.includes(variable), variable)
  }
  t.strictSame(differences.list(), [], 'every setting is in the help')
  t.match(out.replaceAll(/\s+/g, ' '), 'Default: 20MiB')
  t.notMatch(out, '`')
  t.strictSame(
    out.split('\n').filter((line) => line.length > 100),
    [],
  )
})

t.test('invalid use exits with status 2 and prints a suggestion on stderr', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['sevre'], /Unknown command 'sevre'\. Did you mean 'serve'\?/],
    [['banana'], /Unknown command 'banana'\.\nSee 'tenrec help'/],
    [
      ['project'],
      /'project' must be followed by one of create, list, set, show, members, set-member, remove-member\./,
    ],
    [['project', 'lits'], /Did you mean 'project list'\?/],
    [['help', 'nothing'], /Unknown command 'nothing'/],
    [['version', '--jsno'], /Unknown option --jsno\. Did you mean --json\?/],
    [['version', '--json=yes'], /--json takes no value/],
    [['version', 'more'], /Unexpected argument "more"\. Usage: tenrec version/],
    [['version', '--port', '1'], /Unknown option --port/],
    [['project', 'create'], /--name is missing/],
    [['project', 'show'], /ID is missing/],
    [['project', 'show', 'x'], /ID: "x" is not a number/],
    [['project', 'set', '1'], /nothing to change/],
    [['project', 'set', '1', '--anonymize-ips', 'maybe'], /must be true or false/],
    [['project', 'create', '--name', 'x', '--test-account-filters', '{'], /not valid JSON/],
    [['project', 'create', '--name', 'x', '--test-account-filters', '[1]'], /list of objects/],
    [['project', 'create', '--name', '--json'], /--name needs a value/],
    [['key', 'create', '--expires-in', 'soon'], /not a duration/],
    [['key', 'create', '--projects', '1,b'], /--projects: "b" is not a number/],
    [['event', 'show', 'x'], /"x" is not a UUID/],
    [['event', 'list', '--after', 'yesterday'], /not a time such as/],
    [['event', 'list', '--all', '--limit', '5'], /cannot be combined/],
    [['config', 'check', '--port'], /--port needs a value/],
    [['config', 'check', '--port', '99999'], /Setting `port`: "99999" from --port/],
    [['config', 'check', '--no-port'], /Unknown option --no-port/],
    [['config', 'check', '--no-get-capture=x'], /takes no value/],
    [['--prot', '1'], /Unknown option --prot\. Did you mean --port\?\nSee 'tenrec help serve'/],
  ]
  const differences = new Differences()
  for (const [words, message] of cases) {
    const { exitCode, out, err } = await run(...words)
    differences.same([exitCode, out], [2, ''], words.join(' '))
    differences.match(err, message, words.join(' '))
  }
  t.strictSame(differences.list(), [], 'every mistake is reported on stderr')
  const nothing = await run()
  t.equal(nothing.exitCode, 2)
  t.match(nothing.err, 'Usage: tenrec COMMAND')
})

t.test('version is printed', async (t) => {
  t.strictSame(await run('version'), { exitCode: 0, out: `${VERSION}\n`, err: '' })
  t.equal((await run('--version')).out, `${VERSION}\n`)
  t.match(jsonLines((await run('version', '--json')).out), [{ version: VERSION, store_format: 7 }])
})

t.test('config print shows values and their origins and hides secrets', async (t) => {
  const console = new Console({ ...KEYS, TENREC_HOST: '::1' })
  const { out, exitCode } = await console.run(
    'config',
    'print',
    '--origin',
    '--port=1',
    '--no-get-capture',
    '--trust-forwarded-for',
  )
  t.equal(exitCode, 0)
  t.match(out, /^port +1 +--port$/m)
  t.match(out, /^host +::1 +TENREC_HOST$/m)
  t.match(out, /^get_capture +false +--get-capture$/m)
  t.match(out, /^trust_forwarded_for +true +--trust-forwarded-for$/m)
  t.match(out, /^body_limit +20MiB +default$/m)
  t.match(out, /^bootstrap_project_key +\*{8} /m)
  t.notMatch(out, 'phc_test')
  const json = await run('config', 'print', '--json')
  t.equal(jsonLines(json.out).length, SETTING_NAMES.length)
  t.match(jsonLines(json.out)[2], { setting: 'port', value: 8000 })
  t.notMatch(json.out, 'origin')
})

t.test('config check reads the configuration file', async (t) => {
  const dir = t.testdir({ 'good.toml': 'port = 1\n', 'bad.toml': 'prot = 1\n' })
  const good = await run('config', 'check', '--config', join(dir, 'good.toml'))
  t.match(good, { exitCode: 0, out: '', err: 'The settings are valid.\n' })
  const bad = await run('config', 'check', '--config', join(dir, 'bad.toml'))
  t.match(bad, { exitCode: 2, err: /`prot` in .*bad.toml line 1, column 1\. Did you mean port\?/ })
})

t.test('init creates keys and prints them once', async (t) => {
  const path = join(t.testdir(), 'data')
  const first = await run('init', '--data-dir', path, '--port', '8123')
  t.equal(first.exitCode, 0)
  const file = join(path, 'credentials.json')
  const credentials = jsonLines(readFileSync(file, 'utf8').replaceAll('\n', ''))[0] as Record<
    string,
    string
  >
  t.match(credentials, {
    base_url: 'http://127.0.0.1:8123',
    project_id: 1,
    project_key: /^phc_[0-9A-Za-z]{43}$/,
    personal_key: /^phx_[0-9A-Za-z]{43}$/,
  })
  t.equal(statSync(file).mode & 0o777, 0o600)
  for (const value of [credentials['project_key'], credentials['personal_key'], file]) {
    t.match(first.out, value)
  }
  t.match(first.out, /curl http:\/\/127.0.0.1:8123\/capture\//)
  const second = await run('init', '--data-dir', path)
  t.match(second, { exitCode: 0, out: '', err: /already set up\. Nothing was changed/ })
})

t.test('init accepts preset keys and keeps them afterward', async (t) => {
  const [flag, path] = await initialized(t)
  const again = { ...KEYS, TENREC_BOOTSTRAP_PROJECT_KEY: 'phc_other' }
  await new Console(again).run('init', flag, path)
  const directory = new ProjectDirectory(path)
  t.teardown(() => directory.close())
  t.equal(directory.projectByKey('phc_test')?.id, 1)
  t.equal(directory.projectByKey('phc_other'), null)
  t.match(directory.personalKeyByText('phx_test'), { scopes: ['*'], projectIds: 'all' })
})

t.test('identical preset keys are refused, and a later start works', async (t) => {
  const path = join(t.testdir(), 'data')
  const equal = { TENREC_BOOTSTRAP_PROJECT_KEY: 'same', TENREC_BOOTSTRAP_PERSONAL_KEY: 'same' }
  t.match(await new Console(equal).run('init', '--data-dir', path), { exitCode: 1, err: /in use/ })
  t.notOk(existsSync(join(path, 'credentials.json')))
  t.match(await new Console(KEYS).run('init', '--data-dir', path), { exitCode: 0, out: /phx_test/ })
})

t.test('a first start that was interrupted still prints its keys the next time', async (t) => {
  const [flag, path] = await initialized(t)
  const file = join(path, 'credentials.json')
  const content = readFileSync(file)
  rmSync(file)
  writeFileSync(`${file}.new`, content)
  await run('init', flag, path)
  t.ok(readFileSync(file).equals(content))
})

t.test('init beside a running daemon changes nothing', async (t) => {
  const [flag, path] = await initialized(t)
  const dataDir = await DataDir.open(path)
  t.teardown(() => dataDir.release())
  t.match(await run('init', flag, path), {
    exitCode: 0,
    err: `in use by the process ${process.pid}`,
  })
})

t.test(
  'the address in credentials.json is updated, and a deleted file stays deleted',
  async (t) => {
    const [, path] = await initialized(t)
    const file = join(path, 'credentials.json')
    const before = JSON.parse(readFileSync(file, 'utf8')) as object
    chmodSync(file, 0o640)
    const address = 'http://127.0.0.1:8123'
    updateBaseUrl(path, address)
    t.strictSame(JSON.parse(readFileSync(file, 'utf8')), { ...before, base_url: address })
    t.equal(statSync(file).mode & 0o777, 0o640)

    renameSync(file, join(path, 'elsewhere'))
    symlinkSync('elsewhere', file)
    updateBaseUrl(path, 'http://[::1]:9000')
    t.equal(readlinkSync(file), 'elsewhere')
    t.match(readFileSync(file, 'utf8'), 'http://[::1]:9000')

    mkdirSync(join(path, 'elsewhere.address.new'))
    t.throws(() => updateBaseUrl(path, address), { code: 'EISDIR' })
    rmSync(join(path, 'elsewhere.address.new'), { recursive: true })
    const draft = join(path, 'elsewhere.new')
    writeFileSync(draft, 'the draft of a first start')
    updateBaseUrl(path, address)
    t.match(readFileSync(file, 'utf8'), address)
    t.equal(readFileSync(draft, 'utf8'), 'the draft of a first start')
    writeFileSync(`${file}.address.new`, '{"base_url":')
    writeFileSync(file, '{"base_url":')
    updateBaseUrl(path, address)
    t.equal(readFileSync(file, 'utf8'), '{"base_url":', 'a file that cannot be read is left alone')
    rmSync(file)
    updateBaseUrl(path, address)
    t.strictSame(
      readdirSync(path).filter((name) => name.startsWith('credentials')),
      [],
    )
  },
)

t.test('the first message is quoted for a shell and contains the real address', async (t) => {
  const path = t.testdir()
  const first = {
    baseUrl: 'http://127.0.0.1:8123',
    projectId: 1,
    projectKey: "phc_it's",
    personalKey: 'phx_$(id)',
    credentialsPath: join(path, 'credentials.json'),
  }
  const message = firstStartMessage(first)
  t.match(message, 'curl http://127.0.0.1:8123/capture/')
  t.match(message, `"phc_it'\\''s"`)
  t.match(message, `'Authorization: Bearer phx_$(id)'`)
})

t.test('projects are created, listed, changed and shown', async (t) => {
  const dir = await initialized(t)
  const created = await run(
    'project',
    'create',
    '--name',
    'Shop',
    '--anonymize-ips',
    '--json',
    ...dir,
  )
  t.equal(created.exitCode, 0)
  t.match(jsonLines(created.out), [
    { id: 2, name: 'Shop', api_key: /^phc_/, anonymize_ips: true, timezone: 'UTC' },
  ])
  const filters = '[{"key":"email","value":"@example.com"}]'
  const set = await run(
    'project',
    'set',
    '2',
    '--project-key',
    'phc_shop',
    '--anonymize-ips',
    'false',
    '--timezone',
    'Europe/Berlin',
    '--test-account-filters',
    filters,
    ...dir,
    '--autocapture-exceptions-opt-in',
    'true',
  )
  t.match(set.out, /^autocapture_exceptions_opt_in +true$/m)
  t.match(set.out, /^autocapture_opt_out +false$/m)
  t.match(set.out, /^api_key +phc_shop$/m)
  t.match(set.out, /^anonymize_ips +false$/m)
  t.match(set.out, /^name +Shop$/m)
  const shown = await run('project', 'show', '2', '--json', ...dir)
  t.match(jsonLines(shown.out), [
    { timezone: 'Europe/Berlin', test_account_filters: [{ key: 'email' }] },
  ])
  const listed = await run('project', 'list', ...dir)
  t.match(listed.out, /^id {2}name +api_key +anonymize_ips/)
  t.match(listed.out, /^1 {3}Default project +phc_test/m)
  t.equal(jsonLines((await run('project', 'list', '--json', ...dir)).out).length, 2)
  t.match(await run('project', 'show', '9', ...dir), { exitCode: 1, out: '', err: /no project 9/ })
  t.match(await run('project', 'set', '9', '--name', 'x', ...dir), { exitCode: 1 })
  const taken = await run('project', 'create', '--name', 'x', '--project-key', 'phc_test', ...dir)
  t.match(taken, { exitCode: 1, out: '', err: /already in use/ })
})

t.test('keys are created, listed without the key, and revoked', async (t) => {
  const dir = await initialized(t)
  const created = await run(
    'key',
    'create',
    '--label',
    'CI',
    '--projects',
    '1',
    '--scopes',
    'event:read,feature_flag:write',
    '--expires-in',
    '1d',
    '--json',
    ...dir,
  )
  const [key] = jsonLines(created.out) as readonly Record<string, unknown>[]
  t.match(key, {
    id: 2,
    key: /^phx_/,
    scopes: ['event:read', 'feature_flag:write'],
    projects: [1],
    expires_at: '2026-01-03T00:00:00.000Z',
  })
  const preset = await run('key', 'create', '--personal-key', 'phx_mine', ...dir)
  t.match(preset.out, /^key +phx_mine$/m)
  const listed = await run('key', 'list', ...dir)
  t.notMatch(listed.out, String(key?.['key']))
  t.match(listed.out, /^1 +First start +test +active/m)
  const revoked = await run('key', 'revoke', '2', ...dir)
  t.match(revoked.out, /^state +revoked$/m)
  t.match(jsonLines((await run('key', 'list', '--json', ...dir)).out), [
    { id: 1, state: 'active', projects: 'all' },
    { id: 2, state: 'revoked' },
    { id: 3, state: 'active', last_four: 'mine' },
  ])
  t.match(await run('key', 'revoke', '9', ...dir), { exitCode: 1, err: /no personal key 9/ })
  t.match(await run('key', 'create', '--scopes', 'flag:write', ...dir), {
    exitCode: 1,
    err: /"flag:write" is not a scope.*feature_flag:write/,
  })
})

t.test('commands report a missing or damaged store', async (t) => {
  const path = t.testdir()
  const missing = await run('project', 'list', '--data-dir', path)
  t.match(missing, { exitCode: 1, err: /no store in .*\. Create one with `tenrec init`/ })
  const [flag, damaged] = await initialized({ testdir: () => join(path, 'store') })
  truncateSync(join(damaged, 'flags', 'data.mdb'), 5000)
  for (const words of [['project', 'list'], ['init'], ['serve']]) {
    const { exitCode, err } = await run(...words, flag, damaged)
    t.equal(exitCode, 78, words.join(' '))
    t.match(err, join(damaged, 'flags', 'data.mdb'))
    t.equal(err.trimEnd().split('\n').length, 1)
  }
})

t.test('events are listed, filtered and shown', async (t) => {
  const dir = await initialized(t)
  const empty = await run('event', 'list', ...dir)
  t.strictSame(empty, { exitCode: 0, out: '', err: '' }, 'a store that no daemon has opened')
  const writer = openWriter(t, dir[1])
  for (let number = 1; number <= 5; number++) {
    const name = number === 3 ? 'odd\u001b[2Jname' : '$pageview'
    const timestampMs = NOW_MS + number * 1000
    writer.add(
      eventInput({ uuid: uuidOf(number), name, timestampMs, distinctId: `u${number % 2}` }),
    )
  }
  writer.commit(1)
  const listed = await run('event', 'list', ...dir)
  const lines = listed.out.trimEnd().split('\n')
  t.equal(lines.length, 5)
  t.match(lines[0], `2026-01-02T00:00:05.000Z  ${formatUuid(uuidOf(5), 0)}  $pageview  u1`)
  t.notMatch(listed.out, '\u001b', 'names cannot contain terminal control sequences')
  const count = async (...words: readonly string[]) =>
    jsonLines((await run('event', 'list', '--json', ...words, ...dir)).out).length
  t.equal(await count('--limit', '2'), 2)
  t.equal(await count('--all'), 5)
  t.equal(await count('--event', '$pageview'), 4)
  t.equal(await count('--distinct-id', 'u0'), 2)
  t.equal(await count('--after', '2026-01-02T00:00:04Z'), 1)
  t.equal(await count('--before', '2026-01-02T00:00:03Z'), 2)
  t.equal((await run('event', 'list', '--project', '2', ...dir)).out, '')
  const uuid = formatUuid(uuidOf(3), 0)
  const shown = await run('event', 'show', uuid, '--json', ...dir)
  t.match(jsonLines(shown.out), [{ uuid, event: 'odd\u001b[2Jname', distinct_id: 'u1' }])
  t.match((await run('event', 'show', uuid, ...dir)).out, /^ {2}"distinct_id": "u1",$/m)
  const unknown = await run('event', 'show', formatUuid(uuidOf(9), 0), ...dir)
  t.match(unknown, { exitCode: 1, out: '', err: /Project 1 has no event/ })
})

t.test('tail prints new events until it is interrupted', async (t) => {
  const dir = await initialized(t)
  const writer = openWriter(t, dir[1])
  const add = (number: number, timestampMs: number) =>
    writer.add(eventInput({ uuid: uuidOf(number), distinctId: `n${number}`, timestampMs }))
  for (let number = 1; number <= 3; number++) add(number, NOW_MS + number)
  writer.commit(1)
  const console = new Console()
  const tail = console.run('event', 'tail', '--lines', '1', '--json', ...dir)
  const printed = (count: number) =>
    eventually(async () => console.outText.split('\n').length > count)
  await printed(1)
  t.match(jsonLines(console.outText), [{ distinct_id: 'n3' }])
  add(4, NOW_MS + 4)
  // An old timestamp does not hide an event that has just arrived.
  add(5, NOW_MS - 1_000_000)
  writer.commit(2)
  await printed(3)
  for (const listener of console.stopListeners) listener()
  const { exitCode, out } = await tail
  t.equal(exitCode, 0)
  t.equal(console.stopListeners.size, 0)
  const ids = (jsonLines(out) as readonly Record<string, unknown>[]).map(
    (row) => row['distinct_id'],
  )
  t.strictSame(ids, ['n3', 'n4', 'n5'])
})
