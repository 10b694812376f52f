/**
 * Serves the files of the console from `dist/console`, where the build puts them. They are read into memory at the
 * start, and served uncompressed, as brotli or as gzip. A path that only the console's own router knows leads to
 * index.html. docs/compatibility/console.md, "Files".
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { ServiceError } from '../../base/errors.ts'
import { answerUnlessCached, etagOf } from '../server/etags.ts'
import { encodingOf, prefersType, type RequestHead } from '../server/framing.ts'
import type { Answer, Header } from '../server/respond.ts'
import { CONSOLE_BYTES_MAX } from './limits.ts'

/** The folder of the build. */
const FOLDER = new URL('../../console/', import.meta.url)
const INDEX = 'index.html'
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ico': 'image/x-icon',
  '.png': 'image/png',
  '.webp': 'image/webp',
}
/** Matches a name with a hash of the content. Such a file never changes. */
const HASHED = /-[0-9A-Za-z_]{8,}\.\w+$/
const ICON = /(?:^|\/)(?:fav)?icon[^/]*\.(?:ico|svg)$/
const KEPT: Header = ['Cache-Control', 'public, max-age=31536000, immutable']
const ASKED: Header = ['Cache-Control', 'no-cache']
const VARY: Header = ['Vary', 'Accept-Encoding']
/** Restricts pages of the console to loading from and connecting to their own origin. */
const PROTECTION = protectionOf("'none'")
const ROBOTS: Answer = {
  status: 200,
  contentType: 'text/plain; charset=utf-8',
  body: 'User-agent: *\nDisallow: /\n',
}

/**
 * Returns the headers that protect a page with the console's program. The page loads files from its own origin and
 * connects to it only, and makes no markup of texts. `frames` says which pages may embed it in a frame.
 */
export function protectionOf(frames: "'none'" | '*'): readonly Header[] {
  return [
    [
      'Content-Security-Policy',
      `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors ${frames}; require-trusted-types-for 'script'`,
    ],
    ['Referrer-Policy', 'no-referrer'],
    ['Cross-Origin-Opener-Policy', 'same-origin'],
    ['Permissions-Policy', 'camera=(), geolocation=(), microphone=(), payment=(), usb=()'],
  ]
}

/** Answers a request for a page. */
export type Page = (head: RequestHead) => Answer

/** The folder of the files, and the path under which they are served. */
export interface ConsoleFilesOptions {
  /** The path, which begins and ends with a slash. */
  readonly path: string
  /** The folder of the files; default: the folder of the build. */
  readonly folder?: URL | undefined
  /** Receives a warning if the folder contains no console. A `Logger` can be used. */
  readonly log: { warn(fields: object, message: string): void }
}

interface ConsoleFile {
  /** The path relative to the folder. */
  readonly name: string
  readonly bytes: Buffer
  /** The compressed content. Absent if it is not smaller than the file. */
  readonly br?: Buffer
  readonly gzip?: Buffer
}

/** The pages outside of the routes. */
export class ConsoleFiles {
  /** The text of index.html with the paths of its files, for pages that load the console's program. Null without one. */
  readonly shell: string | null
  readonly #path: string
  readonly #pages = new Map<string, Page>()
  readonly #index: Page

  /**
   * Reads the files, which takes some milliseconds. If there are none, requests for pages get an error that says so.
   */
  constructor({ path, folder = FOLDER, log }: ConsoleFilesOptions) {
    this.#path = path
    const files = foundFiles(fileURLToPath(folder), log)
    const index = files.find(({ name, bytes }) => name === INDEX && bytes.length > 0)
    if (index === undefined) {
      log.warn({ folder: fileURLToPath(folder) }, 'This build has no console.')
    }
    for (const file of files) this.#pages.set(`${path}${file.name}`, pageOf(file))
    const page = index && placed(index, path)
    this.shell = page?.bytes.toString() ?? null
    this.#index = page === undefined ? refuseMissing : pageOf(page)
    this.#pages.set(path, this.#index).set(`${path}${INDEX}`, this.#index)
    const icon = files.find(({ name }) => ICON.test(name))
    if (icon !== undefined) this.#pages.set('/favicon.ico', pageOf(icon, ASKED))
    this.#pages.set('/robots.txt', () => ROBOTS)
    for (const alias of [path.slice(0, -1), '/console', '/console/']) {
      if (alias !== '' && !this.#pages.has(alias)) this.#pages.set(alias, () => redirect(path))
    }
  }

  /** Returns the page for GET and HEAD on a path that no route has, with this Accept header, or null. */
  find(path: string, accept: string): Page | null {
    const page = this.#pages.get(path)
    if (page !== undefined) return page
    // In a link, `//name` means another host, so no page of the console has such a path.
    const isPlace = path.startsWith(this.#path) && !path.startsWith('//')
    return isPlace && prefersType(accept, 'text/html') ? this.#index : null
  }
}

/**
 * Reads the files of a folder. If they cannot be read, it logs a warning and returns none, because ingestion must work
 * anyway.
 */
function foundFiles(folder: string, log: ConsoleFilesOptions['log']): readonly ConsoleFile[] {
  try {
    return readFiles(folder)
  } catch (err) {
    log.warn({ err, folder }, 'Could not read the console.')
    return []
  }
}

/** Reads the files of a folder with their compressed forms. Returns none if the folder is missing or too large. */
function readFiles(folder: string): readonly ConsoleFile[] {
  if (!existsSync(folder)) return []
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const read = (name: string) => (names.includes(name) ? readFileSync(join(folder, name)) : null)
  const files = names
    .filter((name) => Object.hasOwn(TYPES, extname(name)))
    .map((name): ConsoleFile => {
      const [br, gzip] = [read(`${name}.br`), read(`${name}.gz`)]
      return {
        name,
        bytes: readFileSync(join(folder, name)),
        ...(br && { br }),
        ...(gzip && { gzip }),
      }
    })
  const sizes = files.flatMap(({ bytes, br, gzip }) => [bytes, br, gzip])
  const sum = sizes.reduce((bytes, file) => bytes + (file?.length ?? 0), 0)
  return sum > CONSOLE_BYTES_MAX ? [] : files
}

/** Returns index.html with its absolute paths changed to the path under which the console is served. */
function placed(index: ConsoleFile, path: string): ConsoleFile {
  if (path === '/') return index
  const bytes = Buffer.from(index.bytes.toString().replaceAll('="/', `="${path}`))
  return { name: index.name, bytes, br: brotliCompressSync(bytes), gzip: gzipSync(bytes) }
}

function pageOf(file: ConsoleFile, kept = HASHED.test(file.name) ? KEPT : ASKED): Page {
  const etag = `W/${etagOf(file.bytes)}`
  const contentType = TYPES[extname(file.name)] ?? ''
  return (head) => {
    const encoding = encodingOf(head.acceptEncoding)
    const body = encoding === 'identity' ? undefined : file[encoding]
    const headers: readonly Header[] = [
      kept,
      VARY,
      ...PROTECTION,
      ...(body === undefined ? [] : [['Content-Encoding', encoding] as const]),
    ]
    const answer = { status: 200, contentType, body: body ?? file.bytes, headers } as const
    return answerUnlessCached(head, etag, { ...answer, isShared: true })
  }
}

function refuseMissing(): never {
  const detail =
    'This build has no console. Build it with `npm run build`, or turn the console off with `console=false`.'
  throw new ServiceError('not_found', detail)
}

function redirect(path: string): Answer {
  return { status: 302, contentType: '', body: '', headers: [['Location', path]] }
}
