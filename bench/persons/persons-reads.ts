/**
 * The part of the bench `persons` that reads persons. It measures the memory after a start and one pass of reads, the
 * duration of lists and searches, and the effect of a search through all e-mail addresses on the main thread.
 */

import { type Daemon, PERSONAL_KEY } from '../daemon.ts'
import { type BenchContext, sleep } from '../harness.ts'
import { generatorOf } from '../ingest/bodies.ts'
import { Samples } from '../samples.ts'

const PERSONS_PATH = '/api/projects/1/persons/'
const PROBE_PAUSE_MS = 2

/** The numbers of stored persons and events. */
interface Stored {
  readonly persons: number
  readonly events: number
}

export async function measureReads(
  context: BenchContext,
  daemon: Daemon,
  { persons, events }: Stored,
): Promise<void> {
  const generator = generatorOf({ seed: context.seed })
  const userAt = (step: number): number => (step * 7919 + 13) % persons
  const id = (step: number): string => encodeURIComponent(generator.idOf(userAt(step)))
  const email = (step: number): string => encodeURIComponent(generator.emailOf(userAt(step)))
  const reads = context.size(20, 400)
  const page = (offset: number): string => `${PERSONS_PATH}?limit=100&offset=${offset}`
  // This makes one pass over all reads below, and over events. What it leaves in memory is measured.
  await read(daemon, page(0))
  await read(daemon, '/api/projects/1/events/?limit=100')
  const substring = `${PERSONS_PATH}?limit=100&search=user${persons - 7}%40`
  await read(daemon, substring)
  for (let step = 0; step < 20; step++) {
    await read(daemon, `${PERSONS_PATH}?distinct_id=${id(step)}`)
    await read(daemon, `${PERSONS_PATH}?email=${email(step)}`)
  }
  const { anonymousBytes, fileBytes } = daemon.memory()
  context.report({
    figure: `memory after start and one pass of reads, ${persons} persons, ${events} events`,
    value: anonymousBytes / 1024 ** 2,
    unit: 'MiB',
    target: { of: 'value', bound: 'at most', limit: 250 },
    note: `RssAnon of the daemon; ${(fileBytes / 1024 ** 2).toFixed(0)} MiB of mapped files besides`,
  })
  const time = async (path: (step: number) => string, count: number): Promise<Samples> => {
    const samples = new Samples()
    for (let step = 0; step < count; step++) {
      const startMs = performance.now()
      const found = await read(daemon, path(step + 1000))
      samples.add(performance.now() - startMs)
      if (found === 0) throw new Error(`nothing was found at ${path(step + 1000)}`)
    }
    return samples
  }
  const rows = [
    ['list page of 100 persons', (step: number) => page((step % 10) * 100)],
    ['search by distinct id', (step: number) => `${PERSONS_PATH}?distinct_id=${id(step)}`],
    ['search by e-mail address', (step: number) => `${PERSONS_PATH}?email=${email(step)}`],
  ] as const
  for (const [figure, path] of rows) {
    await time(path, 30)
    const { p50, p99 } = (await time(path, reads)).percentiles()
    context.report({
      figure: `${figure}: p99 at ${persons} persons`,
      value: p99,
      unit: 'ms',
      target: { of: 'value', bound: 'at most', limit: 10 },
      note: `${reads} reads one after the other over HTTP, p50 ${p50.toFixed(2)} ms`,
    })
  }
  await measureSubstring(context, daemon, persons, () => time(() => substring, context.size(5, 40)))
}

/** Measures how late the main thread answers while searches run in a worker thread. */
async function measureSubstring(
  context: BenchContext,
  daemon: Daemon,
  persons: number,
  search: () => Promise<Samples>,
): Promise<void> {
  const probes = new Samples()
  let isOver = false
  const probe = async (): Promise<void> => {
    while (!isOver) {
      const startMs = performance.now()
      await (await fetch(`${daemon.url}/_livez`)).text()
      probes.add(performance.now() - startMs)
      await sleep(PROBE_PAUSE_MS)
    }
  }
  const probing = probe()
  const { p50, p99 } = (await search()).percentiles()
  isOver = true
  await probing
  const main = probes.percentiles()
  context.report({
    figure: `substring search through the e-mail addresses of ${persons} persons: p99`,
    value: p99,
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: 300 },
    note: `p50 ${p50.toFixed(1)} ms; GET /_livez meanwhile p99 ${main.p99.toFixed(1)} ms, worst ${main.max.toFixed(1)}`,
  })
}

/** Returns the number of rows in the answer. */
async function read(daemon: Daemon, path: string): Promise<number> {
  const response = await fetch(`${daemon.url}${path}`, {
    headers: { authorization: `Bearer ${PERSONAL_KEY}` },
  })
  const page: unknown = await response.json()
  if (!response.ok || typeof page !== 'object' || page === null || !('results' in page)) {
    throw new Error(`${path} answered ${response.status}`)
  }
  return Array.isArray(page.results) ? page.results.length : 0
}
