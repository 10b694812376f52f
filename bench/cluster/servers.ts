/** The programs of other projects in a cluster: NATS servers and ClickHouse. They can be killed and restarted. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Place } from './network.ts'

const PASSWORD = 'bench'
/** The beginning of a command whose program ends with this process, however this process ends. */
const WITH_THIS = ['setpriv', '--pdeathsig', 'KILL']
/**
 * The three brokers share two cores with all other processes. With several threads each, they would wait longer for
 * each other.
 */
const ONE_THREAD = ['env', 'GOMAXPROCS=1']

/** A program that can be killed, paused and restarted. */
class Server {
  readonly #words: readonly string[]
  #child: ChildProcess | null = null

  constructor(words: readonly string[]) {
    this.#words = words
  }

  get isRunning(): boolean {
    return this.#child !== null
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  begin(): void {
    if (this.#child !== null) return
    const [command = '', ...words] = this.#words
    this.#child = spawn(command, words, { stdio: 'ignore' })
  }

  /** Sends SIGKILL and waits until the process has ended. */
  async kill(): Promise<void> {
    const child = this.#child
    if (child === null) return
    this.#child = null
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  pause(isPaused: boolean): void {
    this.#child?.kill(isPaused ? 'SIGSTOP' : 'SIGCONT')
  }
}

const MONITOR_MS_MAX = 2000

/** The state of a stream in one broker. */
export interface KeptStream {
  readonly created: string
  /** The newest sequence number. 0 means that the stream is empty. */
  readonly last: number
}

interface ServerReport {
  readonly account_details?: readonly {
    readonly stream_detail?: readonly {
      readonly name: string
      readonly created: string
      readonly state: { readonly last_seq: number }
    }[]
  }[]
}

/** The NATS server of one machine. */
export class Broker extends Server {
  readonly name: string
  readonly #store: string
  readonly #monitor: string

  constructor(folder: string, places: readonly Place[], index: number) {
    const place = places[index]
    if (place === undefined) throw new RangeError('no such machine')
    const { launcher, innerHost: host, brokerPort, routePort, monitorPort } = place
    const store = join(folder, `broker-${index}`)
    const routes = places.map((other) => `nats://${other.innerHost}:${other.routePort}`).join(', ')
    const path = join(folder, `broker-${index}.conf`)
    const name = `broker-${index}`
    const configuration = `
      server_name: ${name}
      listen: ${host}:${brokerPort}
      http: ${host}:${monitorPort}
      max_payload: 33554432
      jetstream { store_dir: "${store}" }
      cluster { name: bench, listen: ${host}:${routePort}, routes: [${routes}] }`
    writeFileSync(path, configuration)
    super([...launcher, ...WITH_THIS, ...ONE_THREAD, 'nats-server', '-c', path])
    this.name = name
    this.#store = store
    this.#monitor = `http://${host}:${monitorPort}`
    mkdirSync(store, { recursive: true })
  }

  /**
   * Returns the state of each stream, by its name, as this broker reports it. If the broker does not answer, or knows
   * that it lacks data, returns the reason as text.
   */
  async streams(): Promise<ReadonlyMap<string, KeptStream> | string> {
    const signal = AbortSignal.timeout(MONITOR_MS_MAX)
    try {
      const health = await fetch(`${this.#monitor}/healthz`, { signal })
      if (!health.ok) return await health.text()
      const answer = await fetch(`${this.#monitor}/jsz?streams=1`, { signal })
      // The members are those of the report of the NATS server.
      const { account_details = [] } = (await answer.json()) as ServerReport
      const streams = account_details.flatMap(({ stream_detail = [] }) => stream_detail)
      return new Map(
        streams.map(({ name, created, state }) => [name, { created, last: state.last_seq }]),
      )
    } catch (cause) {
      return String(cause)
    }
  }

  /** Deletes all data of the server, which must not be running. */
  wipe(): void {
    rmSync(this.#store, { recursive: true })
    mkdirSync(this.#store)
  }
}

/** The ClickHouse server, which runs outside of all machines. */
export class ClickHouse extends Server {
  readonly #port: number

  constructor(folder: string, port: number, tcpPort: number) {
    const path = join(folder, 'clickhouse')
    mkdirSync(path)
    const user = `<tenrec><password>${PASSWORD}</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></tenrec>`
    const users = `<yandex><profiles><default/></profiles><quotas><default/></quotas><users>${user}</users></yandex>`
    const configuration = `<yandex>
      <logger><level>none</level></logger>
      <http_port>${port}</http_port><tcp_port>${tcpPort}</tcp_port><listen_host>0.0.0.0</listen_host>
      <path>${path}/data/</path><tmp_path>${path}/temporary/</tmp_path>
      <user_files_path>${path}/files/</user_files_path>
      <format_schema_path>${path}/schemas/</format_schema_path>
      <users_config>users.xml</users_config>
      <default_profile>default</default_profile><default_database>default</default_database>
      <mark_cache_size>67108864</mark_cache_size><keep_alive_timeout>3</keep_alive_timeout>
    </yandex>`
    writeFileSync(join(path, 'config.xml'), configuration)
    writeFileSync(join(path, 'users.xml'), users)
    super([...WITH_THIS, 'clickhouse-server', `--config-file=${join(path, 'config.xml')}`])
    this.#port = port
  }

  /** Returns the value of the setting `warehouse` for a machine that reaches this process at the address `host`. */
  address(host: string): string {
    return `http://tenrec:${PASSWORD}@${host}:${this.#port}/events`
  }

  /** Returns the answer to a statement, or null while the server does not answer. */
  async ask(sql: string): Promise<string | null> {
    const headers = { 'X-ClickHouse-User': 'tenrec', 'X-ClickHouse-Key': PASSWORD }
    const request = { method: 'POST', body: sql, headers }
    try {
      const answer = await fetch(`http://127.0.0.1:${this.#port}/`, request)
      const text = await answer.text()
      return answer.ok ? text : null
    } catch {
      return null
    }
  }
}
