/**
 * Tests invitations in the store: their lifetime of seven days, and their maximum number.
 *
 * @lane all
 */
import t from 'tap'
import type { AuditEntry } from '../../src/rules/access/audit-entry.ts'
import { INVITE_MS_MAX, INVITES_MAX } from '../../src/store/catalog/limits.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'

const ENTRY: AuditEntry = {
  atMs: 0,
  source: 'api',
  userId: 1,
  keyId: 1,
  account: null,
  address: '',
  projectId: null,
  method: 'POST',
  route: '/',
  objectId: null,
  status: 201,
}

t.test('an invitation lasts seven days, and expired ones make room', async (t) => {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  const projects = new ProjectStore(path)
  projects.bootstrap({ projectKey: 'phc_invites', personalKey: 'phx_invites_test_personal_key' })
  await projects.close()
  let nowMs = Date.now()
  const clock = { now: () => nowMs, monotonic: () => nowMs }
  const store = new OrganizationStore(path, clock)
  const { invites, users } = store
  t.teardown(async () => {
    await store.close()
    dir.release()
  })
  const draft = { level: 1, createdById: 1, scopes: ['*'], keyExpiresAtMs: null } as const
  // One transaction instead of a thousand.
  const made = store.noted(
    () => ENTRY,
    () =>
      Array.from({ length: INVITES_MAX }, (_, index) =>
        invites.create({ ...draft, email: `u${index}@x.example` }),
      ),
  )
  t.throws(() => invites.create({ ...draft, email: 'more@x.example' }), { code: 'invalid_input' })
  nowMs += INVITE_MS_MAX - 1
  t.equal(
    invites.accept({ code: made[0]?.text ?? '' }).user.email,
    'u0@x.example',
    'the invitation is valid until its last millisecond',
  )
  nowMs += 1
  t.throws(() => invites.accept({ code: made[1]?.text ?? '' }), {
    code: 'invalid_input',
    attr: 'code',
  })
  t.equal(invites.list().length, INVITES_MAX - 1)
  t.equal(users.list().length, 2)
  invites.create({ ...draft, email: 'more@x.example' })
  t.equal(invites.list().length, 1, 'expired invitations are removed')
})
