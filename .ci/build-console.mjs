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
import { build, transform } from 'esbuild'
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

/** How often zopfli searches for a shorter encoding. More rounds gain less than 0.01%. */
const ZOPFLI_ROUNDS = 15
/** Names of the console's own options, such as `isRequired`. They are shortened. */
const OWN_NAMES = /^is[A-Z]/
/** Names of browsers that look like those of the console, so they are not shortened. */
const NAMES_OF_BROWSERS = `
  Array Composing Connected ContentEditable DefaultNamespace EqualNode Error Finite Integer Intersecting NaN PointInFill
  PointInPath PointInRange PointInStroke PrototypeOf RawJSON SafeInteger SameNode SecureContext Trusted WellFormed`
/** The marker that the signals look for once, because browsers may have developer tools for them. */
const SIGNALS_TOOLS = 'window.__PREACT_SIGNALS_DEVTOOLS__'

/**
 * Lets the kit, and so every page, import the frame and the notes in charts. The bundler then puts them into one file,
 * which compresses better. The sources must not say so, because both import the kit.
 */
const FRAME_WITH_KIT = {
  name: 'frame-with-kit',
  setup({ onLoad }) {
    onLoad({ filter: /console.kit\.ts$/ }, ({ path }) => ({
      contents: `${readFileSync(path, 'utf8')}import './app.tsx'\nimport './pages/notes/notes.tsx'\n`,
      loader: 'ts',
    }))
  },
}

/** Turns the functions of modules into arrow functions, which are shorter. */
const ARROWS = {
  name: 'arrows',
  setup({ onLoad }) {
    onLoad(
      { filter: /console.(app|shared|routes|(base|parts|pages)\b.*)\.tsx?$/ },
      async ({ path }) => {
        const source = readFileSync(path, 'utf8')
        const { code } = await transform(source, { loader: 'tsx', jsx: 'preserve', target: SYNTAX })
        return { contents: withArrows(code), loader: 'jsx' }
      },
    )
  },
}

/** A function of a module in the layout of esbuild, whose last line is the only one that begins with a brace. */
const FUNCTION = /^(export )?(async )?function (\w+)(\([\s\S]*?\)) (\{\n(?:.*\n)*?\}|\{\s*\})\n/gm

/**
 * Replaces functions by arrow functions. These are moved to the beginning of the module, because unlike functions they
 * cannot be called before they are defined. Functions that seem to use `this` or `arguments` stay as they are.
 */
function withArrows(code) {
  const arrows = []
  const rest = code.replace(
    FUNCTION,
    (whole, exported = '', async = '', name, parameters, body) => {
      if (/\b(?:this|arguments)[.,;?[)\]]/.test(body)) return whole
      arrows.push(`${exported}const ${name} = ${async}${parameters} => ${body};\n`)
      return ''
    },
  )
  return arrows.join('') + rest
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
  return code
}

/** Returns the names in a list of imports or exports, such as `a as b,c`, as pairs. */
function namesIn(list) {
  return list.split(',').map((one) => {
    const [first, second = first] = one.split(' as ')
    return [first, second]
  })
}

/**
 * Lets scripts export everything under the name that it has in the script itself, which is shorter. `scripts` has the
 * code by the names of the files. The new names depend on the exporting script alone, because its file name would not
 * change with another script.
 */
function renameExports(scripts) {
  for (const [file, code] of scripts) {
    const [whole, list] = /export\{([^}]*)\};?$/.exec(code.trimEnd()) ?? []
    if (list === undefined || !file.startsWith('chunk-')) continue
    const locals = new Map(namesIn(list).map(([local, name]) => [name, local]))
    scripts.set(
      file,
      code.replace(whole, () => `export{${[...locals.values()].join()}};`),
    )
    for (const [importer, text] of scripts) {
      const renamed = text.replace(/import\{([^}]*)\}from"\.\/(.*?)"/g, (found, names, from) => {
        if (from !== file) return found
        const pairs = namesIn(names).map(([name, local]) => `${locals.get(name)} as ${local}`)
        return `import{${pairs.join()}}from"./${file}"`
      })
      scripts.set(importer, renamed)
    }
  }
}

function hashOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase()
}

/** Copies a source file under a name with a hash. Returns the name. */
async function hashed(name) {
  const bytes = readFileSync(join(SOURCE, name))
  const [stem, extension] = name.split('.')
  const file = `${stem}-${hashOf(bytes)}.${extension}`
  await write(join(ASSETS, file), bytes)
  return file
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
  plugins: [FRAME_WITH_KIT, ARROWS],
  outdir: ASSETS,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: SYNTAX,
  minify: true,
  metafile: true,
  legalComments: 'none',
  charset: 'utf8',
  define: { [SIGNALS_TOOLS]: 'false' },
  mangleProps: OWN_NAMES,
  reserveProps: new RegExp(`^is(${NAMES_OF_BROWSERS.trim().replace(/\s+/g, '|')})$`),
  // The hashes are made before the scripts are finished, so they also cover the version of the second minifier and this
  // file.
  banner: { js: `/* ${MINIFIER} ${hashOf(readFileSync(fileURLToPath(import.meta.url)))} */` },
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
const built = new Map(readdirSync(ASSETS).map((name) => [name, readFileSync(join(ASSETS, name))]))
const scriptsBuilt = [...built].filter(([name]) => name.endsWith('.js'))
const finished = new Map(scriptsBuilt.map(([name, bytes]) => [name, minified(name, bytes)]))
renameExports(finished)
for (const [name, bytes] of built)
  await write(join(ASSETS, name), Buffer.from(finished.get(name) ?? bytes))

const page = readFileSync(join(SOURCE, 'index.html'), 'utf8')
  .replace('app.js', basename(frame))
  .replace(
    'app.css',
    readdirSync(ASSETS).find((name) => /^app-.*\.css$/.test(name)),
  )
  .replace('icon.svg', await hashed('icon.svg'))
await write(join(TARGET, 'index.html'), Buffer.from(page))
