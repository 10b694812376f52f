/**
 * The binaries of the HTTP library in the npm package: Linux on x64 for Node 20 and 22, and on arm64 for Node 22. npm
 * includes them in the package (`bundleDependencies`), so that an installation does not download the 49 MB of the
 * library with all its binaries. A checkout only has the binary of its machine, so the library is downloaded again here
 * and compared with the lock file.
 *
 * node .ci/package-addons.mjs add       before a package is made
 * node .ci/package-addons.mjs remove    afterward
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const LIBRARY = 'node_modules/uWebSockets.js'
const ADDONS = join(LIBRARY, 'dist/bin')
/** `process.versions.modules` is 115 on Node 20 and 127 on Node 22. */
const PACKAGED = ['uws_linux_x64_115.node', 'uws_linux_x64_127.node', 'uws_linux_arm64_127.node']

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))

function run(command, args) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status === 0) return stdout
  process.stderr.write(`tenrec: ${command} ${args.join(' ')} failed:\n${stderr}`)
  process.exit(1)
}

/** Downloads the library that the lock file names and returns the folder of its unpacked files. */
function download(folder) {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  const { name, version, integrity } = packages[LIBRARY]
  const [{ filename }] = JSON.parse(
    run('npm', ['pack', '--json', `${name}@${version}`, '--pack-destination', folder]),
  )
  const archive = join(folder, filename)
  const [algorithm, digest] = integrity.split('-')
  if (createHash(algorithm).update(readFileSync(archive)).digest('base64') !== digest) {
    process.stderr.write(`tenrec: ${name}@${version} is not what package-lock.json says\n`)
    process.exit(1)
  }
  run('tar', ['-xzf', archive, '-C', folder])
  return join(folder, 'package')
}

/**
 * These packages require Node 22 or newer although they run on Node 20 as well. npm would print a warning at each
 * installation.
 */
function dropEngines() {
  for (const name of ['uWebSockets.js', '@nats-io/nuid']) {
    const path = join('node_modules', name, 'package.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8'))
    manifest.engines = undefined
    publish(`${JSON.stringify(manifest, null, 2)}\n`, path)
  }
}

/** A running daemon may use the file that is replaced. It keeps its own copy. */
function publish(content, path) {
  writeFileSync(`${path}.new`, content)
  renameSync(`${path}.new`, path)
}

function add() {
  const folder = mkdtempSync(join(tmpdir(), 'tenrec-addons-'))
  try {
    const library = download(folder)
    for (const name of readdirSync(join(library, 'dist/bin'))) {
      const isNew = PACKAGED.includes(name) && !existsSync(join(ADDONS, name))
      if (isNew) publish(readFileSync(join(library, 'dist/bin', name)), join(ADDONS, name))
    }
    dropEngines()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function remove() {
  const own = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
  for (const name of readdirSync(ADDONS)) if (name !== own) rmSync(join(ADDONS, name))
}

const task = process.argv[2]
if (task === 'add') add()
else if (task === 'remove') remove()
else process.exit(64)
