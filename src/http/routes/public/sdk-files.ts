/**
 * The files of posthog-js that a page loads with PostHog's `<script>`. They are no part of Tenrec: they
 * are served when they are there, from `posthog-js` in the data directory (`tenrec snippet install` puts
 * them there), else from the npm package of that name beside this program. Which names are served is
 * read once from the folder: a request never makes a path.
 */
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { etagOf } from '../../server/etags.ts'
import { SDK_FILE_BYTES_MAX, SDK_FILES_MAX } from '../limits.ts'

/** The release that our tests run, and that `tenrec snippet install` installs. */
export const SDK_VERSION = '1.449.2'
/** Package and folder. */
export const SDK_NAME = 'posthog-js'
/** The licence that the files come under; it is served beside them. */
export const SDK_LICENCE = 'LICENSE'

/** How often a folder that was not there is looked for. */
const LOOK_AGAIN_MS = 1000
const BROTLI_QUALITY = 9
/** Scripts for pages; builds for bundlers and for React are something else. */
const SCRIPT = /^(?!main\.|module\.|rrweb|customizations|default-extensions)[a-z0-9.-]+\.js$/

const compressors = {
  br: (bytes: Buffer) =>
    promisify(brotliCompress)(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
    }),
  gzip: (bytes: Buffer) => promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
  identity: (bytes: Buffer) => Promise.resolve(bytes),
} as const

/** How a file may be sent. */
export type SdkEncoding = keyof typeof compressors

/** One file in one encoding. */
export interface SdkFile {
  readonly bytes: Uint8Array
  /** The same for all encodings, in quotes: weak. */
  readonly etag: string
}

/** Whether a name in the package's folder `dist` is a script for pages. */
export function isPageScript(name: string): boolean {
  return SCRIPT.test(name)
}

/** An installed release. */
export class SdkRelease {
  readonly version: string
  readonly #paths: ReadonlyMap<string, string>
  readonly #read = new Map<string, Promise<Buffer>>()
  readonly #files = new Map<string, Promise<SdkFile>>()

  constructor(version: string, paths: ReadonlyMap<string, string>) {
    this.version = version
    this.#paths = paths
  }

  /** Whether there is such a file. */
  has(name: string): boolean {
    return this.#paths.has(name)
  }

  /**
   * A file; null for an unknown name. The first call for a name and encoding reads and compresses it, in
   * other threads; later ones find it in memory. Rejects with what the file system says.
   */
  async file(name: string, encoding: SdkEncoding): Promise<SdkFile | null> {
    const path = this.#paths.get(name)
    if (path === undefined) return null
    return kept(this.#files, `${encoding} ${name}`, async () => {
      const raw = await kept(this.#read, name, () => readFile(path))
      return { bytes: await compressors[encoding](raw), etag: `W/${etagOf(raw)}` }
    })
  }
}

/** Where releases are looked for. */
export class SdkFiles {
  readonly #folders: readonly string[]
  #release: Promise<SdkRelease | null> | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY

  /** `folders`: of a package each, the first that is one counts; see `sdkFolders`. */
  constructor(folders: readonly string[]) {
    this.#folders = folders
  }

  /** What is installed, or null. Once found it stays; until then it is looked for again after a second. */
  release(nowMs: number): Promise<SdkRelease | null> {
    if (this.#release !== null && nowMs - this.#lookedAtMs < LOOK_AGAIN_MS) return this.#release
    this.#lookedAtMs = nowMs
    this.#release = this.#find().then((release) => {
      if (release !== null) this.#lookedAtMs = Number.POSITIVE_INFINITY
      return release
    })
    return this.#release
  }

  async #find(): Promise<SdkRelease | null> {
    for (const folder of this.#folders) {
      const release = await openRelease(folder)
      if (release !== null) return release
    }
    return null
  }
}

/** The folder in the data directory, then that of the npm package, if there is one. */
export function sdkFolders(dataDir: string): readonly string[] {
  const installed = join(dataDir, SDK_NAME)
  try {
    const manifest = createRequire(import.meta.url).resolve(`${SDK_NAME}/package.json`)
    return [installed, dirname(manifest)]
  } catch {
    return [installed]
  }
}

/** Reads what a folder offers; null when it is no such package, or cannot be read. */
async function openRelease(folder: string): Promise<SdkRelease | null> {
  try {
    const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
      readonly version: unknown
    }
    const paths = new Map<string, string>()
    for (const name of (await readdir(join(folder, 'dist'))).sort()) {
      const path = join(folder, 'dist', name)
      if (!isPageScript(name) || paths.size >= SDK_FILES_MAX) continue
      const stats = await stat(path)
      if (stats.isFile() && stats.size <= SDK_FILE_BYTES_MAX) paths.set(name, path)
    }
    const licence = join(folder, SDK_LICENCE)
    if (existsSync(licence)) paths.set(SDK_LICENCE, licence)
    return paths.has('array.js') ? new SdkRelease(String(manifest.version), paths) : null
  } catch {
    return null
  }
}

/** What is made once and kept, unless it fails. */
function kept<T>(memory: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  let value = memory.get(key)
  if (value === undefined) {
    value = make()
    value.catch(() => memory.delete(key))
    memory.set(key, value)
  }
  return value
}
