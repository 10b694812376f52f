/**
 * Lets Node run the sources as they are, for tap and for experiments: `node --import ./.ci/loader.mjs`.
 * Types are blanked out, so that lines and columns stay as they are and need no source maps. Every
 * thread loads the sources again, hence the cache on disk; its entries are named after the content.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threadId } from 'node:worker_threads'

const CACHE_DIR = fileURLToPath(new URL('../node_modules/.cache/tenrec-sources/', import.meta.url))
const require = createRequire(import.meta.url)

/** A hook of Node's module loader. */
export async function load(url, context, nextLoad) {
  if (!url.endsWith('.ts') || url.includes('/node_modules/')) return nextLoad(url, context)
  const source = readFileSync(new URL(url))
  return { format: 'module', shortCircuit: true, source: blanked(source) }
}

function blanked(source) {
  const path = join(CACHE_DIR, createHash('sha1').update(source).digest('hex'))
  try {
    return readFileSync(path)
  } catch {
    // Only now, because loading the compiler takes longer than everything else here.
    const script = require('ts-blank-space').default(source.toString())
    mkdirSync(CACHE_DIR, { recursive: true })
    // Others may read it meanwhile.
    const temporary = `${path}.${process.pid}.${threadId}`
    writeFileSync(temporary, script)
    renameSync(temporary, path)
    return script
  }
}

// Loaded a second time as the hooks.
if (!import.meta.url.endsWith('?hooks')) register(`${import.meta.url}?hooks`)
