/**
 * Tests the events about ramps that guards stopped: each is stored exactly once, if the daemon ends before or after it
 * wrote the event to the log, and if several machines see it.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import type { JsonObject } from '../../src/base/json.ts'
import type { AcknowledgeTarget } from '../../src/engine/front/group-commit.ts'
import { GuardEvents } from '../../src/engine/front/guard-events.ts'
import type { GuardEvent } from '../../src/rules/flags/schedule/guard-event.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES, pairKey } from '../../src/store/lmdb/keys.ts'
import { jsonOf, putJson, raiseCount } from '../../src/store/lmdb/records.ts'
import {
  createProjects,
  type DecisionDaemon,
  serveDecisions,
} from '../fixtures/flags/decision-daemon.ts'
import { until } from '../fixtures/http-client.ts'

const UUID = '018cc251-f400-7000-8000-00000000000'

function guardEvent(number: number): GuardEvent {
  const properties = { $process_person_profile: false, $feature_flag: 'f', action: 'halted' }
  return { projectId: 1, number, uuid: `${UUID}${number}`, atMs: Date.UTC(2026, 0, 1), properties }
}

/** Stores events as a process does that ends before it removes them. */
async function leave(dataDir: string, events: readonly GuardEvent[]): Promise<void> {
  const environment = new Environment({ dataDir, name: FLAGS_ENVIRONMENT, tables: FLAGS_TABLES })
  environment.write(() => {
    for (const event of events) {
      putJson(environment.table('guard_events'), pairKey(1, event.number), event)
    }
    raiseCount(environment.table('state'), 'schedule')
  })
  await environment.close()
}

async function leftIn(dataDir: string): Promise<number> {
  const environment = new Environment({ dataDir, name: FLAGS_ENVIRONMENT, tables: FLAGS_TABLES })
  const count = [...jsonOf(environment.table('guard_events'))].length
  await environment.close()
  return count
}

async function storedIn(daemon: DecisionDaemon): Promise<readonly JsonObject[]> {
  const { body } = await daemon.api('GET', 'events/?event=$feature_flag_guard_triggered')
  return body['results'] as readonly JsonObject[]
}

async function uuidsIn(daemon: DecisionDaemon): Promise<readonly string[]> {
  return (await storedIn(daemon)).map(({ uuid }) => String(uuid)).sort()
}

t.test('an event is stored once, whenever the daemon ends', async (t) => {
  const dataDir = t.testdir()
  await createProjects(dataDir, 1)
  const [first, second] = [guardEvent(1), guardEvent(2)]
  await leave(dataDir, [first])
  const start = () => serveDecisions(t, dataDir, {}, { guardLookMs: 100 })
  const before = await start()
  await before.until(async () => (await leftIn(dataDir)) === 0)
  await before.until(async () => (await uuidsIn(before)).length === 1)
  t.match(await storedIn(before), [
    { uuid: first.uuid, timestamp: /^2026-01-01T00:00:00/, properties: { $feature_flag: 'f' } },
  ])
  await before.stop()
  // The first event is in the log, the second is not.
  await leave(dataDir, [first, second])
  const after = await start()
  await after.until(async () => (await leftIn(dataDir)) === 0)
  await after.until(async () => (await uuidsIn(after)).length === 2)
  t.strictSame(await uuidsIn(after), [first.uuid, second.uuid])
})

/** A machine whose log keeps what is written, and refuses the first `refusals` writes. */
function machine(
  t: Test,
  isHere: boolean,
  waitMs: number,
  refusals = 0,
  onRemove: () => void = () => undefined,
) {
  const accepted: number[] = []
  const written: string[] = []
  const removed: number[] = []
  const failures: unknown[] = []
  let left = refusals
  const events = new GuardEvents({
    queries: {
      removeGuardEvent: async (_, number) => {
        onRemove()
        removed.push(number)
      },
    },
    groupCommit: {
      add(header, body, { acknowledge }: AcknowledgeTarget) {
        if (left-- > 0) acknowledge(new ServiceError('server_error', 'The disk is full.'))
        else {
          const bytes = Buffer.alloc(body.eventsEnd)
          body.copyBody(bytes, 0, 0, body.eventsEnd)
          written.push(`${header.projectId} ${bytes.toString()}`)
          acknowledge(null)
        }
        return body.eventsEnd
      },
    },
    clock: { now: () => 0 },
    isHere: () => isHere,
    onAccepted: (_, bytes) => accepted.push(bytes),
    onFailure: (error) => failures.push(error),
    waitMs,
  })
  t.teardown(() => events.stop())
  return { events, written, removed, failures, accepted }
}

t.test('the machine that stopped the ramp writes the event, others only after it', async (t) => {
  const HOUR_MS = 3_600_000
  const [own, other, without] = [
    machine(t, true, HOUR_MS),
    machine(t, true, HOUR_MS),
    machine(t, false, 0),
  ]
  const event = guardEvent(1)
  own.events.setOwn(event.uuid, true)
  for (const { events } of [own, other, without]) {
    events.write([event])
    events.write([event])
  }
  await until(() => own.removed.length > 0)
  own.events.write([event])
  await own.events.stop()
  t.match(own.written, [/^1 \{"event":"\$feature_flag_guard_triggered","distinct_id":"tenrec"/])
  t.strictSame(own.removed, [1])
  t.strictSame([other.written, without.written], [[], []])
  const late = machine(t, true, 0)
  late.events.write([event])
  await until(() => late.removed.length > 0)
  t.equal(late.written.length, 1, 'if the first machine does not write it, another one does')
})

t.test('an event that the log refuses stays', async (t) => {
  const { events, written, removed, failures, accepted } = machine(t, true, 0, 1)
  events.write([guardEvent(1)])
  await until(() => failures.length > 0)
  events.write([guardEvent(1)])
  await events.stop()
  t.strictSame([written, removed, accepted], [[], [], []], 'the next attempt is later')
  t.match(failures, [{ code: 'server_error' }])
})

t.test('an event whose removal fails is written and counted once', async (t) => {
  let left = 2
  const { events, written, removed, failures, accepted } = machine(t, true, 0, 0, () => {
    if (left-- > 0) throw new ServiceError('server_error', 'The store has failed.')
  })
  let elapsedMs = 0
  t.intercept(performance, 'now', { value: () => elapsedMs })
  for (const attempt of [1, 2, 3]) {
    events.write([guardEvent(1)])
    await until(() => failures.length + removed.length === attempt)
    await new Promise((resolve) => setImmediate(resolve))
    elapsedMs += 60_000
  }
  t.strictSame([written.length, accepted.length, removed], [1, 1, [1]])
})
