/**
 * Builds the console, `src/console/`, into `dist/console/`: `index.html`, and `assets/` with a content hash in each
 * name. Each compressible file is stored uncompressed, as brotli and as gzip, so the daemon never compresses.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import zopfli from '@gfx/zopfli'
import { build } from 'esbuild'
import { minifySync } from 'oxc-minify'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCE = join(ROOT, 'src/console')
const TARGET = join(ROOT, 'dist/console')
const ASSETS = join(TARGET, 'assets')
const APP = 'src/console/app.tsx'
const SYNTAX = 'es2022'
const { version: MINIFIER } = createRequire(import.meta.url)('oxc-minify/package.json')

// Zopfli's package would print its whole program, in one line of 20 KB, before each error of this build.
for (const event of ['uncaughtException', 'unhandledRejection']) process.removeAllListeners(event)

/** How often zopfli searches for a shorter encoding. More rounds gain less than 0.1%. */
const ZOPFLI_ROUNDS = 5

/**
 * Lets the kit, and so every page, import the frame. The bundler then puts both into one file, which compresses better.
 * The sources must not say so, because the frame imports the kit.
 */
const FRAME_WITH_KIT = {
  name: 'frame-with-kit',
  setup({ onLoad }) {
    onLoad({ filter: /console.kit\.ts$/ }, ({ path }) => ({
      contents: `${readFileSync(path, 'utf8')}import './app.tsx'\n`,
      loader: 'ts',
    }))
  },
}

/** Writes a file of the build and its compressed versions. Zopfli's gzip is 3% smaller than that of zlib. */
async function write(path, bytes) {
  writeFileSync(path, bytes)
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }))
  writeFileSync(`${path}.gz`, await zopfli.gzipAsync(bytes, { numiterations: ZOPFLI_ROUNDS }))
}

/** Minifies a script of esbuild again: the names that oxc gives to variables compress 2% better. */
function minified(name, bytes) {
  const { code, errors } = minifySync(name, bytes.toString(), {
    module: true,
    compress: { target: SYNTAX },
    mangle: { toplevel: true },
  })
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`)
  return Buffer.from(code)
}

/** Copies a source file under a name with a hash. Returns the name. */
async function hashed(name) {
  const bytes = readFileSync(join(SOURCE, name))
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase()
  const [stem, extension] = name.split('.')
  await write(join(ASSETS, `${stem}-${hash}.${extension}`), bytes)
  return `${stem}-${hash}.${extension}`
}

rmSync(TARGET, { recursive: true, force: true })
mkdirSync(ASSETS, { recursive: true })
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: [
    { in: join(SOURCE, 'app.tsx'), out: 'app' },
    // If the frame imported its styles, each file of pages would get a copy of them.
    { in: join(SOURCE, 'console.css'), out: 'app' },
  ],
  plugins: [FRAME_WITH_KIT],
  outdir: ASSETS,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: SYNTAX,
  minify: true,
  metafile: true,
  legalComments: 'none',
  // The hashes are made before the second minifier runs, so its version is part of what they cover.
  banner: { js: `/* ${MINIFIER} */` },
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  // `h(type, properties, ...children)` is shorter than the automatic form, which names the children. Both are the same
  // to Preact. The setting of tsconfig.json, which types need, would come first.
  tsconfigRaw: {},
  jsx: 'transform',
  jsxFactory: 'h',
  jsxFragment: 'Fragment',
  inject: [join(SOURCE, 'jsx.ts')],
  logLevel: 'warning',
})
// The file of the entry point only loads the file with the frame, so the page loads that one.
const scripts = Object.entries(metafile.outputs).filter(([path]) => path.endsWith('.js'))
const [entry] = scripts.find(([, { entryPoint }]) => entryPoint === APP)
const [frame] = scripts.find(([, { inputs }]) => APP in inputs)
rmSync(join(ROOT, entry))
for (const name of readdirSync(ASSETS)) {
  const bytes = readFileSync(join(ASSETS, name))
  await write(join(ASSETS, name), name.endsWith('.js') ? minified(name, bytes) : bytes)
}

const page = readFileSync(join(SOURCE, 'index.html'), 'utf8')
  .replace('app.js', basename(frame))
  .replace(
    'app.css',
    readdirSync(ASSETS).find((name) => /^app-.*\.css$/.test(name)),
  )
  .replace('icon.svg', await hashed('icon.svg'))
await write(join(TARGET, 'index.html'), Buffer.from(page))
