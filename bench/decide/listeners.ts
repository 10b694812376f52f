/**
 * Question: how soon do 10,000 clients learn of a change of a flag, and what does a client that listens cost?
 * Workload: clients with a connection each, from 100 addresses of the loopback network, listen in OpenFeature's form. A
 * flag is changed through the API, round after round. The time of a client is from sending the change to the arrival of
 * its message. In between, nothing changes for some seconds. Memory is what the daemon holds besides file pages.
 * Baseline: the daemon before the clients have come.
 * Reconsider: telling clients on the main thread, if the slowest of a hundred learns of a change after more than a
 * second, or if a client holds more than 10 KB.
 */
import { connect, type Socket } from 'node:net'
import type { Daemon } from '../daemon.ts'
import { type Bench, type BenchContext, sleep } from '../harness.ts'
import { median, Samples } from '../samples.ts'
import { changeFlag, createProject, type FlagProject, inParallel } from './decide-setup.ts'

export const LISTENERS: Bench = {
  name: 'listeners',
  group: 'flags',
  question: 'How soon do 10,000 clients learn of a change of a flag, and what does a client cost?',
  workload: '10,000 connections from 100 addresses, one change of a flag at a time',
  needsDaemon: true,
  run: measure,
}

const FLAGS = 10
const ADDRESSES = 100
const FIRST_ADDRESS = 2
const OPEN_MS_MAX = 60_000
const TOLD_MS_MAX = 30_000
const POLL_MS = 5
const SETTLE_MS = 3000
const TOLD_SECONDS_MAX = 1
const LISTENER_BYTES_MAX = 10_000
const MS = 1000

/** The clients that listen for changes of flags. */
class Listeners {
  readonly #sockets: Socket[] = []
  #opened = 0
  #told = 0
  #sinceMs = 0
  #samples = new Samples()

  get told(): number {
    return this.#told
  }

  /** Opens another connection. Resolves when the server has begun its answer. */
  open(daemon: Daemon, { apiKey }: FlagProject): Promise<void> {
    const { hostname, port } = new URL(daemon.url)
    const last = FIRST_ADDRESS + (this.#opened++ % ADDRESSES)
    const socket = connect({ host: hostname, port: Number(port), localAddress: `127.0.0.${last}` })
    this.#sockets.push(socket)
    socket.write(`GET /ofrep/v1/event_stream?token=${apiKey} HTTP/1.1\r\nHost: bench\r\n\r\n`)
    return new Promise((resolve, reject) => {
      let text = ''
      socket.on('error', reject)
      socket.on('close', () => reject(new Error(`a connection was closed after ${text}`)))
      const opening = (bytes: Buffer): void => {
        text += bytes.toString('latin1')
        if (!text.includes(': open')) return
        if (!text.startsWith('HTTP/1.1 200 ')) reject(new Error(`refused: ${text}`))
        socket.off('data', opening)
        socket.on('data', (more: Buffer) => {
          if (more.includes('refetchEvaluation')) this.#take()
        })
        resolve()
      }
      socket.on('data', opening)
    })
  }

  /** Begins a round. */
  begin(): void {
    this.#told = 0
    this.#samples = new Samples()
    this.#sinceMs = performance.now()
  }

  /** Returns the times of the round. */
  times() {
    return this.#samples.percentiles()
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #take(): void {
    this.#told++
    this.#samples.add(performance.now() - this.#sinceMs)
  }
}

async function measure(context: BenchContext): Promise<void> {
  const count = context.size(500, 10_000)
  const daemon = await context.startDaemon()
  const project = await createProject(daemon, FLAGS)
  const idle = await usageOf(context, daemon)
  const listeners = new Listeners()
  context.cleanUpWith(async () => listeners.close())
  await within(
    OPEN_MS_MAX,
    'opening',
    inParallel(count, () => listeners.open(daemon, project)),
  )
  const listening = await usageOf(context, daemon)
  const p50: number[] = []
  const p99: number[] = []
  const slowest: number[] = []
  for (let round = 0; round < context.rounds(15, 3); round++) {
    listeners.begin()
    await changeFlag(daemon, project, 0, { active: round % 2 === 1 })
    const deadlineMs = performance.now() + TOLD_MS_MAX
    while (listeners.told < count) {
      if (performance.now() > deadlineMs) {
        throw new Error(`only ${listeners.told} of ${count} clients were told`)
      }
      await sleep(POLL_MS)
    }
    const times = listeners.times()
    p50.push(times.p50)
    p99.push(times.p99)
    slowest.push(times.max)
  }
  const after = daemon.memory().anonymousBytes
  context.report({
    figure: `a change reaches ${count} clients, p99`,
    value: median(p99) / MS,
    unit: 's',
    target: { of: 'value', bound: 'at most', limit: TOLD_SECONDS_MAX },
    note: `median of ${p99.length} changes, from sending the change; p50 ${seconds(median(p50))} s, slowest client of all ${seconds(Math.max(...slowest))} s`,
  })
  context.report({
    figure: 'memory of a client that listens',
    value: (listening.bytes - idle.bytes) / count,
    unit: 'bytes',
    target: { of: 'value', bound: 'at most', limit: LISTENER_BYTES_MAX },
    note: `${count} clients; after ${p99.length} changes ${Math.round((after - idle.bytes) / count)} bytes`,
  })
  context.report({
    figure: `processor time beside ${count} quiet clients`,
    value: listening.cpuMsPerSecond,
    unit: 'ms per second',
    baseline: idle.cpuMsPerSecond,
    note: 'all threads of the daemon; clients are pinged; baseline: no client',
  })
}

/** The processor time and memory that the daemon uses while nothing happens. */
interface Usage {
  readonly bytes: number
  readonly cpuMsPerSecond: number
}

async function usageOf(context: BenchContext, daemon: Daemon): Promise<Usage> {
  await sleep(SETTLE_MS)
  const lengthMs = context.size(2000, 30_000)
  const before = daemon.cpuSeconds()
  await sleep(lengthMs)
  const cpuMsPerSecond = ((daemon.cpuSeconds() - before) * MS * MS) / lengthMs
  return { bytes: daemon.memory().anonymousBytes, cpuMsPerSecond }
}

async function within<T>(limitMs: number, what: string, action: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${limitMs} ms`)), limitMs)
  })
  try {
    return await Promise.race([action, late])
  } finally {
    clearTimeout(timer)
  }
}

function seconds(milliseconds: number): string {
  return (milliseconds / MS).toFixed(3)
}
