/** The contract of every task runner (src/ports/task-runner.ts). */
import type { Test } from 'tap'
import type { Calls } from '../../src/engine/threads/call-table.ts'
import type { TaskRunner } from '../../src/ports/task-runner.ts'

/** Creates a task runner with a store in which project 1 has 150 events `e` of `ann`. It closes with the test. */
export type TaskRunnerMaker = (t: Test) => TaskRunner<Calls>

const PAGE = { projectId: 1, limit: 100 }
/** More calls than may run and wait. */
const TOO_MANY = 60

function textOf(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes))
}

/** Runs all tests of the contract. */
export function taskRunnerContract(t: Test, name: string, make: TaskRunnerMaker): void {
  t.test(`${name}: rows are returned as bytes in their own memory, facts as objects`, async (t) => {
    const runner = make(t)
    const page = await runner.run('listEvents', [PAGE])
    t.match(page, { rowCount: 100, isCut: false, nextCursor: { id: 51 } })
    t.match(textOf(page.rows), [{ id: 150, event: 'e', distinct_id: 'ann' }])
    t.equal(page.rows.byteOffset, 0)
    const long = await runner.run('listEvents', [{ ...PAGE, limit: 1000 }])
    t.equal(long.rowCount, 150, 'the page has many rows')
    const cells = await runner.run('listEvents', [{ ...PAGE, limit: 1 }], { format: 'csv' })
    t.match(
      new TextDecoder().decode(cells.rows),
      /^created_at,distinct_id,/,
      'the format is the requested one',
    )
    t.match(await runner.run('findPerson', [1, 1]), { uuid: /^[0-9a-f-]{36}$/ })
    t.equal(await runner.run('findPerson', [1, 2]), null)
    t.equal(await runner.run('getEvent', [1, 'no uuid']), null)
  })

  t.test(`${name}: refusals are returned unchanged`, async (t) => {
    const runner = make(t)
    const nowMs = Date.UTC(2024, 0, 20)
    const task = { projectId: 1, timezone: 'UTC', nowMs, body: Buffer.from('{') }
    await t.rejects(runner.run('blastRadiusPiece', [task]), { code: 'parse_error', status: 400 })
    const command = {
      kind: 'update',
      id: 9,
      body: Buffer.from('{}'),
      isKeyRequired: false,
    } as const
    const actor = { userId: 1, firstName: 'Ann', email: 'ann@x.example' }
    const change = runner.run('changeFlag', [{ projectId: 1, actor, nowMs, command }])
    await t.rejects(change, { code: 'not_found', status: 404 })
  })

  t.test(
    `${name}: calls beyond the limit are refused with a retry time, and there is room again`,
    async (t) => {
      const runner = make(t)
      const ask = (limit: number) => runner.run('listEvents', [{ ...PAGE, limit }])
      const outcomes = await Promise.allSettled(
        Array.from({ length: TOO_MANY }, (_, index) => ask(101 + index)),
      )
      const refused = outcomes.filter(({ status }) => status === 'rejected')
      t.ok(refused.length > 0 && refused.length < TOO_MANY, `${refused.length} calls were refused`)
      t.match(refused[0], { reason: { code: 'server_error', status: 503, retryAfterSeconds: 2 } })
      t.equal(outcomes[0]?.status, 'fulfilled')
      t.match(await ask(500), { rowCount: 150 })
    },
  )

  t.test(`${name}: abandoned calls are canceled`, async (t) => {
    const runner = make(t)
    const onLeave = (cancel: () => void): void => cancel()
    await t.rejects(runner.run('listEvents', [{ ...PAGE, limit: 500 }], { onLeave }), {
      code: 'server_error',
    })
  })
}
