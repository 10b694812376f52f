/**
 * Builds the daemon and its commands, `src/`, into `dist/`: few large files instead of some hundred small
 * ones, because most of a start is finding, reading and linking modules, again in each thread. What is
 * loaded when it is needed stays a file of its own. Packages are not bundled: they lie in `node_modules`
 * with their licences and binaries.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCE = join(ROOT, 'src')
const TARGET = join(ROOT, 'dist')
/** The process, threads, and what tests put a fault into. */
const ENTRIES = ['main', 'thread', 'warehouse/sink', 'warehouse/door', 'store/lmdb/environment']
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

// A file whose source was deleted must not stay behind.
rmSync(TARGET, { recursive: true, force: true })
await build({
  entryPoints: ENTRIES.map((name) => ({ in: join(SOURCE, `${name}.ts`), out: name })),
  outdir: TARGET,
  bundle: true,
  splitting: true,
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
