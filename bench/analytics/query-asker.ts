/** Sends queries to a daemon on persistent connections. */
import { Agent, type IncomingMessage, request } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { PROJECT_ID } from './analytics-store.ts'

/** Sends queries to a daemon with its personal key. All methods throw unless the status of the answer is 200. */
export class Asker {
  readonly daemon: Daemon
  readonly #agent = new Agent({ keepAlive: true })

  constructor(daemon: Daemon) {
    this.daemon = daemon
  }

  /** Returns the text of the answer to a query. */
  ask(query: object): Promise<string> {
    return this.#send('POST', `/api/projects/${PROJECT_ID}/query/`, JSON.stringify({ query }))
  }

  get(path: string): Promise<string> {
    return this.#send('GET', path, '')
  }

  close(): void {
    this.#agent.destroy()
  }

  async #send(method: string, path: string, text: string): Promise<string> {
    const body = Buffer.from(text)
    const headers = {
      authorization: `Bearer ${PERSONAL_KEY}`,
      'content-type': 'application/json',
      'content-length': body.length,
    }
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request(`${this.daemon.url}${path}`, { agent: this.#agent, method, headers }, resolve)
        .on('error', reject)
        .end(body)
    })
    const answer = await readText(response)
    if (response.statusCode === 200) return answer
    throw new Error(`${path} answered ${response.statusCode}: ${answer.slice(0, 300)}`)
  }
}
