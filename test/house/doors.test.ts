/**
 * Tests rooms and doors. A room is a folder of src with a README.md, and every folder with sources is one. Below `##
 * Doors` its README lists the files that others may import. A file outside of a room and of the rooms around it may
 * import only those. Type imports count, because they are dependencies, too.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import t from 'tap'
import ts from 'typescript'

/** Files of the store that the rest of the program may import. */
const STORE_DOORS_MAX = 13
/** Maximum lines of a README: one screen. */
const README_LINES_MAX = 60

const PATHS = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'src'],
  {
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((path) => path !== '' && existsSync(path))
const SOURCES = PATHS.filter((path) => path.endsWith('.ts') && !path.endsWith('/assembly.ts'))
/** The console is one room. Its order of folders is in tidy.test.ts. */
const ROOMS = [
  ...new Set(SOURCES.map((path) => dirname(path).replace(/^(src\/console)\/.*/, '$1'))),
]
  .filter((folder) => folder !== 'src')
  .sort()
const IMPORTS = new Map(SOURCES.map((path) => [path, importsOf(path)]))
/** Benches may import any file of src. A door that only a bench uses is still a door in use. */
const BENCHES = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'bench'],
  {
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((path) => path.endsWith('.ts') && existsSync(path))
const USES = new Map([...IMPORTS, ...BENCHES.map((path) => [path, importsOf(path)] as const)])

/** Returns the files of src that a file imports, types included, with the line of each. */
function importsOf(path: string): ReadonlyMap<string, number> {
  const tree = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2023, true)
  const found = new Map<string, number>()
  const see = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) && isImported(node) && node.text.startsWith('.')) {
      const { line } = tree.getLineAndCharacterOfPosition(node.getStart(tree))
      found.set(normalize(join(dirname(path), node.text)), line + 1)
    }
    ts.forEachChild(node, see)
  }
  see(tree)
  return found
}

function isImported(node: ts.StringLiteralLike): boolean {
  const { parent } = node
  if (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent)) return true
  if (ts.isLiteralTypeNode(parent)) return ts.isImportTypeNode(parent.parent)
  return ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword
}

/** Returns the doors of a room, as its README lists them. */
function doorsOf(room: string): readonly string[] {
  const readme = join(room, 'README.md')
  if (!existsSync(readme)) return []
  const [, text = ''] = readFileSync(readme, 'utf8').split('\n## Doors\n')
  const [list = ''] = text.split('\n## ')
  return [...list.matchAll(/^- `([^`]+)`/gm)].map(([, name = '']) => join(room, name))
}

const DOORS = new Map(ROOMS.map((room) => [room, doorsOf(room)]))

/** Returns the rooms around a file, the innermost first. */
function roomsAround(path: string): readonly string[] {
  return ROOMS.filter((room) => path.startsWith(`${room}/`)).reverse()
}

t.test('imports from outside a room use a door that its README lists', async (t) => {
  const offences: string[] = []
  for (const [path, imported] of IMPORTS) {
    for (const [target, line] of imported) {
      for (const room of roomsAround(target)) {
        if (path.startsWith(`${room}/`) || DOORS.get(room)?.includes(target)) continue
        const doors = (DOORS.get(room) ?? []).map((door) => door.slice(room.length + 1)).join(', ')
        offences.push(`${path}:${line} imports ${target}, no door of ${room}/ (${doors})`)
      }
    }
  }
  t.strictSame(offences, [], 'import a door, move the file, or list it in the README of its room')
})

t.test('every room has a README of one screen, and its doors exist and are used', async (t) => {
  const offences: string[] = []
  for (const room of ROOMS) {
    const readme = join(room, 'README.md')
    if (!existsSync(readme)) {
      offences.push(`${room} has no README.md`)
      continue
    }
    const lines = readFileSync(readme, 'utf8').split('\n').length - 1
    if (lines > README_LINES_MAX) offences.push(`${readme} has ${lines} lines`)
    for (const door of doorsOf(room)) {
      const isUsed = [...USES].some(
        ([path, imported]) => !path.startsWith(`${room}/`) && imported.has(door),
      )
      if (!existsSync(door)) offences.push(`${readme} lists ${door}, which does not exist`)
      else if (!isUsed && !door.endsWith('assembly.ts')) {
        offences.push(`${readme} lists ${door}, which nobody outside imports`)
      }
    }
  }
  t.strictSame(offences, [])
})

t.test(
  'a floor without its own files has a table of its rooms, and names doors of them',
  async (t) => {
    const floors = [...new Set(ROOMS.map(dirname))].filter(
      (folder) => folder !== 'src' && !ROOMS.includes(folder),
    )
    t.ok(floors.includes('src/rules'))
    const doors = new Set([...DOORS.values()].flat())
    for (const floor of floors) {
      const readme = readFileSync(join(floor, 'README.md'), 'utf8')
      const rows = [...readme.matchAll(/^\| \[?`([^`]+)\/`[^|]*\|.*$/gm)]
      const named = rows.map(([, name = '']) => join(floor, name))
      const missing = ROOMS.filter((room) => dirname(room) === floor && !named.includes(room))
      t.strictSame(missing, [], `the table of ${floor}/README.md has all rooms`)
      t.strictSame(
        named.filter((room) => !ROOMS.includes(room)),
        [],
        'and nothing else',
      )
      const files = rows.flatMap(([row, name = '']) => {
        return [...row.matchAll(/`([^`]+\.ts)`/g)].map(([, file = '']) => join(floor, name, file))
      })
      const listed = [...files, ...doorsOf(floor)].filter((file) => !doors.has(file))
      t.strictSame(listed, [], `${floor}/README.md names doors of its rooms only`)
    }
  },
)

t.test('the store has few doors', async (t) => {
  const storeDoors = DOORS.get('src/store') ?? []
  t.ok(storeDoors.length <= STORE_DOORS_MAX, storeDoors.join(' '))
})

t.test('no file imports itself through others, types included', async (t) => {
  const done = new Set<string>()
  const circles: string[] = []
  const walk = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path)
    if (start >= 0) {
      circles.push([...way.slice(start), path].map((file) => basename(file)).join(' -> '))
      return
    }
    if (done.has(path)) return
    for (const target of IMPORTS.get(path)?.keys() ?? []) walk(target, [...way, path])
    done.add(path)
  }
  for (const path of SOURCES) walk(path, [])
  t.strictSame(circles, [])
})
