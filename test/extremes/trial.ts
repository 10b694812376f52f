/**
 * One trial: a daemon on an empty store, three ordinary clients, an attack, and their results. At the end
 * the daemon is killed and started again on the same store.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Client, pause, type Reply, type SendResult } from './client.ts'
import { OrdinaryClients, type Waits } from './ordinary-clients.ts'
import { type Machine, type Peaks, Place, StartFailure, WatchedDaemon } from './watched-daemon.ts'

const ATTACKER = '127.0.0.2'
/** The address of the events that show whether processing continues. */
const MARKER_ADDRESS = '127.0.0.6'
const POLL_MS = 100
const STARTS_MAX = 3
/** Time limit of a start on an empty store, which only a very busy machine exceeds. */
const FIRST_START_MS_MAX = 300_000
/** Up to this age, a waiting event may be one of an ordinary client. */
const AGE_SECONDS_MAX = 1

export interface TrialSettings extends Machine {
  /** Milliseconds for which refused requests are sent again. */
  readonly attackMsMax: number
  /** Milliseconds to wait until an event is visible and until all events are processed. */
  readonly drainMsMax: number
  /** Milliseconds that a restart may take on an idle machine before it counts as failed. */
  readonly startMsMax: number
  /**
   * Milliseconds that a daemon must live after the attack was processed, and after a restart. Merging segments comes
   * later, and ends some daemons.
   */
  readonly lifeMsMin: number
  /** The attacker and the ordinary clients send their address in `X-Forwarded-For`. */
  readonly isForwarded: boolean
}

/** The tools of an attack. */
export interface Scene {
  readonly url: string
  readonly daemon: WatchedDaemon
  readonly attacker: Client
  /** Reads with the personal key, from the address of an ordinary client. */
  readonly reader: Client
  readonly settings: TrialSettings
  readonly place: Place
  /** The end of the attack, on the clock of `performance.now()`. */
  readonly endMs: number
  /** Records a figure for the report. */
  note(name: string, value: unknown): void
}

export interface Attack {
  /** Fills the store before ordinary clients start and before memory is measured. */
  prepare?(scene: Scene): Promise<void>
  send(scene: Scene): Promise<SendResult>
  /** Reads after everything was processed, while ordinary clients continue. */
  read?(scene: Scene): Promise<void>
  /** No event is accepted after this attack until `restarted` ends, so that none is sent to see whether it is stored. */
  readonly leavesDiskFull?: boolean
  /** Looks at the daemon that was started again, before an event is sent to it. */
  restarted?(scene: Scene): Promise<void>
}

export interface Restart {
  /** One result for each start. Null if the daemon ended before it was ready, or was not ready in time. */
  readonly readyMs: readonly (number | null)[]
  readonly isAlive: boolean
  readonly seenMs: number | null
  readonly peaks: Peaks
}

export interface TrialReport {
  readonly isAlive: boolean
  /** How the process ended, if it did. */
  readonly ending: string | null
  readonly isStoppedByGuard: boolean
  readonly idleMib: number
  /** CPU time from the first request of the attack until the daemon was killed, reads included. */
  readonly cpuSeconds: number
  readonly peaks: Peaks
  /** Time until an event that was sent after the attack could be read, or null if it never could. */
  readonly seenMs: number | null
  /** Time from the last request of the attack until all events were processed, or null if they never were. */
  readonly lagMs: number | null
  readonly wireBytes: number
  readonly sendMs: number
  readonly acceptedEvents: number
  readonly statuses: Readonly<Record<string, number>>
  /** The times of the first and the last answer 503 to the attacker, in milliseconds since the start of the attack. */
  readonly attackerRefusedMs: readonly [number, number] | null
  readonly captures: Waits
  readonly flags: Waits
  readonly reads: Waits
  readonly restart: Restart
  readonly figures: Readonly<Record<string, unknown>>
  readonly complaints: Readonly<Record<string, number>>
  /**
   * How much slower than an idle machine this one was: the seconds of the first start on an empty store, but at least
   * 1. Times with a limit are divided by it.
   */
  readonly slowness: number
  /**
   * The longest time for which this process itself was blocked. Shorter waits of clients say nothing about the daemon.
   */
  readonly ownStallMs: number
}

/** Runs an attack against a new daemon. */
export async function runTrial(attack: Attack, settings: TrialSettings): Promise<TrialReport> {
  const folder = mkdtempSync(join(tmpdir(), 'tenrec-extremes-'))
  const place = new Place(folder, settings)
  const cleanUp = (): void => {
    place.release()
    rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  }
  // An interrupted trial leaves nothing behind, either.
  process.once('exit', cleanUp)
  try {
    return await runIn(place, attack, settings)
  } finally {
    process.removeListener('exit', cleanUp)
    cleanUp()
  }
}

async function runIn(place: Place, attack: Attack, settings: TrialSettings): Promise<TrialReport> {
  const { isForwarded } = settings
  const daemon = await WatchedDaemon.start(place, FIRST_START_MS_MAX)
  const slowness = Math.max(1, daemon.readyMs / 1000)
  const { url } = daemon.process
  const attackerOptions = { url, address: ATTACKER, connectionsMax: 128 }
  const attacker = new Client(
    isForwarded ? { ...attackerOptions, forwardedFor: '203.0.113.2' } : attackerOptions,
  )
  const reader = new Client({ url, address: MARKER_ADDRESS, connectionsMax: 32 })
  const figures: Record<string, unknown> = {}
  const scene: Scene = {
    url,
    daemon,
    attacker,
    reader,
    settings,
    place,
    endMs: performance.now() + settings.attackMsMax,
    note: (name, value) => {
      figures[name] = value
    },
  }
  try {
    await attack.prepare?.(scene)
    const idleMib = Math.round(daemon.anonymousMib())
    const idleCpuSeconds = daemon.peaks().cpuSeconds
    const stalls = monitorEventLoopDelay({ resolution: 10 })
    stalls.enable()
    const others = new OrdinaryClients(url, isForwarded)
    const startMs = performance.now()
    const sent = await attack.send({ ...scene, endMs: startMs + settings.attackMsMax })
    const sentMs = performance.now()
    const [seenMs, lagMs] = await Promise.all([
      attack.leavesDiskFull === true ? null : untilSeen(daemon, reader, settings.drainMsMax),
      untilProcessed(daemon, reader, settings.drainMsMax),
    ])
    await pause(settings.lifeMsMin)
    if (daemon.isAlive) await attack.read?.(scene)
    const waits = await others.stop()
    stalls.disable()
    const { isAlive } = daemon
    const ending = isAlive ? null : JSON.stringify(await daemon.process.ended)
    await daemon.kill()
    // Before the restart uses the same folder.
    const peaks = daemon.peaks()
    const startMsMax = settings.startMsMax * slowness
    const [firstMs, lastMs] = attacker.refusedAtMs ?? []
    const refusedMs: TrialReport['attackerRefusedMs'] =
      firstMs === undefined || lastMs === undefined
        ? null
        : [Math.round(firstMs - startMs), Math.round(lastMs - startMs)]
    const restart = await startAgain(attack, scene, startMsMax)
    return {
      isAlive,
      ending,
      isStoppedByGuard: daemon.isStoppedByGuard,
      idleMib,
      cpuSeconds: Math.round(peaks.cpuSeconds - idleCpuSeconds),
      peaks,
      seenMs,
      lagMs,
      wireBytes: sent.bytes,
      sendMs: Math.round(sentMs - startMs),
      acceptedEvents: sent.acceptedEvents,
      statuses: sent.statuses,
      attackerRefusedMs: refusedMs,
      ...waits,
      restart,
      figures,
      complaints: Object.fromEntries([...daemon.complaints].slice(0, 8)),
      slowness: Number(slowness.toFixed(1)),
      ownStallMs: Math.round(stalls.max / 1e6),
    }
  } finally {
    attacker.close()
    reader.close()
    await daemon.kill()
  }
}

/** Starts the daemon on the store after an attack, up to three times if it does not live. */
async function startAgain(attack: Attack, before: Scene, startMsMax: number): Promise<Restart> {
  const { place, settings } = before
  const readyMs: (number | null)[] = []
  let peaks: Peaks = {
    anonymousMib: 0,
    residentMib: 0,
    diskMib: 0,
    fileSystemMib: null,
    cpuSeconds: 0,
  }
  const keep = (more: Peaks): void => {
    peaks = {
      anonymousMib: Math.max(peaks.anonymousMib, more.anonymousMib),
      residentMib: Math.max(peaks.residentMib, more.residentMib),
      diskMib: Math.max(peaks.diskMib, more.diskMib),
      fileSystemMib:
        more.fileSystemMib === null
          ? peaks.fileSystemMib
          : Math.max(peaks.fileSystemMib ?? 0, more.fileSystemMib),
      cpuSeconds: Math.max(peaks.cpuSeconds, more.cpuSeconds),
    }
  }
  for (let start = 0; start < STARTS_MAX; start++) {
    try {
      const daemon = await WatchedDaemon.start(place, startMsMax)
      readyMs.push(Math.round(daemon.readyMs))
      const { url } = daemon.process
      const reader = new Client({ url, address: MARKER_ADDRESS, connectionsMax: 4 })
      await attack.restarted?.({ ...before, url, daemon, attacker: reader, reader })
      const livesUntilMs = performance.now() + settings.lifeMsMin
      const seenMs = await untilSeen(daemon, reader, settings.drainMsMax)
      while (daemon.isAlive && performance.now() < livesUntilMs) await pause(POLL_MS)
      const { isAlive } = daemon
      await daemon.kill()
      reader.close()
      keep(daemon.peaks())
      if (isAlive) return { readyMs, isAlive, seenMs, peaks }
    } catch (error) {
      if (!(error instanceof StartFailure)) throw error
      readyMs.push(null)
      keep(error.peaks)
    }
  }
  return { readyMs, isAlive: false, seenMs: null, peaks }
}

/** Sends an event and waits until it can be read. Returns the milliseconds since the first attempt to send it. */
async function untilSeen(
  daemon: WatchedDaemon,
  client: Client,
  msMax: number,
): Promise<number | null> {
  const startMs = performance.now()
  const uuid = randomUUID()
  const event = { uuid, event: 'marker', distinct_id: 'marker' }
  let isAccepted = false
  while (daemon.isAlive && performance.now() - startMs < msMax) {
    if (isAccepted) {
      const reply = await client.api('GET', `events/${uuid}/`)
      if (reply.status === 200) return Math.round(performance.now() - startMs)
    } else {
      isAccepted = (await client.post('/batch/', { batch: [event] })).status === 200
    }
    await pause(POLL_MS)
  }
  return null
}

/**
 * Waits until all accepted events are processed, except those that ordinary clients have just sent. The age of the
 * oldest event grows with time, so it must be low for longer than its limit.
 */
export async function untilProcessed(
  daemon: WatchedDaemon,
  client: Client,
  msMax: number,
): Promise<number | null> {
  const startMs = performance.now()
  let lowSinceMs: number | null = null
  while (daemon.isAlive && performance.now() - startMs < msMax) {
    const age = readGauge(await client.get('/metrics'), 'ingest_oldest_unprocessed_age_seconds')
    if (age === null || age >= AGE_SECONDS_MAX) lowSinceMs = null
    else lowSinceMs ??= performance.now()
    if (lowSinceMs !== null && performance.now() - lowSinceMs > 1500 * AGE_SECONDS_MAX) {
      return Math.round(lowSinceMs - startMs)
    }
    await pause(POLL_MS)
  }
  return null
}

/** Returns a gauge of /metrics, or null if it could not be read. */
export function readGauge({ status, text }: Reply, name: string): number | null {
  if (status !== 200) return null
  const found = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)
  return found === null ? null : Number(found[1])
}
