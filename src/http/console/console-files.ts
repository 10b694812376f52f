/**
 * The files of the console, as the build leaves them in `dist/console`: read into memory at the start, served
 * as they are, as brotli or as gzip. A path of a page that only the browser knows leads to index.html.
 * docs/compatibility/console.md, "Files".
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { ServiceError } from '../../base/errors.ts'
import { etagOf, unlessKept } from '../server/etags.ts'
import { encodingOf, prefersType, type RequestHead } from '../server/framing.ts'
import type { Answer, Header } from '../server/respond.ts'
import { CONSOLE_BYTES_MAX } from './limits.ts'

/** Where the build puts them. */
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
/** A name with a hash of the content, which therefore never changes. */
const HASHED = /-[0-9A-Za-z_]{8,}\.\w+$/
const ICON = /(?:^|\/)(?:fav)?icon[^/]*\.(?:ico|svg)$/
const KEPT: Header = ['Cache-Control', 'public, max-age=31536000, immutable']
const ASKED: Header = ['Cache-Control', 'no-cache']
const VARY: Header = ['Vary', 'Accept-Encoding']
/** What pages of the console may do: load and ask their own origin, and nothing else. */
const PROTECTION: readonly Header[] = [
  [
    'Content-Security-Policy',
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  ],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Permissions-Policy', 'camera=(), geolocation=(), microphone=(), payment=(), usb=()'],
]
const ROBOTS: Answer = {
  status: 200,
  contentType: 'text/plain; charset=utf-8',
  body: 'User-agent: *\nDisallow: /\n',
}

/** Answers a request for a page. */
export type Page = (head: RequestHead) => Answer

/** Where the files are, and under which path they are served. */
export interface ConsoleFilesOptions {
  /** Begins and ends with a slash. */
  readonly path: string
  /** Default: that of the build. */
  readonly folder?: URL | undefined
  /** Told when there is no console in the folder; a `Logger` will do. */
  readonly log: { warn(fields: object, message: string): void }
}

interface ConsoleFile {
  /** Path below the folder. */
  readonly name: string
  readonly bytes: Buffer
  /** Absent: it is not smaller than as it is. */
  readonly br?: Buffer
  readonly gzip?: Buffer
}

/** What is served outside of the routes. */
export class ConsoleFiles {
  readonly #path: string
  readonly #pages = new Map<string, Page>()
  readonly #index: Page

  /** Reads the files: some milliseconds. Without any, the paths of pages say so. */
  constructor({ path, folder = FOLDER, log }: ConsoleFilesOptions) {
    this.#path = path
    const files = foundFiles(fileURLToPath(folder), log)
    const index = files.find(({ name, bytes }) => name === INDEX && bytes.length > 0)
    if (index === undefined) {
      log.warn({ folder: fileURLToPath(folder) }, 'there is no console in this build')
    }
    for (const file of files) this.#pages.set(`${path}${file.name}`, pageOf(file))
    this.#index = index === undefined ? refuseMissing : pageOf(placed(index, path))
    this.#pages.set(path, this.#index).set(`${path}${INDEX}`, this.#index)
    const icon = files.find(({ name }) => ICON.test(name))
    if (icon !== undefined) this.#pages.set('/favicon.ico', pageOf(icon, ASKED))
    this.#pages.set('/robots.txt', () => ROBOTS)
    for (const alias of [path.slice(0, -1), '/console', '/console/']) {
      if (alias !== '' && !this.#pages.has(alias)) this.#pages.set(alias, () => redirect(path))
    }
  }

  /** Who answers GET and HEAD of a path that no route has, with that header Accept; null: nobody. */
  find(path: string, accept: string): Page | null {
    const page = this.#pages.get(path)
    if (page !== undefined) return page
    // In a link `//name` is another host: no page of ours has such an address.
    const isPlace = path.startsWith(this.#path) && !path.startsWith('//')
    return isPlace && prefersType(accept, 'text/html') ? this.#index : null
  }
}

/** The same; none, with a word of warning, when they cannot be read: events come in all the same. */
function foundFiles(folder: string, log: ConsoleFilesOptions['log']): readonly ConsoleFile[] {
  try {
    return readFiles(folder)
  } catch (err) {
    log.warn({ err, folder }, 'the console cannot be read')
    return []
  }
}

/** The files of a folder with what they are when compressed; none when it is not there, or is too large. */
function readFiles(folder: string): readonly ConsoleFile[] {
  if (!existsSync(folder)) return []
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const read = (name: string) => (names.includes(name) ? readFileSync(join(folder, name)) : null)
  const files = names
    .filter((name) => Object.hasOwn(TYPES, extname(name)))
    .map((name): ConsoleFile => {
      const [br, gzip] = [read(`${name}.br`), read(`${name}.gz`)]
      return {
        ...{ name, bytes: readFileSync(join(folder, name)) },
        ...(br && { br }),
        ...(gzip && { gzip }),
      }
    })
  const sizes = files.flatMap(({ bytes, br, gzip }) => [bytes, br, gzip])
  const sum = sizes.reduce((bytes, file) => bytes + (file?.length ?? 0), 0)
  return sum > CONSOLE_BYTES_MAX ? [] : files
}

/** index.html, which names other files from the root on, for the path under which they are. */
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
      ...[kept, VARY, ...PROTECTION],
      ...(body === undefined ? [] : [['Content-Encoding', encoding] as const]),
    ]
    const answer = { status: 200, contentType, body: body ?? file.bytes, headers } as const
    return unlessKept(head, etag, { ...answer, isShared: true })
  }
}

function refuseMissing(): never {
  const detail =
    "this build has no console: 'npm run build' makes it, and the setting console=false turns it off"
  throw new ServiceError('not_found', detail)
}

function redirect(path: string): Answer {
  return { status: 302, contentType: '', body: '', headers: [['Location', path]] }
}
