/**
 * Compares the documents with the code: citations in comments exist, tables in docs/compatibility match the code
 * exactly, and commands, settings and versions in a document are real. The test tidy.test.ts checks that linked files
 * exist; this one checks their headings.
 *
 * @lane quick
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { ERROR_CODES } from '../../src/base/errors.ts'
import {
  API_BODY_BYTES_MAX,
  API_BODY_CONTAINERS_MAX,
  API_BODY_VALUES_MAX,
  API_KEY_BODY_VALUES_MAX,
  BODY_EVENTS_MAX,
  DISTINCT_ID_POINTS_MAX,
  DISTINCT_IDS_LISTED_MAX,
  DISTINCT_IDS_SHOWN_MAX,
  EVENT_NAME_UNITS_MAX,
  EVENT_VALUES_MAX,
  FLAG_BODY_BYTES_MAX,
  FLAG_BODY_VALUES_MAX,
  FUTURE_TIMESTAMP_MS_MAX,
  HEADER_BYTES_MAX,
  JSON_DEPTH_MAX,
  KEY_CHARACTERS_MAX,
  LONG_READS_WAITING_MAX,
  PAGE_BYTES_MAX,
  PAGE_EVENTS_DEFAULT,
  PAGE_EVENTS_MAX,
  WAITING_ANSWERS_BYTES_MAX,
} from '../../src/base/limits.ts'
import { firstStartMessage } from '../../src/cli/lib/first-start-message.ts'
import { CONFIG_VARIABLE, SETTING_NAMES, SETTINGS } from '../../src/config/settings-table.ts'
import { DISK_RESERVE_BYTES } from '../../src/engine/front/disk-reserve.ts'
import { CHECK_MS_MAX, CHECK_WAIT_MS_MAX } from '../../src/engine/threads/limits.ts'
import { RESOURCES } from '../../src/http/openapi/document.ts'
import { EVENT_FILTERS } from '../../src/http/routes/event-criteria.ts'
import { decodeEventCursor } from '../../src/http/routes/events.ts'
import { CAPTURE_PATHS } from '../../src/http/routes/public/capture.ts'
import { inputReader } from '../../src/http/server/input.ts'
import type { CredentialKind, Who } from '../../src/http/server/route.ts'
import { object } from '../../src/http/server/schema.ts'
import { DROP_REASONS } from '../../src/rules/capture/drop-reasons.ts'
import { PERSON_MODES, WARNING_TYPES } from '../../src/rules/capture/types.ts'
import { propertyTest } from '../../src/rules/filters/property-filter.ts'
import { expandProperties } from '../../src/rules/persons/automatic-properties.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { SCAN_ROWS_MAX } from '../../src/store/events/limits.ts'

const MACHINE = { coreCount: 4, isTerminal: false }
/** Variables that are not settings. The last one is the misspelling in a quoted message. */
const OTHER_VARIABLES = [CONFIG_VARIABLE, 'TENREC_CHROMIUM', 'TENREC_PROT', 'TENREC_CACHE_DIR']

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', ...filesBelow('docs', '.md')]
const TEXTS = new Map(DOCUMENTS.map((path) => [path, readFileSync(path, 'utf8')]))
/** The documented promises, on all their pages. */
const COMPATIBILITY = DOCUMENTS.filter((path) => /COMPATIBILITY|compatibility/.test(path))
  .map(textOf)
  .join('\n')

function filesBelow(folder: string, ending: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(ending))
    .map((path) => join(folder, path))
    .sort()
}

function textOf(path: string): string {
  const text = TEXTS.get(path)
  if (text === undefined) throw new Error(`there is no document ${path}`)
  return text
}

/** Titles of all headings, without the fenced blocks in which `#` begins a comment. */
function headings(text: string): readonly string[] {
  const prose = text.replace(/^```.*?^```/gms, '')
  return [...prose.matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) => title)
}

/** Returns the anchor of a heading in links. */
function anchorOf(title: string): string {
  const kept = title.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '')
  return kept.trim().replaceAll(' ', '-')
}

/** Returns the text below a heading up to the next heading of any level. */
function section(title: string): string {
  const lines = COMPATIBILITY.split('\n')
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.endsWith(` ${title}`))
  if (start < 0) throw new Error(`no page of docs/compatibility has a section ${title}`)
  const rest = lines.slice(start + 1)
  const end = rest.findIndex((line) => /^#+ /.test(line))
  return rest.slice(0, end < 0 ? undefined : end).join('\n')
}

/** Returns the rows of the first table in a section with that name of the first column, as cells. */
function table(title: string, firstColumn: string): readonly (readonly string[])[] {
  const blocks = section(title).split(/\n\n+/)
  const block = blocks.find((text) => text.trimStart().startsWith(`| ${firstColumn} |`))
  if (block === undefined) throw new Error(`${title} has no table of ${firstColumn}`)
  return block
    .trim()
    .split('\n')
    .slice(2)
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()))
}

/** Returns the words between backticks. */
function codes(text: string): readonly string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
}

/** Returns the words between backticks in the first column of a table. */
function names(title: string, firstColumn: string): readonly string[] {
  return table(title, firstColumn).flatMap(([first = '']) => codes(first))
}

interface Citation {
  readonly file: string
  readonly document: string
  readonly title: string
}

/** `docs/X.md, "A" and "B"` in comments, also when the comment has a line break in between. */
function citationsIn(file: string): readonly Citation[] {
  const flat = readFileSync(file, 'utf8').replace(/\s*\n\s*(?:\*|\/\/)?\s*/g, ' ')
  const pattern = /docs\/([A-Za-z/]+\.md), ("[^"]+"(?:(?:,| and) "[^"]+")*)/g
  return [...flat.matchAll(pattern)].flatMap(([, document = '', titles = '']) =>
    [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => ({
      file,
      document: `docs/${document}`,
      title,
    })),
  )
}

const CITATIONS = [...filesBelow('src', '.ts'), ...filesBelow('bench', '.ts')].flatMap(citationsIn)

t.test('every page that a comment names exists', async (t) => {
  const sources = ['src', 'bench', 'test'].flatMap((folder) => filesBelow(folder, '.ts'))
  const missing = sources
    .filter((path) => !path.includes('node_modules'))
    .flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/\bdocs\/[\w/-]{2,}\.md\b/g)].map(([page]) => [
        path,
        page,
      ]),
    )
    .filter(([, page = '']) => !existsSync(page))
  t.strictSame(missing, [])
})

t.test('every section that a comment cites exists under that name', async (t) => {
  const missing = CITATIONS.filter(({ document, title }) => {
    const text = TEXTS.get(document)
    return text === undefined || !headings(text).includes(title)
  })
  t.strictSame(
    missing.map(({ file, document, title }) => `${file} cites ${document}, "${title}"`),
    [],
  )
})

t.test('a comment that names the document names a section of it, too', async (t) => {
  // The index lists the pages. The promises are on the pages.
  const indexed = CITATIONS.filter(({ document }) => document === 'docs/COMPATIBILITY.md')
  t.strictSame(indexed, [])
  const mentions = filesBelow('src', '.ts').flatMap((file) => {
    const count = readFileSync(file, 'utf8').split('docs/compatibility/').length - 1
    const cited = citationsIn(file).filter(({ document }) =>
      document.startsWith('docs/compatibility/'),
    )
    return count > 0 && cited.length < count ? [`${file}: ${count} mentions`] : []
  })
  t.strictSame(mentions, [])
})

/** A page, its first heading about the handling of requests and events, and the first heading after these. */
const INGESTION = [
  ['ingestion', 'Reading the payload', ''],
  ['events', 'Events', 'Reading events'],
  ['persons', 'Automatic person properties', 'Persons'],
  ['decisions', 'Decisions', 'Flag decisions'],
] as const

t.test(
  'the documents describe the rules of ingestion in sections that the code cites',
  async (t) => {
    const cited = new Set(CITATIONS.map(({ title }) => title))
    const titles = INGESTION.flatMap(([page, first, behind]) => {
      const all = headings(textOf(`docs/compatibility/${page}.md`))
      const part = all.slice(all.indexOf(first), behind === '' ? undefined : all.indexOf(behind))
      t.ok(part.length > 1, page)
      return part
    })
    // Two headings only group others.
    const uncited = titles.filter((title) => !cited.has(title))
    t.strictSame(uncited, ['Keys of ingestion', 'Events'])
  },
)

t.test('links lead to headings that exist', async (t) => {
  const offences: string[] = []
  for (const [path, text] of TEXTS) {
    for (const [, target = '', anchor = ''] of text.matchAll(/\]\(([^)#\s]*)#([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const file = target === '' ? path : join(dirname(path), target)
      const linked = existsSync(file) ? readFileSync(file, 'utf8') : ''
      if (!headings(linked).map(anchorOf).includes(anchor)) {
        offences.push(`${path} links to ${target}#${anchor}`)
      }
    }
  }
  t.strictSame(offences, [])
})

t.test('the table of errors matches the code, with status and type', async (t) => {
  const documented = table('Errors', 'Code').map(([code = '', status = '', type = '']) => [
    codes(code)[0],
    Number(status),
    type,
  ])
  const known = Object.entries(ERROR_CODES).map(([code, { status, type }]) => [code, status, type])
  t.strictSame(documented, known)
})

t.test('the reasons for not storing an event match the code', async (t) => {
  t.strictSame(names('Events that are not stored', 'Reason'), [...DROP_REASONS])
})

t.test('the warnings match the code', async (t) => {
  t.strictSame([...names('Ingestion warnings', 'Type')].sort(), [...WARNING_TYPES].sort())
  const types: readonly string[] = WARNING_TYPES
  const named = table('Events that are not stored', 'Reason').flatMap((row) => codes(row[2] ?? ''))
  t.strictSame(
    named.filter((type) => !types.includes(type)),
    [],
  )
})

t.test('the person modes match the code', async (t) => {
  t.strictSame(names('Personless events', '`person_mode`'), [...PERSON_MODES])
})

t.test('the ingestion paths match the code', async (t) => {
  t.strictSame(names('Ingestion endpoints', 'Path'), Object.keys(CAPTURE_PATHS))
})

t.test('the limits match the code', async (t) => {
  const bytesOf = (name: 'bodyBytesMax' | 'inFlightBytesMax' | 'backlogBytesMax') =>
    SETTINGS[name].default(MACHINE)
  const expected: readonly (readonly [string, number])[] = [
    ['body on the wire, bytes', bytesOf('bodyBytesMax')],
    ['decoded body, bytes', bytesOf('bodyBytesMax')],
    ['all bodies that are being received, bytes', bytesOf('inFlightBytesMax')],
    ['accepted events that wait to be processed, bytes', bytesOf('backlogBytesMax')],
    [
      'estimated time until a new event can be read, milliseconds',
      SETTINGS.processingLagMsMax.default(MACHINE),
    ],
    ['free disk space, bytes', DISK_RESERVE_BYTES],
    ['events of a request', BODY_EVENTS_MAX],
    [
      'JSON values in one event, or in all members of the body except `batch` together',
      EVENT_VALUES_MAX,
    ],
    [
      'time that an upload waits for its [check](../OPERATIONS.md#threads), milliseconds',
      CHECK_WAIT_MS_MAX,
    ],
    ['time to parse the events of one upload, milliseconds', CHECK_MS_MAX],
    ['properties of an event, bytes of JSON', SETTINGS.eventPropertiesBytesMax.default(MACHINE)],
    [
      'properties of an event `$ai_*`, bytes of JSON',
      SETTINGS.aiEventPropertiesBytesMax.default(MACHINE),
    ],
    ['nesting of JSON, levels', JSON_DEPTH_MAX],
    ['event name, UTF-16 units', EVENT_NAME_UNITS_MAX],
    ['`distinct_id`, code points', DISTINCT_ID_POINTS_MAX],
    ['key, characters', KEY_CHARACTERS_MAX],
    ['timestamp ahead of the server, milliseconds', FUTURE_TIMESTAMP_MS_MAX],
    ['body of a flag request, bytes', FLAG_BODY_BYTES_MAX],
    ['values in the body of a flag request', FLAG_BODY_VALUES_MAX],
    ['body of a private route, bytes', API_BODY_BYTES_MAX],
    ['values in the JSON body of a private route', API_BODY_VALUES_MAX],
    ['objects and lists in the JSON body of a private route', API_BODY_CONTAINERS_MAX],
    ['values in a JSON body that is searched for `personal_api_key`', API_KEY_BODY_VALUES_MAX],
    ['request line and headers, bytes', HEADER_BYTES_MAX],
    ['events of one analytic query', SCAN_ROWS_MAX],
    ['time of one analytic query, milliseconds', SETTINGS.queryMsMax.default(MACHINE)],
    ['events of a page', PAGE_EVENTS_MAX],
    ['events of a page when `limit` is absent', PAGE_EVENTS_DEFAULT],
    ['rows of a page, bytes', PAGE_BYTES_MAX],
    ['`distinct_ids` of each person in lists and in events', DISTINCT_IDS_LISTED_MAX],
    ['`distinct_ids` of a person that is read alone', DISTINCT_IDS_SHOWN_MAX],
    ['large answers that wait for their readers, bytes', WAITING_ANSWERS_BYTES_MAX],
    ['large reads that wait for a thread', LONG_READS_WAITING_MAX],
  ]
  const documented = table('Limits', 'What').map(([what, limit]) => [what, Number(limit)])
  t.strictSame(documented, expected)
  const keys: readonly string[] = SETTING_NAMES.map((name) => SETTINGS[name].fileKey)
  const named = table('Limits', 'What').flatMap((row) =>
    [...(row[2] ?? '').matchAll(/setting `([^`]+)`/g)].map(([, key = '']) => key),
  )
  t.equal(named.length, 9)
  t.strictSame(
    named.filter((key) => !keys.includes(key)),
    [],
  )
})

/** Describes who may use a route, in words. */
function keyOf({ credentials, scope, isAdministrator }: Who): string {
  const keys = [...new Set(credentials.map((kind) => KEY_WORDS[kind]))].join(' or ')
  const level = isAdministrator === true ? ', administrators' : ''
  return scope === null || keys === 'none' ? keys : `${keys}, \`${scope}\`${level}`
}

const KEY_WORDS: Readonly<Record<CredentialKind, string>> = {
  none: 'none',
  personalKey: 'personal key',
  projectKey: 'project key',
  projectKeyBearer: 'project key as Bearer token',
  projectKeyHeader: 'project key in a header',
  secretKey: 'secret key',
  session: 'session of the console',
}

t.test('the table of routes matches the route records', async (t) => {
  const expected = RESOURCES.flatMap(({ routes }) => routes)
    .filter(({ method, isRefusal }) => !['HEAD', 'OPTIONS'].includes(method) && !isRefusal)
    .map(({ method, path, who, summary }) => [`${method} \`${path}\``, keyOf(who), summary])
  const rows = table('Table of routes', 'Route')
  t.ok(expected.length > 100)
  t.equal(new Set(expected.map(([route]) => route)).size, expected.length)
  t.strictSame(rows, expected)
})

t.test('every documented operator is accepted on the wire and can be tested', async (t) => {
  const operators = names('Property filters', 'Operator')
  t.equal(new Set(operators).size, 15)
  const read = inputReader(object({ properties: EVENT_FILTERS }), 'the query')
  const untested = operators.filter((operator) => {
    const [filter] = read({ properties: [{ key: 'a', value: '1', operator }] }).properties
    return !filter || !propertyTest(filter)
  })
  t.strictSame(untested, [])
  t.throws(() => read({ properties: [{ key: 'a', value: '1', operator: 'like' }] }))
})

t.test('the documented automatic person properties match the code', async (t) => {
  const [, list = ''] = /```text\n(.*?)\n```/s.exec(section('Automatic person properties')) ?? []
  const documented = list.split(/\s+/)
  t.ok(documented.length > 40)
  const given = Object.fromEntries(documented.map((name) => [name, name]))
  const expanded = expandProperties(given, 'e', false)
  const copied = documented.filter((name) => name !== '$os_name')
  t.strictSame(Object.keys(expanded['$set'] ?? {}).sort(), [...copied].sort())
  t.strictSame(
    Object.keys(expanded['$set_once'] ?? {}).sort(),
    copied.map((name) => `$initial_${name.replace(/^\$/, '')}`).sort(),
  )
})

t.test('the examples agree with each other and with the code', async (t) => {
  const example: unknown = JSON.parse(
    /```json\n(\{\n {2}"next".*?)\n```/s.exec(section('Reading events'))?.[1] ?? '',
  )
  const { next, results } = example as {
    next: string
    results: readonly { id: number; distinct_id: string; person_id: string; timestamp: string }[]
  }
  const [event] = results
  t.strictSame(decodeEventCursor(new URL(next).searchParams.get('cursor') ?? ''), {
    timestampMs: Date.parse(event?.timestamp ?? ''),
    id: event?.id,
  })
  t.equal(event?.person_id, personUuid(1, event?.distinct_id ?? ''))
  t.ok(section('Person uuid').includes(`\`${personUuid(1, 'anon')}\``))
})

t.test('the tested SDKs are the installed ones', async (t) => {
  const manifest = JSON.parse(readFileSync('test/package.json', 'utf8')) as {
    devDependencies: Record<string, string>
  }
  const installed = Object.entries(manifest.devDependencies)
    .filter(([name]) => name.startsWith('posthog-') || name.startsWith('@openfeature/'))
    .map(([name, version]) => [
      // A second release of a package is installed under its name with a number.
      name.replace(/-[\d.]+$/, ''),
      version.slice(version.lastIndexOf('@') + 1),
    ])
  const documented = table('SDKs tested', 'Package').map(([name = '', version]) => [
    codes(name)[0],
    version,
  ])
  t.strictSame(documented, installed)
})

t.test('the first page shows the output of the first start', async (t) => {
  const credentialsPath = '/srv/tenrec/data/credentials.json'
  const first = { baseUrl: 'http://127.0.0.1:8000', projectId: 1, credentialsPath }
  const keys = { projectKey: 'phc_...', personalKey: 'phx_...' }
  const message = firstStartMessage({ ...first, ...keys }, 'http://127.0.0.1:8000/#login=...')
  t.ok(textOf('README.md').includes(message.trimEnd()), message)
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
    version: string
    scripts: { start: string }
  }
  const begun = `> tenrec@${manifest.version} start\n> ${manifest.scripts.start}\n\n`
  t.ok(textOf('README.md').includes(begun), begun)
})

t.test('the npm commands in the documents exist', async (t) => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
    scripts: Record<string, string>
    bin: Record<string, string>
  }
  const offences: string[] = []
  for (const [path, text] of TEXTS) {
    for (const [command, script = ''] of text.matchAll(
      /npm (?:run )?(start|test|(?<=run )[\w:]+)/g,
    )) {
      if (!Object.hasOwn(manifest.scripts, script)) offences.push(`${path}: ${command}`)
    }
    for (const [command, program = ''] of text.matchAll(/npx (?:--\S+ )*([\w-]+)/g)) {
      const isOurs = Object.hasOwn(manifest.bin, program)
      if (!isOurs && !existsSync(join('node_modules/.bin', program))) {
        offences.push(`${path}: ${command}`)
      }
    }
  }
  t.strictSame(offences, [])
  t.match(textOf('README.md'), /^npm start$/m)
})

t.test('the settings in the documents exist', async (t) => {
  const variables = [...SETTING_NAMES.map((name) => SETTINGS[name].variable), ...OTHER_VARIABLES]
  const offences: string[] = []
  for (const [path, text] of TEXTS) {
    for (const [variable] of text.matchAll(/\bTENREC_[A-Z_]+\b/g)) {
      if (!variables.includes(variable)) offences.push(`${path}: ${variable}`)
    }
  }
  t.strictSame(offences, [])
})

t.test('the tests cited for fault injection exist', async (t) => {
  const [, text = ''] = textOf('docs/FAULTS.md').split('\n## Faults that tests inject\n')
  const rows = (text.split('\n## ')[0] ?? '')
    .split('\n')
    .filter((line) => /^\| (?!Fault)/.test(line))
  t.ok(rows.length >= 40)
  const tests = new Map(filesBelow('test', '.test.ts').map((path) => [basename(path), path]))
  const faults = rows.map((row) => {
    const [fault = '', , proofs = ''] = row.split('|').slice(1)
    return { fault, paths: codes(proofs).map((name) => tests.get(name) ?? name) }
  })
  t.strictSame(
    faults.filter(({ paths }) => paths.length === 0).map(({ fault }) => fault),
    [],
    'every fault has a test',
  )
  t.strictSame(
    faults.flatMap(({ paths }) => paths).filter((path) => !existsSync(path)),
    [],
    'every test exists',
  )
})

t.test('the files named for changes exist', async (t) => {
  const [, text = ''] = textOf('docs/CONTRIBUTING.md').split('\n## To change something, open\n')
  const rows = (text.split('\n## ')[0] ?? '').split('\n').filter((line) => line.startsWith('| '))
  const named = rows.slice(2).map((line) => codes(line.split('|')[2] ?? ''))
  t.ok(named.length >= 20)
  const beside = rows.slice(2).flatMap((line) => codes(line.split('|')[3] ?? ''))
  t.strictSame(
    named.flat().filter((path) => !existsSync(path)),
    [],
  )
  const paths = beside.filter((code) => code.includes('/') || code.endsWith('.ts'))
  t.ok(paths.length > 0)
  t.strictSame(
    paths.filter(
      (path) => !existsSync(path) && !existsSync(join('src', path)) && path !== 'limits.ts',
    ),
    [],
  )
})
