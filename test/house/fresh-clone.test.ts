/**
 * Tests a clone with nothing installed: the few packages that the first start installs, its output, and the files that
 * later starts and tests leave unchanged. A stub replaces npm where only the call matters.
 *
 * @lane all
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { BENCHES } from '../../bench/benches.ts'

/** The bundler of the console has one package for each platform, and a machine installs one of them. */
const PACKAGES_MAX = 105
/** Megabytes each, and of no use to a server. */
const TOOLS =
  /^add (typescript|assemblyscript|binaryen|tap|@biomejs\/biome|posthog-js|playwright-core|knip) /m
/** Records its arguments, and creates a folder of packages with a compiler. */
const NPM = `
const { appendFileSync, mkdirSync, rmSync, symlinkSync } = require('node:fs')
const words = process.argv.slice(2)
const BUNDLED = ['esbuild', '@esbuild', 'preact', '@preact', 'openapi-fetch', 'openapi-typescript-helpers', 'oxc-minify', '@oxc-minify', '@gfx', 'base64-js']
appendFileSync('asked', words.filter((word) => !/^--(no-audit|no-fund|loglevel|include)/.test(word)).join(' ') + '\\n')
if (words[0] === 'ci') rmSync('node_modules', { recursive: true, force: true })
mkdirSync('node_modules', { recursive: true })
for (const name of words[0] === 'ci' ? ['typescript', '@types', ...BUNDLED] : []) {
  symlinkSync(process.env.PACKAGES + '/' + name, 'node_modules/' + name)
}
console.log('added some packages')
`

/** Runs a program without the environment variables that tap adds. */
function run(folder: string, command: string, words: readonly string[]) {
  const { NODE_OPTIONS: _, NODE_V8_COVERAGE: __, ...own } = process.env
  const environment = {
    ...own,
    npm_execpath: join(folder, 'npm/npm.js'),
    PACKAGES: resolve('node_modules'),
  }
  return spawnSync(command, words, { cwd: folder, env: environment, encoding: 'utf8' })
}

t.test('serving needs few packages, and no tool among them', async (t) => {
  const folder = t.testdir({ test: {} })
  for (const path of ['package.json', 'package-lock.json', '.npmrc', 'test/package.json']) {
    cpSync(path, join(folder, path))
  }
  // A script of npm may have requested silence.
  const words = [
    'ci',
    '--dry-run',
    '--offline',
    '--workspaces=false',
    '--include=dev',
    '--loglevel=notice',
  ]
  const answer = execFileSync('npm', words, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const count = Number(/^added (\d+) packages/m.exec(answer)?.[1])
  t.ok(count > 10 && count <= PACKAGES_MAX, answer)
  t.match(answer, /^add esbuild /m)
  t.notMatch(answer, TOOLS)
})

t.test(
  'the first start installs and builds, the next ones do neither; tests add theirs',
  async (t) => {
    const folder = t.testdir({
      'package.json': '{ "type": "module", "engines": { "node": "^20.0.0 || ^22.0.0" } }',
      npm: { 'package.json': '{}' },
    })
    for (const path of [
      'package-lock.json',
      'tsconfig.json',
      'bench/tsconfig.json',
      '.ci/prepare.mjs',
      '.ci/build-console.mjs',
      '.ci/build-program.mjs',
    ]) {
      cpSync(path, join(folder, path))
    }
    for (const kernel of [
      'src/rules/capture/kernel',
      'src/rules/capture/scanner',
      'src/rules/filters/text-search',
      'src/rules/flags/sha1',
      'src/store/events/format/lz4',
    ]) {
      cpSync(kernel, join(folder, kernel), { recursive: true })
    }
    cpSync('src/console', join(folder, 'src/console'), { recursive: true })
    writeFileSync(join(folder, 'bench/run.ts'), 'export {}\n')
    for (const entry of ['main', 'thread', 'clickhouse/copy-thread', 'clickhouse/query-thread']) {
      mkdirSync(join(folder, 'src', dirname(entry)), { recursive: true })
      writeFileSync(join(folder, `src/${entry}.ts`), 'export const answer: number = 42\n')
    }
    // A script, whatever the package is.
    writeFileSync(join(folder, 'npm/npm.js'), NPM)
    const prepare = (...words: readonly string[]) => {
      const { status, stdout, stderr } = run(folder, process.execPath, [
        '.ci/prepare.mjs',
        ...words,
      ])
      t.equal(status, 0, stderr)
      t.equal(stdout, '', 'the output of the command behind it stays clean')
      return stderr
    }
    const asked = () => readFileSync(join(folder, 'asked'), 'utf8').trimEnd().split('\n')
    t.equal(
      prepare(),
      'tenrec: installing the packages of package-lock.json\ntenrec: building\n',
      'nothing else is printed',
    )
    t.match(readFileSync(join(folder, 'dist/main.js'), 'utf8'), 'answer = 42')
    t.equal(prepare(), '')
    t.strictSame(asked(), ['ci --workspaces=false'])
    t.equal(
      prepare('test'),
      'tenrec: installing the packages of package-lock.json that tests and benches need\n',
      'packages that a running daemon may use stay',
    )
    t.equal(prepare('bench'), 'tenrec: building the benchmarks\n')
    t.equal(prepare('test') + prepare('bench') + prepare(), '')
    t.strictSame(asked(), ['ci --workspaces=false', 'install --no-save'])
    writeFileSync(join(folder, 'package-lock.json'), '{}')
    prepare()
    t.equal(asked().at(-1), 'ci', 'a clone with all packages gets all of the new ones')
  },
)

t.test('benchmarks are listed without installing or building', async (t) => {
  const folder = t.testdir({ '.ci': {} })
  for (const path of ['.ci/bench', '.ci/list-benches.mjs', 'bench']) {
    cpSync(path, join(folder, path), { recursive: true })
  }
  const { status, stdout, stderr } = run(folder, '.ci/bench', ['--list'])
  t.equal(status, 0, stderr)
  t.strictSame(
    stdout.trimEnd().split('\n'),
    BENCHES.map(({ name, question }) => `${name.padEnd(18)} ${question}`),
  )
})
