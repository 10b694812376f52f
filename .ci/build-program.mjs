/**
 * Builds the daemon and its commands, `src/`, into `dist/`. The result is a few large files instead of several hundred
 * small ones, because most of a start is spent on finding, reading and linking modules, again in each thread. Modules
 * that the process loads on demand stay separate files. All code of threads is one file: Node opens all imported files
 * of a module at the same time, and several threads that start together would need more open files than the running
 * daemon. Packages are not bundled. They are in `node_modules` with their licenses and binaries.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCE = join(ROOT, 'src')
const TARGET = join(ROOT, 'dist')
/** The process with its commands, and the copy in ClickHouse, which has its own processes. */
const ENTRIES = ['main', 'clickhouse/copy-thread', 'clickhouse/query-thread']
const THREAD_ENTRIES = ['thread']
const NEIGHBOUR = /new URL\('([^']+)', import\.meta\.url\)/g

/** All files are built into one folder, so code finds files beside it from there. */
const neighbors = {
  name: 'neighbors',
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

/**
 * Builds entries into `dist/`. With `splitting` they share files, and each module that is imported on demand is a
 * separate file.
 */
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
    plugins: [neighbors],
  })
}

// A file whose source was deleted must not remain.
rmSync(TARGET, { recursive: true, force: true })
await buildEntries(ENTRIES, { splitting: true })
await buildEntries(THREAD_ENTRIES, { splitting: false })
