/**
 * Measures what five open consoles cost clients that send events. Each console has a session, reads a stream of the
 * page Live as it arrives, and polls the page Health every ten seconds. No browser is used: in practice the browser
 * runs on the viewer's machine, and here it would take processor time from the daemon.
 */
import { type Daemon, PERSONAL_KEY, USUAL_LAG_LIMIT } from '../daemon.ts'
import { type BenchContext, expectAllStored, expectOnlyOk, interleaved, sleep } from '../harness.ts'
import { type LoadReport, openLoop, runLoad } from '../load.ts'
import { median } from '../samples.ts'

const CONSOLES = 5
const HEALTH_MS = 10_000
const CONNECTIONS = 64
const SETTLE_MS = 500
const SLOWER_MAX = 1.05
const FROM_CONSOLE = { 'X-Tenrec-Console': '1', 'Sec-Fetch-Site': 'same-origin' }

/** Reports the latency of acknowledgments while consoles are open, compared with the latency without consoles. */
export async function measureOpenConsoles(context: BenchContext): Promise<void> {
  const daemon = await context.startDaemon({ environment: USUAL_LAG_LIMIT })
  const cookies = await Promise.all(Array.from({ length: CONSOLES }, () => logIn(daemon)))
  let acknowledged = 0
  const load = async (): Promise<LoadReport> => {
    const report = await runLoad(
      openLoop({
        url: daemon.url,
        request: context.requests(1),
        connections: CONNECTIONS,
        requestsPerSecond: context.size(500, 1000),
        warmupSeconds: context.size(0.2, 1),
        seconds: context.size(0.5, 12),
        serverPid: daemon.pid,
      }),
    )
    expectOnlyOk(report)
    acknowledged += report.eventsAcknowledged
    await daemon.drain()
    await sleep(SETTLE_MS)
    return report
  }
  let shown = 0
  const beside = async (): Promise<LoadReport> => {
    const abort = new AbortController()
    const consoles = cookies.map((cookie) => watch(daemon, cookie, abort.signal))
    try {
      return await load()
    } finally {
      abort.abort()
      for (const bytes of await Promise.all(consoles)) shown += bytes
    }
  }
  const [open = [], none = []] = await interleaved(context.rounds(7), [beside, load])
  await expectAllStored(daemon, acknowledged)
  if (shown === 0) throw new Error('the consoles were shown nothing')
  const state = (figure: string, unit: string, of: (report: LoadReport) => number, note = '') =>
    context.report({
      figure,
      unit,
      note,
      value: median(open.map(of)),
      baseline: median(none.map(of)),
      target: { of: 'ratio', bound: 'at most', limit: SLOWER_MAX },
    })
  const note = `median of ${open.length} rounds; baseline: no console; p50 ${pair(open, none, 'p50')} ms`
  const beside5 = `beside ${CONSOLES} open consoles`
  state(`p99 acknowledgment ${beside5}`, 'ms', ({ latencyMs }) => latencyMs.p99, note)
  context.report({
    figure: `processor time of an event ${beside5}`,
    value: median(open.map(cpuUs)),
    unit: 'us',
    baseline: median(none.map(cpuUs)),
    note: 'all threads of the daemon: streams have rows written for them, and Health is asked',
  })
}

function pair(open: readonly LoadReport[], none: readonly LoadReport[], name: 'p50'): string {
  const of = (reports: readonly LoadReport[]) =>
    median(reports.map(({ latencyMs }) => latencyMs[name])).toFixed(2)
  return `${of(open)} against ${of(none)}`
}

function cpuUs({ serverCpuSeconds, events }: LoadReport): number {
  return ((serverCpuSeconds ?? 0) * 1e6) / events
}

/** Starts a session and returns its cookie. */
async function logIn({ url }: Daemon): Promise<string> {
  const answer = await fetch(`${url}/api/console/session/`, {
    method: 'POST',
    headers: { ...FROM_CONSOLE, 'Content-Type': 'application/json' },
    body: JSON.stringify({ key: PERSONAL_KEY }),
  })
  const [cookie] = answer.headers.getSetCookie()
  if (!answer.ok || cookie === undefined) throw new Error(`no session: ${answer.status}`)
  return cookie.split(';')[0] ?? ''
}

/** Keeps a console open until it is closed. Returns the number of bytes that it received. */
async function watch({ url }: Daemon, cookie: string, signal: AbortSignal): Promise<number> {
  const ask = async (path: string) => {
    const answer = await fetch(`${url}/api/${path}`, {
      headers: { ...FROM_CONSOLE, Cookie: cookie },
      signal,
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
    return answer
  }
  let bytes = 0
  const health = async () => void (await (await ask('organizations/@current/status/')).text())
  const timer = setInterval(() => void health().catch(() => {}), HEALTH_MS)
  try {
    const stream = await ask('projects/1/events/stream/')
    await (await ask('projects/1/events/?limit=50')).text()
    await health()
    for await (const piece of stream.body ?? []) bytes += (piece as Uint8Array).length
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    clearInterval(timer)
  }
  return bytes
}
