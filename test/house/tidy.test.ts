/**
 * Tests the order of the source tree: floors, doors, doc comments, and content that must never be committed. The tables
 * at the top document the rules, and docs/ARCHITECTURE.md gives the reasons. Each test lists every offense at once, as
 * `path:line what`.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import t from 'tap'
import ts from 'typescript'

/** Maps each floor (folder or file of src) to the floors that it may import besides itself. */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  config: ['base'],
  rules: ['base'],
  ports: ['base', 'rules'],
  store: ['base', 'rules', 'config', 'ports'],
  engine: ['base', 'rules', 'config', 'ports', 'store'],
  clickhouse: ['base', 'rules', 'config', 'ports', 'store'],
  cluster: ['base', 'rules', 'config', 'ports', 'store', 'engine'],
  'thread.ts': ['base', 'rules', 'config', 'ports', 'store', 'engine', 'clickhouse', 'cluster'],
  http: ['base', 'rules', 'config', 'store', 'engine'],
  'daemon.ts': ['base', 'rules', 'config', 'store', 'engine', 'cluster', 'http', 'clickhouse'],
  cli: ['base', 'rules', 'config', 'store', 'engine', 'clickhouse', 'cluster', 'http', 'daemon.ts'],
  'main.ts': ['base', 'cli'],
  // Runs before the program, in the single executable.
  executable: ['base'],
  // A separate program, for browsers.
  console: [],
}

/** Maps each folder or file of the console to the modules that it may import there, as path prefixes. */
const CONSOLE_FLOORS: Readonly<Record<string, readonly string[]>> = {
  base: ['base/'],
  parts: ['base/', 'parts/', 'routes.ts'],
  'kit.ts': ['base/', 'parts/'],
  pages: [
    'kit.ts',
    'pages/',
    'base/api-types.d.ts',
    'base/operators.ts',
    'base/query-address.ts',
    'parts/answers.tsx',
    'parts/behind.tsx',
    'parts/tile.tsx',
  ],
  areas: ['pages/'],
  'routes.ts': ['base/', 'areas/', 'pages/'],
  'app.tsx': ['base/', 'parts/', 'kit.ts', 'routes.ts', 'shared.tsx'],
  'shared.tsx': ['base/query-address.ts', 'kit.ts', 'parts/answers.tsx', 'parts/tile.tsx'],
}

/** Maps each package to the files of src that may import it. A trailing slash means a folder. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  '@nats-io/jetstream': ['cluster/nats.ts'],
  '@nats-io/transport-node': ['cluster/nats.ts'],
  ajv: ['base/validator.ts'],
  'hyparquet-writer': ['cli/lib/parquet-file.ts'],
  'ipaddr.js': ['base/addresses.ts'],
  isbot: ['rules/enrichment/agent.ts'],
  lmdb: ['store/lmdb/environment.ts'],
  'mmdb-lib': ['engine/processor/geoip-database.ts'],
  msgpackr: ['store/lmdb/codec.ts'],
  pino: ['base/log.ts'],
  'pino-pretty': ['base/log.ts'],
  'openid-client': ['http/console/oidc-provider.ts'],
  piscina: ['engine/threads/'],
  re2js: ['base/pattern/'],
  'smol-toml': ['config/'],
  tldts: ['rules/web/channel-type.ts'],
  'unix-dgram': ['base/service-manager.ts'],
  'uWebSockets.js': ['http/server/uws-front.ts'],
  yaml: ['cli/lib/yaml.ts'],
}

/**
 * Maps each package of the console's bundle to the files of src that may import it. A trailing slash means a folder.
 */
const CONSOLE_DOORS: Readonly<Record<string, readonly string[]>> = {
  preact: ['console/'],
  'preact/hooks': ['console/'],
  '@preact/signals': ['console/'],
  'd3-sankey': ['console/parts/paths.tsx'],
}

/** These floors only compute: no file, socket, thread, clock or random number. */
const PURE_FLOORS = ['rules']
const PURE_MODULES = ['node:buffer', 'node:crypto', 'node:querystring', 'node:util', 'node:zlib']
const IMPURE_CALLS =
  /\b(Date\.now|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|process\.(?!emitWarning)|new Date\(\))/
/** The only files of a pure floor that read the disk, with the reason. */
const PURE_EXCEPTIONS = [
  // Each reads its compiled WebAssembly module once.
  'src/rules/capture/kernel/kernel.ts',
  'src/rules/capture/scanner/scanner.ts',
  'src/rules/filters/text-search/text-search.ts',
  'src/rules/flags/sha1/sha1.ts',
]

const FILE_NAMES_AVOIDED = /^(utils?|helpers?|common|misc|index)\.ts$/
/** The entry points of threads, and pages, which are loaded by their file. */
const DEFAULT_EXPORT_ALLOWED = /^src\/(thread\.ts|console\/pages\/[^/]+)$/
/** The parts of the console that are loaded as one file, and the functions that its build adds to each file. */
const PASSES_ON_ALLOWED = /^src\/console\/(kit\.ts|jsx\.ts|areas\/.+)$/

/** Marks of unfinished work, written in parts so that this file passes its own test. */
const LEFTOVERS = [
  new RegExp(`\\b(${['TO', 'DO|FIX', 'ME|XX', 'X|HA', 'CK'].join('')})\\b`),
  /^\s*debugger\b/,
  /\bt\.only\b|\bonly: true\b/,
  /^(<<<<<<<|>>>>>>>) /,
]

/** Words about the place where the code was written instead of about the code. */
const PLACES = [
  new RegExp(`(^|[^\\w.])/(${['wo', 'rk|ro', 'ot|ho', 'me|tm', 'p'].join('')})(/|\\b(?!\\w))`),
  new RegExp(`\\.\\./${'sha'}${'red'}/`),
  new RegExp(
    `\\b(${['spec/[a-z]+|cont', 'ract|des', 'ign|tool', 'chain|eco', 'system'].join('')})\\.md`,
  ),
  new RegExp(
    `\\b${'iss'}${'ue'}s? #?\\d|\\b(this|next|later|previous|another) ${'iss'}${'ue'}\\b`,
    'i',
  ),
  new RegExp(`\\b(this|next|later|previous|another) ${'sess'}${'ion'} (of|will|wrote|did)\\b`, 'i'),
  new RegExp(`\\b(${['the le', 'ad|collea', 'gues?|sub', 'agents?'].join('')})\\b`, 'i'),
  new RegExp(`\\b${'regis'}${'try'}\\.[a-z]+[.a-z/]*|\\b(art${'ifactory'}|verda${'ccio'})\\b`, 'i'),
]
/** Bodies recorded from SDKs and the lock file are data, not prose. */
const NOT_PROSE = /^test\/fixtures\/|^package-lock\.json$|\.(wasm|png|ico|woff2)$/

interface SourceFile {
  readonly path: string
  readonly text: string
  readonly tree: ts.SourceFile
}

const FILES = listFiles()
const SOURCES = FILES.filter((path) => /^(src|test|bench)\/.*\.tsx?$/.test(path))
  .filter((path) => !path.endsWith('/assembly.ts'))
  .map(parseSource)
const PRODUCT = SOURCES.filter(({ path }) => path.startsWith('src/') && !path.endsWith('.d.ts'))

/** Files that are in version control, or would be after `git add .`. */
function listFiles(): readonly string[] {
  const options = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const output = execFileSync('git', options, { encoding: 'utf8', maxBuffer: 1 << 26 })
  return output.split('\0').filter((path) => path !== '' && existsSync(path))
}

/** Parsed on demand. For most tests only the text is needed. */
function parseSource(path: string): SourceFile {
  const text = readFileSync(path, 'utf8')
  let tree: ts.SourceFile | undefined
  return {
    path,
    text,
    get tree() {
      tree ??= ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true)
      return tree
    },
  }
}

function at(file: SourceFile, node: ts.Node, what: string): string {
  const { line } = file.tree.getLineAndCharacterOfPosition(node.getStart(file.tree))
  return `${file.path}:${line + 1} ${what}`
}

function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node)
  ts.forEachChild(node, (child) => visit(child, see))
}

/** Returns the floor of a path relative to src: its first folder, or the file itself. */
function floorOf(path: string): string {
  return path.split('/')[0] ?? path
}

/** Every module that a file imports: import, export from, `import()` and `require()`. */
function importsOf(file: SourceFile): readonly { readonly name: string; readonly node: ts.Node }[] {
  const found: { name: string; node: ts.Node }[] = []
  visit(file.tree, (node) => {
    if (!ts.isStringLiteralLike(node)) return
    const { parent } = node
    const isImport =
      ts.isImportDeclaration(parent) ||
      ts.isExportDeclaration(parent) ||
      ts.isLiteralTypeNode(parent)
        ? !ts.isLiteralTypeNode(parent) || ts.isImportTypeNode(parent.parent)
        : ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword
    if (isImport || Object.hasOwn(DOORS, node.text)) found.push({ name: node.text, node })
  })
  return found
}

function isAllowedImport(path: string, name: string): boolean {
  const inSrc = path.slice('src/'.length)
  if (name.startsWith('node:')) return true
  if (!name.startsWith('.')) {
    const doors = DOORS[name] ?? CONSOLE_DOORS[name] ?? []
    return doors.some((door) => (door.endsWith('/') ? inSrc.startsWith(door) : inSrc === door))
  }
  const target = normalize(join(dirname(inSrc), name))
  if (target.startsWith('../..')) return false
  if (floorOf(inSrc) === 'console') return isAllowedInConsole(inSrc, target)
  const from = floorOf(inSrc)
  const to = floorOf(target)
  return from === to || (FLOORS[from]?.includes(to) ?? false)
}

function isAllowedInConsole(from: string, to: string): boolean {
  const [, floor = ''] = from.split('/')
  const allowed = CONSOLE_FLOORS[floor] ?? []
  return allowed.some((start) => to.startsWith(`console/${start}`))
}

t.test('imports point down, and a package is imported only at its door', async (t) => {
  const offences: string[] = []
  for (const file of PRODUCT) {
    if (!Object.hasOwn(FLOORS, floorOf(file.path.slice('src/'.length)))) {
      offences.push(`${file.path} is on no known floor`)
    }
    for (const { name, node } of importsOf(file)) {
      if (!isAllowedImport(file.path, name)) offences.push(at(file, node, `may not name ${name}`))
    }
  }
  t.strictSame(offences, [])
})

t.test('every dependency has a door, and every version is exact', async (t) => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, unknown>
  const read = (key: string) => Object.entries((manifest[key] ?? {}) as Record<string, string>)
  const shipped = [...read('dependencies'), ...read('optionalDependencies')]
  t.strictSame(shipped.map(([name]) => name).sort(), Object.keys(DOORS).sort())
  const tests = JSON.parse(readFileSync('test/package.json', 'utf8')) as typeof manifest
  const tools = Object.entries(tests['devDependencies'] as Record<string, string>)
  const inexact = [...shipped, ...read('devDependencies'), ...tools].filter(
    ([, version]) => !/^(npm:[\w.@/-]+@)?\d+\.\d+\.\d+[\w.-]*$/.test(version),
  )
  t.strictSame(inexact, [])
})

t.test('the pure floors do no I/O and use neither clock nor random numbers', async (t) => {
  const offences: string[] = []
  for (const file of PRODUCT) {
    const isPure = PURE_FLOORS.includes(floorOf(file.path.slice('src/'.length)))
    if (!isPure || PURE_EXCEPTIONS.includes(file.path)) continue
    for (const { name, node } of importsOf(file)) {
      if (name.startsWith('node:') && !PURE_MODULES.includes(name)) {
        offences.push(at(file, node, `is pure and may not import ${name}`))
      }
    }
    visit(file.tree, (node) => {
      if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return
      const called = ts.isNewExpression(node) ? node.getText() : node.expression.getText()
      const match = IMPURE_CALLS.exec(called)
      if (match?.index === 0) offences.push(at(file, node, `is pure and may not call ${match[0]}`))
    })
  }
  t.strictSame(offences, [])
})

t.test('every file begins with a comment about its purpose', async (t) => {
  const isOpened = (text: string) => /^(#!.*\n)?\/\*\*/.test(text)
  const silent = SOURCES.filter(({ text }) => !isOpened(text)).map(({ path }) => path)
  t.strictSame(silent, [])
})

/** Returns the names that a statement exports without a doc comment. */
function undocumentedExports(file: SourceFile): readonly string[] {
  const offences: string[] = []
  const documented = new Set<string>()
  for (const [index, statement] of file.tree.statements.entries()) {
    if (!ts.canHaveModifiers(statement)) continue
    const modifiers = ts.getModifiers(statement) ?? []
    if (!modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue
    const comments = (ts.getLeadingCommentRanges(file.text, statement.pos) ?? []).filter(
      ({ pos }) => file.text.startsWith('/**', pos),
    )
    // The first comment of a file is about the file.
    const hasDoc = comments.length > (index === 0 ? 1 : 0)
    for (const name of declaredNames(statement)) {
      // One comment serves all overloads of a function.
      if (hasDoc) documented.add(name)
      else if (!documented.has(name))
        offences.push(at(file, statement, `${name} has no doc comment`))
    }
  }
  return offences
}

function declaredNames(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => name.getText())
  }
  const isNamed =
    ts.isFunctionDeclaration(statement) ||
    ts.isClassDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement)
  return isNamed ? [statement.name?.text ?? 'default'] : []
}

t.test('every exported name has a doc comment', async (t) => {
  t.strictSame(PRODUCT.flatMap(undocumentedExports), [])
})

/** Returns the literals that are spread into a literal of their kind, or into the arguments of a call. */
function spreadLiterals(file: SourceFile): readonly string[] {
  const offences: string[] = []
  visit(file.tree, (node) => {
    if (!ts.isSpreadAssignment(node) && !ts.isSpreadElement(node)) return
    const { expression } = node
    const isLiteral = ts.isSpreadAssignment(node)
      ? ts.isObjectLiteralExpression(expression)
      : ts.isArrayLiteralExpression(expression)
    if (isLiteral) offences.push(at(file, node, 'is spread: write its members instead'))
  })
  return offences
}

t.test('no literal is spread into another', async (t) => {
  t.strictSame(SOURCES.flatMap(spreadLiterals), [])
})

t.test('exports are named, and no file only re-exports those of others', async (t) => {
  const offences: string[] = []
  for (const file of PRODUCT) {
    if (FILE_NAMES_AVOIDED.test(basename(file.path))) offences.push(`${file.path} names no subject`)
    const { statements } = file.tree
    const passedOn = statements.filter(
      (node) => ts.isExportDeclaration(node) && node.moduleSpecifier,
    )
    if (passedOn.length > 0 && !PASSES_ON_ALLOWED.test(file.path))
      offences.push(`${file.path} exports from another file`)
    const hasDefault = statements.some(
      (node) =>
        ts.isExportAssignment(node) ||
        (ts.canHaveModifiers(node) &&
          ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword)),
    )
    if (hasDefault && !DEFAULT_EXPORT_ALLOWED.test(file.path)) {
      offences.push(`${file.path} has a default export`)
    }
  }
  t.strictSame(offences, [])
})

/** Returns the lines of handwritten files that match a pattern. */
function findLines(patterns: readonly RegExp[]): readonly string[] {
  const offences: string[] = []
  const inTexts = patterns.map(({ source, flags }) => new RegExp(source, `${flags}m`))
  for (const path of FILES) {
    if (NOT_PROSE.test(path)) continue
    const text = readFileSync(path, 'utf8')
    // If a line matches, the whole text matches, which is a much faster check.
    if (!inTexts.some((pattern) => pattern.test(text))) continue
    for (const [index, line] of text.split('\n').entries()) {
      const match = patterns.map((pattern) => pattern.exec(line)).find((found) => found !== null)
      if (match !== undefined) offences.push(`${path}:${index + 1} ${match[0].trim()}`)
    }
  }
  return offences
}

t.test('random tests take their seed and depth from test/fixtures/random-depth.ts', async (t) => {
  const offences: string[] = []
  for (const file of SOURCES) {
    if (!file.path.startsWith('test/') || !file.text.includes("from 'fast-check'")) continue
    visit(file.tree, (node) => {
      if (!ts.isCallExpression(node)) return
      const name = node.expression.getText(file.tree)
      if (!/^fc\.(?:assert|check|sample)$/.test(name)) return
      // A fixture may get the options as its parameter `runs`.
      const isSeeded = node.arguments
        .slice(1)
        .some((one) => /\brunsOf\(|^runs$/.test(one.getText(file.tree)))
      if (!isSeeded) offences.push(at(file, node, `${name} without runsOf`))
    })
  }
  t.strictSame(offences, [])
})

t.test('no mark of unfinished work is left behind', async (t) => {
  t.strictSame(findLines(LEFTOVERS), [])
})

t.test('nothing tells where or by whom the code was written', async (t) => {
  t.strictSame(findLines(PLACES), [])
})

/** Returns Markdown without its fenced blocks, which may contain anything. The number of lines stays. */
function proseLines(text: string): readonly string[] {
  let isFenced = false
  return text.split('\n').map((line) => {
    const isFence = /^\s*(```|~~~)/.test(line)
    if (isFence) isFenced = !isFenced
    return isFence || isFenced ? '' : line
  })
}

t.test(
  'a document has one title, on its first line, and its links lead to existing files',
  async (t) => {
    const offences: string[] = []
    for (const path of FILES.filter((file) => file.endsWith('.md'))) {
      const lines = proseLines(readFileSync(path, 'utf8'))
      const titles = lines.filter((line) => line.startsWith('# ')).length
      if (titles !== 1 || !lines[0]?.startsWith('# ')) offences.push(`${path} has ${titles} titles`)
      for (const [index, line] of lines.entries()) {
        for (const [, target = ''] of line.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
          if (/^[a-z]+:/.test(target) || existsSync(join(dirname(path), target))) continue
          offences.push(`${path}:${index + 1} links to ${target}, which does not exist`)
        }
      }
    }
    t.strictSame(offences, [])
  },
)

t.test('the lock file names no host', async (t) => {
  // The workspace of the tests is a folder here.
  t.notMatch(readFileSync('package-lock.json', 'utf8'), /"resolved": "(?!test")/)
  t.match(readFileSync('.npmrc', 'utf8'), /^omit-lockfile-registry-resolved=true$/m)
})
