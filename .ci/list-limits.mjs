/**
 * Writes two pages from the doc comments of all `limits.ts` files in `src/`. Each row shows the name of a limit,
 * its value with its unit, and the text of its doc comment.
 *
 * - docs/LIMITS.md shows the limits that a user, client or operator can meet. The doc comment of such a limit ends with
 *   a line `@user SUBJECT`, for example `@user Events`. SUBJECT is one of `SUBJECTS` and is the section of the page.
 * - docs/limits-internal.md shows all other limits, in one section for each folder.
 *
 * `--write` (`npm run docs`) writes both pages. Without it, the command prints them as one JSON object, with the path of
 * each page as its key. test/house/limits.test.ts compares the files with it. The command needs the loader with which
 * Node runs the sources.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'

/** Constants that end in `_MAX` but are not limits: numbers of a format, of an algorithm or of arithmetic. */
export const NOT_LIMITS = [
  'suggestion.ts:DISTANCE_MAX',
  'settings-table.ts:RATE_MAX',
  'respond.ts:PREFLIGHT_SECONDS_MAX',
  'json-bytes.ts:COPIED_BYTES_MAX',
  'json-bytes.ts:ASCII_UNITS_MAX',
  'json-bytes.ts:EXACT_MAX',
  'service-manager.ts:SOCKET_PATH_BYTES_MAX',
  'log-block.ts:UNIT_BYTES_MAX',
  'scanner.ts:LOOP_BYTES_MAX',
  'body-outline.ts:BATCH_BYTES_MAX',
  'json-text.ts:FINITE_DIGITS_MAX',
  'timestamp.ts:MOMENT_MS_MAX',
  'distinct-periods.ts:WORDS_MAX',
  'event-columns.ts:SERIES_MAX',
  'keys.ts:NUMBER_MAX',
  'lmdb-file.ts:PAGE_NUMBER_MAX',
  'lmdb-layout.ts:TREE_DEPTH_MAX',
  'person-owners.ts:PERSON_NUMBER_MAX',
  'person-records.ts:INLINE_IDS_MAX',
  'segment-format.ts:GROUP_BYTES_MAX',
  'segment-values.ts:HEX_DIGITS_MAX',
  'segment-values.ts:DIFFERENCE_MAX',
  'events.ts:BLOCK_MAX',
  'events.ts:PLACE_MAX',
  'persons.ts:IDS_OFFSET_MAX',
  'dead-letters.ts:NUMBER_MAX',
  'dead-letter.ts:NUMBER_MAX',
  'check-queue.ts:WAITING_MAX',
]

/** The sections of docs/LIMITS.md, in this order. */
const SUBJECTS = [
  'Requests and answers',
  'Events',
  'Persons and groups',
  'Flags',
  'Experiments',
  'Cohorts, actions and filters',
  'Queries',
  'Insights, dashboards and annotations',
  'Projects, users and keys',
  'Console and live events',
  'Erasure and retention',
  'Cluster and ClickHouse',
  'Command line',
]

const USER_PAGE = 'docs/LIMITS.md'
const INTERNAL_PAGE = 'docs/limits-internal.md'

const USER_HEAD = `# Limits

This page lists the limits that you can meet: beyond them, Tenrec answers an error, or drops, cuts or delays something that you sent or asked for. They are not settings. [CONFIGURATION.md](CONFIGURATION.md) describes the limits that are settings, [errors and limits](compatibility/errors.md#limits) describes the answers, and [limits-internal.md](limits-internal.md) lists the limits of caches, threads and storage.

\`npm run docs\` writes this page from the \`limits.ts\` files in \`src/\`.
`

/** What GitHub calls a heading in links. */
function anchorOf(title) {
  return title.toLowerCase().replaceAll(',', '').replaceAll(' ', '-')
}

const INTERNAL_HEAD = `# Internal limits

This page lists the limits inside Tenrec, such as the sizes of caches and the bounds of one step of work, by the folder of \`src/\` whose \`limits.ts\` contains them. [LIMITS.md](LIMITS.md) lists the limits that a user, client or operator can meet.

\`npm run docs\` writes this page.
`

/** The unit in a name, as words behind a number. */
const UNITS = [
  [/_BYTES_(MAX|DEFAULT)$/, 'bytes'],
  [/_MS_(MAX|DEFAULT)$/, 'ms'],
  [/_DAYS_MAX$/, 'days'],
  [/_HOURS_MAX$/, 'hours'],
  [/_SECONDS_MAX$/, 's'],
  // These two count work, not text: their comments name the unit.
  [/^(PATTERN_REQUEST|PATH_CLEANING)_UNITS_MAX$/, ''],
  [/_UNITS(_SUM)?_MAX$/, 'UTF-16 units'],
  [/_CHARACTERS_MAX$/, 'characters'],
  [/_ID_POINTS_MAX$/, 'code points'],
]

const FILES = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !/(^console\/|\/assembly\.ts$)/.test(path))
  .sort()

/** Returns the limits that are not in a `limits.ts`, and the names in `NOT_LIMITS` that no longer exist. */
export function strayLimits() {
  const found = FILES.filter(
    (path) => path.includes('/') && basename(path) !== 'limits.ts',
  ).flatMap((path) =>
    [
      ...readFileSync(join('src', path), 'utf8').matchAll(
        /^(?:export )?const ([A-Z0-9_]+_MAX)\b/gm,
      ),
    ].map(([, name]) => `${basename(path)}:${name}`),
  )
  return [
    ...found.filter((name) => !NOT_LIMITS.includes(name)),
    ...NOT_LIMITS.filter((name) => !found.includes(name)).map((name) => `${name} is gone`),
  ]
}

/**
 * Returns the texts of both pages by their paths. Throws for an exported constant without a doc comment, and for a
 * subject that is not one of `SUBJECTS`.
 */
export async function limitsPages() {
  const files = FILES.filter((path) => basename(path) === 'limits.ts')
  const limits = (await Promise.all(files.map(limitsOf))).flat()
  const shown = SUBJECTS.map((subject) => sectionOf(subject, limits, (each) => each.subject))
  const contents = SUBJECTS.map((subject) => `- [${subject}](#${anchorOf(subject)})`).join('\n')
  const internal = limits.filter(({ subject }) => subject === null)
  const folders = files.map((file) => folderOf(file))
  const hidden = folders.map((folder) => sectionOf(folder, internal, (each) => each.folder))
  return {
    [USER_PAGE]: `${USER_HEAD}\n${contents}\n\n${shown.filter(Boolean).join('\n')}`,
    [INTERNAL_PAGE]: `${INTERNAL_HEAD}\n${hidden.filter(Boolean).join('\n')}`,
  }
}

function folderOf(file) {
  return file.slice(0, -'/limits.ts'.length)
}

/** Returns one section of a page, or '' if no limit belongs to it. */
function sectionOf(title, limits, titleOf) {
  const rows = limits.filter((limit) => titleOf(limit) === title).map(({ row }) => row)
  if (rows.length === 0) return ''
  return `## ${title}\n\n| Limit | Value | What |\n| --- | --- | --- |\n${rows.join('\n')}\n`
}

async function limitsOf(file) {
  const path = join('src', file)
  const tree = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2023, true)
  // What the loader makes of the sources.
  const made = join('.js', path.replace(/\.ts$/, '.js'))
  const values = await import(pathToFileURL(made).href)
  return tree.statements.filter(ts.isVariableStatement).map((statement) => {
    const [{ name }] = statement.declarationList.declarations
    const comment = (ts.getLeadingCommentRanges(tree.text, statement.pos) ?? []).at(-1)
    if (comment === undefined) throw new Error(`${path}: ${name.text} has no doc comment`)
    const text = tree.text
      .slice(comment.pos + 3, comment.end - 2)
      .replaceAll(/\s*\n \*\s?/g, ' ')
      .trim()
    const [, doc = '', subject = null] = /^(.*?)(?: @user (.+))?$/.exec(text) ?? []
    if (subject !== null && !SUBJECTS.includes(subject)) {
      throw new Error(`${path}: ${name.text} has the unknown subject ${subject}`)
    }
    const unit = UNITS.find(([pattern]) => pattern.test(name.text))?.[1]
    const amount = [values[name.text].toLocaleString('en-US'), unit].filter(Boolean).join(' ')
    const row = `| \`${name.text}\` | ${amount} | ${doc.replaceAll('|', '\\|')} |`
    return { folder: folderOf(file), subject, row }
  })
}

if (process.argv[1] === import.meta.filename) {
  const strays = strayLimits()
  if (strays.length > 0) process.stderr.write(`not in a limits.ts: ${strays.join(', ')}\n`)
  const pages = await limitsPages()
  if (process.argv.includes('--write')) {
    for (const [path, text] of Object.entries(pages)) writeFileSync(path, text)
  } else process.stdout.write(JSON.stringify(pages))
  if (strays.length > 0) process.exitCode = 1
}
