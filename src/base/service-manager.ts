/**
 * Reports the state of the daemon to the service manager by the sd_notify protocol: each message is one datagram of
 * `NAME=value` lines (sd_notify(3)). Node has no Unix datagram sockets, so a message is sent with the optional package
 * `unix-dgram`. If that package is not installed or does not reach the socket, the message is sent with the program
 * `systemd-notify`, which takes about 15 ms and needs NotifyAccess=all in the unit. Without a service manager, nothing
 * is sent. Only this file imports unix-dgram.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { OperatorError } from './errors.ts'
import { loadPackage } from './load-package.ts'
import type { Logger } from './log.ts'

/** The environment variables that a service manager sets, as in `process.env`. */
export type ServiceEnvironment = Readonly<Record<string, string | undefined>>

/** Sends a message to the service manager. */
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

/** The longest path that fits into a socket address: 108 bytes, of which the last one is zero (unix(7)). */
const SOCKET_PATH_BYTES_MAX = 107

/**
 * Creates the connection to the service manager named by `environment.NOTIFY_SOCKET`.
 *
 * Throws an OperatorError if the service manager has set a watchdog but the daemon cannot send to it. Otherwise the
 * service manager would kill the daemon again and again without a reason in its log.
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
  /** True if the process was started by a service manager that receives messages. */
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
    // A line break in the message would start another `NAME=value` line.
    this.#send(`STATUS=${text.replace(/[\r\n]+/g, ' ')}`)
  }

  /** Reports that the daemon has begun to stop. */
  stopping(): void {
    this.#send('STOPPING=1')
  }

  /** Asks the service manager for `durationMs` more, from now on, before it considers a start or a stop as hung. */
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

/**
 * Returns the period of the watchdog in milliseconds. Returns null if there is no watchdog or if it is meant for
 * another process.
 */
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

/**
 * Loads `unix-dgram`. It is an optional package that is compiled during installation, so a machine without a compiler
 * does not have it.
 */
function loadDatagramModule(): DatagramModule | null {
  try {
    return loadPackage('unix-dgram') as DatagramModule
  } catch {
    return null
  }
}

/**
 * Opens a socket, sends one message and closes the socket again. Messages are rare, and an open socket would keep the
 * process from ending. Sending never blocks. A full queue of the receiver is an error like any other.
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

/**
 * Sends messages with the program `systemd-notify`. It also reaches abstract sockets (`@name`), which unix-dgram does
 * not.
 */
function sendByProgram(
  address: string,
  environment: ServiceEnvironment,
  onError: (error: Error) => void,
): Send {
  const env = { PATH: environment['PATH'], NOTIFY_SOCKET: address }
  // Each message waits for the previous one. Otherwise READY=1 could arrive after a later message.
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
