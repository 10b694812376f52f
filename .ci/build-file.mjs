/**
 * Makes the single executable: Node, the program and its packages in one file, for this kind of machine. It runs
 * without an installed Node, on Linux with libstdc++ and glibc 2.34 or newer (the store needs that version; Node needs
 * 2.28).
 *
 * node .ci/build-file.mjs [FOLDER]    default: the current folder
 *
 * FOLDER receives `tenrec-VERSION-linux-ARCH`, the same file as `.xz` for downloads, its licenses, a list of its
 * packages (SPDX) and SHA256SUMS. Needs xz, binutils and the npm registry. The same sources give the same file.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** The long-term release for which the HTTP library has a binary. Its SHA-512 is the one of the npm registry. */
const NODE_VERSION = '22.23.5'
const NODE_ABI = '127'
const NODE_INTEGRITY = {
  x64: 'sha512-3jhC+wcoWxKZxcRqF2sUSl0c9HEXFnur/nuIPx6O6CWKV0jOUWQm7Htw5SuXqqlMCEhi0cJqybFPEb5hhcBiMw==',
  arm64:
    'sha512-e1LOUGKVruPGuLVutn8+Cgm5pI1APm4Kvh+zbb/qe/ZpD9s+TQby5iUgZOWmPpbSKpj0Td8DP1N0NEnXasHizg==',
}
/**
 * The section in which Node looks for the program in an executable:
 * https://nodejs.org/api/single-executable-applications.html
 */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'
/** The flags that `npm start` and the systemd unit pass to Node. */
const NODE_OPTIONS = ['--min-semi-space-size=16', '--no-memory-reducer']

const target = resolve(process.argv[2] ?? '.')
process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))

function fail(text) {
  process.stderr.write(`tenrec: ${text}\n`)
  process.exit(1)
}

function run(command, args, options = {}) {
  const child = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28, ...options })
  if (child.status !== 0)
    fail(`${command} ${args.join(' ')} failed:\n${child.stderr ?? child.error}`)
  return child.stdout
}

const sha256 = (content) => createHash('sha256').update(content).digest('hex')

/** Downloads Node and returns the path of its executable. */
function nodeBinary(folder) {
  const name = `node-linux-${process.arch}@${NODE_VERSION}`
  const [{ filename }] = JSON.parse(
    run('npm', ['pack', '--json', name, '--pack-destination', folder]),
  )
  const archive = join(folder, filename)
  const digest = createHash('sha512').update(readFileSync(archive)).digest('base64')
  if (`sha512-${digest}` !== NODE_INTEGRITY[process.arch]) fail(`${name} is not the expected file`)
  run('tar', ['-xzf', archive, '-C', folder])
  return join(folder, 'package/bin/node')
}

/** postject prints a dozen warnings about sections without names, such as those of Node. It throws if it fails. */
async function quietPostject() {
  console.warn = () => {}
  return await import('postject')
}

/** Lists all files below a folder, in the same order on every machine. */
function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .sort()
}

/** The license of Node and those of all packages of the program, in full. */
function licenseTexts(node) {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  const texts = [
    ['Tenrec', 'LICENSE'],
    [`Node ${NODE_VERSION}`, join(node, 'LICENSE')],
  ]
  for (const [path, { version, dev, link }] of Object.entries(packages)) {
    if (!path.startsWith('node_modules/') || dev || link || !existsSync(path)) continue
    const file = readdirSync(path).find((name) => /^(?:licen[cs]e|copying)(?:\.\w+)?$/i.test(name))
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    texts.push([`${name} ${version}`, file === undefined ? null : join(path, file)])
  }
  return texts
    .map(
      ([name, file]) =>
        `== ${name}\n\n${file === null ? namedLicense(name) : readFileSync(file, 'utf8').trim()}\n`,
    )
    .join('\n')
}

/** Used for a package without a license file. */
function namedLicense(name) {
  const path = join('node_modules', name.slice(0, name.lastIndexOf(' ')), 'package.json')
  const { license, author, homepage } = JSON.parse(readFileSync(path, 'utf8'))
  return `License: ${license}. ${author?.name ?? author ?? ''} ${homepage ?? ''}`.trim()
}

async function buildFile(scratch) {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  const name = `tenrec-${version}-linux-${process.arch}`
  const node = nodeBinary(scratch)
  writeFileSync(join(target, `${name}.licenses.txt`), licenseTexts(dirname(dirname(node))))
  const tree = join(scratch, 'tree')
  mkdirSync(tree)
  run('.ci/program-tree', [tree, join(scratch, 'copyright'), NODE_ABI])
  run(process.execPath, ['.ci/flatten-packages.mjs', tree])
  // They are read only with `--enable-source-maps`.
  for (const path of filesBelow(tree)) if (path.endsWith('.js.map')) rmSync(join(tree, path))
  mkdirSync(join(tree, 'bin'))
  run('as', [`src/executable/flock-${process.arch}.s`, '-o', join(scratch, 'flock.o')])
  run('ld', ['--strip-all', join(scratch, 'flock.o'), '-o', join(tree, 'bin/flock')])
  writeFileSync(join(tree, 'start.cjs'), "import('./dist/main.js')\n")
  const files = filesBelow(tree).map((path) => ({
    path,
    sha256: sha256(readFileSync(join(tree, path))),
  }))
  writeFileSync(join(scratch, 'files.json'), JSON.stringify({ version, files }))
  await build({
    entryPoints: ['src/executable/main.ts'],
    outfile: join(scratch, 'main.cjs'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: ['node22'],
    legalComments: 'none',
    logLevel: 'warning',
  })
  const assets = { 'files.json': join(scratch, 'files.json') }
  for (const { path } of files) assets[path] = join(tree, path)
  const config = {
    // A relative path, because it becomes part of the file and the folder has another name in each build.
    main: 'main.cjs',
    output: join(scratch, 'program.blob'),
    disableExperimentalSEAWarning: true,
    execArgv: NODE_OPTIONS,
    assets,
  }
  writeFileSync(join(scratch, 'config.json'), JSON.stringify(config))
  run(node, ['--experimental-sea-config', join(scratch, 'config.json')], { cwd: scratch })
  const executable = join(target, name)
  copyFileSync(node, executable)
  run('strip', ['--strip-all', executable])
  const { inject } = await quietPostject()
  await inject(executable, 'NODE_SEA_BLOB', readFileSync(config.output), { sentinelFuse: FUSE })
  chmodSync(executable, 0o755)
  run('xz', ['--keep', '--force', '-6', executable])
  const sbom = ['sbom', '--sbom-format', 'spdx', '--omit', 'dev', '--workspaces=false']
  writeFileSync(join(target, `${name}.spdx.json`), run('npm', sbom))
  const made = [name, `${name}.xz`, `${name}.licenses.txt`, `${name}.spdx.json`]
  const sums = made.map((file) => `${sha256(readFileSync(join(target, file)))}  ${file}\n`)
  writeFileSync(join(target, 'SHA256SUMS'), sums.join(''))
  for (const file of made) {
    const mib = statSync(join(target, file)).size / 1024 ** 2
    process.stdout.write(`${file.padEnd(36)} ${mib.toFixed(1)} MiB\n`)
  }
}

if (!(process.arch in NODE_INTEGRITY)) fail(`there is no Node for ${process.arch}`)
mkdirSync(target, { recursive: true })
const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'tenrec-file-')))
try {
  await buildFile(scratch)
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
