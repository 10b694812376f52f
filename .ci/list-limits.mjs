/**
 * Prints docs/LIMITS.md: every limit of every `limits.ts`, with its value, its unit, and the consequence of exceeding
 * it from its doc comment. `--write` (`npm run docs`) writes the page, and test/house/limits.test.ts compares it. Needs
 * the loader that lets Node run sources.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'

/** Constants that end in `_MAX` and are not limits: numbers of a format, an algorithm or arithmetic. */
export const NOT_LIMITS = [
  ...[
    'suggestion.ts:DISTANCE_MAX',
    'settings-table.ts:RATE_MAX',
    'respond.ts:PREFLIGHT_SECONDS_MAX',
  ],
  ...['json-bytes.ts:COPIED_BYTES_MAX', 'json-bytes.ts:ASCII_UNITS_MAX', 'json-bytes.ts:EXACT_MAX'],
  ...['service-manager.ts:SOCKET_PATH_BYTES_MAX'],
  ...[
    'log-block.ts:UNIT_BYTES_MAX',
    'scanner.ts:LOOP_BYTES_MAX',
    'body-outline.ts:BATCH_BYTES_MAX',
  ],
  ...['json-text.ts:FINITE_DIGITS_MAX', 'timestamp.ts:MOMENT_MS_MAX'],
  ...['distinct-periods.ts:WORDS_MAX', 'event-columns.ts:SERIES_MAX', 'keys.ts:NUMBER_MAX'],
  ...['lmdb-file.ts:PAGE_NUMBER_MAX', 'lmdb-layout.ts:TREE_DEPTH_MAX'],
  ...['person-owners.ts:PERSON_NUMBER_MAX', 'person-records.ts:INLINE_IDS_MAX'],
  ...['segment-format.ts:GROUP_BYTES_MAX', 'segment-values.ts:HEX_DIGITS_MAX'],
  ...['segment-values.ts:DIFFERENCE_MAX', 'events.ts:BLOCK_MAX', 'events.ts:PLACE_MAX'],
  ...['persons.ts:IDS_OFFSET_MAX', 'dead-letters.ts:NUMBER_MAX', 'dead-letter.ts:NUMBER_MAX'],
  ...['check-queue.ts:WAITING_MAX'],
]

const HEAD = `# Limits

Every limit that is no [setting](CONFIGURATION.md), by the room of \`src/\` whose \`limits.ts\` holds it; \`node .ci/list-limits.mjs --write\` makes this page from the comments there. What clients meet is also in [errors and limits](compatibility/errors.md#limits).
`

/** The unit in a name, as words after a number. */
const UNITS = [
  [/_BYTES_(MAX|DEFAULT)$/, 'bytes'],
  [/_MS_(MAX|DEFAULT)$/, 'ms'],
  [/_DAYS_MAX$/, 'days'],
  [/_HOURS_MAX$/, 'hours'],
  [/_SECONDS_MAX$/, 's'],
  [/_UNITS(_SUM)?_MAX$/, 'UTF-16 units'],
  [/_CHARACTERS_MAX$/, 'characters'],
  [/_POINTS_MAX$/, 'code points'],
]

const FILES = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !/(^console\/|\/assembly\.ts$)/.test(path))
  .sort()

/** Returns limits outside of a `limits.ts`, and entries of `NOT_LIMITS` that no longer exist, as texts. */
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

/** Returns the page. Throws for an exported constant without a doc comment. */
export async function limitsPage() {
  const files = FILES.filter((path) => basename(path) === 'limits.ts')
  const sections = await Promise.all(files.map(sectionOf))
  return `${HEAD}\n${sections.join('\n')}`
}

async function sectionOf(file) {
  const path = join('src', file)
  const tree = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2023, true)
  // The compiled sources that the loader writes.
  const made = join('.js', path.replace(/\.ts$/, '.js'))
  const values = await import(pathToFileURL(made).href)
  const rows = tree.statements.filter(ts.isVariableStatement).map((statement) => {
    const [{ name }] = statement.declarationList.declarations
    const comment = (ts.getLeadingCommentRanges(tree.text, statement.pos) ?? []).at(-1)
    if (comment === undefined) throw new Error(`${path}: ${name.text} has no doc comment`)
    const doc = tree.text
      .slice(comment.pos + 3, comment.end - 2)
      .replaceAll(/\s*\n \*\s?/g, ' ')
      .trim()
    const unit = UNITS.find(([pattern]) => pattern.test(name.text))?.[1]
    const amount = [values[name.text].toLocaleString('en-US'), unit].filter(Boolean).join(' ')
    return `| \`${name.text}\` | ${amount} | ${doc.replaceAll('|', '\\|')} |`
  })
  const room = file.slice(0, -'/limits.ts'.length)
  return `## ${room}\n\n| Limit | Value | What |\n| --- | --- | --- |\n${rows.join('\n')}\n`
}

if (process.argv[1] === import.meta.filename) {
  const strays = strayLimits()
  if (strays.length > 0) process.stderr.write(`not in a limits.ts: ${strays.join(', ')}\n`)
  const page = await limitsPage()
  if (process.argv.includes('--write')) writeFileSync('docs/LIMITS.md', page)
  else process.stdout.write(page)
  if (strays.length > 0) process.exitCode = 1
}
