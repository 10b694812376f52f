/**
 * The part of the bench `persons` that deletes a person with many events while clients send other events. It measures
 * the time until the acknowledgment, the effect on the senders, and whether the disk space is used again.
 */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { type BenchContext, expectOnlyOk, sleep } from '../harness.ts'
import { generatorOf } from '../ingest/bodies.ts'
import { closedLoop, type LoadReport, openLoop, runLoad } from '../load.ts'

const EVENTS_PER_REQUEST = 100
const REQUESTS_PER_SECOND = 40
const BLOCK_BYTES = 512

export async function measureDeletion(context: BenchContext): Promise<void> {
  const events = context.size(2000, 100_000)
  const dataDir = context.newFolder()
  const daemon = await context.startDaemon({ dataDir })
  const fill = async (): Promise<void> => {
    const report = await runLoad(
      closedLoop({
        url: daemon.url,
        request: context.requests(EVENTS_PER_REQUEST, { users: 1 }),
        connections: 8,
        seconds: 600,
        requestsMax: events / EVENTS_PER_REQUEST,
      }),
    )
    expectOnlyOk(report)
    await daemon.drain()
  }
  const size = (): number => lstatSync(join(dataDir, 'events', 'data.mdb')).blocks * BLOCK_BYTES
  const before = size()
  await fill()
  const seconds = context.size(2, 12)
  const quiet = await load(context, daemon, seconds)
  const full = size()
  const sending = load(context, daemon, seconds)
  await sleep(1000)
  const person = generatorOf({ seed: context.seed }).idOf(0)
  const { acknowledgedMs, status } = await deletePerson(daemon, person)
  const busy = await sending
  await daemon.drain()
  await sleep(context.size(500, 5000))
  const emptied = size()
  await fill()
  await sleep(context.size(500, 3000))
  const refilled = size()
  await daemon.stop()
  context.report({
    figure: `deletion of a person with ${events} events: time until it is acknowledged`,
    value: acknowledgedMs,
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: 1000 },
    note: `DELETE with delete_events answered ${status}, while others send; it waits for what was accepted before it`,
  })
  context.report({
    figure: 'p99 acknowledgment of ingestion while its events are deleted, against before',
    value: busy.latencyMs.p99,
    unit: 'ms',
    baseline: quiet.latencyMs.p99,
    target: { of: 'ratio', bound: 'at most', limit: 1.5 },
    note: `${REQUESTS_PER_SECOND} requests/s of ${EVENTS_PER_REQUEST} events, open loop, ${seconds} s each`,
  })
  context.report({
    figure: 'growth of the file when as many events come again, against the first time',
    value: Math.max(0, refilled - emptied) / 1024 ** 2,
    unit: 'MiB',
    baseline: (full - before) / 1024 ** 2,
    target: { of: 'ratio', bound: 'at most', limit: 0.5 },
    note: `files never shrink: ${(emptied / 1024 ** 2).toFixed(0)} MiB after the deletion, ${(full / 1024 ** 2).toFixed(0)} before; free pages are used again`,
  })
}

/** Sends events of other persons at a steady rate. */
function load(context: BenchContext, daemon: Daemon, seconds: number): Promise<LoadReport> {
  const request = context.requests(EVENTS_PER_REQUEST, { users: 5000, seed: context.seed + 1 })
  return runLoad(
    openLoop({
      url: daemon.url,
      request,
      connections: 16,
      seconds,
      requestsPerSecond: REQUESTS_PER_SECOND,
    }),
  )
}

async function deletePerson(
  daemon: Daemon,
  distinctId: string,
): Promise<{ readonly acknowledgedMs: number; readonly status: number }> {
  const headers = { authorization: `Bearer ${PERSONAL_KEY}` }
  const persons = `${daemon.url}/api/projects/1/persons/`
  const found = await fetch(`${persons}?distinct_id=${encodeURIComponent(distinctId)}`, { headers })
  const page: unknown = await found.json()
  const uuid = /"uuid":"([0-9a-f-]{36})"/.exec(JSON.stringify(page))?.[1]
  if (uuid === undefined) throw new Error('the person to delete was not found')
  const startMs = performance.now()
  const answer = await fetch(`${persons}${uuid}/?delete_events=true`, { method: 'DELETE', headers })
  await answer.text()
  if (!answer.ok) throw new Error(`the deletion was answered with ${answer.status}`)
  return { acknowledgedMs: performance.now() - startMs, status: answer.status }
}
