/**
 * Answers that are larger than a socket buffer. They are built in memory that the next decision reuses, and a slow
 * reader still gets its own answer.
 *
 * @lane quick
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  KNOWN_ANSWERS_BYTES_MAX,
  KNOWN_DECISIONS_BYTES_MAX,
  KNOWN_REQUESTS_BYTES_MAX,
} from '../../../src/base/limits.ts'
import { keepHead } from '../../../src/http/routes/public/flag-request.ts'
import { KnownDecisions } from '../../../src/http/routes/public/known-decisions.ts'
import { checkFraming } from '../../../src/http/server/framing.ts'
import type { DecisionDaemon } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const FLAGS = 900
const PAYLOAD = JSON.stringify('p'.repeat(8000))

/** Sends a request and reads no part of the answer until it is told to. */
async function askSlowly(daemon: DecisionDaemon, distinctId: string): Promise<Socket> {
  const { hostname, port } = new URL(daemon.url)
  const socket = connect(Number(port), hostname)
  socket.pause()
  const body = JSON.stringify({ token: daemon.key(), distinct_id: distinctId })
  socket.write(
    `POST /flags/?v=2 HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await sleep(200)
  return socket
}

async function readAnswer(socket: Socket): Promise<unknown> {
  const chunks: Buffer[] = []
  let text = ''
  let received = 0
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    if (text === '') text = chunk.toString('latin1')
    const head = text.indexOf('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
    received += chunk.byteLength
    if (received < head + 4 + length) continue
    socket.destroy()
    const body = Buffer.concat(chunks).subarray(head + 4)
    return (JSON.parse(body.toString()) as { flags: unknown }).flags
  }
  throw new Error('the answer ended too early')
}

t.test('each slow reader gets its own complete answer', async (t) => {
  const daemon = await shareDecisions()
  await daemon.putFlags(
    Array.from({ length: FLAGS }, (_, index) => ({
      key: `flag-${index}`,
      filters: { groups: [{ rollout_percentage: 90 }], payloads: { true: PAYLOAD } },
    })),
  )
  const names = ['ann', 'bob', 'ann']
  const sockets: Socket[] = []
  for (const name of names) sockets.push(await askSlowly(daemon, name))
  const expected = new Map<string, unknown>()
  for (const name of ['bob', 'ann']) {
    const { body } = await daemon.decide('/flags/?v=2', { distinct_id: name })
    expected.set(name, body['flags'])
  }
  t.notSame(expected.get('ann'), expected.get('bob'), 'their answers differ')
  for (const [index, socket] of sockets.entries()) {
    const flags = await readAnswer(socket)
    t.ok(
      JSON.stringify(flags) === JSON.stringify(expected.get(names[index] ?? '')),
      `reader ${index}`,
    )
  }
})

t.test('the cache of decisions has a limit, and the oldest entry is evicted first', (t) => {
  const known = new KnownDecisions(
    { projectByKey: (apiKey) => ({ id: 1, apiKey, isIpAnonymized: false }) },
    { isStillTrue: () => true },
  )
  const framing = checkFraming({ forEach: () => undefined, getQuery: () => '' } as never)
  const head = keepHead({ ...framing, query: 'v=2' })
  t.equal(keepHead({ ...framing, query: 'v=2' }), head, 'equal heads are stored once')
  t.not(keepHead({ ...framing, query: 'v=3' }), head)
  const decided = { decisions: [], hasErrors: false, isTimeBound: false }
  const basis = {
    projectId: 1,
    snapshotSerial: 1,
    reads: 'nothing',
    distinctId: '',
    personNumber: 0,
    personVersion: -1,
    position: -1,
    decided,
    repeats: 0,
  } as const
  const nameOf = (index: number): string => `${index} ${'x'.repeat(4000)}`
  const other = keepHead({ ...framing, query: 'v=3' })
  const keep = (index: number): void => {
    const meaning = nameOf(index)
    known.keep(meaning, { projectId: 1, decided, basis: { ...basis }, answer: null })
    known.keepRequest(meaning, { head, apiKey: 'k', projectId: 1, meaning })
    // If requests are rarely repeated, only a sample is cached.
    if (known.find(head, meaning)?.decided !== decided) t.fail(`${index} is not remembered`)
  }
  const requests = Math.ceil(KNOWN_REQUESTS_BYTES_MAX / 8000)
  for (let index = 0; index < requests; index++) keep(index)
  t.equal(known.find(head, nameOf(0)), null, 'the request is evicted')
  t.equal(known.findMeant(nameOf(0))?.decided, decided, 'the decision is still cached')
  const count = Math.ceil(KNOWN_DECISIONS_BYTES_MAX / 4000)
  for (let index = requests; index < count; index++) keep(index)
  t.equal(known.findMeant(nameOf(1)), null)
  t.equal(known.find(head, nameOf(count - 1))?.decided, decided)
  t.equal(known.find(other, nameOf(count - 1)), null, 'a different head')
  t.end()
})

t.test('a cached answer is sent with its own ending until it is evicted', (t) => {
  const known = new KnownDecisions({ projectByKey: () => null }, { isStillTrue: () => true })
  const text = 'x'.repeat(10_000)
  const outcomeOf = (said: string): never => {
    const bytes = { detail: Buffer.from(`"f":"${said}"`), value: Buffer.from('"f":true') }
    return { bytes: { ...bytes, payload: Buffer.from('') } } as never
  }
  const decisions = { decisions: [outcomeOf(text)], hasErrors: false, isTimeBound: false }
  const decided = (): Parameters<typeof known.keep>[1] => {
    return { projectId: 1, decided: decisions, basis: {} as never, answer: null }
  }
  const first = decided()
  const parts = { shape: 'flags2', decisions, nowMs: 999_999_999_999, opening: null } as const
  const read = (more: object = {}): Record<string, unknown> => {
    // The value is an object.
    const answer = known.answerOf(first, { ...parts, ...more })
    return JSON.parse(Buffer.from(answer).toString('utf8')) as Record<string, unknown>
  }
  const made = read()
  const again = read({ nowMs: 1_790_000_000_000 })
  t.strictSame(again['flags'], { f: text })
  t.equal(again['evaluatedAt'], 1_790_000_000_000, 'a longer time than the first one')
  t.match(again['requestId'], /^[0-9a-f-]{36}$/)
  t.not(again['requestId'], made['requestId'])
  t.strictSame(read()['flags'], { f: text }, 'a shorter one')
  t.strictSame(read({ shape: 'decide3' })['featureFlags'], { f: true }, 'another shape')
  t.strictSame(read({ opening: Buffer.from('{"config":1,') })['config'], 1)
  t.strictSame(Object.keys(read()), [
    'flags',
    'errorsWhileComputingFlags',
    'requestId',
    'evaluatedAt',
  ])
  const others = { ...decisions, decisions: [outcomeOf('y'.repeat(10_000))] }
  const count = Math.ceil(KNOWN_ANSWERS_BYTES_MAX / 10_000)
  const asked = Array.from({ length: count }, () => decided())
  for (const one of asked) known.answerOf(one, { ...parts, decisions: others })
  t.strictSame(read()['flags'], { f: text }, 'it was evicted and is built again')
  const last = asked.at(-1)
  t.ok(last?.answer)
  const kept = last && Buffer.from(known.answerOf(last, parts)).toString('utf8')
  t.match(kept, /"f":"y{10000}"/, 'the newest entries are cached without parsing their parts')
  t.end()
})
