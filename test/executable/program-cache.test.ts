/**
 * The cached files of the single executable are written once and verified at each start. Damaged files are replaced,
 * and a folder that other users can write to is never used.
 *
 * @lane quick
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  cacheFolders,
  type PackedProgram,
  unpackProgram,
} from '../../src/executable/program-cache.ts'

const USER_ID = process.getuid?.() ?? 0

function programOf(contents: Readonly<Record<string, string>>, version = '1.2.3'): PackedProgram {
  const files = Object.entries(contents).map(([path, text]) => ({
    path,
    sha256: createHash('sha256').update(text).digest('hex'),
  }))
  return { version, files, read: (path) => Buffer.from(contents[path] ?? '') }
}

const CONTENTS = {
  'dist/main.js': 'main()\n',
  'node_modules/a/b.node': 'binary',
  'start.cjs': "import('./dist/main.js')\n",
}
const PROGRAM = programOf(CONTENTS)

t.test('the files are written once, for this user only', async (t) => {
  const root = t.testdir()
  const cache = join(root, 'cache')
  const { folder, writtenCount } = unpackProgram(PROGRAM, [cache], USER_ID)
  t.equal(writtenCount, 3)
  for (const [path, text] of Object.entries(CONTENTS)) {
    t.equal(readFileSync(join(folder, path), 'utf8'), text)
    t.equal(statSync(join(folder, path)).mode & 0o077, 0, path)
  }
  t.equal(statSync(cache).mode & 0o777, 0o700)
  t.strictSame(
    readdirSync(folder).sort(),
    ['dist', 'node_modules', 'start.cjs'],
    'no temporary files remain',
  )
  t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 0 })
})

t.test('a damaged, truncated or missing file is written again, and no other file', async (t) => {
  const cache = join(t.testdir(), 'cache')
  const { folder } = unpackProgram(PROGRAM, [cache], USER_ID)
  const main = join(folder, 'dist/main.js')
  const damages: readonly (readonly [string, () => void])[] = [
    ['a changed byte', () => writeFileSync(main, 'main();')],
    ['a cut file', () => truncateSync(main, 3)],
    ['an empty file', () => truncateSync(main, 0)],
    ['a missing file', () => rmSync(main)],
    ['a missing folder', () => rmSync(join(folder, 'dist'), { recursive: true })],
    [
      'a link to somewhere else',
      () => {
        rmSync(main)
        symlinkSync('/dev/null', main)
      },
    ],
    [
      'an empty folder in place of a file',
      () => {
        rmSync(main)
        mkdirSync(main)
      },
    ],
    [
      'a folder with a file in it in place of a file',
      () => {
        rmSync(main)
        mkdirSync(main)
        writeFileSync(join(main, 'main.js'), 'main();')
      },
    ],
    [
      'a file in place of a folder',
      () => {
        rmSync(join(folder, 'dist'), { recursive: true })
        writeFileSync(join(folder, 'dist'), 'no folder')
      },
    ],
    [
      'a link in place of a folder',
      () => {
        rmSync(join(folder, 'dist'), { recursive: true })
        symlinkSync('/nowhere', join(folder, 'dist'))
      },
    ],
  ]
  for (const [what, damage] of damages) {
    damage()
    t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 1 }, what)
    t.equal(readFileSync(main, 'utf8'), CONTENTS['dist/main.js'], what)
  }
})

t.test('a file in place of the whole program is replaced by the program', async (t) => {
  const cache = join(t.testdir(), 'cache')
  const { folder } = unpackProgram(PROGRAM, [cache], USER_ID)
  rmSync(folder, { recursive: true })
  writeFileSync(folder, 'no folder')
  t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 3 })
})

t.test('folders are for this user only, and a link to other folders is not followed', async (t) => {
  const root = t.testdir()
  const cache = join(root, 'cache')
  const { folder } = unpackProgram(PROGRAM, [cache], USER_ID)
  const dist = join(folder, 'dist')
  chmodSync(dist, 0o777)
  t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 0 })
  t.equal(statSync(dist).mode & 0o777, 0o700)
  renameSync(dist, join(root, 'outside'))
  symlinkSync(join(root, 'outside'), dist)
  t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 1 })
  t.ok(lstatSync(dist).isDirectory())
})

t.test('lost permissions of a folder are restored when a file in it is written', async (t) => {
  const cache = join(t.testdir(), 'cache')
  const { folder } = unpackProgram(PROGRAM, [cache], USER_ID)
  const dist = join(folder, 'dist')
  writeFileSync(join(dist, 'main.js'), 'main();')
  chmodSync(dist, 0o500)
  t.strictSame(unpackProgram(PROGRAM, [cache], USER_ID), { folder, writtenCount: 1 })
  t.equal(statSync(dist).mode & 0o777, 0o700)
  t.equal(readFileSync(join(dist, 'main.js'), 'utf8'), CONTENTS['dist/main.js'])
})

t.test('binaries are executable, and lost permissions are restored', async (t) => {
  const program = programOf({ ...CONTENTS, 'bin/tool': 'program' })
  const cache = join(t.testdir(), 'cache')
  const { folder } = unpackProgram(program, [cache], USER_ID)
  for (const path of ['bin/tool', 'node_modules/a/b.node']) {
    const file = join(folder, path)
    t.equal(statSync(file).mode & 0o777, 0o700, path)
    chmodSync(file, 0o600)
    t.strictSame(unpackProgram(program, [cache], USER_ID), { folder, writtenCount: 1 }, path)
    t.equal(statSync(file).mode & 0o777, 0o700, path)
  }
})

t.test('another program version has its own folder, and unused versions are removed', async (t) => {
  const cache = join(t.testdir(), 'cache')
  const { folder: old } = unpackProgram(PROGRAM, [cache], USER_ID)
  mkdirSync(join(cache, 'notes'))
  const next = programOf({ ...CONTENTS, 'dist/main.js': 'other()\n' })
  const { folder } = unpackProgram(next, [cache], USER_ID)
  t.not(folder, old)
  t.notOk(existsSync(old))
  t.ok(existsSync(join(cache, 'notes')), 'a file with an unrelated name stays')
})

t.test('a folder that belongs to another user or is writable for others is skipped', async (t) => {
  const root = t.testdir({ open: {}, file: 'no folder' })
  const open = join(root, 'open')
  chmodSync(open, 0o777)
  const good = join(root, 'good')
  const { folder } = unpackProgram(PROGRAM, [join(root, 'file'), open, good], USER_ID)
  t.equal(folder.startsWith(`${good}/`), true)
  t.strictSame(readdirSync(open), [])
  symlinkSync(good, join(root, 'link'))
  t.throws(
    () => unpackProgram(PROGRAM, [join(root, 'link')], USER_ID),
    /not a directory, or it is a link/,
  )
  t.throws(() => unpackProgram(PROGRAM, [good], USER_ID + 1), /belongs to another user/)
  t.throws(() => unpackProgram(PROGRAM, [open, join(root, 'file')], USER_ID), {
    message: /Set TENREC_CACHE_DIR .*open: other users can write to it; .*file: /,
    exitCode: 1,
  })
})

t.test(
  'the cache is in the folder that the operator, the service or the user has for caches',
  async (t) => {
    const places = { environment: {}, home: '/users/ann', temporary: '/scratch', userId: 7 }
    const foldersOf = (environment: Readonly<Record<string, string>>, home = places.home) =>
      cacheFolders({ ...places, environment, home })
    t.strictSame(foldersOf({}), ['/users/ann/.cache/tenrec', '/scratch/tenrec-7'])
    t.strictSame(foldersOf({ TENREC_CACHE_DIR: '/srv/cache' }), ['/srv/cache'])
    t.strictSame(foldersOf({ TENREC_CACHE_DIR: '' }, '/'), ['/scratch/tenrec-7'])
    t.strictSame(foldersOf({ CACHE_DIRECTORY: '/var/cache/tenrec:/var/cache/b' }, ''), [
      '/var/cache/tenrec',
      '/scratch/tenrec-7',
    ])
    t.strictSame(foldersOf({ XDG_CACHE_HOME: '/caches' }, ''), [
      '/caches/tenrec',
      '/scratch/tenrec-7',
    ])
    t.strictSame(foldersOf({ XDG_CACHE_HOME: 'relative' }, ''), ['/scratch/tenrec-7'])
  },
)
