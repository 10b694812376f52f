/**
 * Makes one file of each package of the single executable, together with the packages that it needs. The executable
 * verifies every file at each start, and each thread finds and links its modules again, so fewer files start faster
 * (docs/decisions/045-bundled-program.md).
 *
 * node .ci/flatten-packages.mjs TREE    TREE is a folder that .ci/program-tree filled for one ABI
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/**
 * Packages that stay as they are. They find binaries or the file of a thread by their own path, or share modules among
 * themselves.
 */
const WHOLE = [
  '@nats-io/jetstream',
  '@nats-io/transport-node',
  'piscina',
  'uWebSockets.js',
  'unix-dgram',
]
/** The packages that choose their binary with `node-gyp-build-optional-packages`, and the prefix of its package. */
const BINARIES = { lmdb: '@lmdb/lmdb', 'msgpackr-extract': '@msgpackr-extract/msgpackr-extract' }

const tree = resolve(process.argv[2], 'node_modules')
process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))
const require = createRequire(resolve('package.json'))

const manifestIn = (folder) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/**
 * Returns the folder and the path of the binary in TREE of a package of BINARIES. It removes the other binaries there:
 * one for the ABI of the executable is used instead of one for any Node.
 */
function binaryOf(name) {
  const folder = `${BINARIES[name]}-${process.platform}-${process.arch}`
  const files = readdirSync(join(tree, folder)).filter((file) => file.endsWith('.node'))
  const chosen = files.find((file) => file.includes('.abi')) ?? files[0]
  for (const file of files) if (file !== chosen) rmSync(join(tree, folder, file))
  return { folder, path: `${folder}/${chosen}` }
}

/** Loads a binary by its path instead of a search for the one that fits. */
const binaries = {
  name: 'binaries',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node-gyp-build-optional-packages$/ }, ({ importer }) => ({
      path: Object.keys(BINARIES).find((name) => importer.includes(`node_modules/${name}/`)),
      namespace: 'binary',
    }))
    onLoad({ filter: /./, namespace: 'binary' }, ({ path }) => ({
      contents: `module.exports = () => require(${JSON.stringify(chosenBinaries.get(path).path)})`,
    }))
    onResolve({ filter: /\.node$/ }, ({ path }) => ({ path, external: true }))
  },
}

/** The names that an import of the package may use, in the form in which Node finds them. */
function namesOf(name) {
  return Object.keys(require(name))
    .filter((each) => each !== 'default')
    .join(', ')
}

/** Writes the package into one file that exports the same names in the same format. A module loses its default. */
async function flatten(name) {
  const { version, type } = manifestIn(join('node_modules', name))
  const isModule = type === 'module'
  const folder = join(tree, name)
  rmSync(folder, { recursive: true, force: true })
  await build({
    ...(isModule
      ? { stdin: { contents: `export * from '${name}'`, resolveDir: process.cwd() } }
      : { entryPoints: [require.resolve(name)] }),
    outfile: join(folder, 'index.js'),
    bundle: true,
    format: isModule ? 'esm' : 'cjs',
    platform: 'node',
    target: ['node22'],
    legalComments: 'none',
    logLevel: 'error',
    plugins: [binaries],
    ...(isModule
      ? {
          banner: {
            js: "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);",
          },
        }
      : { footer: { js: `0 && (module.exports = { ${namesOf(name)} })` } }),
  })
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ name, version, type, main: 'index.js' }),
  )
}

/** Adds a package and everything that it needs, as far as it is in TREE. */
function addWithNeeds(name, found) {
  if (found.has(name) || !existsSync(join(tree, name))) return
  found.add(name)
  const { dependencies = {}, optionalDependencies = {} } = manifestIn(join(tree, name))
  for (const needed of Object.keys({ ...dependencies, ...optionalDependencies })) {
    addWithNeeds(needed, found)
  }
}

/** The names of all packages in TREE. */
function packagesInTree() {
  return readdirSync(tree).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(tree, name)).map((each) => `${name}/${each}`) : [name],
  )
}

const { dependencies, optionalDependencies } = manifestIn('.')
const chosenBinaries = new Map(Object.keys(BINARIES).map((name) => [name, binaryOf(name)]))
const kept = new Set([...chosenBinaries.values()].map(({ folder }) => folder))
for (const name of WHOLE) addWithNeeds(name, kept)
const flattened = Object.keys({ ...dependencies, ...optionalDependencies }).filter(
  (name) => !WHOLE.includes(name),
)
await Promise.all(flattened.map(flatten))
for (const name of packagesInTree()) {
  if (kept.has(name) || flattened.includes(name)) continue
  rmSync(join(tree, name), { recursive: true })
}
