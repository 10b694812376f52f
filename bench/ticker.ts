/**
 * The clock of the open loop: a thread that wakes the generator at intervals of less than a millisecond. Timers of the
 * event loop fire 1 ms or more too late, which would hide the measured values. Polling in the generator would take a
 * core that the server needs.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads'

const STEP_MS_MIN = 0.2
const STEP_MS_MAX = 1

/** Calls `onTick` several times for each request that is due, but at least 1 and at most 5 times a millisecond. */
export function startTicker(requestsPerSecond: number, onTick: () => void): void {
  const stepMs = Math.min(STEP_MS_MAX, Math.max(STEP_MS_MIN, 250 / requestsPerSecond))
  const url = new URL('./run.js', import.meta.url)
  const ticker = new Worker(url, { argv: ['--role', 'ticker'], workerData: stepMs })
  ticker.on('message', onTick)
}

/** Runs in the thread of the clock. It never returns, and ends with the process. */
export function serveTicker(): void {
  const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  for (;;) {
    Atomics.wait(never, 0, 0, Number(workerData))
    parentPort?.postMessage(0)
  }
}
