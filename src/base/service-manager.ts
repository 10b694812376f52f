/**
 * Reports the state of the daemon to the service manager by the sd_notify protocol: each message is one datagram of
 * `NAME=value` lines (sd_notify(3)). Node has no Unix datagram sockets, so a message goes through the optional package
 * `unix-dgram`. If that package is not installed or does not reach the socket, it goes through the program
 * `systemd-notify` (about 15 ms, and the unit needs NotifyAccess=all). Without a service manager, nothing is sent. Only
 * this file imports unix-dgram.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { OperatorError } from './errors.ts'
import { loadPackage } from './load-package.ts'
import type { Logger } from './log.ts'

/** The environment that a service manager sets, as in `process.env`. */
export type ServiceEnvironment = Readonly<Record<string, string | undefined>>

/** Sends a message. */
type Send = (message: string) => void

interface DatagramSocket {
  send(
    data: Buffer,
    offset: number,
    length: number,
    path: string,
    callback: (error?: Error) => void,
  ): void
  close(): void
}

interface DatagramModule {
  createSocket(type: 'unix_dgram'): DatagramSocket
}

const NOTIFY_PROGRAM = 'systemd-notify'
const NOTIFY_PROGRAM_TIMEOUT_MS = 5000

/** The longest path that fits into a socket address (unix(7): 108 bytes with the final zero). */
const SOCKET_PATH_BYTES_MAX = 107

/**
 * Creates the connection to the service manager named by `environment.NOTIFY_SOCKET`.
 *
 * Throws an OperatorError if a watchdog is set but cannot be answered. Otherwise the service manager would kill the
 * daemon again and again without a reason in its log.
 */
export function createServiceManager(options: {
  environment: ServiceEnvironment
  log: Logger
}): ServiceManager {
  const { environment, log } = options
  const address = environment['NOTIFY_SOCKET'] ?? ''
  if (address === '') return new ServiceManager(() => {}, null, log, false)
  const watchdogMs = parseWatchdogMs(environment)
  const send = chooseTransport(address, environment, log)
  if (send === null) {
    const reason = 'neither the package `unix-dgram` nor the program `systemd-notify` can be used'
    if (watchdogMs !== null) {
      throw new OperatorError(
        `The service manager expects keep-alive messages (WATCHDOG_USEC), but ${reason}. ` +
          'Install `systemd-notify`, or remove WatchdogSec= from the unit.',
      )
    }
    log.warn(
      `NOTIFY_SOCKET is set, but ${reason}, so the service manager is not told when the service is ready.`,
    )
  }
  return new ServiceManager(send ?? (() => {}), watchdogMs, log, send !== null)
}

/** The connection of one daemon to its service manager. No method throws or waits. */
export class ServiceManager {
  /** True if a service manager listens. */
  readonly isManaged: boolean
  /** The milliseconds within which the watchdog expects a sign of life, or null without a watchdog. */
  readonly watchdogMs: number | null
  readonly #send: Send
  readonly #log: Logger
  #timer: NodeJS.Timeout | undefined
  #wasAlive = true

  constructor(send: Send, watchdogMs: number | null, log: Logger, isManaged: boolean) {
    this.#send = send
    this.#log = log
    this.watchdogMs = watchdogMs
    this.isManaged = isManaged
  }

  /** Reports that the start is complete and requests are answered. */
  ready(): void {
    this.#send('READY=1')
  }

  /** Sends one line of text, which `systemctl status` shows. Line breaks become spaces. */
  status(text: string): void {
    // A line break would start another assignment.
    this.#send(`STATUS=${text.replace(/[\r\n]+/g, ' ')}`)
  }

  /** Reports that the daemon has begun to shut down. */
  stopping(): void {
    this.#send('STOPPING=1')
  }

  /** Asks for `durationMs` more, from now, before a start or a stop counts as hung. */
  extendTimeout(durationMs: number): void {
    this.#send(`EXTEND_TIMEOUT_USEC=${Math.ceil(durationMs * 1000)}`)
  }

  /**
   * Sends a sign of life every half watchdog period while `isAlive()` is true. When it is false, the service manager
   * kills and restarts the daemon. Does nothing without a watchdog.
   */
  startWatchdog(isAlive: () => boolean): void {
    if (this.watchdogMs === null) return
    clearInterval(this.#timer)
    this.#timer = setInterval(() => this.#feedWatchdog(isAlive()), this.watchdogMs / 2)
    this.#timer.unref()
    this.#feedWatchdog(isAlive())
  }

  /** Stops the timer of the watchdog. */
  close(): void {
    clearInterval(this.#timer)
  }

  #feedWatchdog(isAlive: boolean): void {
    if (isAlive) this.#send('WATCHDOG=1')
    else if (this.#wasAlive)
      this.#log.error(
        'The server makes no progress, so the watchdog gets no more keep-alive messages.',
      )
    this.#wasAlive = isAlive
  }
}

/** Returns the watchdog period, or null if there is none or if it is meant for another process. */
function parseWatchdogMs(environment: ServiceEnvironment): number | null {
  const owner = environment['WATCHDOG_PID'] ?? ''
  if (owner !== '' && owner !== String(process.pid)) return null
  const periodMs = Number(environment['WATCHDOG_USEC'] ?? '') / 1000
  return Number.isFinite(periodMs) && periodMs > 0 ? periodMs : null
}

function chooseTransport(
  address: string,
  environment: ServiceEnvironment,
  log: Logger,
): Send | null {
  const report = (error: Error) => log.warn({ err: error }, 'Could not notify the service manager.')
  const program = hasNotifyProgram(environment) ? sendByProgram(address, environment, report) : null
  const isPath = address.startsWith('/') && Buffer.byteLength(address) <= SOCKET_PATH_BYTES_MAX
  const datagram = isPath ? loadDatagramModule() : null
  if (datagram === null) return program
  return (message) => {
    sendDatagram(datagram, address, message, (error) => {
      if (program === null) report(error)
      else program(message)
    })
  }
}

/** Loads the package, which is optional and compiled at installation: it is absent on machines without a compiler. */
function loadDatagramModule(): DatagramModule | null {
  try {
    return loadPackage('unix-dgram') as DatagramModule
  } catch {
    return null
  }
}

/**
 * Opens a socket for each message. Messages are few, and an open socket would keep the process from ending. Sending
 * never blocks; a full queue at the other end is an error like any other.
 */
function sendDatagram(
  datagram: DatagramModule,
  path: string,
  message: string,
  onError: (error: Error) => void,
): void {
  const data = Buffer.from(message)
  let socket: DatagramSocket | null = null
  try {
    socket = datagram.createSocket('unix_dgram')
    socket.send(data, 0, data.length, path, (error) => {
      if (error !== undefined) onError(error)
    })
  } catch (error) {
    onError(error instanceof Error ? error : new Error(String(error)))
  } finally {
    socket?.close()
  }
}

function hasNotifyProgram(environment: ServiceEnvironment): boolean {
  const folders = (environment['PATH'] ?? '').split(delimiter)
  return folders.some((folder) => folder !== '' && existsSync(join(folder, NOTIFY_PROGRAM)))
}

/** Sends through the program, which also reaches abstract sockets (`@name`); unix-dgram does not. */
function sendByProgram(
  address: string,
  environment: ServiceEnvironment,
  onError: (error: Error) => void,
): Send {
  const env = { PATH: environment['PATH'], NOTIFY_SOCKET: address }
  // Messages are sent one after the other, so that READY=1 keeps its place in the order.
  let last = Promise.resolve()
  return (message) => {
    last = last.then(
      () =>
        new Promise((resolve) => {
          const options = { env, timeout: NOTIFY_PROGRAM_TIMEOUT_MS }
          execFile(NOTIFY_PROGRAM, [message], options, (error) => {
            if (error !== null) onError(error)
            resolve()
          })
        }),
    )
  }
}
