/**
 * Question: does an import cost more than posting the same events to /batch/? Workload: a file of 300,000 events of the
 * usual traffic (`--events` for fewer), in two forms: lines of Tenrec's own export, which an import may copy, and the
 * same events as other programs write them, which it must parse. Each import goes into a new daemon, and ends when all
 * events are processed. Baseline: posting the same lines to /batch/ as they are, in bodies of the same size, each after
 * the answer to the previous one. Nothing is checked and nothing is repeated. The CPU time of the import includes the
 * start of the command, that of the baseline does not. Interleaved. Reconsider: copying lines, if it does not save the
 * command half of its CPU time.
 */

import { once } from 'node:events'
import { createReadStream, createWriteStream, rmSync, statSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { IMPORT_BATCH_BYTES_MAX } from '../../src/cli/limits.ts'
import { type Daemon, PROJECT_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, expectAllStored, interleaved } from '../harness.ts'
import { fillStore } from '../ingest/traffic-store.ts'
import { endedChildrenCpuSeconds } from '../proc.ts'
import { runTenrec } from '../program.ts'
import { median } from '../samples.ts'

export const IMPORT: Bench = {
  name: 'import',
  group: 'operations',
  question: 'Does an import cost more than posting the same events to /batch/?',
  workload:
    '300,000 events unless --events says less, as lines of an export and in another form; each ' +
    'import and its baseline into a new daemon',
  needsDaemon: true,
  run: measure,
}

const FILL_MS_MAX = 60_000
const HEAD = Buffer.from(`{"api_key":"${PROJECT_KEY}","historical_migration":true,"batch":[`)
const TAIL = Buffer.from(']}')
const COMMA = Buffer.from(',')
const US = 1e6

/** The resources that an import of one file has used. */
interface Taken {
  readonly sentPerSecond: number
  readonly processedPerSecond: number
  readonly senderUsPerEvent: number
  readonly daemonUsPerEvent: number
}

/** Sends a file. Returns the CPU time of the sender in seconds. */
type Send = (file: string, daemon: Daemon, dataDir: string) => Promise<number>

async function measure(context: BenchContext): Promise<void> {
  const { dataDir, events } = await fillStore(context, context.events(5000, 300_000), FILL_MS_MAX)
  const own = join(context.newFolder(), 'events.ndjson')
  await runTenrec(['export', '--data-dir', dataDir, '--output', own])
  rmSync(dataDir, { recursive: true })
  const other = join(context.newFolder(), 'events.ndjson')
  await writeOtherForm(own, other)
  const way = (file: string, send: Send) => (): Promise<Taken> => bring(context, file, events, send)
  const [imported = [], posted = [], importedOther = [], postedOther = []] = await interleaved(
    context.rounds(3),
    [way(own, importFile), way(own, postFile), way(other, importFile), way(other, postFile)],
  )
  report(context, `${events} lines of an export`, own, imported, posted)
  report(context, 'the same events in another form', other, importedOther, postedOther)
}

function report(
  context: BenchContext,
  what: string,
  file: string,
  ours: readonly Taken[],
  theirs: readonly Taken[],
): void {
  const of = (runs: readonly Taken[], field: keyof Taken): number =>
    median(runs.map((run) => run[field]))
  const megabytes = (statSync(file).size / 1e6).toFixed(0)
  for (const [field, figure, unit] of [
    ['sentPerSecond', 'until acknowledged, against posting them', 'events/s'],
    ['processedPerSecond', 'until processed, against posting them', 'events/s'],
    ['senderUsPerEvent', 'CPU of the command for an event, against the sender', 'us'],
    ['daemonUsPerEvent', 'CPU of the daemon for an event, against posting them', 'us'],
  ] as const) {
    context.report({
      figure: `import of ${what}: ${figure}`,
      value: of(ours, field),
      unit,
      baseline: of(theirs, field),
      note: `${ours.length} rounds, ${megabytes} MB`,
    })
  }
}

async function bring(
  context: BenchContext,
  file: string,
  events: number,
  send: Send,
): Promise<Taken> {
  const dataDir = context.newFolder()
  const daemon = await context.startDaemon({ dataDir })
  const cpuBefore = daemon.cpuSeconds()
  const startMs = performance.now()
  const senderSeconds = await send(file, daemon, dataDir)
  const sentMs = performance.now() - startMs
  await daemon.drain()
  const processedMs = performance.now() - startMs
  const daemonSeconds = daemon.cpuSeconds() - cpuBefore
  await expectAllStored(daemon, events)
  await daemon.stop()
  rmSync(dataDir, { recursive: true })
  return {
    sentPerSecond: (events * 1000) / sentMs,
    processedPerSecond: (events * 1000) / processedMs,
    senderUsPerEvent: (senderSeconds * US) / events,
    daemonUsPerEvent: (daemonSeconds * US) / events,
  }
}

async function importFile(file: string, daemon: Daemon, dataDir: string): Promise<number> {
  const before = endedChildrenCpuSeconds()
  await runTenrec(['import', file, '--data-dir', dataDir, '--base-url', daemon.url])
  return endedChildrenCpuSeconds() - before
}

async function postFile(file: string, daemon: Daemon): Promise<number> {
  const before = process.cpuUsage()
  const agent = new Agent({ keepAlive: true })
  let parts: Buffer[] = [HEAD]
  let bytes = 0
  const flush = async (): Promise<void> => {
    if (bytes === 0) return
    parts[parts.length - 1] = TAIL
    await post(daemon, agent, Buffer.concat(parts))
    parts = [HEAD]
    bytes = 0
  }
  for await (const line of linesOf(file)) {
    parts.push(line, COMMA)
    bytes += line.length
    if (bytes >= IMPORT_BATCH_BYTES_MAX) await flush()
  }
  await flush()
  agent.destroy()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / US
}

async function post(daemon: Daemon, agent: Agent, body: Buffer): Promise<void> {
  const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }
  const sent = request(`${daemon.url}/batch/`, { method: 'POST', agent, headers })
  sent.end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  answer.resume()
  await once(answer, 'end')
  if (answer.statusCode !== 200) throw new Error(`/batch/ answered ${answer.statusCode}`)
}

/** Yields the lines of a file. Each line has memory of its own. */
async function* linesOf(file: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(file, { highWaterMark: IMPORT_BATCH_BYTES_MAX })) {
    const block = Buffer.concat([rest, chunk as Buffer])
    let start = 0
    for (let end = block.indexOf(0x0a); end >= 0; end = block.indexOf(0x0a, start)) {
      yield block.subarray(start, end)
      start = end + 1
    }
    rest = block.subarray(start)
  }
  if (rest.length > 0) yield rest
}

/**
 * Writes each event in the form in which the events API of PostHog lists it, without the members that only an export
 * has.
 */
async function writeOtherForm(own: string, other: string): Promise<void> {
  const target = createWriteStream(other)
  for await (const line of createInterface({ input: createReadStream(own) })) {
    const { uuid, event, distinct_id, timestamp, properties } = JSON.parse(line) as Record<
      string,
      unknown
    >
    const text = `${JSON.stringify({ properties, event, timestamp, distinct_id, uuid })}\n`
    if (!target.write(text)) await once(target, 'drain')
  }
  target.end()
  await once(target, 'finish')
}
