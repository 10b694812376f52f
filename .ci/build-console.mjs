/**
 * Builds the console, `src/console/`, into `dist/console/`: `index.html`, and `assets/` with a content hash in each
 * name. Each compressible file is stored uncompressed, as brotli and as gzip, so the daemon never compresses.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCE = join(ROOT, 'src/console')
const TARGET = join(ROOT, 'dist/console')
const ASSETS = join(TARGET, 'assets')

/** Writes a file of the build and its compressed versions. */
function write(path, bytes) {
  writeFileSync(path, bytes)
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }))
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION }))
}

/** Copies a source file under a name with a hash. Returns the name. */
function hashed(name) {
  const bytes = readFileSync(join(SOURCE, name))
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase()
  const [stem, extension] = name.split('.')
  write(join(ASSETS, `${stem}-${hash}.${extension}`), bytes)
  return `${stem}-${hash}.${extension}`
}

rmSync(TARGET, { recursive: true, force: true })
mkdirSync(ASSETS, { recursive: true })
const { metafile } = await build({
  entryPoints: [{ in: join(SOURCE, 'app.tsx'), out: 'app' }],
  outdir: ASSETS,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022'],
  minify: true,
  metafile: true,
  legalComments: 'none',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  tsconfig: join(SOURCE, 'tsconfig.json'),
  logLevel: 'warning',
})
for (const name of readdirSync(ASSETS)) write(join(ASSETS, name), readFileSync(join(ASSETS, name)))

const names = Object.keys(metafile.outputs).map((path) => path.slice(path.lastIndexOf('/') + 1))
const page = readFileSync(join(SOURCE, 'index.html'), 'utf8')
  .replace(
    'app.js',
    names.find((name) => /^app-.*\.js$/.test(name)),
  )
  .replace(
    'app.css',
    names.find((name) => /^app-.*\.css$/.test(name)),
  )
  .replace('icon.svg', hashed('icon.svg'))
write(join(TARGET, 'index.html'), Buffer.from(page))
