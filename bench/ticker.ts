/**
 * The clock of the open loop: a thread that wakes the generator at sub-millisecond intervals. Timers of the event loop
 * cannot do that, because their lateness of 1 ms and more would hide the measured values. Polling would take a core
 * that the server needs.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads'

const STEP_MS_MIN = 0.2
const STEP_MS_MAX = 1

/** Calls `onTick` several times per request interval, between 1 and 5 times a millisecond. */
export function startTicker(requestsPerSecond: number, onTick: () => void): void {
  const stepMs = Math.min(STEP_MS_MAX, Math.max(STEP_MS_MIN, 250 / requestsPerSecond))
  const url = new URL('./run.js', import.meta.url)
  const ticker = new Worker(url, { argv: ['--role', 'ticker'], workerData: stepMs })
  ticker.on('message', onTick)
}

/** The thread's side. It never returns; the end of the process ends it. */
export function serveTicker(): void {
  const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  for (;;) {
    Atomics.wait(never, 0, 0, Number(workerData))
    parentPort?.postMessage(0)
  }
}
