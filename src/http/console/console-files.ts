/**
 * Serves the files of the console from `dist/console`, the folder that the build writes. They are read into memory at
 * the start, and served uncompressed, as brotli or as gzip. If a path has no file, but may be a page that the console
 * shows with its own router, it is answered with index.html. docs/compatibility/console.md, "Files".
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

/** The folder that the build writes. */
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
/** Matches a file name that contains a hash of the content. The content of such a file never changes. */
const HASHED = /-[0-9A-Za-z_]{8,}\.\w+$/
const ICON = /(?:^|\/)(?:fav)?icon[^/]*\.(?:ico|svg)$/
const KEPT: Header = ['Cache-Control', 'public, max-age=31536000, immutable']
const ASKED: Header = ['Cache-Control', 'no-cache']
const VARY: Header = ['Vary', 'Accept-Encoding']
/** Headers that let pages of the console load files only from their own origin, and connect only to it. */
const PROTECTION = protectionOf("'none'")
const ROBOTS: Answer = {
  status: 200,
  contentType: 'text/plain; charset=utf-8',
  body: 'User-agent: *\nDisallow: /\n',
}

/**
 * Returns the headers that protect a page with the console's program. Such a page loads files only from its own origin,
 * connects only to it, and does not convert texts to markup. `frames` says which other pages may embed it in a frame.
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

/** Returns the answer to a request for a page. */
export type Page = (head: RequestHead) => Answer

/** The location of the console's files, and the path under which they are served. */
export interface ConsoleFilesOptions {
  /** The path under which the files are served. It begins and ends with a slash. */
  readonly path: string
  /** The folder that contains the files. The default is the folder that the build writes. */
  readonly folder?: URL | undefined
  /** Logs a warning if the folder contains no console. A `Logger` can be passed. */
  readonly log: { warn(fields: object, message: string): void }
}

interface ConsoleFile {
  /** The path of the file, relative to the folder. */
  readonly name: string
  readonly bytes: Buffer
  /** The compressed content. Absent if it is not smaller than the content itself. */
  readonly br?: Buffer
  readonly gzip?: Buffer
}

/** The pages and files that are served although no route has their path. */
export class ConsoleFiles {
  /**
   * The text of index.html with the final paths of its files, for other pages that load the console's program. Null if
   * the build has no console.
   */
  readonly shell: string | null
  readonly #path: string
  readonly #pages = new Map<string, Page>()
  readonly #index: Page

  /**
   * Reads the files, which takes some milliseconds. If there are none, requests for pages are answered with an error
   * that says so.
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

  /**
   * Returns the page for a GET or HEAD request to a path that no route has, or null. `accept` is the header of the
   * request.
   */
  find(path: string, accept: string): Page | null {
    const page = this.#pages.get(path)
    if (page !== undefined) return page
    // Browsers follow a link to `//name` to another host, so no page of the console has a path that begins like that.
    const isPlace = path.startsWith(this.#path) && !path.startsWith('//')
    return isPlace && prefersType(accept, 'text/html') ? this.#index : null
  }
}

/**
 * Reads the files of a folder. If they cannot be read, it logs a warning and returns an empty list, because the daemon
 * must accept events even without a console.
 */
function foundFiles(folder: string, log: ConsoleFilesOptions['log']): readonly ConsoleFile[] {
  try {
    return readFiles(folder)
  } catch (err) {
    log.warn({ err, folder }, 'Could not read the console.')
    return []
  }
}

/**
 * Reads the files of a folder and their compressed copies. Returns an empty list if the folder is missing or its files
 * are too large.
 */
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

/** Returns index.html with the path of the console added at the front of all absolute paths. */
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
