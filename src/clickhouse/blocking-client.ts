/**
 * Synchronous access to ClickHouse, for threads that read the store synchronously. Another thread sends the statement,
 * and the calling thread is blocked until the answer has arrived.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { refusal } from '../base/refusals.ts'
import { QUERY_MS_MAX } from './limits.ts'

const DOOR_THREAD = new URL('./query-thread.js', import.meta.url)
/**
 * The longest time for which the calling thread is blocked. It is longer than the time for which the query thread waits
 * for ClickHouse, so normally the query thread gives up first and reports why.
 */
const GIVE_UP_MS = 2 * QUERY_MS_MAX + 5000

/** The data that the query thread receives when it starts. */
export interface QueryThreadData {
  readonly address: string
  readonly port: MessagePort
  readonly flag: Int32Array
}

/** The answer of the query thread. If there is none, `bytes` is null and `trouble` says why. */
export interface QueryThreadAnswer {
  readonly bytes: ArrayBuffer | null
  readonly trouble: string
}

/** Sends statements to ClickHouse and blocks the calling thread until they are answered. */
export class BlockingClient {
  readonly #address: string
  readonly #flag = new Int32Array(new SharedArrayBuffer(4))
  #open: { readonly thread: Worker; readonly port: MessagePort } | null = null

  constructor(address: string) {
    this.#address = address
  }

  /** Returns the whole answer to a statement. Throws `ServiceError` with 503 if ClickHouse does not answer. */
  ask(sql: string): Buffer {
    const { thread, port } = this.#opened()
    Atomics.store(this.#flag, 0, 0)
    port.postMessage(sql)
    if (Atomics.wait(this.#flag, 0, 0, GIVE_UP_MS) === 'timed-out') {
      this.#open = null
      // Terminating the query thread is safe at any moment, because it has no store open.
      void thread.terminate()
      throw refusal('warehouse_away')
    }
    const given = receiveMessageOnPort(port) as { readonly message: QueryThreadAnswer } | undefined
    const { bytes = null, trouble = '' } = given?.message ?? {}
    if (bytes === null) throw refusal('warehouse_away', { cause: new Error(trouble) })
    return Buffer.from(bytes)
  }

  #opened() {
    if (this.#open === null) {
      const { port1, port2 } = new MessageChannel()
      const workerData: QueryThreadData = { address: this.#address, port: port2, flag: this.#flag }
      const thread = new Worker(DOOR_THREAD, { workerData, transferList: [port2] })
      thread.unref()
      port1.unref()
      this.#open = { thread, port: port1 }
    }
    return this.#open
  }
}
