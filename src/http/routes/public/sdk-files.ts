/**
 * The files of posthog-js that a page loads with PostHog's `<script>`. They are not part of Tenrec, and are served only
 * if they are installed. `tenrec snippet install` writes them to the folder `posthog-js` of the data directory. If this
 * folder does not contain them, they are read from the npm package `posthog-js` beside this program. The names of the
 * files are read from the folder once, so a name in a request is never used as a path.
 */
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { etagOf } from '../../server/etags.ts'
import { SDK_FILE_BYTES_MAX, SDK_FILES_MAX } from '../limits.ts'

/** The release that the tests use and that `tenrec snippet install` installs. */
export const SDK_VERSION = '1.449.2'
/** The name of the npm package, and of the folder in the data directory. */
export const SDK_NAME = 'posthog-js'
/** The license of the files. It is served beside them. */
export const SDK_LICENSE = 'LICENSE'

/** If no release is installed, the folders are read again after this time, in milliseconds. */
const LOOK_AGAIN_MS = 1000
const BROTLI_QUALITY = 9
/** Matches the names of scripts for pages. Builds for bundlers and for React are not among them. */
const SCRIPT = /^(?!main\.|module\.|rrweb|customizations|default-extensions)[a-z0-9.-]+\.js$/

const compressors = {
  br: (bytes: Buffer) =>
    promisify(brotliCompress)(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
    }),
  gzip: (bytes: Buffer) => promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
  identity: (bytes: Buffer) => Promise.resolve(bytes),
} as const

/** The encoding in which a file is sent. */
export type SdkEncoding = keyof typeof compressors

/** A file in one encoding. */
export interface SdkFile {
  readonly bytes: Uint8Array
  /** The weak ETag, in quotes. It is the same for all encodings of the file. */
  readonly etag: string
}

/** Returns true if a file in the folder `dist` of the package is a script for pages. */
export function isPageScript(name: string): boolean {
  return SCRIPT.test(name)
}

/** An installed release of posthog-js. */
export class SdkRelease {
  readonly version: string
  readonly #paths: ReadonlyMap<string, string>
  readonly #read = new Map<string, Promise<Buffer>>()
  readonly #files = new Map<string, Promise<SdkFile>>()

  constructor(version: string, paths: ReadonlyMap<string, string>) {
    this.version = version
    this.#paths = paths
  }

  /** Returns true if the release contains this file. */
  has(name: string): boolean {
    return this.#paths.has(name)
  }

  /**
   * Returns a file, or null if the name is unknown. The first call for a name and an encoding reads and compresses the
   * file in other threads. Later calls return it from memory. Rejects with the error of the file system.
   */
  async file(name: string, encoding: SdkEncoding): Promise<SdkFile | null> {
    const path = this.#paths.get(name)
    if (path === undefined) return null
    return cached(this.#files, `${encoding} ${name}`, async () => {
      const raw = await cached(this.#read, name, () => readFile(path))
      return { bytes: await compressors[encoding](raw), etag: `W/${etagOf(raw)}` }
    })
  }
}

/** Finds the installed release. */
export class SdkFiles {
  readonly #folders: readonly string[]
  #release: Promise<SdkRelease | null> | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY

  /** `folders` are the folders that may contain the package, in order of precedence; see `sdkFolders`. */
  constructor(folders: readonly string[]) {
    this.#folders = folders
  }

  /**
   * Returns the installed release, or null if there is none. A release that was found is returned again by later calls.
   * If none was found, the folders are read again after LOOK_AGAIN_MS.
   */
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

/**
 * Returns the folders in which the package may be: the one in the data directory, and then the one of the npm package
 * if it is installed.
 */
export function sdkFolders(dataDir: string): readonly string[] {
  const installed = join(dataDir, SDK_NAME)
  try {
    const manifest = createRequire(import.meta.url).resolve(`${SDK_NAME}/package.json`)
    return [installed, dirname(manifest)]
  } catch {
    return [installed]
  }
}

/**
 * Reads the file names in a folder of the package. Returns null if the folder does not contain the package or cannot be
 * read.
 */
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
    const license = join(folder, SDK_LICENSE)
    if (existsSync(license)) paths.set(SDK_LICENSE, license)
    return paths.has('array.js') ? new SdkRelease(String(manifest.version), paths) : null
  } catch {
    return null
  }
}

/**
 * Returns the cached value of a key. If there is none, it is made and cached. If making it fails, nothing is cached.
 */
function cached<T>(
  memory: Map<string, Promise<T>>,
  key: string,
  make: () => Promise<T>,
): Promise<T> {
  let value = memory.get(key)
  if (value === undefined) {
    value = make()
    value.catch(() => memory.delete(key))
    memory.set(key, value)
  }
  return value
}
