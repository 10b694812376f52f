/**
 * Builds the daemon and its commands, `src/`, into `dist/`: few large files instead of some hundred small
 * ones, because most of a start is finding, reading and linking modules, again in each thread. What the process
 * loads when it is needed stays a file of its own. Everything that threads run is one file: Node opens all imported files
 * of a module at the same time, and several threads that start together would need more open files than all that the
 * daemon has open later. Packages are not bundled: they lie in `node_modules` with their licences and binaries.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCE = join(ROOT, 'src')
const TARGET = join(ROOT, 'dist')
/** The process with its commands, and the copy in ClickHouse, which has processes of its own. */
const ENTRIES = ['main', 'warehouse/sink', 'warehouse/door']
const THREAD_ENTRIES = ['thread']
const NEIGHBOUR = /new URL\('([^']+)', import\.meta\.url\)/g

/** All files are built into one folder, so what one finds beside it is found from there. */
const neighbours = {
  name: 'neighbours',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const folder = relative(SOURCE, dirname(path))
      const contents = readFileSync(path, 'utf8').replace(NEIGHBOUR, (_, name) => {
        const found = join(folder, name)
        if (found.endsWith('.wasm')) {
          mkdirSync(join(TARGET, dirname(found)), { recursive: true })
          copyFileSync(join(SOURCE, found), join(TARGET, found))
        }
        return `new URL('./${found}', import.meta.url)`
      })
      return { contents, loader: 'ts' }
    })
  },
}

/** Builds entries into `dist/`. With `splitting`, they share files, and what is imported when needed is one of its own. */
function buildEntries(names, { splitting }) {
  return build({
    entryPoints: names.map((name) => ({ in: join(SOURCE, `${name}.ts`), out: name })),
    outdir: TARGET,
    bundle: true,
    splitting,
    format: 'esm',
    platform: 'node',
    target: ['node20.19'],
    packages: 'external',
    chunkNames: '[name]-[hash]',
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none',
    tsconfig: join(ROOT, 'tsconfig.json'),
    logLevel: 'warning',
    plugins: [neighbours],
  })
}

// A file whose source was deleted must not stay behind.
rmSync(TARGET, { recursive: true, force: true })
await buildEntries(ENTRIES, { splitting: true })
await buildEntries(THREAD_ENTRIES, { splitting: false })
