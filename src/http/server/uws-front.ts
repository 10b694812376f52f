/**
 * Implements the interface of `front.ts` with uWebSockets.js. Only this file loads the library. The library is a native
 * addon that does not exist for every version of Node and every C library. If it cannot be loaded, `node-front.ts` is
 * used instead.
 */
import './header-limit.ts'
import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type Front, type FrontConnection, type FrontHandler, listenProblem } from './front.ts'

const PACKAGE = 'uWebSockets.js'
/** The value of LIBUS_LISTEN_EXCLUSIVE_PORT. Some packages of the library do not export the constant. */
const EXCLUSIVE_PORT = 1
const require = createRequire(import.meta.url)

/**
 * The part of the library that is used here. The library's own declarations lack some of it, and some versions have no
 * `_cfg`.
 */
interface Library {
  App(): TemplatedApp & ExclusiveListener
  /**
   * The option with which listening fails if the port is in use. Without it, a second listener on the same port starts
   * without an error.
   */
  readonly LIBUS_LISTEN_EXCLUSIVE_PORT?: number
  us_listen_socket_close(socket: us_listen_socket): void
  us_socket_local_port(socket: us_listen_socket): number
  /** Changes a setting of the whole process. With `silent`, answers do not contain the header `uWebSockets`. */
  readonly _cfg?: (setting: 'silent') => void
}

interface ExclusiveListener {
  listen(
    host: string,
    port: number,
    options: number,
    callback: (socket: us_listen_socket | false) => void,
  ): unknown
}

let loaded: Library | string | undefined

/** Returns the library, or a sentence that says why it cannot be loaded. Loading is attempted once in a process. */
function load(): Library | string {
  loaded ??= tryToLoad()
  return loaded
}

function tryToLoad(): Library | string {
  try {
    const library = require(fileOfPackage()) as Library & { readonly default?: Library }
    const uws = typeof library.App === 'function' ? library : library.default
    if (uws === undefined || typeof uws.App !== 'function') return 'it does not export `App`'
    uws._cfg?.('silent')
    return uws
  } catch (error) {
    return reasonOf(error)
  }
}

/**
 * Returns the path of the package's main file. If the package declares a file only for `import`, the path is taken from
 * its `package.json`. If there is no such path, the name of the package is returned. `import` itself cannot be used
 * here, because the caller must know synchronously whether the library can be loaded.
 */
function fileOfPackage(): string {
  try {
    return require.resolve(PACKAGE)
  } catch (error) {
    if (!isCode(error, 'ERR_PACKAGE_PATH_NOT_EXPORTED')) throw error
  }
  for (const folder of require.resolve.paths(PACKAGE) ?? []) {
    const text = readOrNull(join(folder, PACKAGE, 'package.json'))
    if (text === null) continue
    const { exports } = JSON.parse(text) as { exports?: { import?: unknown } }
    if (typeof exports?.import === 'string') return join(folder, PACKAGE, exports.import)
  }
  return PACKAGE
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/**
 * Returns the cause of an error in one line. The package throws a message with several lines. The last line that begins
 * with `Error: ` contains the cause.
 */
function reasonOf(error: unknown): string {
  const { platform, arch, versions } = process
  const message = error instanceof Error ? error.message : String(error)
  if (/Cannot find module '[^']*\.node'/.test(message)) {
    return `it has no binary for Node ${versions.node} on ${platform} ${arch}`
  }
  if (message.includes(`Cannot find module '${PACKAGE}'`)) return 'it is not installed'
  const lines = message.split('\n').filter((line) => line.trim() !== '')
  return (lines.findLast((line) => line.startsWith('Error: ')) ?? lines[0] ?? message)
    .replace(/^Error: /, '')
    .trim()
}

/** Loads uWebSockets.js. Returns the reason why it cannot be used in this process, or null if it can. */
export function uwsObstacle(): string | null {
  const library = load()
  return typeof library === 'string' ? library : null
}

/** A server that uses uWebSockets.js. */
export class UwsFront implements Front {
  readonly name = 'uws'
  readonly #library: Library
  readonly #app: TemplatedApp & ExclusiveListener
  #listenSocket: us_listen_socket | null = null

  /** Throws if the library cannot be loaded. See `uwsObstacle`. */
  constructor() {
    const library = load()
    if (typeof library === 'string') throw new Error(`uWebSockets.js cannot be loaded: ${library}`)
    this.#library = library
    this.#app = library.App()
  }

  any(path: string, handler: FrontHandler): void {
    this.#app.any(path, handler)
  }

  /**
   * Does nothing. The library answers requests that are not valid HTTP itself, with 400, 431 or 505, or closes the
   * connection.
   */
  faulty(): void {}

  filter(look: (connection: FrontConnection, change: number) => void): void {
    this.#app.filter(look)
  }

  async listen(host: string, port: number): Promise<number | string> {
    const { LIBUS_LISTEN_EXCLUSIVE_PORT: exclusive = EXCLUSIVE_PORT } = this.#library
    const { us_socket_local_port: portOf } = this.#library
    const socket = await new Promise<us_listen_socket | false>((resolve) => {
      this.#app.listen(host, port, exclusive, resolve)
    })
    if (socket === false) return listenFailure(host, port)
    this.#listenSocket = socket
    return portOf(socket)
  }

  stopListening(): void {
    if (this.#listenSocket !== null) this.#library.us_listen_socket_close(this.#listenSocket)
    this.#listenSocket = null
  }

  close(): void {
    this.#app.close()
  }
}

/**
 * Returns why listening failed. The library does not report the reason, so this function tries the same with node:net.
 */
function listenFailure(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', (error) => resolve(listenProblem(error)))
    probe.listen({ host, port, exclusive: true }, () => {
      probe.close(() => resolve('address in use a moment ago, try again'))
    })
  })
}
